//===- IndexForm.h - Affine indices as rows of tables of a kernel --------------===//
//
// A table says an index as an Index of device/places.cuh: multiples of the rank and of two values
// that code hands over, x and y.
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/AffineExpr.h"

#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ccl::cuda {

/// What an index may be of: its text in code, and its least and largest value as far as these are
/// known.
struct IndexOperand {
  std::string text;
  std::optional<std::pair<int64_t, int64_t>> range;
  bool isRank = false;
  std::optional<int64_t> constant = std::nullopt;
};

/// The values that the indices of one table are made of, as code.
class IndexForm {
public:
  IndexForm() = default;
  /// Of a loop that a table has in one row: x is `induction`, and nothing else depends on it.
  explicit IndexForm(std::string induction) : values{induction}, induction(std::move(induction)) {}

  /// The expression as it stands in a table, or nothing if it would take more values than two:
  /// then nothing has changed. Operands are dimensions, then symbols.
  std::optional<std::string> print(mlir::AffineExpr expr, unsigned numDims,
                                   llvm::ArrayRef<IndexOperand> operands);
  /// What follows the other arguments of whom the table is handed to: "", ", X", ", X, Y".
  std::string arguments() const;

private:
  std::optional<std::string> nameOf(const std::string &value);

  llvm::SmallVector<std::string, 2> values;
  std::string induction;
};

} // namespace ccl::cuda
