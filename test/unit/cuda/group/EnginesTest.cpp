//===- EnginesTest.cpp - Agents that copy engines execute ----------------------------===//
#include "test/unit/cuda/group/Ranks.h"

#include <chrono>
#include <cstdlib>

using namespace ccl;
using namespace ccl::test;
using namespace ccl::cuda;

namespace {

constexpr const char *queues = "CUDA_DEVICE_MAX_CONNECTIONS";

bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Buffers of a plan in memory of the host, for one rank's places.
struct Rows {
  explicit Rows(const Plan &plan, int64_t ranks) {
    for (int64_t r = 0; r < ranks; ++r) {
      std::vector<void *> &own = pointers.emplace_back();
      for (size_t b = 0; b < plan.buffers.size(); ++b)
        own.push_back(memory + 1000 * (int64_t(r) * 10 + int64_t(b)));
    }
  }
  char memory[100000] = {};
  std::vector<std::vector<void *>> pointers;
  char *at(int64_t rank, int64_t buffer, int64_t byte) const {
    return static_cast<char *>(pointers[size_t(rank)][size_t(buffer)]) + byte;
  }
};

} // namespace

TEST_CASE("an all-gather by copy engines") {
  struct Case {
    int64_t ranks;
    std::vector<int> devices;
    bool tables;
  };
  for (const Case &c : {Case{1, {0}, false}, Case{2, {0}, false}, Case{3, {0, 1, 2}, false},
                        Case{4, {0, 1}, true}, Case{5, {0}, true}}) {
    CAPTURE(c.ranks);
    Ranks ranks(c.ranks, c.devices);
    const Program program = load(engineAllGather({{c.ranks}, c.tables}));
    const Program other = load(ringAllGather({c.ranks}));
    int32_t seed = 0;
    for (int64_t count : {1, 13, 513, 20011})
      for (int64_t instances : {0, 1, 2, 4})
        for (int64_t microBatches : {1, 5}) {
          CAPTURE(count);
          CAPTURE(instances);
          CAPTURE(microBatches);
          ranks.allocate(size_t(count), size_t(count * c.ranks));
          ranks.fill(++seed);
          REQUIRE(ranks.run(program, optionsOf(count, instances, microBatches)) == "");
          CHECK(ranks.wrongGathers(seed, count) == 0);
          if (microBatches == 1)
            continue;
          // Blocks and copy engines take turns.
          ranks.fill(++seed);
          REQUIRE(text(ranks.launch(program, optionsOf(count, instances))) == "");
          REQUIRE(text(ranks.launch(other, optionsOf(count, instances))) == "");
          REQUIRE(ranks.run(program, optionsOf(count, instances, microBatches)) == "");
          CHECK(ranks.wrongGathers(seed, count) == 0);
        }
  }
}

TEST_CASE("copy engines in place and with uneven counts") {
  const int64_t n = 3, count = 1001;
  Ranks ranks(n, {0, 1});
  EngineVariant variant{{n}};
  variant.unevenSafe = true;
  const Program program = load(engineAllGather(variant));
  ranks.allocate(size_t(count), size_t(count * n));
  for (int32_t seed = 1; seed < 6; ++seed) {
    ranks.fill(seed);
    std::vector<CudaLaunchArgs> args;
    for (int64_t r = 0; r < n; ++r) {
      int32_t *mine = ranks.out[size_t(r)].data() + r * count;
      std::copy_n(ranks.in[size_t(r)].data(), count, mine);
      args.push_back({mine, ranks.out[size_t(r)].data()});
    }
    REQUIRE(text(ranks.group->launch(program, args, optionsOf(count, 2, seed))) == "");
    REQUIRE(text(ranks.group->synchronize()) == "");
    CHECK(ranks.wrongGathers(seed, count) == 0);
  }
  for (const std::vector<int64_t> &counts :
       {std::vector<int64_t>{7, 0, 901}, {0, 1, 0}, {333, 1001, 2}})
    for (int64_t microBatches : {1, 4}) {
      const UnevenCounts uneven{counts, {}};
      CudaLaunchOptions options = optionsOf(0, 2, microBatches);
      options.uneven = uneven;
      ranks.fill(int32_t(counts[0]));
      REQUIRE(ranks.run(program, options) == "");
      int64_t wrong = 0, start = 0;
      for (int64_t r = 0; r < n; start += counts[size_t(r++)])
        for (int64_t i = 0; i < counts[size_t(r)]; ++i)
          for (const Buffer &out : ranks.out)
            wrong += out[size_t(start + i)] != Ranks::value(int32_t(counts[0]), r, i);
      CHECK(wrong == 0);
      for (const Buffer &out : ranks.out) // and not a byte more
        for (size_t i = size_t(start); i < out.size; ++i)
          wrong += out[i] != -1;
      CHECK(wrong == 0);
    }
}

TEST_CASE("copy engines are captured, and replayed with other data") {
  for (const bool warm : {true, false}) {
    CAPTURE(warm);
    const int64_t n = 4, count = 777;
    Ranks ranks(n, {0});
    EngineVariant padded{{n}};
    padded.divisible = true; // takes stand-ins, whose copies come before and after
    const Program program = load(engineAllGather({{n}})), second = load(engineAllGather(padded)),
                  ring = load(ringAllGather({n}));
    ranks.allocate(size_t(count), size_t(count * n));
    PrimaryContext context = llvm::cantFail(PrimaryContext::retain(shim(), 0));
    const ContextScope scope = llvm::cantFail(context.enter());
    Stream stream = llvm::cantFail(makeStream(shim()));
    const CUstream streams[] = {stream.get()};
    CudaLaunchOptions options = optionsOf(count, 2, 4);
    options.streams = streams;
    if (warm)
      REQUIRE(ranks.run(program, options) == "");
    Graph graphs[2];
    GraphExec execs[2];
    for (int g = 0; g < 2; ++g) {
      REQUIRE(shim().cuStreamBeginCapture_v2(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL) ==
              CUDA_SUCCESS);
      // Twice in one graph: the second launch takes the streams of the first.
      REQUIRE(text(ranks.launch(g == 0 ? program : second, options)) == "");
      REQUIRE(text(ranks.launch(program, options)) == "");
      if (g == 0) { // while that is captured, others are not
        ranks.fill(99);
        REQUIRE(ranks.run(program, optionsOf(count, 2)) == "");
        CHECK(ranks.wrongGathers(99, count) == 0);
      }
      CUgraph made = nullptr;
      REQUIRE(shim().cuStreamEndCapture(stream.get(), &made) == CUDA_SUCCESS);
      graphs[g] = Graph(shim(), context.get(), made);
      CUgraphExec exec = nullptr;
      REQUIRE(shim().cuGraphInstantiateWithFlags(&exec, made, 0) == CUDA_SUCCESS);
      execs[g] = GraphExec(shim(), context.get(), exec);
    }
    for (int32_t k = 0; k < 40; ++k) {
      CAPTURE(k);
      ranks.fill(k);
      REQUIRE(shim().cuGraphLaunch(execs[k % 2].get(), stream.get()) == CUDA_SUCCESS);
      REQUIRE(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
      CHECK(ranks.wrongGathers(k, count) == 0);
      if (k % 8)
        continue;
      ranks.fill(-k);
      REQUIRE(ranks.run(k % 16 ? ring : program, options) == "");
      CHECK(ranks.wrongGathers(-k, count) == 0);
    }
    CHECK(text(ranks.group->synchronize()) == "");
  }
}

TEST_CASE("copy engines that do not come, or wait in vain") {
  const int64_t n = 4, count = 64;
  for (const bool tables : {false, true}) {
    Ranks ranks(n, {0, 1});
    ranks.allocate(size_t(count), size_t(count * n));
    ranks.fill(1);
    REQUIRE(ranks.run(load(engineAllGather({{n}, tables})), optionsOf(count)) == "");
    EngineVariant silent{{n, "simple", 2}, tables};
    CudaLaunchOptions options = optionsOf(count);
    options.timeout = Milliseconds(1000);
    const std::string error = ranks.run(load(engineAllGather(silent)), options);
    CHECK(contains(
        error,
        "timed out after 1000 ms in launch 2 of engine_all_gather (hash 0123abcd, all_gather "
        "int32): agent block 0, instance 0, micro-batch 0, instruction "));
    CHECK(contains(error, " waits for rank 2 (channel from it)"));
    CHECK(contains(error, "; rank 2 waits for nobody: "));
    CHECK(ranks.group->failure()->culprit == 2);
    CHECK(ranks.run(load(ringAllGather({n})), optionsOf(count)) == error);
  }
  // The wait of a step: all other ranks have what they want of their own.
  Ranks ranks(2, {0});
  ranks.allocate(size_t(count), size_t(count * 2));
  EngineVariant mute{{2}};
  mute.mute = 1;
  CudaLaunchOptions options = optionsOf(count, 2);
  options.timeout = Milliseconds(500);
  const std::string error = ranks.run(load(engineAllGather(mute)), options);
  CHECK(contains(error, "timed out after 500 ms in launch 1 of engine_all_gather"));
  CHECK(ranks.group->failure()->category == Failure::Timeout);
  CHECK(ranks.group->failure()->culprit == 1);
}

TEST_CASE("a launch that is over is not queued to its end") {
  const int64_t n = 2, count = 8;
  Ranks ranks(n, {0});
  ranks.allocate(size_t(count), size_t(count * n));
  // Queued whole, it would take minutes.
  CudaLaunchOptions options = optionsOf(count, 0, int64_t(1) << 30);
  options.timeout = Milliseconds(300);
  const std::string error = ranks.run(load(engineAllGather({{n}})), options);
  CHECK(contains(error, "timed out after 300 ms in launch 1 of engine_all_gather"));
  CHECK(contains(error, "the time is too short"));
}

TEST_CASE("a step that waits in vain says so") {
  // Nobody else waits for anything: the report is that of a copy engine.
  Ranks ranks(1, {0});
  ranks.allocate(8, 8);
  EngineVariant mute{{1}};
  Plan plan = engineAllGather(mute);
  RankAgents &table = plan.cuda.engines[0][0];
  table.operands.push_back({AgentOperand::channel, 1, 3}); // from its block, which tells nothing
  table.instructions.push_back({AgentInstruction::wait, 0, 1});
  table.agents[1].begin = 0;
  table.agents[1].end = 1;
  CudaLaunchOptions options = optionsOf(8);
  options.timeout = Milliseconds(500);
  const std::string error = ranks.run(load(plan), options);
  CHECK(contains(error,
                 "rank 0 timed out after 500 ms in launch 1 of engine_all_gather (hash 0123abcd, "
                 "all_gather int32): agent proxy 6, instance 0, micro-batch 0, instruction "
                 "0 waits for rank 0 (channel from it): expected counter 1, found 0"));
}

TEST_CASE("abort ends copy engines, and nothing is left") {
  const size_t before = freeBytes();
  {
    const int64_t n = 3, count = 64;
    Ranks ranks(n, {0, 1});
    ranks.allocate(size_t(count), size_t(count * n));
    EngineVariant mute{{n}};
    mute.mute = 0;
    CudaLaunchOptions options = optionsOf(count);
    options.timeout = Milliseconds(60000);
    const auto begin = std::chrono::steady_clock::now();
    REQUIRE(text(ranks.launch(load(engineAllGather(mute)), options)) == "");
    CHECK(ranks.abortSoon("enough") == "enough");
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  }
  CHECK(freeBytes() == before);
}

TEST_CASE("more copy engines than a GPU has queues or room for") {
  const int64_t n = 4, count = 65536;
  Ranks ranks(n, {0, 1});
  ranks.allocate(size_t(count), size_t(count * n));
  const Program program = load(engineAllGather({{n}}));
  setenv(queues, "9", 1);
  ranks.fill(1);
  // As many instances as there are queues for are taken, but no more can be asked for.
  CHECK(ranks.run(program, optionsOf(count)) == "");
  CHECK(ranks.wrongGathers(1, count) == 0);
  CHECK(ranks.run(program, optionsOf(count, 2)) == "");
  const std::string error = ranks.run(program, optionsOf(count, 4));
  CHECK(contains(error, "needs 17 streams that advance at once (4 agents of copy engines, 4 "
                        "instances, and the launch's), but GPU 0 has queues for 9: take fewer "
                        "instances or ranks of a GPU, compile without copy engines, or set "
                        "CUDA_DEVICE_MAX_CONNECTIONS (at most 32) before CUDA is first used"));
  setenv(queues, "4", 1);
  CHECK(contains(ranks.run(load(engineAllGather({{n}, true})), optionsOf(count)),
                 "needs 5 streams that advance at once (4 agents of copy engines, 1 instances"));
  unsetenv(queues);
  // 2 ranks of a block and 2 copy engines each on a GPU: 6 blocks of an instance.
  CHECK(contains(ranks.run(program, optionsOf(count, 32)),
                 "needs 192 blocks that run at once (2 ranks of 1 agent, 4 copy engines, 32 "
                 "instances), but GPU 0 holds 128 at once"));
  ranks.fill(2);
  CHECK(ranks.run(program, optionsOf(count, 16)) == "");
  CHECK(ranks.wrongGathers(2, count) == 0);
}

TEST_CASE("where copy engines copy") {
  Plan plan = engineAllGather({{2}});
  plan.transfers.push_back({1, 2, ""});
  Rows rows(plan, 2);
  EnginePlaces places{plan, 0, rows.pointers, 10, {2, 5}, 400};
  RankAgents table;
  table.operands = {{AgentOperand::own, 0, 0},
                    {1, 1, 0},
                    {AgentOperand::own, 1, 0},
                    {AgentOperand::own, 2, 0},
                    {1, 2, 1},
                    {AgentOperand::own, 1, 0},
                    {1, 1, 0}};
  auto copiesOf = [&](AgentInstruction transfer, int64_t instance, int64_t microBatch) {
    std::vector<EngineCopy> copies;
    places.addCopies(table, transfer, instance, microBatch, copies);
    return copies;
  };
  using Copies = std::vector<EngineCopy>;
  // A slice of a shard of 10 elements, to a peer and to the own row.
  CHECK(copiesOf({1, 0, 1}, 0, 1) == Copies{{rows.at(1, 1, 20), rows.at(0, 0, 20), 20},
                                            {rows.at(0, 1, 20), rows.at(0, 0, 20), 20}});
  // Scratch of an instance: two adjacent chunks of 5 elements are one piece.
  CHECK(copiesOf({0, 3, 2}, 1, 0) == Copies{{rows.at(1, 2, 420), rows.at(0, 2, 400), 40}});
  // Of a row: both shards in one copy if they are whole, else a slice of each.
  CHECK(copiesOf({0, 5, 2}, 0, 0) == Copies{{rows.at(1, 1, 0), rows.at(0, 1, 0), 20},
                                            {rows.at(1, 1, 40), rows.at(0, 1, 40), 20}});
  places.cut.microBatches = 1;
  CHECK(copiesOf({0, 5, 2}, 0, 0) == Copies{{rows.at(1, 1, 0), rows.at(0, 1, 0), 80}});
  // Nothing from a place to itself, and nothing of no length.
  rows.pointers[1][1] = rows.pointers[0][1];
  CHECK(copiesOf({0, 5, 2}, 0, 0).empty());
  places.count = 1;
  places.cut.microBatches = 2;
  CHECK(copiesOf({0, 0, 1}, 0, 0).empty());
  CHECK(copiesOf({0, 0, 1}, 0, 1) == Copies{{rows.at(1, 1, 0), rows.at(0, 0, 0), 4}});
}
