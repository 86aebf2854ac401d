//===- Ring.cpp - Every rank talks to the next one only ----------------------===//
#include "passes/synthesis/generators/Families.h"

using namespace mlir;

namespace ccl {

/// In every step rank r adds one chunk into the next rank's. After n - 1 steps rank r
/// holds the whole sum of chunk `r + offset`.
static void reduceAround(AlgorithmBuilder &a, Buffer x, int64_t n, int64_t offset) {
  a.steps(1, n, [&](Expr s) {
    a.ranks(n, [&](Expr r) {
      Expr chunk = (r - s + offset) % n;
      a.reduce(x(r, chunk), x((r + 1) % n, chunk));
    });
  });
}

/// Passes on what `reduceAround` left: rank r starts with chunk `r + offset`.
static void copyAround(AlgorithmBuilder &a, Buffer x, int64_t n, int64_t offset) {
  a.steps(1, n, [&](Expr s) {
    a.ranks(n, [&](Expr r) {
      Expr chunk = (r - s + 1 + offset) % n;
      a.copy(x(r, chunk), x((r + 1) % n, chunk));
    });
  });
}

AlgorithmOp ringAllReduce(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "ring_all_reduce", request);
  Buffer x = a.inout("x", n);
  reduceAround(a, x, n, 1);
  copyAround(a, x, n, 1);
  return a.getAlgorithm();
}

AlgorithmOp ringAllGather(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "ring_all_gather", request);
  Buffer in = a.in("in", 1), out = a.out("out", n);
  a.ranks(n, [&](Expr r) { a.copy(in(r, 0), out(r, r)); });
  copyAround(a, out, n, 0);
  return a.getAlgorithm();
}

/// The sum of shard c starts on rank c + 1 and reaches rank c after n - 1 steps. On its
/// way it rests in `sum`; two of these, since a rank sends one while it receives the other.
AlgorithmOp ringReduceScatter(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "ring_reduce_scatter", request);
  Buffer in = a.in("in", n), out = a.out("out", 1);
  if (n == 1) {
    a.copy(in(0, 0), out(0, 0));
    return a.getAlgorithm();
  }
  Buffer sum = a.scratch("sum", 2);
  a.ranks(n, [&](Expr r) { a.copy(in(r, (r - 1) % n), sum(r, 0)); });
  a.steps(1, n - 1, [&](Expr s) {
    a.ranks(n, [&](Expr r) { a.copy(in(r, (r - s - 1) % n), sum(r, s % 2)); });
    a.ranks(n, [&](Expr r) { a.reduce(sum(r, (s - 1) % 2), sum((r + 1) % n, s % 2)); });
  });
  a.ranks(n, [&](Expr r) { a.copy(in(r, r), out(r, 0)); });
  a.ranks(n, [&](Expr r) { a.reduce(sum(r, (n - 2) % 2), out((r + 1) % n, 0)); });
  return a.getAlgorithm();
}

AlgorithmOp ringBroadcast(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, root = request.root;
  AlgorithmBuilder a(module, "ring_broadcast", request);
  Buffer x = a.inout("x", 1);
  a.steps(1, n, [&](Expr v) { a.copy(x(after(root, v - 1, n), 0), x(after(root, v, n), 0)); });
  return a.getAlgorithm();
}

/// From the root's predecessor down to the root. Only the root has an `out`, hence `sum`.
AlgorithmOp ringReduce(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, root = request.root;
  AlgorithmBuilder a(module, "ring_reduce", request);
  Buffer in = a.in("in", 1), out = a.out("out", 1);
  if (n == 1) {
    a.copy(in(root, 0), out(root, 0));
    return a.getAlgorithm();
  }
  Buffer sum = a.scratch("sum", 1);
  a.ranks(1, n, [&](Expr v) { a.copy(in(after(root, v, n), 0), sum(after(root, v, n), 0)); });
  a.steps(1, n - 1, [&](Expr s) {
    a.reduce(sum(after(root, n - s, n), 0), sum(after(root, n - s - 1, n), 0));
  });
  a.copy(in(root, 0), out(root, 0));
  a.reduce(sum((root + 1) % n, 0), out(root, 0));
  return a.getAlgorithm();
}

AlgorithmOp ringReduceScatterInPlace(ModuleOp module, const GeneratorRequest &request) {
  AlgorithmBuilder a(module, "ring_reduce_scatter", request);
  reduceAround(a, a.inout("x", request.ranks), request.ranks, 0);
  return a.getAlgorithm();
}

AlgorithmOp ringAllGatherInPlace(ModuleOp module, const GeneratorRequest &request) {
  AlgorithmBuilder a(module, "ring_all_gather", request);
  copyAround(a, a.inout("x", request.ranks), request.ranks, 0);
  return a.getAlgorithm();
}

} // namespace ccl
