// Which programs run as they are when every shard has a length of its own.

#include "Algorithms.h"

#include <doctest/doctest.h>

#include <random>

using namespace ccl::model;

namespace {

/// A program with `in` of `in` chunks and `out` of `out` chunks on `ranks` ranks.
struct InOut : MovesBuilder {
  int32_t in, out, scratch;
  InOut(int64_t ranks, int64_t inChunks, int64_t outChunks) {
    moves.ranks = ranks;
    in = buffer("in", Role::In, inChunks);
    out = buffer("out", Role::Out, outChunks);
    scratch = buffer("scratch", Role::Scratch, 2);
  }
};

AlgorithmReport gatherTwo(const Moves &moves) {
  return check(moves, makeContract(Collective::AllGather, 2, 1));
}

/// Everybody copies its shard into everybody's `out`.
InOut directGather(int64_t ranks) {
  InOut b(ranks, 1, ranks);
  b.step();
  for (int32_t r = 0; r < ranks; ++r)
    for (int32_t q = 0; q < ranks; ++q)
      b.copy({r, b.in, 0}, {q, b.out, r});
  return b;
}

} // namespace

TEST_CASE("what a length belongs to") {
  using Shard = std::optional<int64_t>;
  Contract gather = makeContract(Collective::Gather, 3, 2);
  CHECK(gather.shardOf(Atom{2, 1}) == 2);
  CHECK(gather.shardOf(Role::In, 2, 1) == 2);
  CHECK(gather.shardOf(Role::Out, 0, 5) == 2);
  CHECK(gather.shardOf(Role::InOut, 0, 4) == 2);
  CHECK(gather.shardOf(Role::Scratch, 0, 4) == Shard());
  Contract scatter = makeContract(Collective::ReduceScatter, 3, 2, Reduction::Sum);
  CHECK(scatter.shardOf(Atom{2, 1}) == 0);
  CHECK(scatter.shardOf(Atom{-1, 5}) == 2); // of several ranks
  CHECK(scatter.shardOf(Atom{1, -1}) == -1);
  CHECK(scatter.shardOf(Role::In, 2, 1) == 0);
  CHECK(scatter.shardOf(Role::Out, 2, 1) == 2);
  Contract exchange = makeContract(Collective::AllToAllV, 3, 2);
  CHECK(exchange.shardOf(Atom{2, 1}) == 6);            // from 2 to 0
  CHECK(exchange.shardOf(Role::In, 2, 0) == 6);        // what 2 sends to 0
  CHECK(exchange.shardOf(Role::Out, 0, 4) == 6);       // what 0 has from 2
  CHECK(exchange.shardOf(Role::Out, 2, 0) == 2);       // what 2 has from 0
  CHECK(exchange.shardOf(Role::Out, 2, 0, true) == 2); // as long, in place
  CHECK(exchange.shardOf(Role::In, 2, 0, true) == 2);
  CHECK(exchange.shardOf(Atom{2, 1}, true) == 2);
  CHECK(exchange.shardOf(Atom{-1, 1}) == -1);
  CHECK(makeContract(Collective::AllReduce, 3, 2).shardOf(Atom{2, 1}) == Shard());
  CHECK(makeContract(Collective::Broadcast, 3, 2).shardOf(Role::Out, 2, 1) == Shard());
}

TEST_CASE("chunks that stay in places of their shard") {
  AlgorithmReport ring = check(ringAllGather(4, true), makeContract(Collective::AllGather, 4, 1));
  CHECK(ring.inPlace);
  CHECK(ring.unevenSafe);
  // Only in place it is right, and there lengths fit.
  AlgorithmReport own = check(ringAllGather(4, false), makeContract(Collective::AllGather, 4, 1));
  CHECK_FALSE(own.ok());
  CHECK(own.unevenSafe);
  CHECK(gatherTwo(directGather(2).moves).unevenSafe);
}

TEST_CASE("there is no uneven form without shards") {
  AlgorithmReport report =
      check(ringAllReduce(4), makeContract(Collective::AllReduce, 4, 4, Reduction::Sum));
  CHECK(report.ok());
  CHECK_FALSE(report.unevenSafe);
}

TEST_CASE("a chunk that rests in another shard on its way") {
  for (bool scratch : {false, true}) {
    InOut b = directGather(2);
    b.step();
    // Rank 1 gets it where its own shard belongs, and restores that after.
    b.copy({0, b.in, 0}, {1, scratch ? b.scratch : b.out, 1});
    b.step();
    b.copy({1, b.in, 0}, {1, b.out, 1});
    AlgorithmReport report = gatherTwo(b.moves);
    CHECK(report.ok());
    CHECK_FALSE(report.divisible);
    CHECK(report.unevenSafe == scratch);
  }
}

TEST_CASE("a form that does not hold does not count") {
  InOut b = directGather(2);
  b.step();
  b.copy({0, b.in, 0}, {1, b.out, 1}); // in place that is rank 1's input
  b.step();
  b.copy({1, b.in, 0}, {1, b.out, 1});
  AlgorithmReport report = gatherTwo(b.moves);
  CHECK_FALSE(report.inPlace);
  CHECK_FALSE(report.unevenSafe); // for the sake of the disjoint form
}

TEST_CASE("a sum of one shard in the place of another") {
  for (bool own : {true, false}) {
    InOut b(2, 2, 1);
    // The sum of shard 1 grows on rank 0, in `out` or in scratch, and moves to rank 1.
    Place grows{0, own ? b.scratch : b.out, 0};
    b.step();
    b.copy({0, b.in, 1}, grows);
    b.step();
    b.reduce({1, b.in, 1}, grows);
    b.step();
    b.copy(grows, {1, b.out, 0});
    b.step();
    b.copy({0, b.in, 0}, {0, b.out, 0});
    b.step();
    b.reduce({1, b.in, 0}, {0, b.out, 0});
    AlgorithmReport report =
        check(b.moves, makeContract(Collective::ReduceScatter, 2, 1, Reduction::Sum));
    CHECK(report.ok());
    CHECK(report.unevenSafe == own);
  }
}

TEST_CASE("a sum over two shards that nobody needs") {
  for (int64_t other : {0, 1}) {
    InOut b(2, 2, 1);
    for (int32_t r = 0; r < 2; ++r) {
      b.step();
      b.copy({r, b.in, r}, {r, b.out, 0});
      b.step();
      b.reduce({1 - r, b.in, r}, {r, b.out, 0});
    }
    b.step();
    b.copy({0, b.in, 0}, {0, b.scratch, 0});
    b.step();
    b.reduce({1, b.in, other}, {0, b.scratch, 0});
    AlgorithmReport report =
        check(b.moves, makeContract(Collective::ReduceScatter, 2, 1, Reduction::Sum));
    CHECK(report.ok());
    CHECK(report.unevenSafe == (other == 0));
  }
}

TEST_CASE("chunks of another length class are no better in their own shard") {
  InOut b(2, 2, 4);
  for (int64_t k : {1, 0}) { // the second chunk waits in the place of the first
    b.step();
    for (int32_t r = 0; r < 2; ++r)
      for (int32_t q = 0; q < 2; ++q)
        b.copy({r, b.in, k}, {q, b.out, 2 * r + 0});
    if (k == 1) {
      b.step();
      for (int32_t r = 0; r < 2; ++r)
        for (int32_t q = 0; q < 2; ++q)
          b.copy({q, b.out, 2 * r}, {q, b.out, 2 * r + 1});
    }
  }
  AlgorithmReport report = check(b.moves, makeContract(Collective::AllGather, 2, 2));
  CHECK(report.ok());
  CHECK(report.divisible);
  CHECK_FALSE(report.unevenSafe);
}

TEST_CASE("all-to-all: the place of a pair is another's, but on the way back") {
  auto exchange = [](Place waits, Role role) {
    MovesBuilder b;
    b.moves.ranks = 3;
    int32_t in = b.buffer("in", role, 3);
    int32_t out = role == Role::InOut ? in : b.buffer("out", Role::Out, 3);
    int32_t scratch = b.buffer("scratch", Role::Scratch, 3);
    b.step();
    for (int32_t r = 0; r < 3; ++r)
      for (int32_t q = 0; q < 3; ++q)
        if (r != q || role != Role::InOut)
          b.copy({r, in, q}, {q, scratch, r});
    b.step();
    if (waits.rank >= 0) // what 0 sent to 1
      b.copy({1, scratch, 0}, {waits.rank, out, waits.chunk});
    b.step();
    for (int32_t r = 0; r < 3; ++r)
      for (int32_t q = 0; q < 3; ++q)
        if (r != q || role != Role::InOut)
          b.copy({r, scratch, q}, {r, out, q});
    AlgorithmReport report = check(b.moves, makeContract(Collective::AllToAll, 3, 1));
    CHECK(report.ok());
    return report;
  };
  CHECK(exchange({-1, 0, 0}, Role::In).unevenSafe);
  CHECK(exchange({1, 0, 0}, Role::In).unevenSafe);
  CHECK_FALSE(exchange({1, 0, 2}, Role::In).unevenSafe);
  CHECK_FALSE(exchange({2, 0, 1}, Role::In).unevenSafe);
  // There is what 1 sent to 0: of other length, but not if the memory is one.
  CHECK_FALSE(exchange({0, 0, 1}, Role::In).unevenSafe);
  CHECK(exchange({-1, 0, 0}, Role::InOut).unevenSafe);
  CHECK(exchange({0, 0, 1}, Role::InOut).unevenSafe);
  CHECK_FALSE(exchange({0, 0, 2}, Role::InOut).unevenSafe);
  CHECK_FALSE(exchange({2, 0, 1}, Role::InOut).unevenSafe);
}

TEST_CASE("programs: direct and through slots") {
  for (bool own : {true, false}) {
    Program program;
    program.buffers = {{"in", Role::In, 1, 0}, {"out", Role::Out, 2, 1}};
    for (int32_t me = 0; me < 2; ++me) {
      RankProgram rank;
      rank.channels = {{true, 1 - me, 0, 1}, {false, 1 - me, 0, 1}};
      Agent block;
      block.code = {transfer({local(0, 0)}, {channel(0)}),
                    transfer({channel(1)}, {local(1, own ? 1 - me : me)})};
      if (!own)
        block.code.push_back(transfer({local(1, me)}, {local(1, 1 - me)}));
      block.code.push_back(transfer({local(0, 0)}, {local(1, me)}));
      rank.agents = {block};
      program.ranks.push_back(rank);
    }
    ProgramReport report = check(program, makeContract(Collective::AllGather, 2, 1));
    CHECK(report.ok());
    CHECK(report.unevenSafe == own);
  }
}
