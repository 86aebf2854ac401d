//===- PlanText.h - A plan as JSON ----------------------------------------===//
#pragma once

#include "frontend/mscclpp/Plan.h"

namespace ccl::mscclpp {

/// Generation 2, one op a line, of the ops that WriteOps.h writes. Each thread block lists the
/// channels and remote buffers that its ops use, in the order in which they use them.
std::string planText(const Plan &plan);

} // namespace ccl::mscclpp
