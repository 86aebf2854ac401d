//===- Style.h - The look of a page, and its script -----------------------===//
#pragma once

#include <string>

namespace ccl::picture {

/// Rules for light and dark schemes, narrow windows and paper. No "<" and no "&" in it, so that it
/// means the same in HTML and in XML.
std::string style();
/// Details under the pointer, and magnification of the timeline. No "<" and no "&" in it, either.
std::string script();

/// "#rrggbb" of a step of use, 0 to heatSteps. From step 1 on, the more a link is used, the more
/// its color differs in lightness from the background, in even steps of OKLab: the order is seen
/// without seeing hues.
std::string heatColor(int step, bool dark);

} // namespace ccl::picture
