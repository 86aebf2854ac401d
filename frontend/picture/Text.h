//===- Text.h - Words and numbers of a page -------------------------------===//
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ccl::picture {

/// Text as it may stand in an element or in an attribute, of HTML and of XML. What is no UTF-8, or
/// no character of XML, becomes U+FFFD.
std::string escape(std::string_view text);

/// At most `digits` behind the point, without zeros at the end; "0" if it is not finite.
std::string fixed(double value, int digits);
/// "812.4 µs", "1.204 ms": four digits.
std::string time(double us);
/// In the unit that `time(like)` has.
std::string time(double us, double like);
/// "256 MiB", "1.5 KiB", "17 B".
std::string bytes(double bytes);
/// "165.3 GB/s".
std::string rate(double gbps);
/// "91.8 %" of a share of 1.
std::string percent(double share);

/// Upper estimate of how wide text is in a sans-serif font of `size`.
double textWidth(std::string_view text, double size);
/// The text, or as much of its beginning as there is room for and "…". Empty if not even that fits.
std::string fit(std::string_view text, double size, double width);

/// Links are colored in this many steps.
constexpr int heatSteps = 10;
/// 0: not at all used; 1 to heatSteps: up to 10 %, 20 %, ...
int heatStep(double share);

} // namespace ccl::picture
