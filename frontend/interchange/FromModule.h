//===- FromModule.h - The programs of a module, to be written in another format ---===//
#pragma once

#include "frontend/interchange/Foreign.h"

#include "dialect/Expand.h"

namespace ccl::interchange {

/// The forms of launches in which programs are proved.
struct ProvedForms {
  bool disjoint = true, inPlace = false;
};

/// The programs of all ranks of `algorithm` with its contract: it is `lowered`, or lowering
/// has made them. What holds in place only gets one `inout` buffer instead of `in` and `out`.
/// `locations` gets the source places by the `loc` of buffers and instructions; those in a
/// file are in `places`, too. Nothing after a diagnostic.
std::optional<Foreign> fromModule(AlgorithmOp algorithm, ProvedForms forms,
                                  LocationTable &locations);

} // namespace ccl::interchange
