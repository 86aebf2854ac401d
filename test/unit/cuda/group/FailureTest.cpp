//===- FailureTest.cpp - What fails, and how that is told ----------------------------===//
#include "test/unit/cuda/group/Ranks.h"

using namespace ccl;
using namespace ccl::test;
using namespace ccl::cuda;

namespace {

bool contains(const std::string &whole, std::string_view part) {
  return whole.find(part) != std::string::npos;
}

CudaLaunchOptions optionsOf(int64_t count, Milliseconds timeout) {
  CudaLaunchOptions options;
  options.count = count;
  options.timeout = timeout;
  return options;
}

} // namespace

TEST_CASE("a rank that never sends: who waits for whom") {
  for (const auto &[wire, devices] :
       {std::pair<const char *, std::vector<int>>{"simple", {0}}, {"ll", {0, 1, 2}}}) {
    const int64_t n = 4, count = 64;
    Ranks ranks(n, devices);
    ranks.allocate(count, count * n);
    ranks.fill(0);
    REQUIRE(ranks.run(load(ringAllGather({n, wire})), optionsOf(count)) == "");
    Variant silent{n, wire, 2};
    const std::string error =
        ranks.run(load(tableAllGather(silent)), optionsOf(count, Milliseconds(1000)));
    CHECK(contains(
        error, "timed out after 1000 ms in launch 2 of table_all_gather (hash 0123abcd, all_gather "
               "int32): agent block 7, instance 0, micro-batch 0, instruction "));
    CHECK(contains(error, " waits for rank "));
    // With flags a wait is for data, or for a free slot all the same.
    CHECK((contains(error, "2 slots): expected counter ") ||
           (wire == std::string_view("ll") && contains(error, "from it): data flagged "))));
    const std::optional<RuntimeError> failure = ranks.group->failure();
    REQUIRE(failure);
    CHECK(failure->category == Failure::Timeout);
    // Whoever was first says so; the chain of waits ends at rank 2.
    CHECK(failure->culprit == 2);
    CHECK(contains(error, "; rank 2 waits for nobody: "));
    // It is dead, and says why.
    CHECK(ranks.run(load(ringAllReduce({n})), optionsOf(count)) == error);
    CHECK(text(ranks.group->synchronize()) == error);
  }
}

TEST_CASE("ranks that wait for each other") {
  const int64_t n = 3, count = 64;
  Ranks ranks(n, {0, 1});
  ranks.allocate(count, count * n);
  // Everybody first waits for the rank before.
  Plan plan = tableAllGather({n});
  for (RankAgents &table : plan.kernels[0].agents)
    std::swap(table.instructions[0], table.instructions[1]);
  const std::string error = ranks.run(load(plan), optionsOf(count, Milliseconds(1000)));
  CHECK(contains(error, "micro-batch 0, instruction 0 waits for rank "));
  CHECK(contains(error, " wait for each other"));
}

TEST_CASE("the time is that of the launch, and nobody is to blame for a slow one") {
  // With one rank nothing waits: only the end of a micro-batch looks at the clock.
  for (const int64_t n : {4, 1}) {
    const int64_t count = 64;
    Ranks ranks(n, {0});
    ranks.allocate(count, count * n);
    const Program program = load(ringAllGather({n}));
    ranks.fill(0);
    REQUIRE(ranks.run(program, optionsOf(count)) == "");
    CudaLaunchOptions options = optionsOf(count, Milliseconds(200));
    options.microBatches = int64_t(1) << 30;
    const auto begin = std::chrono::steady_clock::now();
    const std::string error = ranks.run(program, options);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
    CAPTURE(error);
    CHECK(contains(error, "timed out after 200 ms in launch 2 of ring_all_gather"));
    CHECK(contains(error, n == 1 ? " of 1073741824; " : "; "));
    CHECK(contains(error, "; the ranks still go on, rank "));
    CHECK(contains(error, " ms ago: the time is too short for this. Give it more (CCL_TIMEOUT, ccl "
                          "run -T), or ask for fewer micro-batches than 1073741824"));
    REQUIRE(ranks.group->failure());
    CHECK(ranks.group->failure()->culprit == -1);
  }
}

TEST_CASE("abort from another thread") {
  bool waits = true; // or goes on and on
  SUBCASE("a launch that waits") {}
  SUBCASE("a long one") { waits = false; }
  const int64_t n = 4, count = 64;
  Ranks ranks(n, {0, 1});
  ranks.allocate(count, count * n);
  Variant silent{n, "simple", 1};
  const auto begin = std::chrono::steady_clock::now();
  CudaLaunchOptions options = optionsOf(count, Milliseconds(60000));
  if (!waits)
    options.microBatches = int64_t(1) << 30;
  REQUIRE(text(ranks.launch(load(ringAllGather(waits ? silent : Variant{n})), options)) == "");
  CHECK(ranks.abortSoon("enough") == "enough");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  CHECK(ranks.run(load(ringAllGather({n})), optionsOf(count)) == "enough");
  CHECK(ranks.group->failure()->category == Failure::Aborted);
}

TEST_CASE("a communicator that goes while kernels wait") {
  const size_t before = freeBytes();
  {
    Ranks ranks(3, {0, 1});
    ranks.allocate(64, 192);
    REQUIRE(text(ranks.launch(load(ringAllGather({3, "simple", 1})),
                              optionsOf(64, Milliseconds(300)))) == "");
  }
  CHECK(freeBytes() == before);
}

TEST_CASE("grids that do not fit are refused with both numbers") {
  Ranks ranks(8, {0});
  ranks.allocate(64, 512);
  CudaLaunchOptions options = optionsOf(64);
  options.instances = 32;
  const Program program = load(ringAllReduce({8}));
  const std::string error = ranks.run(program, options);
  CHECK(contains(error, "needs 256 blocks that run at once (8 ranks of 1 agent, 32 instances), "
                        "but GPU 0 holds 128 at once, 8 on each of 16 multiprocessors"));
  CHECK(contains(error,
                 "; fewer ranks on each GPU (--cuda-devices) need less room, and so do fewer "
                 "instances (--instances); CCL_SHIM_DEVICES and CCL_SHIM_SMS say"));
  options.instances = 3;
  CHECK(contains(ranks.run(program, options), "a power of two of instances, at most 64, not 3"));
  // Nothing has happened.
  options.instances = 16;
  ranks.fill(1);
  CHECK(ranks.run(program, options) == "");
  CHECK(ranks.wrongSums(1, 64) == 0);
}

TEST_CASE("wrong arguments change nothing") {
  const int64_t n = 2, count = 64;
  Ranks ranks(n, {0, 1});
  ranks.allocate(count, count * n);
  const Program program = load(ringAllGather({n}));
  std::vector<int32_t> host(count);
  std::vector<CudaLaunchArgs> args = {{ranks.in[0].data(), ranks.out[0].data()},
                                      {host.data(), ranks.out[1].data()}};
  CHECK(contains(text(ranks.group->launch(program, args, optionsOf(count))), "rank 1: `in` (0x"));
  CHECK(contains(text(ranks.group->launch(program, args, optionsOf(count))),
                 "is no memory that GPU 1 can use"));
  args[1].in = nullptr;
  CHECK(contains(text(ranks.group->launch(program, args, optionsOf(count))), "`in` is null"));
  CHECK(contains(
      text(ranks.group->launch(program, llvm::ArrayRef(args).take_front(1), optionsOf(count))),
      "on 2 ranks has buffers of 1"));
  CHECK(contains(text(ranks.group->launch(nullptr, args, optionsOf(count))), "no program"));
  CHECK(contains(ranks.run(program, optionsOf(-1)), "count is -1"));
  CHECK(contains(ranks.run(program, optionsOf(count, Milliseconds(0))), "time-out"));
  CHECK(contains(ranks.run(load(ringAllGather({3})), optionsOf(count)),
                 "is for 3 ranks, the communicator has 2"));
  CudaLaunchOptions options = optionsOf(count);
  const CUstream streams[] = {nullptr};
  options.streams = streams;
  CHECK(contains(ranks.run(program, options), "a launch on 2 GPUs has 1 streams"));
  Plan lost = ringAllGather({n});
  lost.kernels[0].channels.pop_back();
  lost.kernels[0].peers.pop_back();
  CHECK(contains(ranks.run(load(lost), optionsOf(count)), "where rank 1 does not receive"));
  // No elements: nothing to do, and null is as good as any.
  CHECK(text(ranks.group->launch(program, {{}, {}}, optionsOf(0))) == "");
  ranks.fill(3);
  CHECK(ranks.run(program, optionsOf(count)) == "");
  CHECK(ranks.wrongGathers(3, count) == 0);
}

TEST_CASE("communicators that cannot be") {
  auto error = [](int64_t ranks, std::vector<int> devices, CudaGroupOptions options = {}) {
    llvm::Expected<std::unique_ptr<CudaGroup>> group =
        CudaGroup::create(shim(), ranks, devices, options);
    return group ? std::string() : text(group.takeError());
  };
  CHECK(contains(error(2, {7}), "there is no GPU 7: this machine has 3"));
  CHECK(contains(error(2, {0, 0}), "GPU 0 is named twice"));
  CHECK(contains(error(2, {}), "names no GPU"));
  CHECK(contains(error(0, {0}), "1 to 4096 ranks, not 0"));
  CHECK(contains(error(1, {0}, {.slotBytes = 0}), "slots have 1 to"));
  Plan plan = ringAllGather({2});
  plan.cuda.arch = "sm_90a";
  CHECK(contains(text(LoadedCudaProgram::load(shim(), plan).takeError()),
                 "is compiled for sm_90a, but "));
  plan.cuda.image.clear();
  CHECK(contains(text(LoadedCudaProgram::load(shim(), plan).takeError()), "no code for GPUs"));
}
