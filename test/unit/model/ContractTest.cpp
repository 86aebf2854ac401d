#include "Algorithms.h"

#include <doctest/doctest.h>

using namespace ccl::model;

namespace {

std::vector<Atom> expected(const Contract &contract, int64_t rank, int64_t chunk) {
  std::vector<Atom> out = {{-7, -7}}; // `expected` overwrites
  contract.expected(rank, chunk, out);
  return out;
}

using Atoms = std::vector<Atom>;

} // namespace

TEST_CASE("names are those of the assembly") {
  for (uint32_t i = 0; i <= uint32_t(Collective::Custom); ++i)
    CHECK(parseCollective(name(Collective(i))) == Collective(i));
  for (uint32_t i = 0; i <= uint32_t(Reduction::Bxor); ++i)
    CHECK(parseReduction(name(Reduction(i))) == Reduction(i));
  CHECK(name(Collective::AllToAllV) == "all_to_allv");
  CHECK(name(Role::InOut) == "inout");
  CHECK_FALSE(parseCollective("allreduce"));
  CHECK_FALSE(parseReduction("+"));
  CHECK(makeContract(Collective::AllReduce, 2, 1, Reduction::Sum).str() == "all_reduce sum");
  CHECK(makeContract(Collective::AllGather, 2, 1).str() == "all_gather");
}

TEST_CASE("sizes of in and out") {
  struct Case {
    Collective collective;
    int64_t in, out;
  };
  constexpr int64_t ranks = 3, chunks = 2;
  for (Case c : {Case{Collective::AllReduce, 1, 1}, Case{Collective::AllGather, 1, 3},
                 Case{Collective::ReduceScatter, 3, 1}, Case{Collective::Broadcast, 1, 1},
                 Case{Collective::Reduce, 1, 1}, Case{Collective::Gather, 1, 3},
                 Case{Collective::Scatter, 3, 1}, Case{Collective::AllToAll, 3, 3},
                 Case{Collective::AllToAllV, 3, 3}, Case{Collective::Permute, 1, 1},
                 Case{Collective::Barrier, 0, 0}}) {
    CAPTURE(name(c.collective));
    Contract contract = makeContract(c.collective, ranks, chunks);
    CHECK(contract.inShards() == c.in);
    CHECK(contract.outShards() == c.out);
    CHECK(contract.inChunks() == c.in * chunks);
    CHECK(contract.outChunks() == c.out * chunks);
    CHECK(contract.inOutChunks() == std::max(c.in, c.out) * chunks);
    // Twelve chunks fit one shard and three, fourteen only one.
    auto fits = [&](int64_t shards, int64_t total) {
      return shards && total % shards == 0 ? std::optional(total / shards) : std::nullopt;
    };
    for (int64_t total : {12, 14}) {
      CHECK(contract.chunksFor(Role::In, total) == fits(c.in, total));
      CHECK(contract.chunksFor(Role::Out, total) == fits(c.out, total));
      CHECK(contract.chunksFor(Role::InOut, total) == fits(std::max(c.in, c.out), total));
      CHECK_FALSE(contract.chunksFor(Role::Scratch, total));
    }
    CHECK_FALSE(contract.chunksFor(Role::In, 0));
  }
}

TEST_CASE("what is defined at entry") {
  for (Collective collective : {Collective::Broadcast, Collective::Scatter}) {
    Contract rooted = makeContract(collective, 3, 1, Reduction::None, 2);
    CHECK(rooted.defines(2, 0));
    CHECK_FALSE(rooted.defines(0, 0));
  }
  Contract gather = makeContract(Collective::AllGather, 3, 2);
  CHECK(gather.defines(1, 1));
  CHECK_FALSE(gather.defines(1, 2));
  CHECK_FALSE(gather.defines(3, 0));
  CHECK_FALSE(gather.defines(-1, 0));
}

TEST_CASE("what is promised at exit: 3 ranks, 2 chunks") {
  auto make = [](Collective c, int64_t root = 0) {
    return makeContract(c, 3, 2, reduces(c) ? Reduction::Sum : Reduction::None, root);
  };
  CHECK(expected(make(Collective::AllReduce), 1, 1) == Atoms{{0, 1}, {1, 1}, {2, 1}});
  CHECK(expected(make(Collective::AllGather), 0, 5) == Atoms{{2, 1}});
  CHECK(expected(make(Collective::ReduceScatter), 2, 1) == Atoms{{0, 5}, {1, 5}, {2, 5}});
  CHECK(expected(make(Collective::Broadcast, 1), 2, 1) == Atoms{{1, 1}});
  CHECK(expected(make(Collective::Reduce, 1), 1, 0) == Atoms{{0, 0}, {1, 0}, {2, 0}});
  CHECK(expected(make(Collective::Reduce, 1), 0, 0).empty());
  CHECK(expected(make(Collective::Gather, 2), 2, 3) == Atoms{{1, 1}});
  CHECK(expected(make(Collective::Gather, 2), 1, 3).empty());
  CHECK(expected(make(Collective::Scatter, 1), 2, 1) == Atoms{{1, 5}});
  CHECK(expected(make(Collective::AllToAll), 1, 4) == Atoms{{2, 2}});
  CHECK(expected(make(Collective::AllToAllV), 1, 5) == Atoms{{2, 3}});
  CHECK(expected(make(Collective::Barrier), 0, 0).empty());
  CHECK(expected(make(Collective::AllReduce), 1, 2).empty());
  CHECK(expected(make(Collective::AllReduce), 3, 0).empty());

  Contract permute = make(Collective::Permute);
  permute.targets = {2, 0, 1};
  CHECK(expected(permute, 0, 1) == Atoms{{1, 1}});
  CHECK(expected(permute, 2, 0) == Atoms{{0, 0}});
  permute.targets = {1, 0, -1};
  CHECK(expected(permute, 2, 0).empty());
}

TEST_CASE("custom contracts") {
  Contract custom = makeContract(Collective::Custom, 2, 1);
  CHECK(custom.isUnchecked());
  CHECK(custom.chunksFor(Role::In, 5) == 1);
  custom.customInChunks = 2, custom.customOutChunks = 3;
  custom.rows = {{0, 2, 1, 1}, {1, 0, 0, 0}, {0, 2, 0, 1}};
  CHECK_FALSE(custom.isUnchecked());
  CHECK(custom.inChunks() == 2);
  CHECK(custom.outChunks() == 3);
  CHECK(custom.chunksFor(Role::Out, 3) == 1);
  CHECK_FALSE(custom.chunksFor(Role::Out, 6));
  CHECK(custom.chunksFor(Role::InOut, 3) == 1);
  CHECK(custom.defines(1, 1));
  CHECK_FALSE(custom.defines(1, 2));
  CHECK(expected(custom, 0, 2) == Atoms{{1, 1}, {0, 1}});
  CHECK(expected(custom, 1, 1).empty());
}

TEST_CASE("in place: a rank's own shard of the larger buffer") {
  auto in = [](Collective c) { return makeContract(c, 3, 2).inPosition(2, 1); };
  auto out = [](Collective c) { return makeContract(c, 3, 2).outPosition(2, 1); };
  for (Collective c : {Collective::AllReduce, Collective::Broadcast, Collective::Reduce,
                       Collective::AllToAll, Collective::Permute}) {
    CHECK(in(c) == 1);
    CHECK(out(c) == 1);
  }
  for (Collective c : {Collective::AllGather, Collective::Gather}) {
    CHECK(in(c) == 5);
    CHECK(out(c) == 1);
  }
  for (Collective c : {Collective::ReduceScatter, Collective::Scatter}) {
    CHECK(in(c) == 1);
    CHECK(out(c) == 5);
  }
}

TEST_CASE("chunks cover a shard, and none is longer than the longest") {
  for (int64_t count : {0, 1, 2, 17, 4097})
    for (int64_t chunks : {1, 2, 3, 8}) {
      CHECK(chunkStart(0, count, chunks) == 0);
      CHECK(chunkStart(chunks, count, chunks) == count);
      CHECK(linearStart(3 * chunks, count, chunks) == 3 * count);
      for (int64_t c = 0; c < chunks; ++c) {
        int64_t length = chunkStart(c + 1, count, chunks) - chunkStart(c, count, chunks);
        CHECK(length >= 0);
        CHECK(length <= longestChunk(count, chunks));
      }
    }
}
