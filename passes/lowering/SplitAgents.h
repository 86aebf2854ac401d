//===- SplitAgents.h - From one sequence to agents ----------------------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {

/// What ccl-split-agents does to one program; returns how many signals between agents it took.
/// Programs without agents, or with blocks of their own, stay.
mlir::FailureOr<size_t> splitAgents(ProgramOp program, const model::Contract &contract,
                                    bool mayAlias);

} // namespace ccl
