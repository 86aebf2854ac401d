// No simulation is faster than what Bound.h proves, whatever the topology, program and size.
//
// CCL_TEST_SEEDS=0:10000 takes ten thousand cases instead of some hundreds.

#include "dialect/bound/Bound.h"

#include "test/unit/simulate/Timing.h"

#include "test/random/Algorithms.h"
#include "test/random/Seeds.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

using namespace ccl::model;
using ccl::random::Dice;

namespace {

/// The moves as programs: through slots, or read by the destination behind signals, one agent a
/// rank; each agent in the order of the moves.
Program randomProgram(const Moves &moves, Dice &dice) {
  ProgramMaker maker(moves.ranks, moves.buffers, int32_t(1 + dice.below(4)));
  const int64_t direct = dice.pick(std::vector<int64_t>{0, 50, 100});
  for (const Move &move : moves.moves) {
    const Operand src = local(move.src.buffer, move.src.chunk);
    const Operand dst = local(move.dst.buffer, move.dst.chunk);
    const int32_t a = move.src.rank, b = move.dst.rank;
    const bool reduces = move.kind == MoveKind::Reduce;
    auto add = [&](int32_t rank, Operand from, Operand to, bool combines) {
      std::vector<Operand> sources = {from};
      if (combines)
        sources.push_back(to);
      maker.add(rank, transfer(sources, {to}, combines, move.count));
    };
    if (a == b) {
      add(a, src, dst, reduces);
    } else if (!dice.chance(direct)) {
      add(a, src, maker.to(a, b, 0), false);
      add(b, maker.from(b, a, 0), dst, reduces);
    } else if (!reduces && dice.chance(50)) {
      maker.add(b, maker.tell(b, a, 1));
      maker.add(a, maker.hear(a, b, 1));
      add(a, src, peer(b, move.dst.buffer, move.dst.chunk), false);
      maker.add(a, maker.tell(a, b, 2));
      maker.add(b, maker.hear(b, a, 2));
    } else {
      maker.add(a, maker.tell(a, b, 1));
      maker.add(b, maker.hear(b, a, 1));
      add(b, peer(a, move.src.buffer, move.src.chunk), dst, reduces);
      maker.add(b, maker.tell(b, a, 2));
      maker.add(a, maker.hear(a, b, 2));
    }
  }
  return maker.program;
}

struct Case {
  Contract contract;
  Program program;
};

/// One transfer reads from all ranks, writes to all, or both, as switches that copy and add can do
/// in one.
Case switchCase(int64_t n, Dice &dice) {
  const Collective c = dice.pick(std::vector<Collective>{
      Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
      Collective::Broadcast, Collective::Reduce});
  const bool adds = reduces(c), isAllReduce = c == Collective::AllReduce;
  const bool copies = !adds || isAllReduce, rooted = hasRoot(c);
  const Contract contract =
      makeContract(c, n, isAllReduce ? n : 1, adds ? Reduction::Sum : Reduction::None);
  ProgramMaker maker(
      n, {{"in", Role::In, contract.inChunks()}, {"out", Role::Out, contract.outChunks()}}, 1);
  for (int32_t r = 0; r < (rooted ? 1 : n); ++r) {
    const int64_t in = isAllReduce || c == Collective::ReduceScatter ? r : 0;
    const int64_t out = isAllReduce || c == Collective::AllGather ? r : 0;
    std::vector<Operand> from = {local(0, in)}, to = {local(1, out)};
    for (int32_t p = 0; p < n; ++p) {
      if (p != r && adds)
        from.push_back(peer(p, 0, in));
      if (p != r && copies)
        to.push_back(peer(p, 1, out));
    }
    maker.add(r, transfer(from, to, adds));
  }
  for (int32_t r = 0; r < n; ++r)
    for (int32_t p = 0; p < n; ++p)
      if (p != r && (!rooted || r == 0)) {
        maker.add(r, maker.tell(r, p));
        maker.add(p, maker.hear(p, r), 1);
      }
  return {contract, maker.program};
}

/// Random moves are far from any bound; these come near on some topologies.
Case knownCase(Dice &dice) {
  const int64_t n = 2 + dice.below(6);
  const int32_t slots = int32_t(2 + dice.below(4));
  switch (dice.below(6)) {
  case 0:
    return {makeContract(Collective::AllReduce, n, n, Reduction::Sum),
            ringProgram(n, slots, dice.chance(50))};
  case 1:
    return {makeContract(Collective::AllReduce, n, 1, Reduction::Sum),
            randomProgram(treeAllReduce(n), dice)};
  case 2:
    return {makeContract(Collective::AllGather, n, 1), randomProgram(ringAllGather(n, true), dice)};
  case 3: return {makeContract(Collective::Broadcast, n, 1), chainProgram(n, slots)};
  case 4: return switchCase(n, dice);
  default:
    return {makeContract(Collective::AllReduce, 6, 6, Reduction::Sum),
            twoLevelProgram(2, 3, slots)};
  }
}

Case randomCase(uint64_t seed, Dice &dice) {
  ccl::random::AlgorithmOptions wanted;
  wanted.collective = dice.pick(
      std::vector<Collective>{Collective::AllReduce, Collective::AllGather,
                              Collective::ReduceScatter, Collective::Broadcast, Collective::Reduce,
                              Collective::Gather, Collective::Scatter, Collective::AllToAll});
  wanted.ranks = 2 + dice.below(6);
  ccl::random::Algorithm algorithm = ccl::random::randomAlgorithm(seed, wanted);
  Program program = randomProgram(algorithm.moves, dice);
  return {std::move(algorithm.contract), std::move(program)};
}

/// Some switches copy and add; some fabrics are rings whose links can change.
Topology randomFabric(int64_t ranks, Dice &dice) {
  if (ranks > 2 && dice.chance(15)) {
    Topology t = ringTopology(ranks, 20, dice.chance(50) ? 0 : 1.5);
    for (Link &link : t.links)
      if (dice.chance(30))
        link.bandwidth = double(1 + dice.below(60)), link.latency = double(dice.below(30)) / 10;
    t.reconfigurable = double(dice.below(3));
    return t;
  }
  Topology t = randomTopology(ranks, dice);
  for (Switch &s : t.switches)
    s.multicast = dice.chance(40), s.reduce = dice.chance(40);
  return t;
}

CostCurve randomCurve(Dice &dice) {
  CostCurve curve;
  double lo = 0;
  for (int64_t pieces = 1 + dice.below(3); pieces > 0; --pieces) {
    const double hi = pieces == 1 ? INFINITY : lo + double(1 + dice.below(1000000));
    curve.segments.push_back({lo, hi, double(dice.below(20)), 1e-3 / double(1 + dice.below(100))});
    lo = hi;
  }
  return curve;
}

} // namespace

TEST_CASE("never below the bound") {
  int64_t cases = 0, tight = 0;
  uint64_t changes = 0;
  for (uint64_t seed : ccl::random::seeds(400)) {
    CAPTURE(seed);
    Dice dice(seed, 5);
    const auto [contract, program] = dice.chance(40) ? knownCase(dice) : randomCase(seed, dice);
    CHECK(check(program, contract).ok()); // only then a bound holds
    const Topology t = randomFabric(contract.ranks, dice);
    REQUIRE(t.check() == "");
    BoundOptions boundOptions;
    boundOptions.root = contract.root;
    const Topology best = t.reconfigurable ? withAnyCircuits(t) : t;
    auto bound = bandwidthBound(best, contract.collective, boundOptions);
    REQUIRE(bound);
    for (int64_t size :
         {int64_t(0), int64_t(1), 10 + dice.below(1000), 100000 + dice.below(10000000)}) {
      SimulateOptions options;
      options.count = size;
      options.batches = 1 + (dice.chance(50) ? dice.below(6) : 0);
      options.sharing = dice.chance(30) ? Sharing::Fair : Sharing::Fifo;
      options.batchOrder = dice.pick(
          std::vector<BatchOrder>{BatchOrder::Rank, BatchOrder::Agent, BatchOrder::Barrier});
      if (dice.chance(30))
        options.model = *parseCostModel(dice.chance(50) ? "taccl" : "ccl");
      if (options.model.storesAndForwards || t.reconfigurable)
        options.sharing = Sharing::Fifo;
      else if (dice.chance(20) && options.model.name == "ccl")
        options.curves = {{WayCurve::Of::Any, 0, 0, randomCurve(dice)}};
      if (dice.chance(20))
        options.model.laneGBps = double(1 + dice.below(100));
      const SimulateReport report = simulate(program, contract, t, options);
      if (!report.ok()) {
        CHECK(report.faults[0].message == "");
        break;
      }
      const int64_t bytes = sizeOf(contract, size, options.elementBytes);
      const double least = timeBound(best, *bound, bytes);
      CAPTURE(size);
      CHECK(report.us >= least * (1 - 1e-9));
      tight += report.us < least * 1.5;
      ++cases;
      changes += report.changes;
      for (size_t l = 0; l < t.links.size(); ++l) {
        CHECK(report.links[l].busyUs <= report.us * (1 + 1e-9));
        CHECK(report.links[l].bytes <= t.links[l].bandwidth * 1000 * report.us * (1 + 1e-9));
      }
    }
  }
  MESSAGE(cases, " cases, ", tight, " within half above the bound, ", changes, " changes");
  CHECK(cases > 0);
  CHECK(changes > 0);
}
