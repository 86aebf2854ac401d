//===- IndexText.h - Affine indices as CUDA C++ ---------------------------------===//
#pragma once

#include "mlir/IR/AffineExpr.h"

#include <string>

namespace ccl::cuda {

/// `operands` are the texts of dimensions, then of symbols. What MLIR means by mod, floordiv and
/// ceildiv, functions of device/block.cuh do.
std::string printIndex(mlir::AffineExpr expr, unsigned numDims,
                       llvm::ArrayRef<std::string> operands);

} // namespace ccl::cuda
