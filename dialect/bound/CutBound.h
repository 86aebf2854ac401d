//===- CutBound.h - Exact bounds whose proof is a cut ---------------------===//
#pragma once

#include "dialect/bound/Bound.h"

namespace ccl::model {

/// Whether `cutBound` (see Bound.h) bounds the collective.
bool hasCutBound(Collective c);
/// `verify` for such a bound.
std::string verifyCut(const Fabric &fabric, const BandwidthBound &bound);

} // namespace ccl::model
