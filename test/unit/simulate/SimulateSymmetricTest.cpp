// One rank simulated for all: equal to the simulation of all, to the last bit.

#include "test/unit/simulate/Symmetric.h"

#include "test/random/Seeds.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace ccl::model;
using ccl::soak::Dice;

namespace {

int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }

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
  SimulateReport all =
      simulate(unfold(folded.rankZero, folded.symmetry), folded.contract, t, options);
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

namespace {

/// Every rank writes a chunk to those of its box, and to those of its number in other boxes.
Symmetric inBoxes(int64_t nodes, int64_t gpus) {
  const int64_t n = nodes * gpus;
  ProgramMaker maker(1, {{"in", Role::In, 1}, {"out", Role::Out, n}}, 1);
  for (int64_t node = 0; node < nodes; ++node)
    for (int64_t gpu = 0; gpu < gpus; ++gpu) {
      if ((node == 0) == (gpu == 0))
        continue;
      const int64_t back = modulo(-node, nodes) * gpus + modulo(-gpu, gpus);
      const int32_t to = int32_t(node * gpus + gpu);
      maker.add(0, transfer({local(0, 0)}, {ccl::model::peer(to, 1, 0)}), node > 0);
      maker.add(0, maker.tell(0, to, 1), node > 0);
      maker.add(0, maker.hear(0, int32_t(back), 1), node > 0);
    }
  return {maker.program,
          {{nodes, gpus}, {{{1, {0, 0}}}, {{nodes, {1, 0}}, {gpus, {0, 1}}}}, {}},
          makeContract(Collective::AllGather, n, 1)};
}

/// `second`: further networks, every other way goes there.
Topology boxes(int64_t nodes, int64_t gpus, bool second) {
  Topology t = boxTopology(nodes, gpus, 90, 10, 0.5, 5);
  for (int64_t gpu = 0; gpu < gpus; ++gpu)
    t.switches[size_t(nodes + gpu)].kind = SwitchKind::Nic;
  for (int64_t gpu = 0; second && gpu < gpus; ++gpu) {
    const int32_t other = int32_t(t.nodes());
    t.switches.push_back({"second" + std::to_string(gpu)});
    for (int64_t node = 0; node < nodes; ++node)
      addBoth(t, int32_t(node * gpus + gpu), other, 10, 2.5);
  }
  return t;
}

} // namespace

TEST_CASE("boxes and networks, of up to 512 ranks, by automorphisms and one by one") {
  for (auto [nodes, gpus] : {std::pair<int64_t, int64_t>{2, 2}, {3, 4}, {8, 8}, {64, 8}})
    for (const char *name : {"ccl", "nccl"}) {
      CAPTURE(nodes);
      CAPTURE(name);
      const Symmetric folded = inBoxes(nodes, gpus);
      const Topology t = boxes(nodes, gpus, false);
      SimulateOptions options = optionsFor(1200, 2);
      options.model = *parseCostModel(name);
      const SimulateReport quick = compare(folded, t, options);
      if (options.model.latencies)
        continue;
      // A curve of one pair, which another one then replaces: now all images are looked at.
      const CostCurve curve{{{0, INFINITY, 0, 0}}};
      options.curves = {{WayCurve::Of::Pair, 0, 1, curve}, {WayCurve::Of::Any, 0, 0, curve}};
      const SimulateReport slow = compare(folded, t, options);
      CHECK(quick.us == slow.us);
      CHECK(quick.events == slow.events);
    }
}

TEST_CASE("equal ways that are spread over switches are no symmetry") {
  const Symmetric folded = inBoxes(8, 2);
  std::string why;
  CHECK(!simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry, boxes(8, 2, true),
                           optionsFor(1200), &why));
  CHECK(why.find("carry different messages") != std::string::npos);
}

TEST_CASE("a kind of way that shifts change") {
  // Boxes of two, but the shifts are those of a ring of six.
  Topology t = fullTopology(6, 25, 0.5);
  t.axes = {{"node", 3}, {"gpu", 2}};
  const Symmetric folded = direct(6, false, 1);
  SimulateOptions options = optionsFor(1200);
  compare(folded, t, options);
  options.model = *parseCostModel("nccl");
  std::string why;
  CHECK(!simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry, t, options, &why));
  CHECK(why.find("differ in links, bandwidth or latency") != std::string::npos);
}

TEST_CASE("chunks of a shard that differ in length, as those of all shards do") {
  for (auto [a, b, lanes] :
       {std::tuple<int64_t, int64_t, int32_t>{2, 3, 2}, {3, 5, 4}, {8, 8, 6}, {16, 32, 3}})
    for (int64_t more : {1, 2}) {
      CAPTURE(a);
      CAPTURE(lanes);
      SimulateOptions options = optionsFor(lanes * 60 + more, a * b > 100 ? 1 : 7);
      options.batchOrder = BatchOrder::Agent;
      const SimulateReport report =
          compare(torus(a, b, 3, lanes), torusTopology(a, b, 10, 0), options);
      options.count = lanes * 60; // it does make a difference
      CHECK(report.us > compare(torus(a, b, 3, lanes), torusTopology(a, b, 10, 0), options).us);
    }
}

TEST_CASE("iterations over chunks that differ in length") {
  // Every chunk of every shard to the next rank; which shard comes first differs from rank to rank.
  for (const bool inOrder : {true, false}) {
    ProgramMaker maker(1, {{"in", Role::In, 3}, {"out", Role::Out, 12}}, 2);
    for (int32_t shard = 0; shard < 4; ++shard)
      for (int32_t c : {0, 1, 2}) {
        const int32_t chunk = shard * 3 + (!inOrder && shard == 2 ? 2 - c : c);
        maker.add(0, transfer({local(1, chunk)}, {maker.to(0, 1, 0)}));
        maker.add(0, transfer({maker.from(0, 3, 0)}, {local(1, chunk)}));
      }
    const Symmetric folded{maker.program,
                           {{4}, {{{3, {0}}}, {{4, {1}}, {3, {0}}}}, {{0, 0, 6, 4, {{4, {1}}}}}},
                           makeContract(Collective::AllGather, 4, 3)};
    const SimulateOptions options = optionsFor(17, 2);
    if (inOrder) {
      compare(folded, ringTopology(4, 25, 1), options);
      continue;
    }
    std::string why;
    CHECK(!simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry,
                             ringTopology(4, 25, 1), options, &why));
    CHECK(why == "agent 0, instruction 12: iterations that ranks execute in different orders take "
                 "different times");
  }
}

namespace {

/// All-reduce in switches: every rank adds up its chunk of all, and writes it to all.
Symmetric inSwitches(int64_t n) {
  ProgramMaker maker(1, {{"in", Role::In, n}, {"out", Role::Out, n}}, 1);
  std::vector<Operand> from = {local(0, 0)}, to = {local(1, 0)};
  for (int32_t r = 1; r < n; ++r)
    from.push_back(peer(r, 0, 0)), to.push_back(peer(r, 1, 0));
  maker.add(0, transfer(from, to, true));
  return {maker.program,
          {{n}, {{{n, {1}}}, {{n, {1}}}}, {}},
          makeContract(Collective::AllReduce, n, n, Reduction::Sum)};
}

} // namespace

TEST_CASE("measured curves, of all ways or of some") {
  SimulateOptions options = optionsFor(8 * 120, 3);
  options.curves = {{WayCurve::Of::Nvlink, 0, 0, {{{0, INFINITY, 6, 1e-3 / 7}}}}};
  compare(ring(8, 2, true), starTopology(8, 25, 0.5), options);
}

TEST_CASE("copies and sums in switches") {
  for (int64_t n : {2, 3, 8, 64})
    for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
      if (n > 8 && sharing == Sharing::Fair)
        continue;
      CAPTURE(n);
      SimulateOptions options = optionsFor(n * 120, 3);
      options.sharing = sharing;
      Topology t = starTopology(n, 25, 0.5);
      const SimulateReport plain = compare(inSwitches(n), t, options);
      t.switches[0].multicast = t.switches[0].reduce = true;
      const SimulateReport better = compare(inSwitches(n), t, options);
      CHECK(better.us <= plain.us * (1 + 1e-12));
      // Up goes what others add up, and one copy instead of one for each.
      CHECK(plain.links[0].bytes * double(n) == better.links[0].bytes * double(2 * (n - 1)));
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
    SimulateReport all = simulate(unfold(folded.rankZero, folded.symmetry), folded.contract,
                                  starTopology(8, 25, 0.7), options);
    CHECK(std::abs(one->us - all.us) <= 1e-9 * all.us);
  }
}
