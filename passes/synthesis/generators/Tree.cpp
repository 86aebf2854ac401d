//===- Tree.cpp - Binomial trees ----------------------------------------------===//
//
// Rank v + root plays the role of v, so that 0 is the root. In round d = 1, 2, 4, ...
// the ranks below d have what the ranks v + d get; reducing runs the rounds backwards.
//===----------------------------------------------------------------------===//
#include "passes/synthesis/generators/Families.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ccl {

static void broadcast(AlgorithmBuilder &a, Buffer x, int64_t n, int64_t root) {
  for (int64_t d = 1; d < n; d *= 2)
    a.ranks(std::min(d, n - d),
            [&](Expr v) { a.copy(x(after(root, v, n), 0), x(after(root, v + d, n), 0)); });
}

static void reduceToRoot(AlgorithmBuilder &a, Buffer x, int64_t n, int64_t root) {
  for (int64_t d = llvm::bit_ceil(uint64_t(n)) / 2; d >= 1; d /= 2)
    a.ranks(std::min(d, n - d),
            [&](Expr v) { a.reduce(x(after(root, v + d, n), 0), x(after(root, v, n), 0)); });
}

AlgorithmOp binomialBroadcast(ModuleOp module, const GeneratorRequest &request) {
  AlgorithmBuilder a(module, "binomial_broadcast", request);
  broadcast(a, a.inout("x", 1), request.ranks, request.root);
  return a.getAlgorithm();
}

/// Only the root has an `out`, so partial sums grow in scratch.
AlgorithmOp binomialReduce(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, root = request.root;
  AlgorithmBuilder a(module, "binomial_reduce", request);
  Buffer in = a.in("in", 1), out = a.out("out", 1), sum = a.scratch("sum", 1);
  a.ranks(n, [&](Expr r) { a.copy(in(r, 0), sum(r, 0)); });
  reduceToRoot(a, sum, n, root);
  a.copy(sum(root, 0), out(root, 0));
  return a.getAlgorithm();
}

AlgorithmOp binomialAllReduce(ModuleOp module, const GeneratorRequest &request) {
  AlgorithmBuilder a(module, "binomial_all_reduce", request);
  Buffer x = a.inout("x", 1);
  reduceToRoot(a, x, request.ranks, 0);
  broadcast(a, x, request.ranks, 0);
  return a.getAlgorithm();
}

} // namespace ccl
