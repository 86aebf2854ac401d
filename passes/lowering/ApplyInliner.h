//===- ApplyInliner.h - The callee's moves as the caller's ------------------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {

/// A callee buffer as seen by the caller.
struct ApplyBinding {
  mlir::Value buffer;
  mlir::AffineMap map; ///< (callee ranks, callee chunks, groups) -> (ranks, chunks)
};

/// Writes the moves of `callee`, which is specialized and expanded, before `apply`, once for every
/// group index. `bound` are its buffers that are not scratch; scratch is made in the caller.
mlir::LogicalResult inlineApply(ApplyOp apply, AlgorithmOp callee, llvm::ArrayRef<int64_t> groups,
                                llvm::ArrayRef<ApplyBinding> bound);

} // namespace ccl
