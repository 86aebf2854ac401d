//===- WorkloadTest.cpp - The judge is judged ---------------------------------===//
//
// A checker that finds nothing is worse than none: here collectives are executed by a
// few obvious lines, once rightly and once with each mistake that must be found.
//===----------------------------------------------------------------------===//
#include "frontend/cli/Measure.h"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <cstring>

using namespace ccl;
using namespace ccl::cli;
using model::Collective;
using model::Reduction;

namespace {

model::Contract contractOf(Collective collective, Reduction reduction, int64_t ranks) {
  model::Contract contract;
  contract.collective = collective;
  contract.reduction = reduction;
  contract.ranks = ranks;
  return contract;
}

/// What the members of a communicator share that is not one: threads that meet.
struct Meeting {
  explicit Meeting(int64_t ranks) : barrier(ranks), all(size_t(ranks)), words(size_t(ranks)) {}
  std::barrier<> barrier;
  std::vector<LaunchArgs> all;
  std::vector<Member::Words> words;
  std::atomic<bool> aborted = false;
};

/// A rank of a collective that is as good as what `launch` does.
class Obvious : public Member {
public:
  Obvious(Meeting &meeting, int64_t rank) : meeting(meeting), me(rank) {}
  int64_t rank() const override { return me; }
  int64_t ranks() const override { return int64_t(meeting.all.size()); }
  bool isDirect() const override { return true; }
  llvm::Expected<std::vector<Words>> exchange(const Words &mine, Milliseconds) override {
    meeting.words[size_t(me)] = mine;
    meeting.barrier.arrive_and_wait();
    std::vector<Words> all = meeting.words;
    meeting.barrier.arrive_and_wait();
    if (meeting.aborted)
      return llvm::make_error<RuntimeError>(Failure::Aborted, "aborted");
    return all;
  }
  llvm::Expected<SymmetricBuffer> allocate(int64_t, Milliseconds) override { return none(); }
  llvm::Expected<std::unique_ptr<Member>> split(int64_t, int64_t, Milliseconds) override {
    return none();
  }
  llvm::Expected<std::unique_ptr<Member>> rebuild(Milliseconds) override { return none(); }
  llvm::Error fail(llvm::Error error) override {
    abort("");
    return error;
  }
  void abort(std::string) override {
    meeting.aborted = true;
    meeting.barrier.arrive_and_drop();
  }
  std::optional<RuntimeError> failure() const override { return std::nullopt; }
  std::optional<std::string> notRunning(int64_t) const override { return std::nullopt; }

protected:
  static llvm::Error none() {
    return llvm::make_error<RuntimeError>(Failure::BadArgument, "not here");
  }
  Meeting &meeting;
  const int64_t me;
};

using Spoil = std::function<void(int64_t rank, const LaunchArgs &args)>;

/// Executes all_gather or all_reduce sum of int32, then lets `spoil` do damage.
class Adding : public Obvious {
public:
  Adding(Meeting &meeting, int64_t rank, bool gathers, const Spoil &spoil)
      : Obvious(meeting, rank), gathers(gathers), spoil(spoil) {}
  llvm::Error launch(const std::shared_ptr<LoadedProgram> &, const LaunchArgs &args) override {
    meeting.all[size_t(me)] = args;
    meeting.barrier.arrive_and_wait();
    std::vector<int32_t> result(size_t(args.count * (gathers ? ranks() : 1)));
    for (int64_t q = 0; q < ranks(); ++q)
      for (int64_t i = 0; i < args.count; ++i)
        result[size_t(gathers ? q * args.count + i : i)] +=
            static_cast<const int32_t *>(meeting.all[size_t(q)].in)[i];
    meeting.barrier.arrive_and_wait();
    std::memcpy(args.out, result.data(), result.size() * sizeof(int32_t));
    if (spoil)
      spoil(me, args);
    return llvm::Error::success();
  }

private:
  const bool gathers;
  const Spoil &spoil;
};

int64_t wrongIn(Collective collective, bool inPlace, const Spoil &spoil = {}) {
  model::Contract contract = contractOf(
      collective, collective == Collective::AllReduce ? Reduction::Sum : Reduction::None, 3);
  Workload workload(contract, ElementType::I32);
  MeasureOptions options;
  options.outOfPlace = !inPlace;
  options.inPlace = inPlace;
  options.iterations = options.warmup = 2;
  options.checks = 2;
  Meeting meeting(3);
  int64_t wrong = -1, firstResults = 0;
  llvm::Error error = onEveryRank(3, [&](int64_t rank) {
    Adding member(meeting, rank, collective == Collective::AllGather, spoil);
    RankBuffers buffers;
    return measure(
        member, nullptr, workload, {5}, options, buffers, [&] { ++firstResults; },
        [&](const Measurement &measurement) { wrong = measurement.wrong; });
  });
  CHECK_FALSE(llvm::errorToBool(std::move(error)));
  CHECK(firstResults == 1);
  return wrong;
}

int32_t *outOf(const LaunchArgs &args) { return static_cast<int32_t *>(args.out); }

TEST_CASE("a right collective has nothing wrong") {
  for (bool inPlace : {false, true}) {
    CHECK(wrongIn(Collective::AllReduce, inPlace) == 0);
    CHECK(wrongIn(Collective::AllGather, inPlace) == 0);
  }
}

TEST_CASE("every mistake is counted, in every round") {
  auto onRankOne = [](auto damage) {
    return [damage](int64_t rank, const LaunchArgs &args) {
      if (rank == 1)
        damage(args);
    };
  };
  for (bool inPlace : {false, true}) {
    CAPTURE(inPlace);
    CHECK(wrongIn(Collective::AllReduce, inPlace,
                  onRankOne([](const LaunchArgs &a) { outOf(a)[4] += 1; })) == 2);
    CHECK(wrongIn(Collective::AllReduce, inPlace,
                  onRankOne([](const LaunchArgs &a) { outOf(a)[5] = 0; })) == 2);
    CHECK(wrongIn(Collective::AllReduce, inPlace,
                  onRankOne([](const LaunchArgs &a) { outOf(a)[-1] = 0; })) == 2);
    CHECK(wrongIn(Collective::AllReduce, inPlace,
                  onRankOne([](const LaunchArgs &a) { outOf(a)[5 + 63] = 0; })) == 2);
    CHECK(wrongIn(Collective::AllGather, inPlace,
                  onRankOne([](const LaunchArgs &a) { outOf(a)[14] -= 1; })) == 2);
  }
  CHECK(wrongIn(Collective::AllReduce, false, onRankOne([](const LaunchArgs &a) {
                  const_cast<int32_t *>(static_cast<const int32_t *>(a.in))[2] += 1;
                })) >= 2);
}

TEST_CASE("a missing write shows") {
  Workload workload(contractOf(Collective::Broadcast, Reduction::None, 2), ElementType::I32);
  GuardedBuffer buffer(400);
  char *data = buffer.place(400);
  buffer.poison();
  CHECK(workload.countWrong(1, 0, 100, data) == 100);
  workload.fill(0, 0, 0, 99, data);
  CHECK(workload.countWrong(1, 0, 100, data) == 1);
  workload.fill(0, 0, 0, 100, data);
  CHECK(workload.countWrong(1, 0, 100, data) == 0);
  CHECK(workload.countWrong(1, 1, 100, data) > 0); // last round's result
  CHECK(buffer.countDamaged(4) == 0);
  data[400] ^= 1;
  data[-1] ^= 1;
  CHECK(buffer.countDamaged(4) == 2);
}

TEST_CASE("an error of one rank ends all") {
  class Failing : public Obvious {
  public:
    using Obvious::Obvious;
    const void *in = nullptr;
    llvm::Error launch(const std::shared_ptr<LoadedProgram> &, const LaunchArgs &args) override {
      in = args.in;
      if (me == 2)
        return llvm::make_error<RuntimeError>(Failure::Machine, "no");
      return llvm::Error::success();
    }
  };
  Workload workload(contractOf(Collective::AllReduce, Reduction::Sum, 3), ElementType::I32);
  Meeting meeting(3);
  std::atomic<int> failed = 0;
  bool kept = false;
  std::vector<RankBuffers> all(3);
  llvm::Error error = onEveryRank(3, [&](int64_t rank) {
    Failing member(meeting, rank);
    RankBuffers &buffers = all[size_t(rank)];
    llvm::Error mine =
        measure(member, nullptr, workload, {5}, {}, buffers, [] {}, [](const Measurement &) {});
    failed += bool(mine);
    if (rank == 2) // others may still be using it
      kept = member.in == buffers.first.data();
    return mine;
  });
  CHECK(llvm::errorToBool(std::move(error)));
  CHECK(failed == 3);
  CHECK(kept);
  CHECK(meeting.aborted);
}

/// What `out` of rank 1 must hold, written as rank * 10 + shard.
std::vector<std::vector<int64_t>> sourcesOf(Collective collective) {
  model::Contract contract =
      contractOf(collective, model::reduces(collective) ? Reduction::Sum : Reduction::None, 3);
  contract.root = 1;
  contract.targets = {1, 2, 0};
  std::vector<std::vector<int64_t>> all;
  for (const Piece &piece : definition(contract, 1, 7)) {
    CHECK(piece.length == 7);
    CHECK(piece.first == 7 * int64_t(all.size()));
    all.emplace_back();
    for (const Piece::Source &source : piece.sources)
      all.back().push_back(source.rank * 10 + source.first / 7);
  }
  return all;
}

TEST_CASE("the definitions of the collectives") {
  using Sources = std::vector<std::vector<int64_t>>;
  CHECK(sourcesOf(Collective::AllReduce) == Sources{{0, 10, 20}});
  CHECK(sourcesOf(Collective::Reduce) == Sources{{0, 10, 20}});
  CHECK(sourcesOf(Collective::ReduceScatter) == Sources{{1, 11, 21}});
  CHECK(sourcesOf(Collective::AllGather) == Sources{{0}, {10}, {20}});
  CHECK(sourcesOf(Collective::Gather) == Sources{{0}, {10}, {20}});
  CHECK(sourcesOf(Collective::AllToAll) == Sources{{1}, {11}, {21}});
  CHECK(sourcesOf(Collective::Broadcast) == Sources{{10}});
  CHECK(sourcesOf(Collective::Scatter) == Sources{{11}});
  CHECK(sourcesOf(Collective::Permute) == Sources{{0}});
  CHECK(sourcesOf(Collective::Barrier) == Sources{});
}

TEST_CASE("sums of inputs are exact in every order") {
  constexpr int64_t ranks = 512, length = 1000;
  Workload workload(contractOf(Collective::AllReduce, Reduction::Sum, ranks), ElementType::F32);
  std::vector<float> input(length), up(length), down(length);
  for (int64_t r = 0; r < ranks; ++r) {
    workload.fill(r, 3, 0, length, input.data());
    for (int64_t i = 0; i < length; ++i)
      up[size_t(i)] += input[size_t(i)];
    workload.fill(ranks - 1 - r, 3, 0, length, input.data());
    for (int64_t i = 0; i < length; ++i)
      down[size_t(i)] += input[size_t(i)];
  }
  CHECK(up == down);
  CHECK(workload.countWrong(5, 3, length, up.data()) == 0);
}

} // namespace
