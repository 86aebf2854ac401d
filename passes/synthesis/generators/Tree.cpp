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

/// In the round of d, rank v + d (v is a multiple of 2 d) has the shards of [v + d, v + 2 d),
/// as far as there are so many ranks. Calls move(v, shard, count) for all v, in loops; shards
/// are counted from rank 0, so those that go around the last rank are two moves.
static void forEachSubtree(AlgorithmBuilder &a, int64_t n, int64_t root, int64_t d,
                           function_ref<void(Expr, Expr, int64_t)> move) {
  auto constant = [&](int64_t c) {
    return getAffineConstantExpr(c, a.getAlgorithm().getContext());
  };
  int64_t whole = n / (2 * d); // subtrees of d ranks
  int64_t wrap = n - root;     // that is rank 0
  auto single = [&](int64_t v, int64_t count) {
    int64_t first = v + d, part = std::clamp<int64_t>(wrap - first, 0, count);
    if (part > 0)
      move(constant(v), constant((first + root) % n), part);
    if (part < count)
      move(constant(v), constant((first + part + root) % n), count - part);
  };
  auto loop = [&](int64_t from, int64_t to) {
    a.ranks(from, to, [&](Expr j) { move(j * (2 * d), after(root, j * (2 * d) + d, n), d); });
  };
  int64_t split = wrap / (2 * d); // the subtree, if any, that rank 0 is inside of
  if (split < whole && wrap % (2 * d) > d) {
    loop(0, split);
    single(split * 2 * d, d);
    loop(split + 1, whole);
  } else {
    loop(0, whole);
  }
  if (int64_t v = whole * 2 * d; v + d < n)
    single(v, n - v - d);
}

AlgorithmOp binomialGather(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, root = request.root;
  AlgorithmBuilder a(module, "binomial_gather", request);
  Buffer x = a.inout("x", n);
  for (int64_t d = 1; d < n; d *= 2)
    forEachSubtree(a, n, root, d, [&](Expr v, Expr shard, int64_t count) {
      a.copy(x(after(root, v + d, n), shard), x(after(root, v, n), shard), count);
    });
  return a.getAlgorithm();
}

AlgorithmOp binomialScatter(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, root = request.root;
  AlgorithmBuilder a(module, "binomial_scatter", request);
  Buffer x = a.inout("x", n);
  for (int64_t d = llvm::bit_ceil(uint64_t(n)) / 2; d >= 1; d /= 2)
    forEachSubtree(a, n, root, d, [&](Expr v, Expr shard, int64_t count) {
      a.copy(x(after(root, v, n), shard), x(after(root, v + d, n), shard), count);
    });
  return a.getAlgorithm();
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
