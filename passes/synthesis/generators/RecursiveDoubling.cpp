//===- RecursiveDoubling.cpp - Exchange with rank r xor 1, 2, 4, ... -----------===//
#include "passes/synthesis/generators/Families.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ccl {

/// r xor d for a power of two d: add d where that bit of r is 0, else subtract it.
static Expr flip(Expr r, int64_t d) { return r + d - r.floorDiv(d) % 2 * (2 * d); }

/// Ranks beyond the largest power of two hand their input to a rank of the core before,
/// and fetch the result there after. Every round has its own place in `other`, so no
/// rank waits until its partner has used the round before.
AlgorithmOp recursiveDoublingAllReduce(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks, core = llvm::bit_floor(uint64_t(n)), extra = n - core;
  AlgorithmBuilder a(module, "recursive_doubling_all_reduce", request);
  Buffer x = a.inout("x", 1);
  Buffer other = a.scratch("other", std::max<int64_t>(llvm::Log2_64(core), 1));

  a.ranks(extra, [&](Expr r) { a.reduce(x(r + core, 0), x(r, 0)); });
  for (int64_t d = 1, round = 0; d < core; d *= 2, ++round) {
    a.ranks(core, [&](Expr r) { a.copy(x(r, 0), other(flip(r, d), round)); });
    a.ranks(core, [&](Expr r) { a.reduce(other(r, round), x(r, 0)); });
  }
  a.ranks(extra, [&](Expr r) { a.copy(x(r, 0), x(r + core, 0)); });
  return a.getAlgorithm();
}

/// Before round d rank r holds the d shards whose numbers differ from r below bit d.
AlgorithmOp recursiveDoublingAllGather(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "recursive_doubling_all_gather", request);
  Buffer in = a.in("in", 1), out = a.out("out", n);
  a.ranks(n, [&](Expr r) { a.copy(in(r, 0), out(r, r)); });
  for (int64_t d = 1; d < n; d *= 2)
    a.ranks(n, [&](Expr r) {
      Expr held = r.floorDiv(d) * d;
      a.copy(out(r, held), out(flip(r, d), held), d);
    });
  return a.getAlgorithm();
}

/// In the round of d rank r hands its sums of the d shards on the other side to rank
/// r xor d, which is on that side, until one shard is left.
AlgorithmOp recursiveHalvingReduceScatter(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "recursive_halving_reduce_scatter", request);
  Buffer x = a.inout("x", n);
  for (int64_t d = n / 2; d >= 1; d /= 2)
    a.ranks(n, [&](Expr r) {
      Expr other = flip(r, d), theirs = other.floorDiv(d) * d;
      a.reduce(x(r, theirs), x(other, theirs), d);
    });
  return a.getAlgorithm();
}

/// Before the round of d rank r holds the shards of ranks r to r + d - 1, in that order, and
/// fetches those that rank r + d holds, or as many as are missing.
AlgorithmOp bruckAllGather(ModuleOp module, const GeneratorRequest &request) {
  int64_t n = request.ranks;
  AlgorithmBuilder a(module, "bruck_all_gather", request);
  Buffer in = a.in("in", 1), out = a.out("out", n), held = a.scratch("held", n);
  a.ranks(n, [&](Expr r) { a.copy(in(r, 0), held(r, 0)); });
  for (int64_t d = 1; d < n; d *= 2)
    a.ranks(n, [&](Expr r) { a.copy(held((r + d) % n, 0), held(r, d), std::min(d, n - d)); });
  a.steps(0, n,
          [&](Expr i) { a.ranks(n, [&](Expr r) { a.copy(held(r, i), out(r, (r + i) % n)); }); });
  return a.getAlgorithm();
}

} // namespace ccl
