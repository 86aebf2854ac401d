//===- Specialize.h - Binding of size parameters, shared by passes -----------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {

/// Replaces size parameter `index` of `algorithm` by a constant.
void bindParameter(AlgorithmOp algorithm, unsigned index, int64_t value);

/// Folds constants into index maps and loop bounds, everywhere inside `op`.
mlir::LogicalResult foldConstants(mlir::Operation *op);

} // namespace ccl
