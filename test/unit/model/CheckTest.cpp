// Programs that are right.

#include "Algorithms.h"

#include <doctest/doctest.h>

using namespace ccl::model;

namespace {

std::string first(const std::vector<Fault> &faults) {
  return faults.empty() ? "" : faults.front().message;
}

} // namespace

TEST_CASE("ring, tree and one-shot all-reduce are right for every rank count") {
  for (int64_t n = 1; n <= 9; ++n) {
    CAPTURE(n);
    AlgorithmReport ring =
        check(ringAllReduce(n), makeContract(Collective::AllReduce, n, n, Reduction::Sum));
    CHECK(first(ring.faults) == "");
    CHECK(ring.inPlace);
    CHECK_FALSE(ring.divisible);
    CHECK(ring.moves == uint64_t(2 * n * (n - 1)));

    AlgorithmReport tree =
        check(treeAllReduce(n), makeContract(Collective::AllReduce, n, 1, Reduction::Max));
    CHECK(first(tree.faults) == "");
    CHECK(tree.inPlace);

    AlgorithmReport oneShot =
        check(oneShotAllReduce(n), makeContract(Collective::AllReduce, n, 1, Reduction::Sum));
    CHECK(first(oneShot.faults) == "");
  }
}

TEST_CASE("a large ring is proved") {
  AlgorithmReport ring =
      check(ringAllReduce(512), makeContract(Collective::AllReduce, 512, 512, Reduction::Sum));
  CHECK(first(ring.faults) == "");
  CHECK(ring.moves == 523264);
}

TEST_CASE("in place: one-shot overwrites what others still read") {
  Contract contract = makeContract(Collective::AllReduce, 3, 1, Reduction::Sum);
  AlgorithmReport report = check(oneShotAllReduce(3), contract);
  CHECK(report.ok());
  CHECK_FALSE(report.inPlace);
  REQUIRE_FALSE(report.inPlaceFaults.empty());
  CHECK(report.inPlaceFaults.front().kind == FaultKind::Conflict);
  CHECK(first(report.inPlaceFaults) ==
        "rank 1, out[0] is reduced into here and read by the reduce of rank 1, in[0] into "
        "rank 0, out[0] of the same parallel step");
}

TEST_CASE("in place: all-gather needs no copy of its own chunk") {
  Contract contract = makeContract(Collective::AllGather, 4, 1);
  AlgorithmReport with = check(ringAllGather(4, true), contract);
  CHECK(with.ok());
  CHECK(with.inPlace);
  AlgorithmReport without = check(ringAllGather(4, false), contract);
  CHECK_FALSE(without.ok());
  CHECK(without.inPlace);
}

TEST_CASE("in place: reduce-scatter that adds up in its own shard") {
  MovesBuilder b;
  b.moves.ranks = 2;
  int32_t in = b.buffer("in", Role::In, 2), out = b.buffer("out", Role::Out, 1);
  b.step();
  b.copy({0, in, 0}, {0, out, 0});
  b.copy({1, in, 1}, {1, out, 0});
  b.step();
  b.reduce({0, in, 1}, {1, out, 0});
  b.reduce({1, in, 0}, {0, out, 0});
  AlgorithmReport report =
      check(b.moves, makeContract(Collective::ReduceScatter, 2, 1, Reduction::Sum));
  CHECK(first(report.faults) == "");
  CHECK(first(report.inPlaceFaults) == "");
  CHECK(report.inPlace);
}

TEST_CASE("an all-to-all that swaps in one step cannot be in place") {
  MovesBuilder b;
  b.moves.ranks = 2;
  int32_t in = b.buffer("in", Role::In, 2), out = b.buffer("out", Role::Out, 2);
  b.step();
  for (int32_t p = 0; p < 2; ++p)
    for (int32_t q = 0; q < 2; ++q)
      b.copy({p, in, q}, {q, out, p});
  AlgorithmReport report = check(b.moves, makeContract(Collective::AllToAll, 2, 1));
  CHECK(first(report.faults) == "");
  CHECK_FALSE(report.inPlace);
  REQUIRE_FALSE(report.inPlaceFaults.empty());
  CHECK(report.inPlaceFaults.front().kind == FaultKind::Conflict);
}

TEST_CASE("a barrier has no data, so both forms hold; custom has no in-place form") {
  Moves nothing;
  nothing.ranks = 3;
  AlgorithmReport barrier = check(nothing, makeContract(Collective::Barrier, 3, 1));
  CHECK(barrier.ok());
  CHECK(barrier.inPlace);
  CHECK_FALSE(barrier.unevenSafe);

  MovesBuilder b;
  b.moves.ranks = 1;
  int32_t in = b.buffer("in", Role::In, 1), out = b.buffer("out", Role::Out, 1);
  b.step();
  b.copy({0, in, 0}, {0, out, 0});
  Contract custom = makeContract(Collective::Custom, 1, 1);
  custom.customInChunks = custom.customOutChunks = 1;
  AlgorithmReport copied = check(b.moves, custom);
  CHECK(copied.ok());
  CHECK_FALSE(copied.inPlace);
}

TEST_CASE("divisible: a chunk rests where a chunk of another length lives") {
  MovesBuilder b;
  b.moves.ranks = 1;
  int32_t in = b.buffer("in", Role::In, 2), out = b.buffer("out", Role::Out, 2);
  int32_t t = b.buffer("t", Role::Scratch, 1);
  b.step();
  b.copy({0, in, 1}, {0, t, 0}); // scratch holds the longest: no matter
  b.step();
  b.copy({0, t, 0}, {0, out, 1});
  b.copy({0, in, 0}, {0, out, 0});
  Contract contract = makeContract(Collective::AllReduce, 1, 2, Reduction::Sum);
  AlgorithmReport report = check(b.moves, contract);
  CHECK(first(report.faults) == "");
  CHECK_FALSE(report.divisible);

  MovesBuilder d;
  d.moves.ranks = 1;
  in = d.buffer("in", Role::In, 2), out = d.buffer("out", Role::Out, 2);
  d.step();
  d.copy({0, in, 1}, {0, out, 0});
  d.step();
  d.copy({0, out, 0}, {0, out, 1});
  d.step();
  d.copy({0, in, 0}, {0, out, 0});
  report = check(d.moves, contract);
  CHECK(first(report.faults) == "");
  CHECK(report.divisible);
}

TEST_CASE("counts move adjacent chunks") {
  MovesBuilder b;
  b.moves.ranks = 2;
  int32_t x = b.buffer("x", Role::InOut, 6);
  b.step();
  b.copy({0, x, 0}, {1, x, 0}, 3);
  b.copy({1, x, 3}, {0, x, 3}, 3);
  AlgorithmReport report = check(b.moves, makeContract(Collective::AllGather, 2, 3));
  CHECK(first(report.faults) == "");
}

TEST_CASE("reduces into one place commute in a step, and a copy onto itself is harmless") {
  MovesBuilder b;
  b.moves.ranks = 4;
  int32_t x = b.buffer("x", Role::InOut, 1);
  b.step();
  for (int32_t r = 1; r < 4; ++r)
    b.reduce({r, x, 0}, {0, x, 0});
  b.step();
  b.copy({0, x, 0}, {0, x, 0});
  AlgorithmReport report = check(b.moves, makeContract(Collective::Reduce, 4, 1, Reduction::Sum));
  CHECK(first(report.faults) == "");
}

TEST_CASE("custom contracts: rows add up; without rows nothing is promised") {
  MovesBuilder b;
  b.moves.ranks = 2;
  int32_t in = b.buffer("in", Role::In, 1), out = b.buffer("out", Role::Out, 1);
  b.step();
  b.copy({0, in, 0}, {0, out, 0});
  b.step();
  b.reduce({1, in, 0}, {0, out, 0});
  Contract contract = makeContract(Collective::Custom, 2, 1, Reduction::Sum);
  contract.customInChunks = contract.customOutChunks = 1;
  contract.rows = {{0, 0, 0, 0}, {0, 0, 1, 0}};
  AlgorithmReport report = check(b.moves, contract);
  CHECK(first(report.faults) == "");
  CHECK(verdict(report.faults, contract) == "ok");

  SUBCASE("a row twice wants its contribution twice") {
    contract.rows.push_back({0, 0, 1, 0});
    CHECK(first(check(b.moves, contract).faults) ==
          "custom sum is not met: rank 0, out[0] holds {0.0, 1.0}, wants {0.0, 1.0 x2}; the "
          "contribution of rank 1 (chunk 0) is missing");
    b.step();
    b.reduce({1, in, 0}, {0, out, 0});
    CHECK(first(check(b.moves, contract).faults) == "");
  }
  SUBCASE("unchecked: any sum, but no unsafe read") {
    contract.rows.clear();
    contract.customInChunks = contract.customOutChunks = 0;
    b.step();
    b.reduce({1, in, 0}, {0, out, 0});
    report = check(b.moves, contract);
    CHECK(first(report.faults) == "");
    CHECK(verdict(report.faults, contract) == "unchecked");
    b.step();
    b.copy({1, out, 0}, {0, out, 0});
    CHECK(verdict(check(b.moves, contract).faults, contract) == "uninitialized");
  }
}
