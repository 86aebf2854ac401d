//===- Count.h - How much IR expands to, without expanding it --------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {

/// Moves of all ranks of a specialized algorithm, or `limit` if there are more.
uint64_t countMoves(AlgorithmOp algorithm, uint64_t limit);
/// Instructions of all ranks of the programs of `algorithm`, or `limit`.
uint64_t countInstructions(AlgorithmOp algorithm, uint64_t limit);
/// Ops in `root`, itself included.
uint64_t countOps(mlir::Operation *root);

} // namespace ccl
