//===- Indexing.h - Affine indices: normal form, evaluation, checks ---------===//
//
// Upstream's simplifier turns `(a + 1) mod 4` into floordiv form, and its builders
// leave nested `mod`. Passes here compare indices structurally, so they need a normal
// form that keeps `mod`.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {

/// Normal form: sums are ordered with merged coefficients; below `mod c`
/// coefficients lie in (-c/2, c/2], the constant in [0, c), and inner `mod` by a
/// multiple of c is dropped; multiples of c leave `floordiv c`.
mlir::AffineExpr normalizeIndex(mlir::AffineExpr expr);
mlir::AffineMap normalizeIndex(mlir::AffineMap map);

/// constant + sum of factor * atom. An atom is a dimension, a symbol, or a `mod`,
/// `floordiv` or `ceildiv` in normal form.
struct LinearForm {
  int64_t constant = 0;
  llvm::SmallVector<std::pair<mlir::AffineExpr, int64_t>> terms;

  static LinearForm of(mlir::AffineExpr expr);
  void add(mlir::AffineExpr atom, int64_t factor);
  /// Drops terms with factor 0 and orders the others.
  mlir::AffineExpr build(mlir::MLIRContext *context);
};

/// Takes the constant summand from a sum in normal form: `expr` becomes the rest of it, or 0.
int64_t splitConstant(mlir::AffineExpr &expr);

/// If `expr` is (something) mod N in normal form: N, and `expr` becomes the something.
int64_t stripModulus(mlir::AffineExpr &expr);

/// Interval [low, high] of `expr` when dimension i lies in ranges[i] (low > high:
/// unknown); nothing if it cannot be told.
using Interval = std::pair<int64_t, int64_t>;
std::optional<Interval> boundsOf(mlir::AffineExpr expr, llvm::ArrayRef<Interval> ranges);

/// Interval of a value that is a loop variable with constant bounds or a program's %me;
/// {1, 0} if it is neither.
Interval rangeOf(mlir::Value value);

/// Replaces operands that are constants, drops unused and repeated operands,
/// normalizes. Returns whether anything changed.
bool simplifyIndex(mlir::AffineMap &map, llvm::SmallVectorImpl<mlir::Value> &operands);

/// Value of `expr` where dimension i is inputs[i] and symbol j inputs[numDims + j].
int64_t evaluateIndex(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> inputs, unsigned numDims);

/// One numbering of SSA values as dimensions, so that maps over different operand
/// lists can be compared.
class IndexSpace {
public:
  unsigned dim(mlir::Value value);
  /// The map's results over this space's dimensions, normalized. A value in
  /// `replacement` stands for that expression (over this space) instead.
  llvm::SmallVector<mlir::AffineExpr>
  rebase(mlir::AffineMap map, mlir::ValueRange operands,
         const llvm::DenseMap<mlir::Value, mlir::AffineExpr> *replacement = nullptr);
  llvm::ArrayRef<mlir::Value> values() const { return order; }

private:
  llvm::SmallVector<mlir::Value> order;
  llvm::DenseMap<mlir::Value, unsigned> numbers;
};

/// A map over the values that `exprs` use out of `space`, with its operands.
mlir::AffineMap makeMap(llvm::ArrayRef<mlir::AffineExpr> exprs, llvm::ArrayRef<mlir::Value> space,
                        llvm::SmallVectorImpl<mlir::Value> &operands, mlir::MLIRContext *context);

/// Row-major position of `coordinates` in `shape`; -1 if one lies outside.
int64_t linearize(llvm::ArrayRef<int64_t> coordinates, llvm::ArrayRef<int64_t> shape);
/// The same as an expression, without the range check.
mlir::AffineExpr linearize(llvm::ArrayRef<mlir::AffineExpr> coordinates,
                           llvm::ArrayRef<int64_t> shape);
/// The coordinates in `shape` of a row-major position, which must be inside.
llvm::SmallVector<int64_t> delinearize(int64_t position, llvm::ArrayRef<int64_t> shape);
llvm::SmallVector<mlir::AffineExpr> delinearize(mlir::AffineExpr position,
                                                llvm::ArrayRef<int64_t> shape);
int64_t product(llvm::ArrayRef<int64_t> shape);

/// Emits an error unless the operands are valid affine dimensions and symbols.
mlir::LogicalResult verifyIndexOperands(mlir::Operation *op, mlir::AffineMap map,
                                        mlir::ValueRange operands);

} // namespace ccl
