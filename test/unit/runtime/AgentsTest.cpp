//===- AgentsTest.cpp - Agents that take turns --------------------------------===//
#include "runtime/Agents.h"
#include "runtime/Channels.h"
#include "runtime/Member.h"

#include <doctest/doctest.h>

#include <deque>
#include <thread>

using namespace ccl;

namespace {

/// int32: a sum of the sources to all destinations.
template <int sources, int destinations>
int32_t transfer(KernelArgs *, char *const *places, const int64_t *, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t sum = 0;
    for (int s = 0; s < sources; ++s)
      sum += reinterpret_cast<const uint32_t *>(places[s])[i];
    for (int d = 0; d < destinations; ++d)
      reinterpret_cast<uint32_t *>(places[sources + d])[i] = sum;
  }
  return 0;
}

/// Of a row of 4 chunks.
ShardRange slice(int64_t k, int64_t count, int64_t i, int64_t m, const ShardRange *const *,
                 int64_t) {
  const int64_t chunk = count / 4;
  return {k * chunk + i * chunk / m, (i + 1) * chunk / m - i * chunk / m};
}

/// Writes tables. Buffer 0 is `in`, 1 `out`, 2 scratch.
class Writer {
public:
  Writer &agent(int32_t id, bool proxy = false) {
    const auto at = uint32_t(table.instructions.size());
    table.agents.push_back({proxy, id, at, at});
    return *this;
  }
  Writer &signal(int64_t channel) { return add(AgentInstruction::signal, {on(channel)}); }
  Writer &wait(int64_t channel) { return add(AgentInstruction::wait, {on(channel)}); }
  Writer &copy(AgentOperand from, AgentOperand to) { return add(0, {from, to}); }
  Writer &sum(AgentOperand a, AgentOperand b, AgentOperand to) { return add(1, {a, b, to}); }
  static AgentOperand at(int32_t buffer, int64_t chunk) {
    return {AgentOperand::own, buffer, chunk};
  }
  static AgentOperand on(int64_t channel) { return {AgentOperand::channel, 0, channel}; }

  RankAgents table;

private:
  Writer &add(int32_t pattern, std::vector<AgentOperand> operands) {
    table.instructions.push_back({pattern, uint32_t(table.operands.size()), 1});
    table.operands.insert(table.operands.end(), operands.begin(), operands.end());
    table.agents.back().end = uint32_t(table.instructions.size());
    return *this;
  }
};

Plan makePlan() {
  Plan plan;
  plan.program = "agents";
  plan.hash = "beef";
  plan.type = ElementType::I32;
  plan.buffers = {
      {"in", model::Role::In, 4}, {"out", model::Role::Out, 4}, {"t", model::Role::Scratch, 4}};
  plan.transfers = {{1, 1, "copy"}, {2, 1, "sum"}};
  plan.slice = "slice";
  return plan;
}

const AgentFunctions functions{&slice, {&transfer<1, 1>, &transfer<2, 1>}};

/// Both ends of channels, by number: end 2 i sends, end 2 i + 1 receives.
class Ends {
public:
  Ends(int channels, int64_t slots) {
    for (int c = 0; c < channels; ++c) {
      Counters &counters = memory.emplace_back();
      counters.slots.resize(size_t(slots * 64));
      for (bool to : {true, false}) {
        ChannelEnd &end = ends.emplace_back();
        end.arrive = to ? &counters.freed : &counters.filled;
        end.depart = to ? &counters.filled : &counters.freed;
        end.slots = reinterpret_cast<char *>(counters.slots.data());
        end.slotBytes = 256;
        end.numSlots = slots;
        end.to = to;
        end.peer = 1;
      }
    }
    for (ChannelEnd &end : ends)
      table.push_back(&end);
  }
  ChannelEnd &operator[](size_t end) { return ends[end]; }
  ChannelEnd *const *data() const { return table.data(); }

private:
  struct Counters {
    uint64_t filled = 0, freed = 0;
    std::vector<int32_t> slots;
  };
  std::deque<Counters> memory;
  std::deque<ChannelEnd> ends;
  std::vector<ChannelEnd *> table;
};

/// One rank's memory: 4 chunks of 8 elements in each of the three buffers.
struct Rank {
  std::vector<int32_t> in = std::vector<int32_t>(32), out = in, scratch = in;
  void *buffers[3] = {in.data(), out.data(), scratch.data()};
  KernelArgs args;
  explicit Rank(const Ends &ends) {
    args.ranks = 2;
    args.count = 32;
    args.stride = 8;
    args.buffers = buffers;
    args.channels = ends.data();
    for (int i = 0; i < 32; ++i)
      in[size_t(i)] = 100 + i;
  }
};

int32_t neverWaits() {
  FAIL("some agent could have gone on");
  return 1;
}

} // namespace

TEST_CASE("agents that wait for later ones get their turn again") {
  constexpr int agents = 40;
  const Plan plan = makePlan();
  Ends ends(agents, 0);
  Writer writer;
  // The last one starts: each signals the one before it.
  for (int a = 0; a < agents; ++a) {
    writer.agent(a);
    if (a + 1 < agents)
      writer.wait(2 * a + 1);
    writer.copy(Writer::at(0, a % 4), Writer::at(1, a % 4));
    if (a > 0)
      writer.signal(2 * (a - 1));
  }
  Rank rank(ends);
  rank.args.microBatches = rank.args.endBatch = 3;
  Agents engine(plan, writer.table, functions);
  CHECK(engine.run(rank.args, neverWaits) == 0);
  CHECK(rank.out == rank.in);
  CHECK(rank.args.microBatch == 2);
  // The channels are as they were: three signals each, all of them taken.
  for (int c = 0; c + 1 < agents; ++c) {
    CHECK(ends[size_t(2 * c)].next == 3);
    CHECK(ends[size_t(2 * c + 1)].next == 3);
  }
}

TEST_CASE("what one thread passes through its own slots needs no other") {
  const Plan plan = makePlan();
  Ends ends(1, 1);
  Writer writer;
  writer.agent(0);
  for (int c = 0; c < 4; ++c)
    writer.copy(Writer::on(1), Writer::at(1, c));
  writer.agent(1, /*proxy=*/true);
  for (int c = 0; c < 4; ++c)
    writer.copy(Writer::at(0, c), Writer::on(0));
  Rank rank(ends);
  Agents engine(plan, writer.table, functions);
  CHECK(engine.run(rank.args, neverWaits) == 0);
  CHECK(rank.out == rank.in);
}

TEST_CASE("a transfer takes nothing before all of it is ready") {
  const Plan plan = makePlan();
  Ends ends(2, 1);
  Writer writer;
  writer.agent(3)
      .copy(Writer::at(0, 1), Writer::on(0))
      .sum(Writer::on(1), Writer::on(3), Writer::at(1, 0));
  Rank rank(ends);
  Agents engine(plan, writer.table, functions);
  int waits = 0;
  const int32_t code = engine.run(rank.args, [&] {
    // The agent itself filled channel 0; channel 1 is still empty.
    CHECK(++waits == 1);
    REQUIRE(engine.waits().size() == 1);
    const Agents::Wait &wait = engine.waits().front();
    CHECK(wait.agent->id == 3);
    CHECK(wait.instruction == 1);
    CHECK(wait.end == &ends[3]);
    CHECK_FALSE(engine.canGoOn());
    CHECK(ends[1].next == 0);
    CHECK(*ends[0].arrive == 0);
    CHECK(rank.out[0] == 0);
    for (int32_t i = 0; i < 8; ++i)
      reinterpret_cast<int32_t *>(ends[2].slots)[i] = 1000;
    __atomic_store_n(ends[2].depart, uint64_t(1), __ATOMIC_RELEASE);
    CHECK(engine.canGoOn());
    return 0;
  });
  CHECK(code == 0);
  CHECK(waits == 1);
  CHECK(rank.out[0] == 1108);
  CHECK(rank.out[7] == 1115);
  CHECK(*ends[0].arrive == 1); // both slots are free again
  CHECK(*ends[2].arrive == 1);
}

TEST_CASE("a wait that is given up ends the launch, and so does a failed transfer") {
  Plan plan = makePlan();
  Ends ends(1, 0);
  Rank rank(ends);
  Writer stuck;
  stuck.agent(0).copy(Writer::at(0, 0), Writer::at(1, 0));
  stuck.agent(9, /*proxy=*/true).copy(Writer::at(0, 1), Writer::at(1, 1)).wait(1);
  Agents engine(plan, stuck.table, functions);
  CHECK(engine.run(rank.args, [&] { return 7; }) == 7);
  CHECK(engine.waits().front().agent->number() == 19);
  CHECK(engine.waits().front().instruction == 1);

  AgentFunctions failing = functions;
  failing.transfers[0] = [](KernelArgs *, char *const *, const int64_t *, int64_t) { return 5; };
  Writer copies;
  copies.agent(0).copy(Writer::at(0, 0), Writer::at(1, 0));
  Agents broken(plan, copies.table, failing);
  CHECK(broken.run(rank.args, neverWaits) == 5);
}

TEST_CASE("two ranks on two threads, many agents each, through few slots") {
  constexpr int channels = 12, rounds = 200;
  const Plan plan = makePlan();
  // Channel c goes from rank 0 to 1 and c + channels the other way.
  Ends ends(2 * channels, 2);
  auto program = [&](int64_t sends, int64_t receives) {
    Writer writer;
    for (int c = 0; c < channels; ++c) {
      writer.agent(c);
      for (int i = 0; i < 5; ++i)
        writer.copy(Writer::on(2 * (receives + c) + 1), Writer::at(2, c % 4));
    }
    for (int c = channels; c-- > 0;) {
      writer.agent(c, /*proxy=*/true);
      for (int i = 0; i < 5; ++i)
        writer.copy(Writer::at(0, (c + i) % 4), Writer::on(2 * (sends + c)));
    }
    return writer.table;
  };
  const RankAgents tables[2] = {program(0, channels), program(channels, 0)};
  Rank ranks[2] = {Rank(ends), Rank(ends)};
  auto run = [&](int r) {
    Agents engine(plan, tables[r], functions);
    ranks[r].args.me = r;
    for (int i = 0; i < rounds; ++i) {
      const int32_t code = engine.run(ranks[r].args, [&] {
        while (!engine.canGoOn())
          std::this_thread::yield();
        return 0;
      });
      if (code)
        return;
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  for (int end = 0; end < 4 * channels; ++end)
    CHECK(ends[size_t(end)].next == 5 * rounds);
  // The last copy of agent c is chunk (c + 4) mod 4 of the other's input; c = 8 to 11 write last.
  for (const Rank &rank : ranks)
    CHECK(rank.scratch == rank.in);
}

//===----------------------------------------------------------------------===//
// Through a communicator
//===----------------------------------------------------------------------===//

namespace {

/// A program whose tables were written by hand.
class Tabled final : public LoadedProgram {
public:
  explicit Tabled(Plan plan, AgentFunctions code = ::functions) : LoadedProgram(std::move(plan)) {
    functions = std::move(code);
  }
  Kernel kernel(int64_t) const override { return nullptr; }
};

/// Two ranks. Rank 0 has a block 0, which does nothing long, and a block 3 that waits for a
/// signal of rank 1, which has none to give.
Plan stuckPlan() {
  Plan plan = makePlan();
  plan.contract.collective = model::Collective::AllReduce;
  plan.contract.reduction = model::Reduction::Sum;
  plan.contract.ranks = 2;
  plan.contract.chunks = 4;
  KernelPlan &kernel = plan.kernels.emplace_back();
  kernel.ranks = {{0, 2}};
  kernel.channels = {{false, 7, 0}};
  kernel.peers = {{{1}, {}}};
  Writer zero, one;
  zero.agent(0).copy(Writer::at(0, 0), Writer::at(1, 0));
  zero.agent(3).copy(Writer::at(0, 1), Writer::at(1, 1)).wait(1);
  one.agent(0).copy(Writer::at(0, 0), Writer::at(1, 0));
  kernel.agents = {zero.table, one.table};
  return plan;
}

/// What both ranks are told. `count`, the time-out and the like are in `common`; a rank that is
/// back calls after(its member).
std::vector<std::string> launchAll(
    const std::shared_ptr<LoadedProgram> &program, const LaunchArgs &common,
    const std::function<void(Member &)> &after = [](Member &) {}) {
  auto members = llvm::cantFail(Member::createThreads(2, {}));
  std::vector<std::string> messages(2);
  llvm::cantFail(onEveryRank(2, [&](int64_t rank) {
    LaunchArgs args = common; // the ranks run at the same time
    std::vector<int32_t> in(size_t(args.count), 1), out(size_t(args.count));
    args.in = in.data();
    args.out = out.data();
    Member &member = *members[size_t(rank)];
    messages[size_t(rank)] = llvm::toString(member.launch(program, args));
    after(member);
    return llvm::Error::success();
  }));
  return messages;
}

LaunchArgs argsOf(int64_t count, Milliseconds timeout = defaultTimeout) {
  LaunchArgs args;
  args.count = count;
  args.timeout = timeout;
  return args;
}

bool says(const std::string &message, std::string_view text) {
  INFO(message);
  return message.find(text) != std::string::npos;
}

} // namespace

TEST_CASE("an agent that waits for ever is named, with its instruction and its peer") {
  const auto messages =
      launchAll(std::make_shared<Tabled>(stuckPlan()), argsOf(32, std::chrono::milliseconds(80)));
  CHECK(says(messages[0],
             "rank 0 timed out after 80 ms in launch 1 of agents (hash beef, "
             "all_reduce sum int32): agent block 3, micro-batch 0, instruction 1 waits "
             "for rank 1 (channel from it, tag 7): expected counter 1, found 0"));
  CHECK(messages[1].empty());
}

TEST_CASE("an abort ends the waits of agents") {
  const auto messages = launchAll(std::make_shared<Tabled>(stuckPlan()),
                                  argsOf(32, std::chrono::seconds(60)), [](Member &member) {
                                    if (member.rank() == 1)
                                      member.abort("enough");
                                  });
  CHECK(messages[0] == "enough");
  CHECK(messages[1].empty());
}

TEST_CASE("a program may end with a barrier, which has the launch's deadline") {
  Plan plan = stuckPlan();
  plan.exitBarrier = true;
  const auto messages = launchAll(std::make_shared<Tabled>(std::move(plan)),
                                  argsOf(32, std::chrono::milliseconds(80)));
  CAPTURE(messages[0]);
  CAPTURE(messages[1]);
  // Rank 1 has nothing to wait for but the barrier; which rank's patience ends first is open.
  CHECK(messages[0] == messages[1]);
  CHECK(
      (says(messages[1], "the barrier at the end of launch 1 of agents (hash beef), at its entry: "
                         "rank 0 did not come") ||
       says(messages[1], "agent block 3, micro-batch 0, instruction 1 waits for rank 1")));
}

TEST_CASE("micro-batches are kept apart by barriers if the program asks for it") {
  // How often a rank saw the other one more than a micro-batch away.
  static std::atomic<int64_t> begun[2], apart;
  begun[0] = begun[1] = apart = 0;
  Plan plan = stuckPlan();
  plan.kernels[0].agents[0].agents.pop_back();
  plan.batchBarrier = true;
  AgentFunctions counting = functions;
  counting.transfers[0] = [](KernelArgs *args, char *const *, const int64_t *, int64_t) {
    const int64_t mine = ++begun[args->me];
    apart += std::abs(mine - begun[1 - args->me]) > 1;
    return 0;
  };
  LaunchArgs args = argsOf(32000);
  args.microBatches = 500;
  const auto messages = launchAll(std::make_shared<Tabled>(std::move(plan), counting), args);
  CHECK(messages == std::vector<std::string>(2));
  CHECK(begun[0] == 500);
  CHECK(begun[1] == 500);
  CHECK(apart == 0);
}
