//===- AffineTest.cpp - Index expressions, emitted and evaluated ------------===//
#include "codegen/host/Affine.h"
#include "dialect/Indexing.h"
#include "test/unit/codegen/Support.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace mlir;

namespace ccl::test {
namespace {

/// Machine code for expressions of two dims and a symbol.
class Machine {
public:
  explicit Machine(ArrayRef<AffineExpr> expressions) {
    llvm::LLVMContext context;
    llvm::Module module("expressions", context);
    llvm::IRBuilder<> builder(context);
    SmallVector<llvm::Type *> types(3, builder.getInt64Ty());
    for (auto [index, expression] : llvm::enumerate(expressions)) {
      auto *function =
          llvm::Function::Create(llvm::FunctionType::get(builder.getInt64Ty(), types, false),
                                 llvm::Function::ExternalLinkage, nameOf(index), module);
      builder.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
      llvm::Value *arguments[] = {function->getArg(0), function->getArg(1), function->getArg(2)};
      builder.CreateRet(host::emitAffine(builder, expression, /*numDims=*/2, arguments));
    }
    code = std::make_unique<Linked>(llvm::cantFail(compileToObject(module, {})));
  }
  int64_t operator()(size_t index, int64_t a, int64_t b, int64_t s) {
    return code->get<int64_t (*)(int64_t, int64_t, int64_t)>(nameOf(index))(a, b, s);
  }

private:
  static std::string nameOf(size_t index) { return "f" + std::to_string(index); }
  std::unique_ptr<Linked> code;
};

AffineExpr randomExpression(std::mt19937 &random, MLIRContext *context, int depth) {
  auto below = [&](unsigned n) { return int64_t(random() % n); };
  if (depth == 0 || below(6) == 0) {
    switch (below(4)) {
    case 0: return getAffineDimExpr(0, context);
    case 1: return getAffineDimExpr(1, context);
    case 2: return getAffineSymbolExpr(0, context);
    default: return getAffineConstantExpr(below(41) - 20, context);
    }
  }
  AffineExpr a = randomExpression(random, context, depth - 1);
  int64_t positive = 1 + below(17);
  switch (below(6)) {
  case 0: return a + randomExpression(random, context, depth - 1);
  case 1: return a - randomExpression(random, context, depth - 1);
  case 2: return a * (below(13) - 6);
  case 3: return a % positive;
  case 4: return a.floorDiv(positive);
  default: return a.ceilDiv(positive);
  }
}

} // namespace

TEST_CASE("mod, floordiv and ceildiv of negative numbers") {
  MLIRContext context;
  AffineExpr a = getAffineDimExpr(0, &context);
  std::vector<int64_t> divisors = {1, 2, 3, 4, 5, 7, 8, 12, 16, 100};
  SmallVector<AffineExpr> expressions;
  for (int64_t divisor : divisors)
    for (AffineExpr expression : {a % divisor, a.floorDiv(divisor), a.ceilDiv(divisor)})
      expressions.push_back(expression);
  Machine machine(expressions);
  for (size_t d = 0; d < divisors.size(); ++d)
    for (int64_t value = -205; value <= 205; ++value) {
      double quotient = double(value) / double(divisors[d]);
      auto down = int64_t(std::floor(quotient));
      CAPTURE(value);
      CAPTURE(divisors[d]);
      CHECK(machine(3 * d, value, 0, 0) == value - down * divisors[d]);
      CHECK(machine(3 * d + 1, value, 0, 0) == down);
      CHECK(machine(3 * d + 2, value, 0, 0) == int64_t(std::ceil(quotient)));
    }
}

TEST_CASE("random expressions") {
  const unsigned seed = 20240917;
  CAPTURE(seed);
  std::mt19937 random(seed);
  MLIRContext context;
  SmallVector<AffineExpr> expressions;
  for (int i = 0; i < 300; ++i)
    expressions.push_back(randomExpression(random, &context, 4));
  Machine machine(expressions);
  for (size_t i = 0; i < expressions.size(); ++i)
    for (int round = 0; round < 20; ++round) {
      int64_t values[3];
      for (int64_t &value : values)
        value = int64_t(random() % 2001) - 1000;
      CAPTURE(i);
      CHECK(machine(i, values[0], values[1], values[2]) ==
            evaluateIndex(expressions[i], values, /*numDims=*/2));
    }
}

TEST_CASE("right sides that have no code") {
  MLIRContext context;
  AffineExpr a = getAffineDimExpr(0, &context), s = getAffineSymbolExpr(0, &context);
  CHECK(host::whyNotAffine(AffineMap::get(1, 0, a % 4)) == "");
  CHECK(host::whyNotAffine(AffineMap::get(1, 1, a % s)).find("constant") != std::string::npos);
  CHECK(host::whyNotAffine(AffineMap::get(1, 1, (a + a.floorDiv(s)) * 2)).find("constant") !=
        std::string::npos);
}

} // namespace ccl::test
