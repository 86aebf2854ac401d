//===- RankSolver.h - Which instances of a move touch a rank -----------------===//
//
// In a parallel step a move is executed for every value of the step's variables. The
// solver inverts the rank index: `(r + 1) mod n = me` gives `r = (me - 1) mod n`. What
// it cannot invert is enumerated by the caller.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Indexing.h"

namespace ccl {

/// A variable of a step: dimension `dim` takes lower + step * q for 0 <= q < extent.
struct StepVariable {
  unsigned dim;
  int64_t lower, extent, step;
};

/// low <= expr < high.
struct Guard {
  mlir::AffineExpr expr;
  int64_t low, high;
};

struct RankSolution {
  /// Per variable its value, or null if every value touches the rank (it is free).
  llvm::SmallVector<mlir::AffineExpr> values;
  /// The instance exists only where all of these hold.
  llvm::SmallVector<Guard> guards;
};

/// Solves rank[a] = me[a] for all axes a. Expressions are over one IndexSpace, whose
/// dimensions of `variables` are the unknowns. Nothing if there is no closed form.
std::optional<RankSolution> solveForRank(llvm::ArrayRef<mlir::AffineExpr> rank,
                                         llvm::ArrayRef<mlir::AffineExpr> me,
                                         llvm::ArrayRef<StepVariable> variables);

} // namespace ccl
