// Uneven launches as `ccl run` makes and judges them.

#include "frontend/cli/Measure.h"
#include "runtime/Uneven.h"

#include <doctest/doctest.h>

#include <random>

using namespace ccl;
using namespace ccl::cli;
using model::Collective;
using model::Reduction;

namespace {

using Lists = std::vector<std::vector<int64_t>>;

model::Contract contractOf(Collective collective, int64_t ranks, int64_t root = 0) {
  model::Contract contract;
  contract.collective = collective;
  contract.reduction = model::reduces(collective) ? Reduction::Sum : Reduction::None;
  contract.ranks = ranks;
  contract.root = root;
  return contract;
}

Lists lists(llvm::StringRef text) {
  llvm::Expected<Lists> parsed = parseUneven(text);
  if (parsed)
    return std::move(*parsed);
  llvm::consumeError(parsed.takeError());
  return {};
}

/// The counts, or what is wrong with the text.
std::string countsFor(Collective collective, int64_t ranks, llvm::StringRef text) {
  llvm::Expected<Lengths> lengths = unevenLengths(contractOf(collective, ranks), lists(text));
  if (!lengths)
    return llvm::toString(lengths.takeError());
  std::string counts;
  for (int64_t count : lengths->unevenCounts())
    counts += (counts.empty() ? "" : " ") + std::to_string(count);
  return counts;
}

/// What a shard holds that `from` gave for `to`, element by element.
int32_t element(int64_t from, int64_t to, int64_t i) {
  return int32_t(from * 1000000 + to * 10000 + i);
}

/// The rows of `rank` as the definition of the collective says it, one shard after the other.
std::vector<int32_t> inputOf(const model::Contract &c, const Lengths &lengths, int64_t rank) {
  std::vector<int32_t> row;
  bool gathers = c.inShards() == 1;
  for (int64_t s = 0; s < (gathers ? 1 : c.ranks); ++s)
    for (int64_t i = 0; i < lengths.shard(RowOf::In, rank, s); ++i)
      row.push_back(element(rank, gathers ? 0 : s, i));
  return row;
}

} // namespace

TEST_CASE("lists go around, rows are a matrix") {
  CHECK(lists("0,1,17,4K") == Lists{{0, 1, 17, 4096}});
  CHECK(lists("1,2; 3,4") == Lists{{1, 2}, {3, 4}});
  for (const char *wrong : {"", "1,", "a", "1;;2", "-3"})
    CHECK_MESSAGE(lists(wrong).empty(), wrong);
  CHECK(countsFor(Collective::AllGather, 4, "5") == "5 5 5 5");
  CHECK(countsFor(Collective::Scatter, 4, "1,2,3") == "1 2 3 1");
  CHECK(countsFor(Collective::AllToAll, 2, "1,2,3") == "1 2 3 1");
  CHECK(countsFor(Collective::AllToAll, 2, "1,2;3,4") == "1 2 3 4");
  CHECK(countsFor(Collective::AllToAll, 3, "1,2;3,4") ==
        "3 ranks need 3 rows of 3 numbers, not 2 rows, one of them of 2");
  CHECK(countsFor(Collective::AllToAll, 2, "1,2;3") ==
        "2 ranks need 2 rows of 2 numbers, not 2 rows, one of them of 1");
  CHECK(countsFor(Collective::Gather, 2, "1,2;3,4") ==
        "gather takes one list, not 2: rows are for all_to_all");
  CHECK(countsFor(Collective::Broadcast, 2, "1") ==
        "broadcast has no uneven form: all_gather, reduce_scatter, gather, scatter and "
        "all_to_all have");
}

TEST_CASE("what ranks state agrees, and is what the runtime makes of it") {
  for (Collective collective : {Collective::AllGather, Collective::ReduceScatter,
                                Collective::Gather, Collective::Scatter, Collective::AllToAll}) {
    CAPTURE(model::name(collective));
    model::Contract contract = contractOf(collective, 3);
    Lengths lengths = *unevenLengths(contract, lists("4,0,7,2"));
    Workload workload(contract, ElementType::I32);
    Plan plan;
    plan.contract = contract;
    std::vector<UnevenCounts> stated;
    for (int64_t rank = 0; rank < 3; ++rank)
      stated.push_back(lengths.stated(rank));
    auto shards = UnevenShards::make(plan, stated);
    REQUIRE(bool(shards));
    CHECK(shards->longest() == lengths.count());
    CHECK(lengths.isSymmetric() == !llvm::errorToBool(shards->checkInPlace()));
    for (int64_t rank = 0; rank < 3; ++rank) {
      CallerRows rows = shards->callerRows(rank);
      CHECK(rows.inElements == workload.inElements(rank, lengths));
      CHECK(rows.outElements == workload.outElements(rank, lengths));
      CHECK(rows.inOffset == workload.inOffset(rank, lengths));
      CHECK(rows.outOffset == workload.outOffset(rank, lengths));
    }
  }
}

TEST_CASE("symmetric pairs") {
  model::Contract contract = contractOf(Collective::AllToAll, 2);
  CHECK(unevenLengths(contract, lists("1,2;2,4"))->isSymmetric());
  CHECK_FALSE(unevenLengths(contract, lists("1,2;3,4"))->isSymmetric());
  CHECK(unevenLengths(contractOf(Collective::AllGather, 2), lists("1,2"))->isSymmetric());
  CHECK(Lengths(5).isSymmetric());
}

TEST_CASE("the definitions, for shards of any lengths") {
  std::mt19937 random(3);
  for (Collective collective : {Collective::AllGather, Collective::ReduceScatter,
                                Collective::Gather, Collective::Scatter, Collective::AllToAll})
    for (int round = 0; round < 20; ++round) {
      const int64_t ranks = 1 + round % 5, root = round % ranks;
      CAPTURE(model::name(collective));
      CAPTURE(ranks);
      model::Contract contract = contractOf(collective, ranks, root);
      std::vector<int64_t> counts(
          size_t(collective == Collective::AllToAll ? ranks * ranks : ranks));
      for (int64_t &count : counts)
        count = random() % 3 ? int64_t(random() % 6) : 0;
      Lengths lengths = Lengths::uneven(contract, counts);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        // By hand: the shards that this rank gets, in the order of `out`.
        std::vector<int64_t> want, have;
        auto take = [&](int64_t from, int64_t to, int64_t length) {
          for (int64_t i = 0; i < length; ++i)
            want.push_back(element(from, to, i));
        };
        auto number = [&](int64_t p, int64_t q) { return counts[size_t(p * ranks + q)]; };
        bool isRoot = rank == root;
        switch (collective) {
        case Collective::Gather:
        case Collective::AllGather:
          for (int64_t q = 0; q < ranks && (isRoot || collective == Collective::AllGather); ++q)
            take(q, 0, counts[size_t(q)]);
          break;
        case Collective::Scatter: take(root, rank, counts[size_t(rank)]); break;
        case Collective::AllToAll:
          for (int64_t q = 0; q < ranks; ++q)
            take(q, rank, number(q, rank));
          break;
        default: // the sum over the senders
          for (int64_t i = 0; i < counts[size_t(rank)]; ++i) {
            want.push_back(0);
            for (int64_t q = 0; q < ranks; ++q)
              want.back() += element(q, rank, i);
          }
        }
        for (const Piece &piece : definition(contract, rank, lengths)) {
          CHECK(piece.first == int64_t(have.size()));
          for (int64_t i = 0; i < piece.length; ++i) {
            int64_t sum = 0;
            for (const Piece::Source &source : piece.sources)
              sum += inputOf(contract, lengths, source.rank).at(size_t(source.first + i));
            have.push_back(sum);
          }
        }
        CHECK(have == want);
      }
    }
}

TEST_CASE("memory of uneven launches") {
  model::Contract contract = contractOf(Collective::AllGather, 3);
  Workload workload(contract, ElementType::I32);
  Lengths lengths = *unevenLengths(contract, lists("1,2,4"));
  CHECK(bytesNeeded(workload, lengths, true) == 4 * (7 + 3 * 7));
  CHECK(bytesNeeded(workload, lengths, false) == 4 * (3 * 7));
  Lengths huge = *unevenLengths(contract, lists("4096T,8191T,1"));
  CHECK(bytesNeeded(workload, huge, true) > (int64_t(1) << 56));
  Lengths tooMuch = *unevenLengths(contract, lists("4194304T,4194304T"));
  CHECK(bytesNeeded(workload, tooMuch, true) == INT64_MAX);
}
