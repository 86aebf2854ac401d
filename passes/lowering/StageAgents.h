//===- StageAgents.h - The agents of the stages of a pipeline -------------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {

/// One more than the largest number of an agent of the moves inside.
int64_t countAgents(mlir::Region &region);
/// Adds `offset` to all of their numbers.
void shiftAgents(mlir::Region &region, int64_t offset);

} // namespace ccl
