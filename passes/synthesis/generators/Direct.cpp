//===- Direct.cpp - Everybody talks to everybody ------------------------------===//
//
// Rank r meets rank r + s in step s, so that no two ranks ask the same one.
//===----------------------------------------------------------------------===//
#include "passes/synthesis/generators/Families.h"

using namespace mlir;

namespace ccl {

AlgorithmOp oneShotAllReduce(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "one_shot_all_reduce", request);
  Buffer in = a.in("in", 1), out = a.out("out", 1);
  a.ranks(n, [&](Expr r) { a.copy(in(r, 0), out(r, 0)); });
  a.steps(1, n,
          [&](Expr s) { a.ranks(n, [&](Expr r) { a.reduce(in((r + s) % n, 0), out(r, 0)); }); });
  return a.getAlgorithm();
}

AlgorithmOp oneShotAllGather(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "one_shot_all_gather", request);
  Buffer in = a.in("in", 1), out = a.out("out", n);
  a.ranks(n, [&](Expr r) { a.copy(in(r, 0), out(r, r)); });
  a.steps(1, n, [&](Expr s) {
    a.ranks(n, [&](Expr r) { a.copy(in((r + s) % n, 0), out(r, (r + s) % n)); });
  });
  return a.getAlgorithm();
}

AlgorithmOp oneShotReduceScatter(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "one_shot_reduce_scatter", request);
  Buffer in = a.in("in", n), out = a.out("out", 1);
  a.ranks(n, [&](Expr r) { a.copy(in(r, r), out(r, 0)); });
  a.steps(1, n,
          [&](Expr s) { a.ranks(n, [&](Expr r) { a.reduce(in((r + s) % n, r), out(r, 0)); }); });
  return a.getAlgorithm();
}

AlgorithmOp oneShotBroadcast(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, root = request.root;
  AlgorithmBuilder a(module, "one_shot_broadcast", request);
  Buffer x = a.inout("x", 1);
  a.ranks(1, n, [&](Expr v) { a.copy(x(root, 0), x(after(root, v, n), 0)); });
  return a.getAlgorithm();
}

AlgorithmOp oneShotReduce(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, root = request.root;
  AlgorithmBuilder a(module, "one_shot_reduce", request);
  Buffer in = a.in("in", 1), out = a.out("out", 1);
  a.copy(in(root, 0), out(root, 0));
  a.steps(1, n, [&](Expr s) { a.reduce(in((root + s) % n, 0), out(root, 0)); });
  return a.getAlgorithm();
}

AlgorithmOp oneShotGather(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "one_shot_gather", request);
  Buffer in = a.in("in", 1), out = a.out("out", n);
  a.ranks(n, [&](Expr r) { a.copy(in(r, 0), out(request.root, r)); });
  return a.getAlgorithm();
}

AlgorithmOp oneShotScatter(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "one_shot_scatter", request);
  Buffer in = a.in("in", n), out = a.out("out", 1);
  a.ranks(n, [&](Expr r) { a.copy(in(request.root, r), out(r, 0)); });
  return a.getAlgorithm();
}

AlgorithmOp pairwiseAllToAll(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "pairwise_all_to_all", request);
  Buffer in = a.in("in", n), out = a.out("out", n);
  a.ranks(n, [&](Expr r) { a.copy(in(r, r), out(r, r)); });
  a.steps(1, n, [&](Expr s) {
    a.ranks(n, [&](Expr r) { a.copy(in(r, (r + s) % n), out((r + s) % n, r)); });
  });
  return a.getAlgorithm();
}

/// Rank r sums up chunk r of everybody, then everybody fetches it there.
AlgorithmOp twoShotAllReduce(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "two_shot_all_reduce", request);
  Buffer in = a.in("in", n), out = a.out("out", n);
  a.ranks(n, [&](Expr r) { a.copy(in(r, r), out(r, r)); });
  a.steps(1, n,
          [&](Expr s) { a.ranks(n, [&](Expr r) { a.reduce(in((r + s) % n, r), out(r, r)); }); });
  a.steps(1, n, [&](Expr s) {
    a.ranks(n, [&](Expr r) {
      Expr peer = (r + s) % n;
      a.copy(out(peer, peer), out(r, peer));
    });
  });
  return a.getAlgorithm();
}

/// Rank r's moves in a row, so that one transfer has all sources, and one all destinations: a
/// switch that adds up, and copies, makes each of them one message (NVLS). Two agents: sums come
/// down while others' inputs go up, if there are micro-batches.
AlgorithmOp inSwitchAllReduce(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "in_switch_all_reduce", request);
  Buffer in = a.in("in", n), out = a.out("out", n);
  a.getAlgorithm()->setAttr(multicastAttr, UnitAttr::get(module.getContext()));
  a.as(Via::Direct, 0);
  a.ranks(n, [&](Expr r) { a.copy(in(r, r), out(r, r)); });
  a.ranks(n,
          [&](Expr r) { a.steps(1, n, [&](Expr s) { a.reduce(in((r + s) % n, r), out(r, r)); }); });
  a.as(Via::Put, 1);
  a.ranks(n,
          [&](Expr r) { a.steps(1, n, [&](Expr s) { a.copy(out(r, r), out((r + s) % n, r)); }); });
  return a.getAlgorithm();
}

AlgorithmOp inSwitchBroadcast(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, root = request.root;
  AlgorithmBuilder a(module, "in_switch_broadcast", request);
  Buffer x = a.inout("x", 1);
  a.getAlgorithm()->setAttr(multicastAttr, UnitAttr::get(module.getContext()));
  a.as(Via::Put, 0);
  a.steps(1, n, [&](Expr s) { a.copy(x(root, 0), x((s + root) % n, 0)); });
  return a.getAlgorithm();
}

/// Rank r fetches chunk r from the root, then everybody fetches the chunks from each other.
AlgorithmOp twoShotBroadcast(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, root = request.root;
  AlgorithmBuilder a(module, "two_shot_broadcast", request);
  Buffer x = a.inout("x", n);
  a.ranks(1, n, [&](Expr v) {
    Expr r = after(root, v, n);
    a.copy(x(root, r), x(r, r));
  });
  a.steps(1, n, [&](Expr s) {
    a.ranks(1, n, [&](Expr v) {
      Expr r = after(root, v, n), peer = (r + s) % n;
      a.copy(x(peer, peer), x(r, peer));
    });
  });
  return a.getAlgorithm();
}

/// Rank r sums up chunk r of everybody, then the root fetches the sums.
AlgorithmOp twoShotReduce(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, root = request.root;
  AlgorithmBuilder a(module, "two_shot_reduce", request);
  Buffer in = a.in("in", n), out = a.out("out", n), sum = a.scratch("sum", 1);
  a.ranks(n, [&](Expr r) { a.copy(in(r, r), sum(r, 0)); });
  a.steps(1, n,
          [&](Expr s) { a.ranks(n, [&](Expr r) { a.reduce(in((r + s) % n, r), sum(r, 0)); }); });
  a.ranks(n, [&](Expr r) { a.copy(sum(r, 0), out(root, r)); });
  return a.getAlgorithm();
}

AlgorithmOp oneShotPermute(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  SmallVector<int64_t> targets = permuteTargets(request);
  AlgorithmBuilder a(module, "one_shot_permute", request);
  Buffer in = a.in("in", 1), out = a.out("out", 1);
  bool rotates = true;
  SmallVector<AlgorithmBuilder::Row> rows;
  for (int64_t p = 0; p < n; ++p) {
    rotates &= targets[p] == (p + targets[0]) % n;
    rows.push_back({p, 0, targets[p], 0});
  }
  if (rotates)
    a.ranks(n, [&](Expr r) { a.copy(in(r, 0), out((r + targets[0]) % n, 0)); });
  else
    a.copyTable(in, out, rows);
  return a.getAlgorithm();
}

/// No move at all: a launch begins when all ranks have come. The buffer says how many.
AlgorithmOp entryBarrier(ModuleOp module, const GeneratorRequest &request) {
  AlgorithmBuilder a(module, "entry_barrier", request);
  a.scratch("nothing", 1);
  return a.getAlgorithm();
}

} // namespace ccl
