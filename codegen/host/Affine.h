//===- Affine.h - Affine maps as LLVM IR and as numbers ---------------------===//
//
// Both evaluations follow MLIR: floordiv rounds down, ceildiv rounds up, and
// `a mod b` is never negative. Right sides of the three are positive constants.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Ccl.h"

#include "llvm/IR/IRBuilder.h"

namespace ccl::host {

/// "" if the map can be evaluated, else what stands in the way.
std::string whyNotAffine(mlir::AffineMap map);

/// Emits the value of `expr` as i64; `operands` are dims, then symbols.
llvm::Value *emitAffine(llvm::IRBuilderBase &builder, mlir::AffineExpr expr, unsigned numDims,
                        llvm::ArrayRef<llvm::Value *> operands);

/// Whether one of `operands` is `variable` or computed from it.
bool dependsOn(mlir::ValueRange operands, mlir::Value variable);

/// Index values known while IR is interpreted: ranks and loop variables are set,
/// constants and `affine.apply` of known values follow.
class Environment {
public:
  void set(mlir::Value value, int64_t number) { numbers[value] = number; }
  /// Nothing for a value that does not follow from what was set.
  std::optional<int64_t> get(mlir::Value value) const;
  /// The results of a map over `operands`, which must be known.
  llvm::SmallVector<int64_t> evaluate(mlir::AffineMap map, mlir::ValueRange operands) const;

  /// [lower, upper) of a loop.
  std::pair<int64_t, int64_t> bounds(mlir::affine::AffineForOp loop) const;

private:
  llvm::DenseMap<mlir::Value, int64_t> numbers;
};

} // namespace ccl::host
