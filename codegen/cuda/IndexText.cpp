//===- IndexText.cpp --------------------------------------------------------===//
#include "codegen/cuda/IndexText.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl::cuda {

/// Whether an expression stands in parentheses next to an operator.
static bool isSum(AffineExpr expr) { return expr.getKind() == AffineExprKind::Add; }

std::string printIndex(AffineExpr expr, unsigned numDims, ArrayRef<std::string> operands) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return fmt::format("{}", constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return operands[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return operands[numDims + symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  const std::string left = printIndex(binary.getLHS(), numDims, operands);
  const std::string right = printIndex(binary.getRHS(), numDims, operands);
  switch (expr.getKind()) {
  case AffineExprKind::Add: {
    // a + b * -1 and a + -1 say a - b and a - 1.
    if (auto product = dyn_cast<AffineBinaryOpExpr>(binary.getRHS());
        product && product.getKind() == AffineExprKind::Mul)
      if (auto factor = dyn_cast<AffineConstantExpr>(product.getRHS());
          factor && factor.getValue() == -1) {
        const std::string term = printIndex(product.getLHS(), numDims, operands);
        return left + " - " + (isSum(product.getLHS()) ? "(" + term + ")" : term);
      }
    if (auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
        constant && constant.getValue() < 0)
      return fmt::format("{} - {}", left, -constant.getValue());
    return left + " + " + right;
  }
  case AffineExprKind::Mul:
    return fmt::format("{} * {}", isSum(binary.getLHS()) ? "(" + left + ")" : left,
                       isSum(binary.getRHS()) ? "(" + right + ")" : right);
  case AffineExprKind::Mod: return fmt::format("mod({}, {})", left, right);
  case AffineExprKind::FloorDiv: return fmt::format("floorDiv({}, {})", left, right);
  default: return fmt::format("ceilDiv({}, {})", left, right);
  }
}

} // namespace ccl::cuda
