//===- Channels.h - Which peers a program's channels reach -----------------===//
#pragma once

#include "dialect/Ccl.h"
#include "runtime/plan/Plan.h"

namespace ccl::host {

/// Index into kernel.channels of the family that `channel` belongs to, -1 if none.
int familyOf(const KernelPlan &kernel, ChannelOp channel);

/// Fills kernel.channels and kernel.peers from the `ccl.channel` ops of a program.
/// Evaluates a peer only over loops that it depends on, so a rank of a ring costs
/// O(1). Emits an error on a channel whose peer is no rank of `numRanks`.
mlir::LogicalResult planChannels(ProgramOp program, int64_t numRanks, KernelPlan &kernel);

} // namespace ccl::host
