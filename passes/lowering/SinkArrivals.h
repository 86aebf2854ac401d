//===- SinkArrivals.h - Receives where they are needed -----------------------===//
#pragma once

#include "passes/lowering/Trace.h"

namespace ccl {

/// Agents that send on what they receive should not wait for it while they could send something
/// else: receives, and waits for what is put, move down to where something needs them. Of projected
/// programs with agents, whose sequence has no loops; others stay.
void sinkArrivals(ProgramOp program, const model::Contract &contract, bool mayAlias);

} // namespace ccl
