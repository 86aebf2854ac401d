//===- Specialize.cpp - Binds size parameters --------------------------------===//

#include "passes/lowering/Specialize.h"
#include "passes/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLSPECIALIZE
#include "passes/Passes.h.inc"

void bindParameter(AlgorithmOp algorithm, unsigned index, int64_t value) {
  OpBuilder b = OpBuilder::atBlockBegin(&algorithm.getBlock());
  BlockArgument argument = algorithm.getArgument(index);
  argument.replaceAllUsesWith(b.create<arith::ConstantIndexOp>(argument.getLoc(), value));
  if (auto names = algorithm.getArgNames()) {
    SmallVector<Attribute> rest(names->getValue());
    rest.erase(rest.begin() + index);
    if (rest.empty())
      algorithm.removeArgNamesAttr();
    else
      algorithm.setArgNamesAttr(b.getArrayAttr(rest));
  }
  algorithm.eraseArgument(index);
}

LogicalResult foldConstants(Operation *op) {
  MLIRContext *context = op->getContext();
  RewritePatternSet patterns(context);
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (isa<CclDialect, affine::AffineDialect>(name.getDialect()))
      name.getCanonicalizationPatterns(patterns, context);
  return applyPatternsAndFoldGreedily(op, std::move(patterns));
}

namespace {
struct Specialize : impl::CclSpecializeBase<Specialize> {
  using CclSpecializeBase::CclSpecializeBase;

  void runOnOperation() override {
    llvm::StringMap<int64_t> values;
    for (const std::string &text : sizes) {
      auto [name, number] = StringRef(text).split('=');
      int64_t value;
      if (name.empty() || number.getAsInteger(10, value) || value < 1) {
        getOperation().emitError() << "ccl-specialize: '" << text
                                   << "' is no size: write name=value with a value of at least 1";
        return signalPassFailure();
      }
      values[name] = value;
    }
    const llvm::StringSet<> applied = appliedSymbols(getOperation());
    for (auto algorithm : getOperation().getOps<AlgorithmOp>()) {
      if (applied.contains(algorithm.getSymName()))
        continue;
      for (unsigned i = algorithm.getNumArguments(); i-- > 0;)
        if (auto it = values.find(algorithm.getParameterName(i)); it != values.end())
          bindParameter(algorithm, i, it->second);
    }
  }
};
} // namespace
} // namespace ccl
