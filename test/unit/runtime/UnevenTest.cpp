// Rows of uneven launches: what is refused, where shards lie, and that copying a row to the
// kernel's and back loses nothing.

#include "runtime/Launch.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

using namespace ccl;
using model::Collective;

namespace {

Plan planOf(Collective collective, int64_t ranks, int64_t chunks = 1) {
  Plan plan;
  plan.contract.collective = collective;
  plan.contract.ranks = ranks;
  plan.contract.chunks = chunks;
  plan.buffers = {{"in", model::Role::In, plan.contract.inChunks()},
                  {"out", model::Role::Out, plan.contract.outChunks()}};
  return plan;
}

std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

std::string whyNot(const Plan &plan, const std::vector<UnevenCounts> &counts) {
  auto shards = UnevenShards::make(plan, counts);
  return shards ? "" : textOf(shards.takeError());
}

UnevenShards shardsOf(const Plan &plan, const std::vector<UnevenCounts> &counts) {
  for (size_t r = 0; r < counts.size(); ++r)
    REQUIRE(textOf(checkUneven(plan, int64_t(r), counts[r])) == "");
  auto shards = UnevenShards::make(plan, counts);
  REQUIRE(bool(shards));
  return std::move(*shards);
}

/// What all ranks state of c[p][q].
std::vector<UnevenCounts> statementsOf(const std::vector<std::vector<int64_t>> &matrix) {
  std::vector<UnevenCounts> all(matrix.size());
  for (size_t p = 0; p < matrix.size(); ++p)
    for (size_t q = 0; q < matrix.size(); ++q) {
      all[p].counts.push_back(matrix[p][q]);
      all[p].receives.push_back(matrix[q][p]);
    }
  return all;
}

std::vector<ShardRange> rowOf(const UnevenShards &shards, int64_t rank, bool out, int64_t width) {
  const ShardRange *row = shards.tables()[2 * rank + out];
  return {row, row + width};
}

void apply(const std::vector<ShardCopy> &copies, const std::vector<int> &from, std::vector<int> &to,
           int filler) {
  for (const ShardCopy &copy : copies) {
    REQUIRE(copy.from >= 0);
    REQUIRE(copy.to >= 0);
    REQUIRE(copy.length + copy.pad > 0);
    REQUIRE(size_t(copy.from + copy.length) <= from.size());
    REQUIRE(size_t(copy.to + copy.length + copy.pad) <= to.size());
    std::copy_n(from.begin() + copy.from, copy.length, to.begin() + copy.to);
    std::fill_n(to.begin() + copy.to + copy.length, copy.pad, filler);
  }
}

constexpr int untouched = -1, padding = -2;

std::vector<int> numbered(int64_t elements) {
  std::vector<int> row(static_cast<size_t>(elements));
  std::iota(row.begin(), row.end(), 100);
  return row;
}

} // namespace

TEST_CASE("counts that cannot be are refused") {
  Plan plan = planOf(Collective::AllGather, 3);
  CHECK(textOf(checkUneven(plan, 1, {{1, 2}, {}})) == "rank 1: `counts` has 2 numbers for 3 ranks");
  CHECK(textOf(checkUneven(plan, 1, {{1, 2, -3}, {}})) == "rank 1: the count of shard 2 is -3");
  CHECK(textOf(checkUneven(plan, 1, {{1, INT64_MAX / 2, 3}, {}})) ==
        "rank 1: the count of shard 1 is 4611686018427387903, the limit is 192153584101141162");
  CHECK(textOf(checkUneven(plan, 1, {{1, 2, 3}, {1, 2, 3}})) ==
        "rank 1: `receives` is for all_to_all only, not for all_gather");
  CHECK(textOf(checkUneven(plan, 1, {{0, 0, 0}, {}})) == "");
  Plan reduce = planOf(Collective::AllReduce, 3);
  CHECK(textOf(checkUneven(reduce, 2, {{1, 2, 3}, {}})) ==
        "rank 2: all_reduce has no uneven form; all_gather, reduce_scatter, gather, scatter and "
        "all_to_all have");
  Plan exchange = planOf(Collective::AllToAll, 2);
  CHECK(textOf(checkUneven(exchange, 0, {{1, 2}, {}})) ==
        "rank 0: `receives` has 0 numbers for 2 ranks");
  CHECK(textOf(checkUneven(exchange, 0, {{1, 2}, {1, -1}})) ==
        "rank 0: the count received from rank 1 is -1");
  CHECK(textOf(checkUneven(exchange, 0, {{1, -2}, {1, 1}})) ==
        "rank 0: the count sent to rank 1 is -2");
  CHECK(textOf(checkUneven(exchange, 1, {{1, 2}, {5, 3}})) ==
        "rank 1 sends 2 elements to itself, but expects 3");
}

TEST_CASE("ranks that disagree are named") {
  Plan plan = planOf(Collective::ReduceScatter, 3);
  std::vector<UnevenCounts> counts(3, UnevenCounts{{4, 5, 6}, {}});
  CHECK(whyNot(plan, counts) == "");
  CHECK(whyNot(plan, {counts[0]}) == "");
  CHECK(whyNot(plan, {counts[0], counts[1]}) == "counts of 2 ranks, but 3 take part");
  counts[2].counts[1] = 7;
  CHECK(whyNot(plan, counts) == "rank 2 says that shard 1 has 7 elements, rank 0 says 5");
  auto failed = UnevenShards::make(plan, counts);
  llvm::handleAllErrors(failed.takeError(), [](const RuntimeError &error) {
    CHECK(error.category == Failure::Mismatch);
    CHECK(error.culprit == 2);
  });

  std::vector<UnevenCounts> exchange = statementsOf({{0, 1, 2}, {3, 4, 5}, {6, 7, 8}});
  Plan pairs = planOf(Collective::AllToAllV, 3);
  CHECK(whyNot(pairs, exchange) == "");
  CHECK(whyNot(pairs, {exchange[0]}) == "counts of 1 ranks, but 3 take part");
  exchange[2].receives[1] = 9;
  CHECK(whyNot(pairs, exchange) == "rank 1 sends 5 elements to rank 2, which expects 9 from it");
}

TEST_CASE("in place, an all-to-all is as long there as back") {
  Plan plan = planOf(Collective::AllToAll, 3);
  CHECK(textOf(shardsOf(plan, statementsOf({{7, 1, 2}, {1, 8, 3}, {2, 3, 9}})).checkInPlace()) ==
        "");
  CHECK(textOf(shardsOf(plan, statementsOf({{7, 1, 2}, {1, 8, 3}, {2, 4, 9}})).checkInPlace()) ==
        "in place, ranks send each other equally many elements, but rank 1 sends 3 to rank 2 and "
        "receives 4");
  CHECK(textOf(shardsOf(planOf(Collective::AllGather, 2), {{{1, 2}, {}}}).checkInPlace()) == "");
}

TEST_CASE("all-gather: rows, offsets and copies by hand") {
  Plan plan = planOf(Collective::AllGather, 3, 4);
  UnevenShards shards = shardsOf(plan, {{{5, 0, 2}, {}}});
  CHECK(shards.longest() == 5);
  CHECK(shards.paddedCount() == 5);
  CHECK(shards.total() == 7);
  CallerRows caller = shards.callerRows(2);
  CHECK(caller.inElements == 2);
  CHECK(caller.outElements == 7);
  CHECK(caller.inOffset == 5);
  CHECK(caller.outOffset == 0);

  KernelRows packed = shards.kernelRows(2, false);
  CHECK(packed.inElements == 2);
  CHECK(packed.outElements == 7);
  CHECK(packed.wholeElements == 7);
  CHECK(packed.inBase == 5);
  CHECK(packed.outBase == 0);
  CHECK(packed.callersIn);
  CHECK(packed.callersOut);
  CHECK(shards.copyIn(2, false, false) == std::vector<ShardCopy>{{0, 0, 2, 0}});
  CHECK(shards.copyOut(2, false, false) == std::vector<ShardCopy>{{0, 0, 7, 0}});
  CHECK(shards.copyIn(2, false, true) == std::vector<ShardCopy>{{0, 5, 2, 0}});
  CHECK(shards.copyIn(1, false, false).empty());

  KernelRows padded = shards.kernelRows(2, true);
  CHECK_FALSE(padded.callersIn);
  CHECK_FALSE(padded.callersOut);
  CHECK(padded.inElements == 5);
  CHECK(padded.wholeElements == 15);
  CHECK(padded.inBase == 10);
  CHECK(shards.copyIn(2, true, false) == std::vector<ShardCopy>{{0, 0, 2, 3}});
  CHECK(shards.copyIn(2, true, true) == std::vector<ShardCopy>{{0, 10, 2, 3}});
  CHECK(shards.copyOut(2, true, false) == std::vector<ShardCopy>{{0, 0, 5, 0}, {10, 5, 2, 0}});

  plan.divisible = true;
  CHECK(shardsOf(plan, {{{5, 0, 2}, {}}}).paddedCount() == 8);
  CHECK(shardsOf(plan, {{{0, 0, 0}, {}}}).paddedCount() == 0);
}

TEST_CASE("tables and copies of every collective, with rows of any width") {
  std::mt19937 random(5);
  for (Collective collective : {Collective::AllGather, Collective::Gather, Collective::Scatter,
                                Collective::ReduceScatter, Collective::AllToAll})
    for (int64_t ranks : {1, 2, 3, 5, 8})
      for (int round = 0; round < 24; ++round) {
        CAPTURE(model::name(collective));
        CAPTURE(ranks);
        CAPTURE(round);
        Plan plan = planOf(collective, ranks, 1 + round % 3);
        plan.divisible = round % 2;
        if (round % 4 == 3) // programs that collect for others in their own rows
          for (BufferPlan &buffer : plan.buffers)
            buffer.chunks = ranks * plan.contract.chunks;
        bool exchange = collective == Collective::AllToAll;
        std::vector<std::vector<int64_t>> matrix;
        for (int64_t p = 0; p < ranks; ++p) {
          matrix.emplace_back();
          for (int64_t q = 0; q < ranks; ++q)
            matrix[size_t(p)].push_back(random() % 3 ? int64_t(random() % 9) : 0);
        }
        UnevenShards made =
            shardsOf(plan, exchange ? statementsOf(matrix)
                                    : std::vector<UnevenCounts>{{matrix.front(), {}}});
        UnevenShards shards = std::move(made); // tables survive
        CHECK(shards.paddedCount() >= shards.longest());
        if (plan.divisible)
          CHECK(shards.paddedCount() % plan.contract.chunks == 0);
        auto lengthOf = [&](bool out, int64_t rank, int64_t s) {
          return !exchange ? matrix[0][size_t(s)]
                 : out     ? matrix[size_t(s)][size_t(rank)]
                           : matrix[size_t(rank)][size_t(s)];
        };
        for (int64_t rank = 0; rank < ranks; ++rank) {
          CallerRows caller = shards.callerRows(rank);
          for (bool out : {false, true}) {
            int64_t shardsOfCaller = out ? plan.contract.outShards() : plan.contract.inShards();
            int64_t width = plan.buffers[out].chunks / plan.contract.chunks;
            bool narrow = shardsOfCaller < ranks;
            std::vector<ShardRange> row = rowOf(shards, rank, out, width), whole;
            int64_t start = 0, before = 0;
            for (int64_t s = 0; s < ranks; ++s) {
              whole.push_back({start, lengthOf(out, rank, s)});
              before += s < rank ? lengthOf(out, rank, s) : 0;
              start += lengthOf(out, rank, s);
            }
            for (int64_t s = 0; s < width; ++s) {
              CHECK(row[size_t(s)].start == (width < ranks ? 0 : whole[size_t(s)].start));
              CHECK(row[size_t(s)].length == lengthOf(out, rank, width < ranks ? rank : s));
            }
            int64_t elements = out ? caller.outElements : caller.inElements;
            CHECK(elements == (narrow ? lengthOf(out, rank, rank) : start));
            CHECK((out ? caller.outOffset : caller.inOffset) == (narrow ? before : 0));
            if (narrow)
              whole = {{before, lengthOf(out, rank, rank)}};

            for (bool padded : {false, true}) {
              KernelRows kernel = shards.kernelRows(rank, padded);
              const int64_t pitch = shards.paddedCount();
              CHECK((out ? kernel.callersOut : kernel.callersIn) ==
                    (!padded && width == shardsOfCaller));
              int64_t base = out ? kernel.outBase : kernel.inBase;
              CHECK(base == (width == ranks ? 0 : padded ? rank * pitch : before));
              CHECK(base + (out ? kernel.outElements : kernel.inElements) <= kernel.wholeElements);
              if (out)
                continue;
              // In: what the caller gave lies where the kernel looks for it.
              std::vector<int> given = numbered(elements);
              std::vector<int> mine(size_t(kernel.inElements), untouched);
              apply(shards.copyIn(rank, padded, false), given, mine, padding);
              std::vector<int> larger(size_t(kernel.wholeElements), untouched);
              apply(shards.copyIn(rank, padded, true), given, larger, padding);
              for (int64_t s = 0; s < shardsOfCaller; ++s) {
                int64_t shard = narrow ? rank : s, length = lengthOf(false, rank, shard);
                int64_t inRow = padded ? shard * pitch : (narrow ? before : whole[size_t(s)].start);
                int64_t inMine = width < ranks ? 0 : inRow;
                int64_t inCaller = narrow ? 0 : whole[size_t(s)].start;
                for (int64_t i = 0; i < (padded ? pitch : length); ++i) {
                  int want = i < length ? given[size_t(inCaller + i)] : padding;
                  CHECK(mine[size_t(inMine + i)] == want);
                  CHECK(larger[size_t(inRow + i)] == want);
                }
              }
            }
          }
          // Out: the caller's row comes from the same places, all of it.
          for (bool padded : {false, true})
            for (bool larger : {false, true}) {
              KernelRows kernel = shards.kernelRows(rank, padded);
              std::vector<int> row = numbered(larger ? kernel.wholeElements : kernel.outElements);
              std::vector<int> result(size_t(caller.outElements), untouched);
              apply(shards.copyOut(rank, padded, larger), row, result, padding);
              int64_t to = 0, start = 0;
              bool narrow = plan.contract.outShards() < ranks;
              int64_t width = plan.buffers[1].chunks / plan.contract.chunks;
              for (int64_t s = 0; s < ranks; ++s) {
                int64_t length = lengthOf(true, rank, s);
                if (!narrow || s == rank) {
                  int64_t from = padded ? s * shards.paddedCount() : start;
                  if (width < ranks && !larger)
                    from = 0;
                  for (int64_t i = 0; i < length; ++i)
                    CHECK(result[size_t(to++)] == row[size_t(from + i)]);
                }
                start += length;
              }
              CHECK(to == caller.outElements);
            }
        }
      }
}

TEST_CASE("packed or padded: what a launch chooses") {
  std::vector<char> in(4096), out(4096);
  auto shapeOf = [&](const Plan &plan, const UnevenShards &shards, bool same) {
    LaunchArgs args;
    args.in = in.data();
    args.out = same ? in.data() : out.data();
    auto facts = findFacts(plan, 0);
    REQUIRE(bool(facts));
    return findShape(plan, *facts, 0, args, 4096, &shards);
  };
  Plan plan = planOf(Collective::AllToAll, 2, 2);
  UnevenShards there = shardsOf(plan, statementsOf({{1, 5}, {5, 2}}));
  UnevenShards apart = shardsOf(plan, statementsOf({{1, 5}, {4, 2}}));
  for (bool safe : {true, false}) {
    plan.unevenSafe = safe;
    CHECK(shapeOf(plan, apart, false)->packed == safe);
    CHECK(shapeOf(plan, apart, false)->runCount == 5);
    CHECK(shapeOf(plan, there, true)->packed == safe);
  }
  plan.unevenSafe = true;
  CHECK(textOf(shapeOf(plan, apart, true).takeError()) ==
        "in place, ranks send each other equally many elements, but rank 0 sends 5 to rank 1 and "
        "receives 4");
  // Right in place only: one row is cut for both directions, if they are as long.
  plan.disjointProved = false;
  plan.inPlaceProved = true;
  CHECK(shapeOf(plan, there, false)->runInPlace);
  CHECK(shapeOf(plan, there, false)->packed);
  CHECK_FALSE(shapeOf(plan, apart, false)->packed);
  plan.divisible = true;
  UnevenShards whole = shardsOf(plan, statementsOf({{1, 5}, {5, 2}}));
  CHECK_FALSE(shapeOf(plan, whole, false)->packed);
  CHECK(shapeOf(plan, whole, false)->runCount == 6);
}
