// Accesses that nothing orders, and what ends too early.

#include "Algorithms.h"

#include "dialect/model/Clocks.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

using namespace ccl::model;

namespace {

/// Rank 0 has `in` of one chunk; both ranks get it: a broadcast. Buffers: 0 in, 1 out,
/// 2 scratch of two chunks.
Contract contract() { return makeContract(Collective::Broadcast, 2, 1); }

struct Builder {
  Program program;
  Builder() {
    program.buffers = {
        {"in", Role::In, 1, -1}, {"out", Role::Out, 1, -1}, {"scratch", Role::Scratch, 2, -1}};
    program.ranks.resize(2);
  }
  std::vector<Instruction> &agent(size_t rank, size_t index) {
    std::vector<Agent> &agents = program.ranks[rank].agents;
    while (agents.size() <= index)
      agents.push_back({false, int32_t(agents.size()), {}});
    return agents[index].code;
  }
  /// Both ends of a signal from a rank to another, or itself: their channel numbers.
  std::pair<int32_t, int32_t> link(int32_t src, int32_t dst, int32_t tag) {
    auto add = [&](int32_t rank, Channel end) {
      program.ranks[size_t(rank)].channels.push_back(end);
      return int32_t(program.ranks[size_t(rank)].channels.size() - 1);
    };
    int32_t to = add(src, {true, dst, tag, 0});
    return {to, add(dst, {false, src, tag, 0})};
  }
  ProgramReport run(const ProgramCheckOptions &options = {}) {
    return check(program, contract(), options);
  }
};

Instruction copy(Operand from, Operand to) { return transfer({from}, {to}); }
/// Rank 0 writes its own out, then rank 1's, and says so.
Builder put() {
  Builder b;
  auto [to, from] = b.link(0, 1, 0);
  b.agent(0, 0) = {copy(local(0, 0), local(1, 0)), copy(local(0, 0), peer(1, 1, 0)), signal(to)};
  b.agent(1, 0) = {wait(from)};
  return b;
}

} // namespace

TEST_CASE("a put with a signal is right, and nobody ends too early") {
  ProgramReport report = put().run();
  CHECK(report.ok());
  CHECK_FALSE(report.exitBarrier);
  CHECK_FALSE(report.batchBarrier);
}

TEST_CASE("a put that nobody waits for needs a barrier at the exit") {
  Builder b;
  b.agent(0, 0) = {copy(local(0, 0), local(1, 0)), copy(local(0, 0), peer(1, 1, 0))};
  b.agent(1, 0) = {};
  ProgramReport report = b.run();
  CHECK(report.ok());
  CHECK(report.exitBarrier);
  REQUIRE(report.tooLate);
  CHECK(report.tooLate->owner == 1);
  CHECK(report.tooLate->access.find("rank 0") == 0);
  CHECK_FALSE(report.batchBarrier); // every micro-batch has its part of `out`
}

TEST_CASE("an access is too early if nothing was heard from the owner before") {
  Builder b = put();
  ProgramCheckOptions options;
  CHECK_FALSE(b.run(options).tooEarly); // nobody asked
  options.findsEarly = true;
  ProgramReport report = b.run(options);
  CHECK(report.ok());
  CHECK_FALSE(report.tooLate);
  REQUIRE(report.tooEarly);
  CHECK(report.tooEarly->owner == 1);
  CHECK(report.tooEarly->access.find("rank 0") == 0);
  // Rank 1 says first that it is there.
  auto [to, from] = b.link(1, 0, 1);
  b.agent(1, 0).insert(b.agent(1, 0).begin(), signal(to));
  b.agent(0, 0).insert(b.agent(0, 0).begin(), wait(from));
  report = b.run(options);
  CHECK(report.ok());
  CHECK_FALSE(report.tooEarly);
}

TEST_CASE("a get whose owner does not wait for it needs a barrier at the exit") {
  Builder b;
  b.agent(0, 0) = {copy(local(0, 0), local(1, 0)), copy(local(0, 0), local(2, 0))};
  auto [to, from] = b.link(0, 1, 0);
  b.agent(0, 0).push_back(signal(to));
  b.agent(1, 0) = {wait(from), copy(peer(0, 2, 0), local(1, 0))};
  ProgramReport report = b.run();
  CHECK(report.ok());
  CHECK(report.exitBarrier);
  CHECK(report.batchBarrier);

  auto [back, heard] = b.link(1, 0, 0);
  b.agent(1, 0).push_back(signal(back));
  b.agent(0, 0).push_back(wait(heard));
  report = b.run();
  CHECK(report.ok());
  CHECK_FALSE(report.exitBarrier);
  CHECK_FALSE(report.batchBarrier);
}

TEST_CASE("scratch that a peer fills again before it was read needs a barrier in between") {
  // Rank 0 puts into rank 1's scratch without asking; rank 1 tells nobody that it has read.
  Builder b;
  auto [to, from] = b.link(0, 1, 0);
  b.agent(0, 0) = {copy(local(0, 0), local(1, 0)), copy(local(0, 0), peer(1, 2, 0)), signal(to)};
  b.agent(1, 0) = {wait(from), copy(local(2, 0), local(1, 0))};
  ProgramReport report = b.run();
  CHECK(report.ok());
  CHECK_FALSE(report.exitBarrier); // the owner has seen the put
  CHECK(report.batchBarrier);
  // A credit makes it good: rank 0 waits for the word of the micro-batch.
  auto [credit, granted] = b.link(1, 0, 1);
  b.agent(1, 0).insert(b.agent(1, 0).begin(), signal(credit));
  b.agent(0, 0).insert(b.agent(0, 0).begin(), wait(granted));
  CHECK_FALSE(b.run().batchBarrier);
}

TEST_CASE("two agents that touch one place without a signal are a race") {
  Builder b = put();
  b.agent(0, 1) = {copy(local(0, 0), local(2, 1))};
  b.agent(0, 0).insert(b.agent(0, 0).begin(), copy(local(0, 0), local(2, 1)));
  ProgramReport report = b.run();
  REQUIRE(report.faults.size() == 1);
  const Fault &fault = report.faults.front();
  CHECK(verdict(report.faults, contract()) == "race");
  CHECK(fault.kind == FaultKind::Conflict);
  CHECK(fault.message ==
        "race: rank 0, scratch[1]: rank 0, block 0, instruction 0 writes it, and rank 0, block 1, "
        "instruction 0 writes it; nothing says which comes first");
  REQUIRE(fault.notes.size() == 1);
  CHECK(fault.notes[0].message == "the other access: rank 0, block 0, instruction 0");

  auto [to, from] = b.link(0, 0, 0);
  b.agent(0, 0).insert(b.agent(0, 0).begin() + 1, signal(to));
  b.agent(0, 1).insert(b.agent(0, 1).begin(), wait(from));
  CHECK(b.run().ok());
}

TEST_CASE("what is read before it is written, in one order, is a race and not uninitialized") {
  for (bool readerFirst : {false, true}) {
    Builder b = put();
    size_t reader = readerFirst ? 1 : 2, writer = readerFirst ? 2 : 1;
    b.agent(0, reader);
    b.agent(0, 2);
    b.agent(0, reader) = {copy(local(2, 0), local(2, 1))};
    b.agent(0, writer) = {copy(local(0, 0), local(2, 0))};
    ProgramReport report = b.run();
    CAPTURE(readerFirst);
    REQUIRE(report.faults.size() == 1);
    CHECK(report.faults.front().kind == FaultKind::Conflict);
  }
}

TEST_CASE("a copy of a chunk to where it is disturbs no reader, but may undo a write") {
  Builder b = put();
  b.agent(0, 1) = {copy(local(1, 0), local(1, 0))};
  ProgramReport report = b.run();
  REQUIRE(report.faults.size() == 1);
  CHECK(report.faults.front().kind == FaultKind::Conflict);
  auto [to, from] = b.link(0, 0, 0);
  b.agent(0, 1).insert(b.agent(0, 1).begin(), wait(from));
  b.agent(0, 0).insert(b.agent(0, 0).begin() + 1, signal(to));
  b.agent(0, 0).push_back(copy(local(1, 0), local(2, 0)));
  CHECK(b.run().ok());
}

TEST_CASE("a read that nobody writes is uninitialized") {
  Builder b = put();
  b.agent(0, 1) = {copy(local(2, 0), local(2, 1))};
  ProgramReport report = b.run();
  REQUIRE(report.faults.size() == 1);
  CHECK(report.faults.front().kind == FaultKind::Uninitialized);
}

TEST_CASE("of two chunks that are read too early, only the one that is written is a race") {
  for (bool readerFirst : {false, true}) {
    Builder b = put();
    size_t reader = readerFirst ? 1 : 2, writer = readerFirst ? 2 : 1;
    b.program.buffers[2].chunks = 4;
    b.agent(0, 2);
    b.agent(0, reader) = {copy(local(2, 0), local(2, 2))};
    b.agent(0, reader).front().count = 2;
    b.agent(0, writer) = {copy(local(0, 0), local(2, 0))};
    ProgramReport report = b.run();
    CAPTURE(readerFirst);
    std::vector<std::pair<FaultKind, int64_t>> found;
    for (const Fault &fault : report.faults)
      found.emplace_back(fault.kind, fault.chunk);
    std::sort(found.begin(), found.end());
    CHECK(found == std::vector<std::pair<FaultKind, int64_t>>{{FaultKind::Uninitialized, 1},
                                                              {FaultKind::Conflict, 0}});
  }
}

TEST_CASE("order goes through third parties") {
  // rank 0 block 0 -> rank 1 block 0 -> rank 0 block 1.
  Builder b = put();
  auto [back, heard] = b.link(1, 0, 0);
  b.agent(0, 0).insert(b.agent(0, 0).begin(), copy(local(0, 0), local(2, 0)));
  b.agent(1, 0).push_back(signal(back));
  b.agent(0, 1) = {wait(heard), copy(local(2, 0), local(2, 1))};
  CHECK(b.run().ok());
}

TEST_CASE("slots order nothing but what goes through them") {
  // Agent 1 takes from a slot what agent 0 sent before it wrote the scratch.
  Builder b = put();
  std::vector<Channel> &channels = b.program.ranks[0].channels;
  channels.push_back({true, 0, 7, 1});
  channels.push_back({false, 0, 7, 1});
  int32_t to = int32_t(channels.size()) - 2, from = to + 1;
  b.agent(0, 1) = {transfer({channel(from)}, {local(2, 1)}), copy(local(2, 0), local(2, 1))};
  b.agent(0, 0).push_back(copy(local(0, 0), local(2, 0)));
  b.agent(0, 0).push_back(transfer({local(0, 0)}, {channel(to)}));
  CHECK(b.run().ok());
  std::swap(b.agent(0, 0)[b.agent(0, 0).size() - 1], b.agent(0, 0)[b.agent(0, 0).size() - 2]);
  ProgramReport report = b.run();
  REQUIRE(report.faults.size() == 1);
  CHECK(report.faults.front().kind == FaultKind::Conflict);
}

TEST_CASE("clocks agree with maps") {
  std::mt19937 dice(7);
  for (int64_t chains : {1, 7, 8, 9, 64, 65, 700}) {
    CAPTURE(chains);
    Clocks clocks(chains);
    {
      std::vector<Clocks::Clock> some(6);
      std::vector<std::map<int64_t, uint32_t>> model(some.size());
      for (int i = 0; i < 3000; ++i) {
        size_t a = dice() % some.size(), b = dice() % some.size();
        int64_t chain = int64_t(dice()) % chains;
        if (dice() % 3 == 0) {
          some[a] = some[b];
          model[a] = model[b];
        } else if (dice() % 2) {
          clocks.join(some[a], some[b]);
          for (auto [c, t] : model[b])
            model[a][c] = std::max(model[a][c], t);
        } else {
          uint32_t time = model[a][chain] + dice() % 3;
          clocks.set(some[a], chain, time);
          model[a][chain] = time;
        }
        REQUIRE(clocks.at(some[a], chain) == model[a][chain]);
      }
      for (size_t a = 0; a < some.size(); ++a)
        for (int64_t chain = 0; chain < chains; ++chain)
          REQUIRE(clocks.at(some[a], chain) == model[a][chain]);
    }
    CHECK(clocks.numNodes() == 0);
  }
}

//===----------------------------------------------------------------------===//
// Against a straightforward reference: the whole graph, and all pairs
//===----------------------------------------------------------------------===//

namespace {

/// Happens-before of a program, or of it twice, as a reachability matrix.
class Graph {
public:
  struct Event {
    int32_t rank, agent, repetition;
    const Instruction *instruction;
  };

  Graph(const Program &program, int32_t repetitions) : program(program) {
    for (int32_t repetition = 0; repetition < repetitions; ++repetition)
      for (size_t rank = 0; rank < program.ranks.size(); ++rank)
        for (size_t agent = 0; agent < program.ranks[rank].agents.size(); ++agent)
          for (const Instruction &instruction : program.ranks[rank].agents[agent].code)
            events.push_back({int32_t(rank), int32_t(agent), repetition, &instruction});
    reach.assign(events.size(), std::vector<bool>(events.size()));
    addOrder();
    addSignals();
    for (size_t k = 0; k < events.size(); ++k)
      for (size_t i = 0; i < events.size(); ++i)
        if (reach[i][k])
          for (size_t j = 0; j < events.size(); ++j)
            reach[i][j] = reach[i][j] || reach[k][j];
  }

  bool hasCycle() const {
    for (size_t i = 0; i < events.size(); ++i)
      if (reach[i][i])
        return true;
    return false;
  }

  /// Calls f(event, rank, buffer, chunk, writes) for every access.
  template <typename F>
  void forEachAccess(const F &f) const {
    for (size_t i = 0; i < events.size(); ++i)
      for (bool writes : {false, true})
        for (const Operand &o : writes ? events[i].instruction->to : events[i].instruction->from)
          if (o.kind != Operand::Kind::Channel && !(writes && isSource(events[i], o)))
            f(i, o.kind == Operand::Kind::Peer ? o.peer : events[i].rank, o.buffer, o.chunk,
              writes);
  }

  /// Whether two accesses of one place are in any order, in one repetition or from one to
  /// the next, where only scratch is the same.
  bool hasRace(bool acrossRepetitions) const {
    bool race = false;
    forEachAccess([&](size_t a, int32_t rank, int32_t buffer, int64_t chunk, bool writes) {
      forEachAccess([&](size_t b, int32_t rankB, int32_t bufferB, int64_t chunkB, bool writesB) {
        bool same = rank == rankB && buffer == bufferB && chunk == chunkB && (writes || writesB);
        bool across = events[a].repetition < events[b].repetition;
        bool counts = acrossRepetitions ? across && buffer == 2
                                        : events[a].repetition == events[b].repetition && a != b;
        race |= same && counts && !reach[a][b] && (across || !reach[b][a]);
      });
    });
    return race;
  }

  bool endsTooEarly() const {
    bool early = false;
    forEachAccess([&](size_t a, int32_t owner, int32_t, int64_t, bool) {
      bool heard = events[a].rank == owner;
      for (size_t b = 0; b < events.size(); ++b)
        heard = heard || (events[b].rank == owner && reach[a][b]);
      early |= !heard;
    });
    return early;
  }

private:
  /// A chunk that is copied to where it is, is only read.
  static bool isSource(const Event &event, const Operand &o) {
    if (event.instruction->from.size() != 1)
      return false;
    const Operand &source = event.instruction->from.front();
    return source.kind == o.kind && source.peer == o.peer && source.buffer == o.buffer &&
           source.chunk == o.chunk;
  }
  void addOrder() {
    for (size_t a = 0; a < events.size(); ++a)
      for (size_t b = a + 1; b < events.size(); ++b) {
        const Event &x = events[a], &y = events[b];
        if (x.rank == y.rank && (x.repetition < y.repetition || x.agent == y.agent))
          reach[a][b] = true;
      }
  }
  void addSignals() {
    std::map<std::tuple<int32_t, int32_t, int32_t>, std::vector<size_t>> sent, taken;
    for (size_t i = 0; i < events.size(); ++i) {
      const Instruction &instruction = *events[i].instruction;
      if (instruction.kind == Instruction::Kind::Transfer)
        continue;
      const Channel &end =
          program.ranks[size_t(events[i].rank)].channels[size_t(instruction.channel)];
      int32_t me = events[i].rank;
      if (end.to)
        sent[{me, end.peer, end.tag}].push_back(i);
      else
        taken[{end.peer, me, end.tag}].push_back(i);
    }
    for (auto &[link, signals] : sent)
      for (size_t k = 0; k < signals.size(); ++k)
        reach[signals[k]][taken[link][k]] = true;
  }

  const Program &program;
  std::vector<Event> events;
  std::vector<std::vector<bool>> reach;
};

/// Up to three agents on each of two ranks that copy around in few places.
Builder randomProgram(std::mt19937 &dice) {
  auto below = [&](uint32_t n) { return int32_t(dice() % n); };
  Builder b;
  for (size_t rank : {0, 1})
    for (int32_t agent = below(3); agent >= 0; --agent)
      for (int32_t i = below(3); i >= 0; --i) {
        auto place = [&](bool target) {
          int32_t buffer = target ? 1 + below(2) : below(3);
          int64_t chunk = buffer == 2 ? below(2) : 0;
          return below(3) ? local(buffer, chunk) : peer(int32_t(1 - rank), buffer, chunk);
        };
        Operand from = place(false);
        b.agent(rank, size_t(agent)).push_back(copy(from, place(true)));
      }
  for (int32_t tag = below(8); tag > 0; --tag) {
    int32_t ranks[2] = {below(2), below(2)};
    auto [to, from] = b.link(ranks[0], ranks[1], tag);
    int32_t times = 1 + below(2), ends[2] = {to, from};
    for (int side : {0, 1}) {
      size_t rank = size_t(ranks[side]);
      auto &code = b.agent(rank, dice() % b.program.ranks[rank].agents.size());
      for (int32_t k = 0; k < times; ++k)
        code.insert(code.begin() + below(uint32_t(code.size()) + 1),
                    side ? wait(ends[side]) : signal(ends[side]));
    }
  }
  return b;
}

} // namespace

TEST_CASE("fuzz: races and barriers are those of the whole graph") {
  std::mt19937 dice(20261129);
  Contract unchecked = makeContract(Collective::Custom, 2, 1, Reduction::Sum);
  unchecked.customInChunks = unchecked.customOutChunks = 1;
  int stuck = 0, races = 0, exits = 0, batches = 0, clean = 0;
  for (int round = 0; round < 30000; ++round) {
    CAPTURE(round);
    Builder b = randomProgram(dice);
    ProgramReport report = check(b.program, unchecked, {.maxFaults = 1000});
    Graph graph(b.program, 2);
    auto has = [&](FaultKind kind) {
      return std::any_of(report.faults.begin(), report.faults.end(),
                         [&](const Fault &fault) { return fault.kind == kind; });
    };
    REQUIRE(has(FaultKind::Deadlock) == graph.hasCycle());
    if (graph.hasCycle()) {
      ++stuck;
      continue;
    }
    REQUIRE(has(FaultKind::Conflict) == graph.hasRace(false));
    if (graph.hasRace(false)) {
      ++races;
      continue;
    }
    REQUIRE(report.exitBarrier == graph.endsTooEarly());
    REQUIRE(report.batchBarrier == graph.hasRace(true));
    exits += report.exitBarrier;
    batches += report.batchBarrier;
    clean += !report.exitBarrier && !report.batchBarrier;
  }
  MESSAGE(stuck, " stuck, ", races, " races, ", exits, " end early, ", batches, " repeat early, ",
          clean, " clean");
  CHECK(std::min({stuck, races, exits, batches, clean}) > 50);
}
