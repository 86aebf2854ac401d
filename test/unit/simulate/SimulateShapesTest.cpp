// Measured curves, and shards of different lengths.

#include "SimulateRuns.h"

using namespace ccl::model;

//===----------------------------------------------------------------------===//
// Curves
//===----------------------------------------------------------------------===//

namespace {

/// 10 us + 4 GB/s below 64 KB, 3 us + 8 GB/s from there on.
CostCurve twoPieces() { return {{{0, 65536, 10, 1e-3 / 4}, {65536, INFINITY, 3, 1e-3 / 8}}}; }

SimulateOptions measured(int64_t count, CostCurve curve, WayCurve::Of of = WayCurve::Of::Any) {
  SimulateOptions options = optionsFor(count);
  options.curves = {{of, 0, 0, std::move(curve)}};
  return options;
}

} // namespace

TEST_CASE("a message alone takes what was measured") {
  for (const Topology &t : {fullTopology(2, 20, 1), starTopology(2, 20, 0.25)})
    for (Sharing sharing : {Sharing::Fifo, Sharing::Fair})
      for (int64_t count : {0, 100, 16383, 16384, 1000000}) {
        CAPTURE(count);
        SimulateOptions options = measured(count, twoPieces());
        options.sharing = sharing;
        CHECK(isNear(run(oneMessage(2), 1, t, options).us, twoPieces().us(double(count) * 4)));
      }
}

TEST_CASE("messages one after the other: alpha once, and beta each") {
  ProgramMaker maker(2, {{"x", Role::InOut, 1}}, 8);
  for (int i = 0; i < 8; ++i) {
    maker.add(0, transfer({local(0, 0)}, {maker.to(0, 1)}));
    maker.add(1, transfer({maker.from(1, 0)}, {local(0, 0)}));
  }
  const int64_t count = 50000;
  SimulateReport report =
      run(maker.program, 1, starTopology(2, 20, 0), measured(count, twoPieces()));
  CHECK(isNear(report.us, 3 + 8 * us(count, 8)));
}

TEST_CASE("a curve does not make links faster than they are") {
  const int64_t count = 100000;
  const CostCurve fast = {{{0, INFINITY, 0.5, 1e-3 / 900}}};
  for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
    SimulateOptions options = measured(count, fast);
    options.sharing = sharing;
    CHECK(isNear(run(oneMessage(2), 1, fullTopology(2, 20, 1), options).us, 1 + us(count, 20)));
  }
}

TEST_CASE("curves are of kinds of ways, or of pairs; the last that fits counts") {
  const int64_t count = 10000;
  Topology t = starTopology(4, 20, 0.5);
  auto line = [](double alpha) { return CostCurve{{{0, INFINITY, alpha, 1e-3 / 20}}}; };
  SimulateOptions options = optionsFor(count);
  options.curves = {{WayCurve::Of::Any, 0, 0, line(5)},
                    {WayCurve::Of::Net, 0, 0, line(9)},
                    {WayCurve::Of::Pci, 0, 0, line(7)},
                    {WayCurve::Of::Pair, 1, 0, line(50)}};
  auto alpha = [&] { return run(oneMessage(4), 1, t, options).us - us(count, 20); };
  CHECK(isNear(alpha(), 5));
  t.switches[0].kind = SwitchKind::Pcie;
  CHECK(isNear(alpha(), 7));
  t.switches[0].kind = SwitchKind::Nic;
  CHECK(isNear(alpha(), 9));
  options.curves.push_back({WayCurve::Of::Pair, 0, 1, line(50)});
  CHECK(isNear(alpha(), 50));
  options.curves.push_back({WayCurve::Of::Nvlink, 0, 0, line(1)});
  CHECK(isNear(alpha(), 50));
}

TEST_CASE("only the narrowest links of a way are as slow as measured") {
  // Two ranks at one NIC of 10, each with a slot of 40; the NIC's far side leads to rank 2.
  Topology t;
  t.axes = {{"rank", 3}}, t.switches = {{"nic", false, false, SwitchKind::Nic}};
  addBoth(t, 0, 3, 40, 0), addBoth(t, 1, 3, 40, 0), addBoth(t, 2, 3, 10, 0);
  ProgramMaker maker(3, {{"x", Role::InOut, 1}}, 1);
  maker.add(0, transfer({local(0, 0)}, {peer(2, 0, 0)}));
  SimulateReport report = run(maker.program, 1, t, measured(10000, {{{0, INFINITY, 2, 1e-3 / 5}}}));
  CHECK(isNear(report.us, 2 + us(10000, 5)));
  CHECK(isNear(report.links[0].busyUs, us(10000, 40)));
  CHECK(isNear(report.links[5].busyUs, us(10000, 5)));
}

TEST_CASE("signals take the first alpha") {
  ProgramMaker maker(2, {{"x", Role::InOut, 1}}, 1);
  maker.add(0, maker.tell(0, 1));
  maker.add(1, maker.hear(1, 0));
  CHECK(run(maker.program, 1, fullTopology(2, 20, 1), measured(1, twoPieces())).us == 10);
}

TEST_CASE("curves that make no sense have words") {
  auto message = [&](const SimulateOptions &options) {
    SimulateReport report =
        simulate(oneMessage(2), allReduce(2, 1), fullTopology(2, 1, 1), options);
    REQUIRE(!report.ok());
    return report.faults[0].message;
  };
  CHECK(message(measured(1, {})) == "a curve has no segments");
  CHECK(message(measured(1, {{{0, INFINITY, -1, 0}}})) ==
        "a curve has -1 us and 0 us a byte, which is negative or not finite");
  SimulateOptions options = measured(1, twoPieces());
  options.curves[0].of = WayCurve::Of::Pair, options.curves[0].dst = 2;
  CHECK(message(options) == "a curve is for rank 2, which is outside [0, 2)");
  for (const char *name : {"taccl", "tacos", "teccl", "nccl:ll"}) {
    options = measured(1, twoPieces());
    options.model = *parseCostModel(name);
    CHECK(message(options) == std::string("cost model ") + name +
                                  " has times of its own, so it takes no measured curves; model "
                                  "ccl does");
  }
}

//===----------------------------------------------------------------------===//
// Uneven shards
//===----------------------------------------------------------------------===//

namespace {

SimulateOptions uneven(std::vector<int64_t> lengths) {
  SimulateOptions options = optionsFor(*std::max_element(lengths.begin(), lengths.end()));
  options.lengths = std::move(lengths);
  return options;
}

/// Every rank reads what it needs of all others, in one agent each.
Program readAll(Collective collective, int64_t n) {
  const bool pairs = collective == Collective::AllToAll;
  ProgramMaker maker(n, {{"in", Role::In, pairs ? n : 1}, {"out", Role::Out, n}}, 1);
  for (int32_t r = 0; r < n; ++r)
    for (int32_t p = 0; p < n; ++p) {
      const int64_t chunk = pairs ? r : 0;
      maker.add(r, transfer({p == r ? local(0, chunk) : peer(p, 0, chunk)}, {local(1, p)}),
                size_t(p));
    }
  return maker.program;
}

SimulateReport runUneven(Collective collective, const Program &program, int64_t chunks,
                         const SimulateOptions &options, double latency = 1) {
  const int64_t n = int64_t(program.ranks.size());
  SimulateReport report =
      simulate(program, makeContract(collective, n, chunks), fullTopology(n, 10, latency), options);
  INFO((report.faults.empty() ? "" : report.faults[0].message));
  REQUIRE(report.ok());
  return report;
}

} // namespace

TEST_CASE("all_gather of uneven shards") {
  const std::vector<int64_t> lengths = {1000, 0, 70000, 30};
  const Program program = readAll(Collective::AllGather, 4);
  for (int64_t batches : {1, 3}) {
    SimulateOptions options = uneven(lengths);
    options.batches = batches;
    SimulateReport report = runUneven(Collective::AllGather, program, 1, options);
    CHECK(report.moved == 3.0 * 71030 * 4);
    CHECK(report.bytes == 71030 * 4);
    for (const AgentUse &agent : report.agents)
      if (batches == 1 && agent.rank != agent.agent)
        CHECK(isNear(agent.endUs, 1 + us(lengths[size_t(agent.agent)], 10)));
  }
}

TEST_CASE("all_to_all of uneven shards") {
  const std::vector<int64_t> lengths = {7, 1000, 20000, 0, 9, 50, 333, 4, 11};
  SimulateReport report =
      runUneven(Collective::AllToAll, readAll(Collective::AllToAll, 3), 1, uneven(lengths));
  for (const AgentUse &agent : report.agents)
    if (agent.rank != agent.agent)
      CHECK(isNear(agent.endUs, 1 + us(lengths[size_t(agent.agent * 3 + agent.rank)], 10)));
  CHECK(report.moved == 4.0 * (1000 + 20000 + 0 + 50 + 333 + 4));
  CHECK(report.bytes == 4 * (7 + 1000 + 20000)); // what rank 0 sends
}

TEST_CASE("shards that are as long are as an even launch, in chunks, rings and micro-batches") {
  const int64_t n = 4;
  const Program ring = stagedProgram(ringAllGather(n, true), 2);
  for (int64_t count : {0, 1, 1003})
    for (int64_t batches : {1, 4}) {
      SimulateOptions even = optionsFor(count), same = uneven(std::vector<int64_t>(n, count));
      even.batches = same.batches = batches;
      SimulateReport a = runUneven(Collective::AllGather, ring, 1, even);
      SimulateReport b = runUneven(Collective::AllGather, ring, 1, same);
      CHECK(a.us == b.us);
      CHECK(a.moved == b.moved);
      CHECK(a.bytes == b.bytes);
    }
}

TEST_CASE("lengths that do not fit have words") {
  const Contract gather = makeContract(Collective::AllGather, 4, 1);
  const Program program = readAll(Collective::AllGather, 4);
  auto message = [&](const Contract &contract, const SimulateOptions &options) {
    SimulateReport report = simulate(program, contract, fullTopology(4, 10, 1), options);
    REQUIRE(!report.ok());
    return report.faults[0].message;
  };
  CHECK(message(gather, uneven({1, 2, 3})) == "3 lengths of shards, but all_gather has 4");
  CHECK(message(gather, uneven({1, -2, 3, 4})) == "a shard has at least 0 elements");
  CHECK(message(allReduce(4, 1), uneven({1, 2, 3, 4})) == "all_reduce sum has no uneven form");
  SimulateOptions options = uneven({1, 2, 3, 4});
  options.count = 5;
  CHECK(message(gather, options) == "the longest shard has 4 elements, but the count is 5");
}
