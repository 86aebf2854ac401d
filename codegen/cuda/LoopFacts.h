//===- LoopFacts.h - What iterations of a loop have to do with each other ------===//
//
// Told by evaluating all of them on all ranks of the program: loops over peers are short. Of a
// nested loop, or one of too many iterations, nothing is known.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl::cuda {

/// Whether no two iterations name one channel, on any rank.
bool namesEachChannelOnce(mlir::affine::AffineForOp loop, ChannelOp channel);

/// The only thing that iterations do, if they may do it at once: a transfer in memory, in no
/// iteration of which anything is touched that another one writes, on any rank, whether it is
/// launched in place or not. Else null.
TransferOp independentTransfer(mlir::affine::AffineForOp loop);

} // namespace ccl::cuda
