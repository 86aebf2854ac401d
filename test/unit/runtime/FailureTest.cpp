//===- FailureTest.cpp - Launches that go wrong -----------------------------===//
#include "test/unit/runtime/Programs.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

using namespace ccl;
using namespace ccl::test;

namespace {

void checkSuccess(llvm::Error error) { CHECK(llvm::toString(std::move(error)) == ""); }

struct Outcome {
  bool failed = false;
  Failure category = Failure::Machine;
  std::string message;
  bool says(std::string_view text) const { return message.find(text) != std::string::npos; }
};

Outcome outcomeOf(llvm::Error error) {
  Outcome outcome;
  llvm::handleAllErrors(std::move(error),
                        [&](const RuntimeError &e) { outcome = {true, e.category, e.message}; });
  return outcome;
}

Team makeCommunicator(int64_t ranks, MemberOptions options = {}) {
  return makeTeam(ranks, options);
}

/// Each rank's outcome of body(rank, args); args have buffers of 64 elements.
template <typename Body>
std::vector<Outcome> runEach(int64_t ranks, Body body) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  checkSuccess(onEveryRank(ranks, [&](int64_t rank) {
    std::vector<int32_t> in(64, 1), out(64);
    LaunchArgs args;
    args.in = in.data();
    args.out = out.data();
    args.count = 64;
    outcomes[size_t(rank)] = outcomeOf(body(rank, args));
    return llvm::Error::success();
  }));
  return outcomes;
}

void checkAll(const std::vector<Outcome> &outcomes, Failure category, std::string_view text) {
  for (const Outcome &outcome : outcomes) {
    INFO(outcome.message);
    CHECK(outcome.failed);
    CHECK(outcome.category == category);
    CHECK(outcome.says(text));
    CHECK(outcome.message == outcomes[0].message);
  }
}

} // namespace

TEST_CASE("ranks that disagree all learn who wanted what") {
  const auto ring = ringAllReduce(4);
  auto runWith = [&](auto change) {
    auto communicator = makeCommunicator(4);
    return runEach(4, [&](int64_t rank, LaunchArgs args) {
      std::shared_ptr<LoadedProgram> program = ring;
      if (rank == 2)
        change(program, args);
      return communicator[rank].launch(program, args);
    });
  };
  checkAll(runWith([](auto &, LaunchArgs &args) { args.count = 63; }), Failure::Mismatch,
           "operation 1: ranks 0 and 2 disagree on the count: 64 and 63");
  checkAll(runWith([](auto &, LaunchArgs &args) { args.count = 0; }), Failure::Mismatch,
           "count: 64 and 0");
  checkAll(runWith([](auto &, LaunchArgs &args) { args.in = args.out; }), Failure::Mismatch,
           "ranks 0 and 2 disagree on the form: out of place and in place");
  checkAll(runWith([](auto &, LaunchArgs &args) { args.microBatches = 9; }), Failure::Mismatch,
           "micro-batches: 1 and 9");
  checkAll(runWith([](auto &program, LaunchArgs &) {
             Plan plan = ringAllReducePlan(4);
             plan.hash = "beef";
             program = ringAllReduce(plan);
           }),
           Failure::Mismatch, "program: ring (hash ring4) and ring (hash beef)");
  checkAll(runWith([](auto &program, LaunchArgs &) {
             Plan plan = ringAllReducePlan(4);
             plan.contract.reduction = model::Reduction::Max;
             program = ringAllReduce(plan);
           }),
           Failure::Mismatch, "reduction: sum and max");
  checkAll(runWith([](auto &program, LaunchArgs &) {
             Plan plan = ringAllReducePlan(4);
             plan.type = ElementType::F32;
             program = ringAllReduce(plan);
           }),
           Failure::Mismatch, "element type: int32 and float");
  checkAll(runWith([](auto &program, LaunchArgs &args) {
             program = starGather(4, 0);
             args.count = 1;
           }),
           Failure::Mismatch, "collective: all_reduce and gather");
}

TEST_CASE("a rank that never comes is named within the deadline") {
  auto communicator = makeCommunicator(4);
  const auto ring = ringAllReduce(4);
  const auto begin = std::chrono::steady_clock::now();
  const auto outcomes = runEach(4, [&](int64_t rank, LaunchArgs args) {
    args.timeout = std::chrono::milliseconds(100);
    return rank == 2 ? llvm::Error::success() : communicator[rank].launch(ring, args);
  });
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  CHECK(elapsed >= std::chrono::milliseconds(100));
  CHECK(elapsed < std::chrono::seconds(10));
  CHECK_FALSE(outcomes[2].failed);
  checkAll({outcomes[0], outcomes[1], outcomes[3]}, Failure::Timeout,
           "timed out after 100 ms in launch 1 of ring (hash ring4, all_reduce sum int32), at its "
           "entry: rank 2 did not come");
  // It comes at last, and is not left waiting.
  std::vector<int32_t> in(64), out(64);
  LaunchArgs args;
  args.in = in.data();
  args.out = out.data();
  args.count = 64;
  CHECK(outcomeOf(communicator[2].launch(ring, args)).message == outcomes[0].message);
}

TEST_CASE("a signal that never comes is described") {
  auto communicator = makeCommunicator(2);
  const auto program = stuck(2);
  const auto outcomes = runEach(2, [&](int64_t rank, LaunchArgs args) {
    args.timeout = std::chrono::milliseconds(50);
    return communicator[rank].launch(program, args);
  });
  checkAll({outcomes[0]}, Failure::Timeout,
           "rank 0 timed out after 50 ms in launch 1 of stuck (hash stuck2, all_reduce sum int32): "
           "agent block 0, micro-batch 0, instruction 5 waits for rank 1 (channel from it, tag 7): "
           "expected counter 1, found 0; rank 1 has done operation 1 and is between operations");
  CHECK_FALSE(outcomes[1].failed);
}

TEST_CASE("ranks that wait for each other are stuck only if none goes on") {
  auto timedOut = [](const std::shared_ptr<LoadedProgram> &program) {
    auto communicator = makeCommunicator(2);
    return runEach(2, [&](int64_t rank, LaunchArgs args) {
      args.timeout = std::chrono::milliseconds(400);
      args.microBatches = 1 << 20;
      return communicator[rank].launch(program, args);
    });
  };
  checkAll(timedOut(inACircle()), Failure::Timeout, "the ranks wait for each other in a circle");
  checkAll(timedOut(inTurns()), Failure::Timeout, "the ranks still go on, rank ");
  checkAll(timedOut(inTurns()), Failure::Timeout,
           "the time is too short for this. Give it more (CCL_TIMEOUT, ccl run -T), or ask for "
           "fewer micro-batches than 1048576");
}

TEST_CASE("abort ends a wait from another thread") {
  for (bool inKernel : {false, true}) {
    auto communicator = makeCommunicator(2);
    const auto program = inKernel ? stuck(2) : ringAllReduce(2);
    std::thread other;
    const auto outcomes = runEach(2, [&](int64_t rank, LaunchArgs args) -> llvm::Error {
      if (rank == 0 || inKernel) {
        if (rank == 0)
          other = std::thread([&] { communicator[0].abort("the user pressed a key"); });
        return communicator[rank].launch(program, args);
      }
      return llvm::Error::success();
    });
    other.join();
    checkAll({outcomes[0]}, Failure::Aborted, "the user pressed a key");
    // The first reason is kept, by everybody.
    communicator[0].abort("another");
    const auto later = runEach(
        2, [&](int64_t rank, LaunchArgs args) { return communicator[rank].launch(program, args); });
    checkAll(later, Failure::Aborted, "the user pressed a key");
  }
}

TEST_CASE("a wrong argument of one rank ends the launch of all") {
  const auto ring = ringAllReduce(3);
  auto runWith = [&](auto change) {
    auto communicator = makeCommunicator(3);
    return runEach(3, [&](int64_t rank, LaunchArgs args) {
      if (rank == 1)
        change(args);
      return communicator[rank].launch(ring, args);
    });
  };
  checkAll(runWith([](LaunchArgs &args) { args.count = -1; }), Failure::BadArgument,
           "rank 1: count is -1");
  checkAll(runWith([](LaunchArgs &args) { args.in = nullptr; }), Failure::BadArgument,
           "rank 1: `in` is null, but count is 64");
  checkAll(runWith([](LaunchArgs &args) { args.out = nullptr; }), Failure::BadArgument,
           "rank 1: `out` is null");
  checkAll(runWith([](LaunchArgs &args) {
             args.in = static_cast<const int32_t *>(args.out) + 1;
             args.count = 32;
           }),
           Failure::BadArgument, "overlap without being in place: `out` begins -4 bytes after");
  checkAll(runWith([](LaunchArgs &args) {
             args.out = static_cast<char *>(args.out) + 2;
             args.count = 32;
           }),
           Failure::BadArgument, "not aligned to its elements of 4 bytes");
  checkAll(runWith([](LaunchArgs &args) { args.microBatches = -2; }), Failure::BadArgument,
           "-2 micro-batches");
  checkAll(runWith([](LaunchArgs &args) { args.timeout = std::chrono::milliseconds(0); }),
           Failure::BadArgument, "time-out of launch is 0 ms");
  checkAll(runWith([](LaunchArgs &args) { args.count = INT64_MAX; }), Failure::BadArgument,
           "the limit is");
}

TEST_CASE("plans that do not fit are refused") {
  auto runPlan = [](const Plan &plan, MemberOptions options = {}) {
    auto communicator = makeCommunicator(3, options);
    const auto program = ringAllReduce(plan);
    return runEach(
        3, [&](int64_t rank, LaunchArgs args) { return communicator[rank].launch(program, args); });
  };
  checkAll(runPlan(ringAllReducePlan(4)), Failure::BadArgument,
           "is for 4 ranks, the communicator has 3");
  Plan plan = ringAllReducePlan(3);
  plan.disjointProved = plan.inPlaceProved = false;
  checkAll(runPlan(plan), Failure::Unproved, "neither in place nor out of place");
  plan = ringAllReducePlan(3);
  plan.maxCount = 17;
  checkAll(runPlan(plan, {.slotBytes = 64}), Failure::BadArgument, "at least 68 bytes, not 64");
  plan = ringAllReducePlan(3);
  plan.kernels[0].peers[1].pop_back();
  CHECK(runPlan(plan)[0].says("malformed plan"));
  plan = ringAllReducePlan(3);
  plan.kernels[0].peers[0][1][0] = 3;
  CHECK(runPlan(plan)[0].says("malformed plan"));
}

TEST_CASE("a rank is driven by one thread at a time") {
  auto communicator = makeCommunicator(2);
  const auto ring = ringAllReduce(2);
  std::vector<Outcome> outcomes(2);
  auto launch = [&](size_t which) {
    std::vector<int32_t> memory(8);
    LaunchArgs args;
    args.in = args.out = memory.data();
    args.count = 8;
    outcomes[which] = outcomeOf(communicator[0].launch(ring, args));
  };
  std::thread other([&] { launch(1); });
  launch(0);
  other.join();
  checkAll(outcomes, Failure::BadArgument, "rank 0 is used by two threads at once");
}

TEST_CASE("what a rank's body throws is that rank's error, and the others come to their end") {
  for (int64_t thrower : {0, 2})
    for (bool memory : {false, true}) {
      std::atomic<int> ended{0};
      const Outcome outcome = outcomeOf(onEveryRank(3, [&](int64_t rank) -> llvm::Error {
        if (rank == thrower && memory)
          throw std::bad_alloc();
        if (rank == thrower)
          throw std::runtime_error("no luck");
        ++ended;
        return llvm::Error::success();
      }));
      CHECK(outcome.failed);
      CHECK(outcome.category == Failure::Machine);
      CHECK(outcome.message ==
            "rank " + std::to_string(thrower) + (memory ? ": out of memory" : ": no luck"));
      CHECK(ended == 2);
    }
}

TEST_CASE("communicators of impossible size") {
  for (int64_t ranks : {int64_t(0), int64_t(-1), int64_t(1) << 40})
    CHECK(outcomeOf(Member::createThreads(ranks).takeError()).category == Failure::BadArgument);
  CHECK(outcomeOf(Member::createThreads(2, {.slotBytes = 0}).takeError()).failed);
  CHECK(outcomeOf(makeCommunicator(2)[0].launch(nullptr, {})).says("no program"));
  CHECK(exitStatus(Failure::Timeout) == 3);
  CHECK(exitStatus(Failure::Mismatch) == 3);
  CHECK(exitStatus(Failure::Unproved) == 1);
  CHECK(exitStatus(Failure::BadArgument) == 2);
}

TEST_CASE("symmetric allocations must be equal, and everybody must come") {
  for (int64_t ranks : {2, 3}) {
    auto communicator = makeCommunicator(ranks);
    checkAll(runEach(ranks,
                     [&](int64_t rank, LaunchArgs &) -> llvm::Error {
                       auto buffer = communicator[rank].allocate(rank == 1 ? 128 : 64);
                       return buffer ? llvm::Error::success() : buffer.takeError();
                     }),
             Failure::Mismatch,
             "ranks 0 and 1 disagree on the bytes of the allocation: 64 and 128");
  }
  auto communicator = makeCommunicator(2);
  auto outcomes = runEach(2, [&](int64_t rank, LaunchArgs &) -> llvm::Error {
    if (rank == 1)
      return llvm::Error::success();
    auto buffer = communicator[rank].allocate(64, std::chrono::milliseconds(50));
    return buffer ? llvm::Error::success() : buffer.takeError();
  });
  CHECK(outcomes[0].failed);
  CHECK(outcomes[0].category == Failure::Timeout);
  CHECK(outcomes[0].says("rank 1 did not come"));
}
