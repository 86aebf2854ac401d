//===- Affine.cpp -----------------------------------------------------------===//
#include "codegen/host/Affine.h"

#include "dialect/Indexing.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ccl::host {

static int64_t constantOf(AffineExpr expr) { return cast<AffineConstantExpr>(expr).getValue(); }

std::string whyNotAffine(AffineMap map) {
  std::string why;
  map.walkExprs([&](AffineExpr expr) {
    AffineExprKind kind = expr.getKind();
    if (kind != AffineExprKind::Mod && kind != AffineExprKind::FloorDiv &&
        kind != AffineExprKind::CeilDiv)
      return;
    auto divisor = dyn_cast<AffineConstantExpr>(cast<AffineBinaryOpExpr>(expr).getRHS());
    if (!divisor)
      why = "the right side of mod, floordiv and ceildiv must be a constant here";
    else if (divisor.getValue() <= 0)
      why = "the right side of mod, floordiv and ceildiv must be positive";
  });
  return why;
}

//===----------------------------------------------------------------------===//
// As LLVM IR
//===----------------------------------------------------------------------===//

/// a mod b for b > 0.
static llvm::Value *emitMod(llvm::IRBuilderBase &builder, llvm::Value *a, int64_t b) {
  if (llvm::isPowerOf2_64(b)) // right for negative a, too
    return builder.CreateAnd(a, builder.getInt64(b - 1));
  llvm::Value *rest = builder.CreateSRem(a, builder.getInt64(b));
  llvm::Value *negative = builder.CreateICmpSLT(rest, builder.getInt64(0));
  return builder.CreateSelect(negative, builder.CreateAdd(rest, builder.getInt64(b)), rest);
}

static llvm::Value *emitFloorDiv(llvm::IRBuilderBase &builder, llvm::Value *a, int64_t b) {
  if (llvm::isPowerOf2_64(b))
    return builder.CreateAShr(a, builder.getInt64(llvm::Log2_64(b)));
  llvm::Value *quotient = builder.CreateSDiv(a, builder.getInt64(b));
  llvm::Value *rest = builder.CreateSRem(a, builder.getInt64(b));
  llvm::Value *negative = builder.CreateICmpSLT(rest, builder.getInt64(0));
  return builder.CreateAdd(quotient, builder.CreateSExt(negative, builder.getInt64Ty()));
}

static llvm::Value *emitCeilDiv(llvm::IRBuilderBase &builder, llvm::Value *a, int64_t b) {
  llvm::Value *quotient = builder.CreateSDiv(a, builder.getInt64(b));
  llvm::Value *rest = builder.CreateSRem(a, builder.getInt64(b));
  llvm::Value *positive = builder.CreateICmpSGT(rest, builder.getInt64(0));
  return builder.CreateAdd(quotient, builder.CreateZExt(positive, builder.getInt64Ty()));
}

llvm::Value *emitAffine(llvm::IRBuilderBase &builder, AffineExpr expr, unsigned numDims,
                        ArrayRef<llvm::Value *> operands) {
  switch (expr.getKind()) {
  case AffineExprKind::Constant: return builder.getInt64(constantOf(expr));
  case AffineExprKind::DimId: return operands[cast<AffineDimExpr>(expr).getPosition()];
  case AffineExprKind::SymbolId:
    return operands[numDims + cast<AffineSymbolExpr>(expr).getPosition()];
  default: break;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  llvm::Value *a = emitAffine(builder, binary.getLHS(), numDims, operands);
  switch (expr.getKind()) {
  case AffineExprKind::Mod: return emitMod(builder, a, constantOf(binary.getRHS()));
  case AffineExprKind::FloorDiv: return emitFloorDiv(builder, a, constantOf(binary.getRHS()));
  case AffineExprKind::CeilDiv: return emitCeilDiv(builder, a, constantOf(binary.getRHS()));
  default: break;
  }
  llvm::Value *b = emitAffine(builder, binary.getRHS(), numDims, operands);
  return expr.getKind() == AffineExprKind::Add ? builder.CreateAdd(a, b) : builder.CreateMul(a, b);
}

//===----------------------------------------------------------------------===//
// As numbers
//===----------------------------------------------------------------------===//

bool dependsOn(ValueRange operands, Value variable) {
  return llvm::is_contained(operands, variable);
}

std::optional<int64_t> Environment::get(Value value) const {
  if (auto found = numbers.find(value); found != numbers.end())
    return found->second;
  IntegerAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return constant.getInt();
  return std::nullopt;
}

SmallVector<int64_t> Environment::evaluate(AffineMap map, ValueRange operands) const {
  SmallVector<int64_t> inputs, results;
  for (Value operand : operands)
    inputs.push_back(get(operand).value_or(0));
  for (AffineExpr expr : map.getResults())
    results.push_back(evaluateIndex(expr, inputs, map.getNumDims()));
  return results;
}

std::pair<int64_t, int64_t> Environment::bounds(affine::AffineForOp loop) const {
  SmallVector<int64_t> lower = evaluate(loop.getLowerBoundMap(), loop.getLowerBoundOperands());
  SmallVector<int64_t> upper = evaluate(loop.getUpperBoundMap(), loop.getUpperBoundOperands());
  return {*llvm::max_element(lower), *llvm::min_element(upper)};
}

} // namespace ccl::host
