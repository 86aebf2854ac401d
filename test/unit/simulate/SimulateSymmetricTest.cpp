// One rank simulated for all: equal to the simulation of all, to the last bit.

#include "test/unit/simulate/Timing.h"

#include "test/random/Seeds.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace ccl::model;
using ccl::soak::Dice;

namespace {

int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }

struct Symmetric {
  Program rankZero;
  Symmetry symmetry;
  Contract contract;
};

Program unfold(const Symmetric &folded) {
  ShiftGroup group(folded.symmetry);
  Program all;
  all.buffers = folded.rankZero.buffers;
  for (int64_t rank = 0; rank < group.numRanks(); ++rank) {
    RankProgram program = folded.rankZero.ranks[0];
    for (Channel &channel : program.channels)
      channel.peer = int32_t(group.moveRank(rank, channel.peer));
    for (Agent &agent : program.agents)
      for (Instruction &instruction : agent.code)
        for (std::vector<Operand> *operands : {&instruction.from, &instruction.to})
          for (Operand &operand : *operands) {
            if (operand.kind == Operand::Kind::Peer)
              operand.peer = int32_t(group.moveRank(rank, operand.peer));
            if (operand.kind != Operand::Kind::Channel)
              operand.chunk = group.moveChunk(rank, operand.buffer, operand.chunk);
          }
    all.ranks.push_back(std::move(program));
  }
  return all;
}

Symmetric ring(int64_t n, int32_t slots, bool fused) {
  Program program = ringProgram(n, slots, fused);
  program.ranks.resize(1);
  return {
      program, {{n}, {{{n, {1}}}}, {}}, makeContract(Collective::AllReduce, n, n, Reduction::Sum)};
}

/// All-gather on an a x b torus with an agent for each of `lanes` lanes, every other one of which
/// goes along columns first, and the other way round.
Symmetric torus(int64_t a, int64_t b, int32_t slots, int32_t lanes) {
  ProgramMaker maker(1, {{"in", Role::In, lanes}, {"out", Role::Out, a * b * lanes}}, slots);
  for (int32_t lane = 0; lane < lanes; ++lane) {
    const bool turned = lane % 2, back = lane % 4 > 1;
    const int64_t sign = back ? -1 : 1;
    auto rankAt = [&](int64_t i, int64_t j) { return int32_t(modulo(i, a) * b + modulo(j, b)); };
    auto out = [&](int64_t along, int64_t across) {
      int64_t rank =
          turned ? rankAt(-sign * along, -sign * across) : rankAt(-sign * across, -sign * along);
      return local(1, rank * lanes + lane);
    };
    auto add = [&](Instruction i) { maker.add(0, std::move(i), size_t(lane)); };
    auto neighbor = [&](bool first, int64_t step) {
      return first == turned ? rankAt(step, 0) : rankAt(0, step);
    };
    const int64_t inner = turned ? a : b, outer = turned ? b : a;
    add(transfer({local(0, lane)}, {out(0, 0)}));
    for (int64_t s = 1; s < inner; ++s) {
      add(transfer({out(s - 1, 0)}, {maker.to(0, neighbor(true, sign), 2 * lane)}));
      add(transfer({maker.from(0, neighbor(true, -sign), 2 * lane)}, {out(s, 0)}));
    }
    for (int64_t s = 1; s < outer; ++s)
      for (int64_t j = 0; j < inner; ++j) {
        add(transfer({out(j, s - 1)}, {maker.to(0, neighbor(false, sign), 2 * lane + 1)}));
        add(transfer({maker.from(0, neighbor(false, -sign), 2 * lane + 1)}, {out(j, s)}));
      }
  }
  return {maker.program,
          {{a, b}, {{{lanes, {0, 0}}}, {{a, {1, 0}}, {b, {0, 1}}, {lanes, {0, 0}}}}, {}},
          makeContract(Collective::AllGather, a * b, lanes)};
}

Topology torusTopology(int64_t a, int64_t b, double bandwidth, double latency) {
  Topology t;
  t.name = "torus", t.axes = {{"x", a}, {"y", b}};
  for (int64_t i = 0; i < a; ++i)
    for (int64_t j = 0; j < b; ++j) {
      const int32_t r = int32_t(i * b + j);
      if (a > 1 && (a > 2 || i == 0))
        addBoth(t, r, int32_t((i + 1) % a * b + j), bandwidth, latency);
      if (b > 1 && (b > 2 || j == 0))
        addBoth(t, r, int32_t(i * b + (j + 1) % b), bandwidth * 2, latency / 3);
    }
  return t;
}

/// All to all by writing into or reading from all others, `lanes` agents, behind signals.
Symmetric direct(int64_t n, bool reads, int32_t lanes) {
  ProgramMaker maker(1, {{"in", Role::In, n}, {"out", Role::Out, n}}, 1);
  maker.add(0, transfer({local(0, 0)}, {local(1, 0)}));
  for (int32_t s = 1; s < n; ++s) {
    const int32_t peer = s, back = int32_t(n) - s;
    const size_t lane = size_t(s % lanes);
    auto add = [&](Instruction i) { maker.add(0, std::move(i), lane); };
    if (reads) {
      add(maker.tell(0, back, 1));
      add(maker.hear(0, peer, 1));
      add(transfer({ccl::model::peer(peer, 0, 0)}, {local(1, peer)}));
      add(maker.tell(0, peer, 2));
      add(maker.hear(0, back, 2));
    } else {
      add(transfer({local(0, peer)}, {ccl::model::peer(peer, 1, 0)}));
      add(maker.tell(0, peer, 1));
      add(maker.hear(0, back, 1));
    }
  }
  return {
      maker.program, {{n}, {{{n, {1}}}, {{n, {1}}}}, {}}, makeContract(Collective::AllToAll, n, 1)};
}

/// Random messages to the ranks at random distances. All ranks do the same at once, so one slot is
/// enough.
Symmetric randomTraffic(int64_t n, const std::vector<int32_t> &distances, Dice &dice) {
  ProgramMaker maker(1, {{"x", Role::InOut, n}}, int32_t(1 + dice.below(2)));
  const int64_t lanes = 1 + dice.below(4);
  auto place = [&] { return local(0, dice.below(n - 1)); };
  for (int64_t moves = 2 + dice.below(20); moves > 0; --moves) {
    const int32_t peer = dice.pick(distances), back = int32_t(n) - peer;
    const size_t i = size_t(dice.below(lanes)), j = size_t(dice.below(lanes));
    const int32_t tag = int32_t(3 * (int64_t(i) * lanes + int64_t(j)));
    auto at = [&](int32_t rank) { return ccl::model::peer(rank, 0, dice.below(n - 1)); };
    switch (dice.below(3)) {
    case 0:
      maker.add(0, transfer({place()}, {maker.to(0, peer, tag)}), i);
      maker.add(0, transfer({maker.from(0, back, tag), place()}, {place()}, true), j);
      break;
    case 1:
      maker.add(0, transfer({place()}, {at(peer)}), i);
      maker.add(0, maker.tell(0, peer, tag + 1), i);
      maker.add(0, maker.hear(0, back, tag + 1), j);
      break;
    default:
      maker.add(0, maker.tell(0, back, tag + 2), i);
      maker.add(0, maker.hear(0, peer, tag + 2), j);
      maker.add(0, transfer({at(peer), place()}, {place()}, true), j);
    }
  }
  return {maker.program,
          {{n}, {{{n, {1}}}}, {}},
          makeContract(Collective::AllReduce, n, n, Reduction::Sum)};
}

SimulateReport compare(const Symmetric &folded, const Topology &t, const SimulateOptions &options) {
  std::string why;
  auto one = simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry, t, options, &why);
  INFO(why);
  REQUIRE(one);
  REQUIRE(one->ok());
  CHECK(one->folded);
  SimulateReport all = simulate(unfold(folded), folded.contract, t, options);
  REQUIRE(all.ok());
  CHECK(one->us == all.us);
  CHECK(one->algbw == all.algbw);
  CHECK(one->messages == all.messages);
  CHECK(one->moved == all.moved);
  CHECK(one->events * uint64_t(folded.contract.ranks) == all.events);
  REQUIRE(one->links.size() == all.links.size());
  for (size_t l = 0; l < all.links.size(); ++l) {
    CHECK(one->links[l].bytes == all.links[l].bytes);
    CHECK(one->links[l].busyUs == all.links[l].busyUs);
  }
  for (size_t r = 0; r < all.resources.size(); ++r) {
    CHECK(one->resources[r].bytes == all.resources[r].bytes);
    CHECK(one->resources[r].busyUs == all.resources[r].busyUs);
  }
  const size_t agents = one->agents.size();
  for (size_t a = 0; a < all.agents.size(); ++a) {
    CHECK(one->agents[a % agents].endUs == all.agents[a].endUs);
    CHECK(one->agents[a % agents].linkUs == all.agents[a].linkUs);
    CHECK(one->agents[a % agents].dataUs == all.agents[a].dataUs);
  }
  return *one;
}

SimulateOptions optionsFor(int64_t count, int64_t batches = 1) {
  SimulateOptions options;
  options.count = count, options.batches = batches;
  return options;
}

} // namespace

TEST_CASE("rings of up to 512 ranks") {
  for (int64_t n : {2, 3, 8, 64, 512})
    for (bool fused : {false, true}) {
      CAPTURE(n);
      compare(ring(n, 2, fused), ringTopology(n, 25, 0.7), optionsFor(n * 120));
      if (n <= 64)
        compare(ring(n, 3, fused), starTopology(n, 25, 0.7), optionsFor(n * 120, 4));
    }
}

TEST_CASE("lanes that share the links of a torus, of up to 512 ranks") {
  for (auto [a, b, lanes] : {std::tuple<int64_t, int64_t, int32_t>{2, 3, 1},
                             {4, 4, 2},
                             {3, 5, 4},
                             {8, 8, 6},
                             {16, 32, 4}})
    for (int32_t slots : {2, 7}) {
      CAPTURE(a);
      CAPTURE(lanes);
      SimulateOptions options = optionsFor(lanes * 60, a * b > 100 ? 1 : 3);
      for (BatchOrder order : {BatchOrder::Rank, BatchOrder::Agent, BatchOrder::Barrier}) {
        options.batchOrder = order;
        SimulateReport report =
            compare(torus(a, b, slots, lanes), torusTopology(a, b, 10, 0.5), options);
        if (a * b > 100)
          break;
        if (lanes > 4) { // they do meet
          double link = 0;
          for (const AgentUse &agent : report.agents)
            link += agent.linkUs;
          CHECK(link > 0);
        }
      }
    }
}

TEST_CASE("direct access, switches, resources, models") {
  for (bool reads : {false, true})
    for (int32_t lanes : {1, 3}) {
      for (const char *name : {"ccl", "taccl", "tacos", "teccl", "nccl", "nccl:ll"}) {
        SimulateOptions options = optionsFor(840, 2);
        options.model = *parseCostModel(name);
        options.model.syncUs = 0.25;
        options.model.laneGBps = 33;
        compare(direct(8, reads, lanes), starTopology(8, 25, 0.7), options);
        compare(direct(7, reads, lanes), fullTopology(7, 25, 0.7), options);
        Topology shared = fullTopology(6, 25, 0.7);
        for (int r = 0; r < 6; ++r)
          shared.resources.push_back({"port" + std::to_string(r), r % 1 ? 0.0 : 40.0});
        for (Link &link : shared.links)
          link.resources = {link.src};
        compare(direct(6, reads, lanes), shared, options);
      }
      compare(direct(64, reads, lanes), starTopology(64, 25, 0.7), optionsFor(64, 1));
    }
}

TEST_CASE("random messages, many of them at one time") {
  for (uint64_t seed : ccl::random::seeds(1000)) {
    CAPTURE(seed);
    Dice dice(seed, 3);
    const int64_t n = 3 + dice.below(5);
    const double latency = dice.chance(80) ? 0 : 0.5;
    SimulateOptions options = optionsFor(n * dice.pick(std::vector<int64_t>{0, 12, 1200}));
    options.batches = 1 + dice.below(3);
    options.batchOrder = dice.chance(50) ? BatchOrder::Rank : BatchOrder::Agent;
    if (dice.chance(20))
      options.model.syncUs = 0.1;
    if (dice.chance(20))
      options.model = tacclModel();
    std::vector<int32_t> all;
    for (int32_t d = 1; d < n; ++d)
      all.push_back(d);
    switch (dice.below(3)) {
    case 0:
      compare(randomTraffic(n, {1, int32_t(n) - 1}, dice), ringTopology(n, 25, latency), options);
      break;
    case 1: compare(randomTraffic(n, all, dice), fullTopology(n, 25, latency), options); break;
    default: compare(randomTraffic(n, all, dice), starTopology(n, 25, latency), options);
    }
  }
}

TEST_CASE("fair shares are those of all ranks, too") {
  SimulateOptions options = optionsFor(840, 2);
  options.sharing = Sharing::Fair;
  for (bool reads : {false, true}) {
    Symmetric folded = direct(8, reads, 4);
    auto one = simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry,
                                 starTopology(8, 25, 0.7), options);
    REQUIRE(one);
    SimulateReport all =
        simulate(unfold(folded), folded.contract, starTopology(8, 25, 0.7), options);
    CHECK(std::abs(one->us - all.us) <= 1e-9 * all.us);
  }
}

TEST_CASE("what does not keep step is refused") {
  std::string why;
  auto refused = [&](const Symmetric &folded, const Topology &t, const SimulateOptions &options) {
    why.clear();
    return !simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry, t, options, &why);
  };
  CHECK(!refused(ring(4, 2, true), ringTopology(4, 25, 1), optionsFor(16, 4)));
  CHECK(refused(ring(4, 2, true), ringTopology(4, 25, 1), optionsFor(17)));
  CHECK(why ==
        "17 elements are not divisible by 4 chunks and 1 micro-batches, so that lengths differ");
  Topology uneven = ringTopology(4, 25, 1);
  uneven.links[4].bandwidth = 20;
  CHECK(refused(ring(4, 2, true), uneven, optionsFor(16)));
  CHECK(why ==
        "the ways from rank 0 to rank 1 and from rank 2 to rank 3 differ in links, bandwidth "
        "or latency");
  // Two switches with two ranks each: the link between them carries messages of both.
  Topology twoLevels;
  twoLevels.axes = {{"rank", 4}}, twoLevels.switches = {{"a"}, {"b"}};
  addBoth(twoLevels, 0, 4, 25, 1), addBoth(twoLevels, 1, 4, 25, 1), addBoth(twoLevels, 2, 5, 25, 1);
  addBoth(twoLevels, 3, 5, 25, 1), addBoth(twoLevels, 4, 5, 25, 1);
  CHECK(refused(direct(4, true, 1), twoLevels, optionsFor(16)));
  CHECK(!why.empty());
  ProgramMaker across(1, {{"x", Role::InOut, 4}}, 1);
  across.add(0, transfer({local(0, 0)}, {across.to(0, 2)}));
  across.add(0, transfer({across.from(0, 2)}, {local(0, 0)}));
  CHECK(refused({across.program,
                 {{2, 2}, {{{2, {1, 0}}, {2, {0, 1}}}}, {}},
                 makeContract(Collective::AllReduce, 4, 4, Reduction::Sum)},
                twoLevels, optionsFor(16)));
  CHECK(why == "the link from a to b carries the same message of several ranks");
  // A resource that only two of the ranks share.
  Topology shared = fullTopology(4, 25, 1);
  shared.resources = {{"a", 0}, {"b", 0}, {"c", 0}};
  for (Link &link : shared.links)
    link.resources = {link.src / 2 ? link.src - 1 : 0};
  CHECK(refused(direct(4, true, 1), shared, optionsFor(16)));
  CHECK(!why.empty());
  // What two links of rank 0 share, those of others have one each of.
  Topology lopsided = fullTopology(4, 25, 1);
  for (Link &link : lopsided.links) {
    link.resources = {int32_t(lopsided.resources.size())};
    lopsided.resources.push_back({"r" + std::to_string(lopsided.resources.size()), 0});
  }
  CHECK(!refused(direct(4, false, 1), lopsided, optionsFor(16)));
  for (Link &link : lopsided.links)
    if (link.src == 0 && link.dst < 3)
      link.resources = {0};
  CHECK(refused(direct(4, false, 1), lopsided, optionsFor(16)));
  CHECK(why.find("carry different messages") != std::string::npos);
  Symmetric stuck = ring(4, 1, true);
  auto report = simulateSymmetric(stuck.rankZero, stuck.contract, stuck.symmetry,
                                  ringTopology(4, 25, 1), optionsFor(16), &why);
  REQUIRE(report);
  REQUIRE(report->faults.size() == 1);
  CHECK(report->faults[0].kind == FaultKind::Deadlock);
}

TEST_CASE("iterations that ranks execute in different orders") {
  // Every chunk in turn to the next rank: whatever the order, all take the same time.
  for (bool same : {true, false}) {
    ProgramMaker maker(1, {{"in", Role::In, 4}, {"out", Role::Out, 4}}, 2);
    for (int32_t c = 0; c < 4; ++c) {
      const int32_t tag = !same && c == 3 ? 5 : 0;
      maker.add(0, transfer({local(0, c)}, {maker.to(0, 1, tag)}));
      maker.add(0, transfer({maker.from(0, 3, tag)}, {local(1, c)}));
    }
    Symmetric folded{maker.program,
                     {{4}, {{{4, {1}}}, {{4, {1}}}}, {{0, 0, 2, 4, {{4, {1}}}}}},
                     makeContract(Collective::AllReduce, 4, 4, Reduction::Sum)};
    std::string why;
    auto report = simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry,
                                    ringTopology(4, 25, 1), optionsFor(16), &why);
    CHECK(report.has_value() == same);
    if (!same)
      CHECK(why == "agent 0, instruction 6: iterations that ranks execute in different orders take "
                   "different times");
  }
}
