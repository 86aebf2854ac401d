//===- CommunicatorTest.cpp - Launches that go right ------------------------===//
#include "test/unit/runtime/Buffers.h"
#include "test/unit/runtime/Programs.h"

#include <doctest/doctest.h>

#include <atomic>

using namespace ccl;
using namespace ccl::test;

namespace {

void checkSuccess(llvm::Error error) { CHECK(llvm::toString(std::move(error)) == ""); }

constexpr int64_t countsToTry[] = {0, 1, 2, 17, 4097};

Team makeCommunicator(int64_t ranks, int64_t slotBytes = 1024) {
  MemberOptions options;
  options.slotBytes = slotBytes;
  return makeTeam(ranks, options);
}

/// Launches an all-reduce as `rank`; the number of wrong elements and torn red zones.
llvm::Expected<int64_t> allReduce(Member &member, const std::shared_ptr<LoadedProgram> &program,
                                  int64_t count, bool inPlace, int64_t launch) {
  Guarded in(count), out(count);
  for (int64_t i = 0; i < count; ++i)
    in[i] = inputOf(member.rank(), i, launch);
  LaunchArgs args;
  args.in = in.data();
  args.out = inPlace ? in.data() : out.data();
  args.count = count;
  if (llvm::Error e = member.launch(program, args))
    return e;
  int64_t wrong = !in.isIntact() + !out.isIntact();
  Guarded &result = inPlace ? in : out;
  for (int64_t i = 0; i < count; ++i)
    wrong += result[i] != sumOf(member.ranks(), i, launch);
  for (int64_t i = 0; i < count && !inPlace; ++i)
    wrong += in[i] != inputOf(member.rank(), i, launch);
  return wrong;
}

llvm::Expected<int64_t> allGather(Member &member, const std::shared_ptr<LoadedProgram> &program,
                                  int64_t count, bool inPlace, int64_t launch) {
  const int64_t n = member.ranks();
  Guarded in(count), out(n * count);
  int32_t *from = inPlace ? out.data() + member.rank() * count : in.data();
  for (int64_t i = 0; i < count; ++i)
    from[i] = inputOf(member.rank(), i, launch);
  LaunchArgs args;
  args.in = from;
  args.out = out.data();
  args.count = count;
  if (llvm::Error e = member.launch(program, args))
    return e;
  int64_t wrong = !in.isIntact() + !out.isIntact();
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = 0; i < count; ++i)
      wrong += out[r * count + i] != inputOf(r, i, launch);
  return wrong;
}

using Collective = llvm::Expected<int64_t> (*)(Member &, const std::shared_ptr<LoadedProgram> &,
                                               int64_t, bool, int64_t);

/// Every count, in place and not, back to back; returns what was wrong.
int64_t runAll(Collective collective, int64_t ranks, const std::shared_ptr<LoadedProgram> &program,
               int64_t slotBytes = 1024) {
  auto communicator = makeCommunicator(ranks, slotBytes);
  std::atomic<int64_t> wrong{0};
  llvm::Error error = onEveryRank(ranks, [&](int64_t rank) -> llvm::Error {
    int64_t launch = 0;
    for (bool inPlace : {false, true})
      for (int64_t count : countsToTry) {
        auto result = collective(communicator[rank], program, count, inPlace, launch++);
        if (!result)
          return result.takeError();
        wrong += *result;
      }
    return llvm::Error::success();
  });
  checkSuccess(std::move(error));
  return wrong;
}

} // namespace

TEST_CASE("ring all-reduce through slots, any number of ranks and elements") {
  for (int64_t ranks : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    CAPTURE(ranks);
    CHECK(runAll(allReduce, ranks, ringAllReduce(ranks)) == 0);
  }
}

TEST_CASE("direct all-gather by signals") {
  for (int64_t ranks : {1, 2, 3, 4, 8, 16}) {
    CAPTURE(ranks);
    CHECK(runAll(allGather, ranks, directAllGather(ranks)) == 0);
  }
}

TEST_CASE("tiny and odd slots only mean more micro-batches") {
  for (int64_t slotBytes : {1, 64, 100, 4096})
    CHECK(runAll(allReduce, 3, ringAllReduce(3), slotBytes) == 0);
  CHECK(runAll(allReduce, 4, ringAllReduce(4, 5)) == 0);
}

TEST_CASE("back-to-back launches of different programs and sizes") {
  constexpr int64_t ranks = 4;
  auto communicator = makeCommunicator(ranks);
  // Same channels for both rings; others for the third.
  const auto ring = ringAllReduce(ranks), again = ringAllReduce(ranks),
             wide = ringAllReduce(ranks, 3), gather = directAllGather(ranks);
  std::atomic<int64_t> wrong{0};
  llvm::Error error = onEveryRank(ranks, [&](int64_t rank) -> llvm::Error {
    for (int64_t i = 0; i < 2000; ++i) {
      const int64_t count = i * 37 % 601;
      const auto &program = i % 3 == 0 ? ring : i % 3 == 1 ? wide : again;
      auto result = i % 4 == 3 ? allGather(communicator[rank], gather, count, i % 8 == 3, i)
                               : allReduce(communicator[rank], program, count, i % 2 == 0, i);
      if (!result)
        return result.takeError();
      wrong += *result;
    }
    return llvm::Error::success();
  });
  checkSuccess(std::move(error));
  CHECK(wrong == 0);
}

TEST_CASE("programs come and go") {
  constexpr int64_t ranks = 2;
  auto communicator = makeCommunicator(ranks);
  for (int64_t i = 0; i < 200; ++i) {
    const auto program = ringAllReduce(ranks, 2 + int32_t(i % 2));
    std::atomic<int64_t> wrong{0};
    checkSuccess(onEveryRank(ranks, [&](int64_t rank) -> llvm::Error {
      auto result = allReduce(communicator[rank], program, 33, false, i);
      if (!result)
        return result.takeError();
      wrong += *result;
      return llvm::Error::success();
    }));
    CHECK(wrong == 0);
  }
}

TEST_CASE("a divisible program gets padded buffers") {
  for (int64_t ranks : {2, 3, 7}) {
    Plan plan = ringAllReducePlan(ranks);
    plan.divisible = true;
    const auto program = ringAllReduce(std::move(plan));
    CHECK(runAll(allReduce, ranks, program) == 0);
    CHECK(ringSaw.count % ranks == 0);
  }
}

TEST_CASE("a form without proof runs through stand-ins") {
  for (bool inPlace : {false, true}) {
    Plan plan = ringAllReducePlan(4);
    plan.disjointProved = inPlace;
    plan.inPlaceProved = !inPlace;
    CHECK(runAll(allReduce, 4, ringAllReduce(std::move(plan))) == 0);
  }
}

TEST_CASE("ranks without a result need no `out`, and theirs stays untouched") {
  constexpr int64_t ranks = 3, count = 700;
  for (int64_t root : {0, 1}) {
    const auto program = starGather(ranks, root);
    auto communicator = makeCommunicator(ranks);
    for (bool inPlace : {false, true}) {
      std::atomic<int64_t> wrong{0};
      llvm::Error error = onEveryRank(ranks, [&](int64_t rank) -> llvm::Error {
        Guarded in(count), out(ranks * count);
        int32_t *from = inPlace && rank == root ? out.data() + rank * count : in.data();
        for (int64_t i = 0; i < count; ++i)
          from[i] = inputOf(rank, i, 0);
        LaunchArgs args;
        args.in = from;
        args.out = rank == root ? out.data() : rank == 2 ? in.data() : nullptr;
        args.count = count;
        if (llvm::Error e = communicator[rank].launch(program, args))
          return e;
        wrong += !in.isIntact() + !out.isIntact();
        for (int64_t i = 0; i < ranks * count && rank == root; ++i)
          wrong += out[i] != inputOf(i / count, i % count, 0);
        for (int64_t i = 0; i < count && rank != root; ++i)
          wrong += in[i] != inputOf(rank, i, 0);
        return llvm::Error::success();
      });
      checkSuccess(std::move(error));
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a barrier runs although it moves nothing") {
  auto communicator = makeCommunicator(4);
  const auto program = countingBarrier(4);
  barrierRuns = 0;
  checkSuccess(onEveryRank(
      4, [&](int64_t rank) { return communicator[rank].launch(program, LaunchArgs{}); }));
  CHECK(barrierRuns == 4);
}

TEST_CASE("the caller can ask for more micro-batches, not for fewer") {
  auto communicator = makeCommunicator(2, 1024);
  const auto program = ringAllReduce(2);
  auto launch = [&](int64_t microBatches) {
    std::vector<int32_t> memory(2048, 1);
    checkSuccess(onEveryRank(2, [&](int64_t rank) {
      LaunchArgs args;
      args.in = args.out = memory.data() + 1024 * rank;
      args.count = 1024;
      args.microBatches = microBatches;
      return communicator[rank].launch(program, args);
    }));
    CHECK(memory[5] == 2);
    return ringSaw.microBatches.load();
  };
  CHECK(launch(0) == 2);
  CHECK(launch(1) == 2);
  CHECK(launch(3) == 3);
  CHECK(launch(1000) == 1000);
}

TEST_CASE("onEveryRank joins what is different") {
  checkSuccess(onEveryRank(0, [](int64_t) { return llvm::Error::success(); }));
  const auto text = llvm::toString(onEveryRank(5, [](int64_t rank) -> llvm::Error {
    if (rank == 0)
      return llvm::Error::success();
    return llvm::make_error<RuntimeError>(Failure::Machine, rank == 3 ? "three" : "other");
  }));
  CHECK(text == "other\nthree");
}
