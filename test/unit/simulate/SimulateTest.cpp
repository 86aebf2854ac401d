// The simulator against closed forms, model by model, and against itself.

#include "SimulateRuns.h"

using namespace ccl::model;

//===----------------------------------------------------------------------===//
// Closed forms
//===----------------------------------------------------------------------===//

TEST_CASE("ring all-reduce takes 2 (n - 1) steps") {
  for (int64_t n : {2, 3, 8, 17})
    for (bool fused : {false, true})
      for (double alpha : {0.0, 0.7}) {
        CAPTURE(n);
        CAPTURE(fused);
        CAPTURE(alpha);
        const int64_t count = n * 25000;
        SimulateReport report =
            run(ringProgram(n, 2, fused), n, ringTopology(n, 25, alpha), optionsFor(count));
        CHECK(isNear(report.us, double(2 * (n - 1)) * (alpha + us(count / n, 25))));
        CHECK(isNear(report.algbw, double(count * 4) / report.us / 1000));
        CHECK(report.messages == uint64_t(2 * (n - 1) * n));
        CHECK(report.moved == double(2 * (n - 1) * count * 4));
      }
}

TEST_CASE("binomial tree takes 2 log2 n steps of the whole") {
  for (int64_t n : {2, 4, 16, 64}) {
    const int64_t count = 100000;
    SimulateReport report =
        run(stagedProgram(treeAllReduce(n), 1), 1, fullTopology(n, 50, 1.5), optionsFor(count));
    CHECK(isNear(report.us, 2 * std::log2(double(n)) * (1.5 + us(count, 50))));
  }
}

TEST_CASE("recursive doubling takes log2 n steps of the whole") {
  for (int64_t n : {2, 8, 32}) {
    ProgramMaker maker(n, {{"x", Role::InOut, 1}}, 1);
    for (int32_t distance = 1; distance < n; distance *= 2)
      for (int32_t r = 0; r < n; ++r) {
        const int32_t peer = r ^ distance;
        maker.add(r, transfer({local(0, 0)}, {maker.to(r, peer)}));
        maker.add(r, transfer({maker.from(r, peer), local(0, 0)}, {local(0, 0)}, true));
      }
    const int64_t count = 30000;
    SimulateReport report = run(maker.program, 1, fullTopology(n, 50, 2), optionsFor(count));
    CHECK(isNear(report.us, std::log2(double(n)) * (2 + us(count, 50))));
  }
}

TEST_CASE("a broadcast along a chain is pipelined by micro-batches") {
  for (int64_t n : {2, 5, 12})
    for (int64_t m : {1, 4, 50}) {
      const int64_t count = 500000;
      SimulateOptions options = optionsFor(count);
      options.batches = m;
      SimulateReport report = run(chainProgram(n, 4), 1, ringTopology(n, 25, 0.5), options);
      CHECK(isNear(report.us,
                   double(n - 1) * 0.5 + double(n - 1 + m - 1) * us(count, 25) / double(m)));
    }
}

TEST_CASE("unequal stages: their sum, and m - 1 times the slowest") {
  const std::vector<double> bandwidths = {100, 40, 10, 25, 80};
  for (int64_t m : {1, 2, 10, 100}) {
    SimulateOptions options = optionsFor(100000);
    options.batches = m;
    SimulateReport report = run(chainProgram(6, 128), 1, chainTopology(bandwidths, 0), options);
    double sum = 0;
    for (double bandwidth : bandwidths)
      sum += us(100000 / m, bandwidth);
    CHECK(isNear(report.us, sum + double(m - 1) * us(100000 / m, 10)));
  }
}

TEST_CASE("two levels: the rings of each, one after the other") {
  for (auto [nodes, gpus] : {std::pair<int64_t, int64_t>{2, 4}, {4, 8}, {3, 2}}) {
    const int64_t chunks = nodes * gpus, count = chunks * 1000;
    Program program = twoLevelProgram(nodes, gpus, 2);
    CHECK(check(program, allReduce(chunks, chunks)).ok());
    SimulateReport report =
        run(program, chunks, boxTopology(nodes, gpus, 450, 50, 1, 5), optionsFor(count));
    const double inside = double(2 * (gpus - 1)) * (1 + us(count / gpus, 450));
    const double outside = double(2 * (nodes - 1)) * (5 + us(count / chunks, 50));
    CHECK(isNear(report.us, inside + outside));
  }
}

//===----------------------------------------------------------------------===//
// Messages and links
//===----------------------------------------------------------------------===//

TEST_CASE("one message through a switch") {
  Topology t;
  t.axes = {{"rank", 2}}, t.switches = {{"sw"}};
  t.links = {{0, 2, 100, 1, {}}, {2, 1, 25, 3, {}}, {1, 2, 10, 1, {}}, {2, 0, 100, 1, {}}};
  const int64_t count = 25000;
  const double first = us(count, 100), second = us(count, 25);
  auto time = [&](const CostModel &model) {
    return run(oneMessage(2), 1, t, optionsFor(count, model)).us;
  };

  CHECK(isNear(time(cclModel()), 4 + second));
  CHECK(isNear(time(tacclModel()), 4 + first + second));
  CHECK(isNear(time(tacosModel()), 4 + first + second));
  CostModel overhead = cclModel();
  overhead.overheadUs = 0.5;
  CHECK(isNear(time(overhead), 4 + 0.5 + second));
  CostModel launch = cclModel();
  launch.launchUs = 7;
  CHECK(isNear(time(launch), 7 + 4 + second));
  // 1 us is an epoch of 25,000 floats at 100 GB/s; the switch hands on at once: 1 + 4 epochs
  // in which the slow link is busy, of which the first overlaps.
  CHECK(isNear(first, 1));
  CHECK(isNear(time(tecclModel()), 1 + 4));
  CHECK(isNear(time(tecclModel(3)), 0 + 6 + 3)); // alpha 1: an epoch; 4 us: two
  // Hops of NCCL: NVLink here, and the base latency of a launch.
  CHECK(isNear(time(ncclCostModel(NcclProtocol::Simple)), 8.4 + 3.4 + second));
  CHECK(isNear(time(ncclCostModel(NcclProtocol::LL)), 6.6 + 0.6 + second / 0.5));
  CHECK(isNear(time(ncclCostModel(NcclProtocol::LL128, true)),
               14 + 1.25 + second / (0.92 * 7.0 / 9)));
  t.switches[0].kind = SwitchKind::Pcie;
  CHECK(isNear(time(ncclCostModel(NcclProtocol::Simple)), 8.4 + 5.7 + second));
  t.switches[0].kind = SwitchKind::Nic;
  CHECK(isNear(time(ncclCostModel(NcclProtocol::Simple)), 8.4 + 14 + second));
  t.switches[0].kind = SwitchKind::Switch;
  t.axes[0].name = "node";
  CHECK(isNear(time(ncclCostModel(NcclProtocol::LL128)), 14 + 4 + second / 0.92));
}

TEST_CASE("cost models have names") {
  for (const char *name :
       {"ccl", "taccl", "tacos", "teccl", "nccl", "nccl:ll", "nccl-tree:ll128"}) {
    REQUIRE(parseCostModel(name));
    CHECK(costModelNames().find(name) != std::string::npos);
  }
  CHECK(parseCostModel("nccl")->name == "nccl:simple");
  // Beyond a node the CPU limits LL, Intel's here; inside, the GPU.
  CHECK(parseCostModel("nccl:ll", 2)->mostGBps == 39);
  CHECK(parseCostModel("nccl:ll", 1)->mostGBps == 141);
  CHECK(parseCostModel("nccl:ll", 1, 80)->mostGBps == 87.7);
  CHECK(!parseCostModel("astra"));
}

TEST_CASE("links serve one after the other, or all at once") {
  // Ranks 1, 2 and 3 send to rank 0; that of rank 3 is short.
  ProgramMaker maker(4, {{"x", Role::InOut, 4}}, 1);
  for (int32_t r = 1; r < 4; ++r) {
    maker.add(r, transfer({local(0, 0)}, {maker.to(r, 0)}, false, r == 3 ? 1 : 3));
    maker.add(0, transfer({maker.from(0, r)}, {local(0, 0)}, false, r == 3 ? 1 : 3), size_t(r - 1));
  }
  Topology t = starTopology(4, 40, 0);
  SimulateOptions options = optionsFor(4 * 10000);
  const double chunk = us(10000, 40);
  SimulateReport fifo = run(maker.program, 4, t, options);
  CHECK(isNear(fifo.us, 7 * chunk));
  // All could begin at 0, where the number of the rank decides.
  CHECK(isNear(fifo.agents[0].endUs, 3 * chunk));
  CHECK(isNear(fifo.agents[2].endUs, 7 * chunk));
  options.sharing = Sharing::Fair;
  SimulateReport fair = run(maker.program, 4, t, options);
  CHECK(isNear(fair.us, 7 * chunk));
  // Thirds until the short one has ended, then halves.
  const double shortEnd = 3 * chunk;
  for (const AgentUse &agent : fair.agents)
    if (agent.rank == 3)
      CHECK(isNear(agent.endUs, shortEnd));
  for (const LinkUse &use : fair.links)
    CHECK(use.busyUs <= fair.us * (1 + 1e-9));
}

TEST_CASE("fair rates are max-min") {
  // Classic: a long flow over both links of a line, one short flow on each; capacities 10 and 4.
  Topology t;
  t.axes = {{"rank", 6}}, t.switches = {{"a"}, {"b"}, {"c"}};
  addBoth(t, 0, 6, 1000, 0), addBoth(t, 1, 6, 1000, 0); // long and first short begin at a
  addBoth(t, 2, 7, 1000, 0), addBoth(t, 3, 7, 1000, 0); // first short ends, second begins at b
  addBoth(t, 4, 8, 1000, 0), addBoth(t, 5, 8, 1000, 0);
  addBoth(t, 6, 7, 10, 0), addBoth(t, 7, 8, 4, 0);
  ProgramMaker maker(6, {{"x", Role::InOut, 1}}, 1);
  for (auto [a, b] : {std::pair<int32_t, int32_t>{0, 4}, {1, 2}, {3, 5}}) {
    maker.add(a, transfer({local(0, 0)}, {maker.to(a, b)}));
    maker.add(b, transfer({maker.from(b, a)}, {local(0, 0)}));
  }
  SimulateOptions options = optionsFor(10000);
  options.sharing = Sharing::Fair;
  SimulateReport report = run(maker.program, 1, t, options);
  // Long and second short have 2 each, the first short 8.
  CHECK(isNear(report.agents[1].endUs, us(10000, 8)));
  CHECK(isNear(report.agents[0].endUs, us(10000, 2)));
  CHECK(isNear(report.agents[3].endUs, us(10000, 2)));
}

TEST_CASE("shared resources are servers") {
  // Ranks 0 and 1 send to 2 and 3 on links of their own.
  ProgramMaker maker(4, {{"x", Role::InOut, 1}}, 1);
  for (int32_t r : {0, 1}) {
    maker.add(r, transfer({local(0, 0)}, {maker.to(r, r + 2)}));
    maker.add(r + 2, transfer({maker.from(r + 2, r)}, {local(0, 0)}));
  }
  Topology t = fullTopology(4, 20, 1);
  t.resources = {{"nic", 0}};
  for (Link &link : t.links)
    if (link.dst == link.src + 2)
      link.resources = {0};
  const int64_t count = 50000;
  const double alone = us(count, 20);
  for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
    SimulateOptions options = optionsFor(count);
    options.sharing = sharing;
    t.resources[0].bandwidth = 0; // they take turns
    SimulateReport report = run(maker.program, 1, t, options);
    CHECK(isNear(report.us, 1 + 2 * alone));
    CHECK(isNear(report.resources[0].busyUs, 2 * alone));
    CHECK(report.resources[0].bytes == double(2 * count * 4));
    t.resources[0].bandwidth = 25;
    CHECK(isNear(run(maker.program, 1, t, options).us, 1 + 2 * us(count, 25), 1e-6) ==
          (sharing == Sharing::Fair));
    CHECK(run(maker.program, 1, t, options).us >= 1 + 2 * us(count, 25) - 1e-9);
    t.resources[0].bandwidth = 100;
    CHECK(run(maker.program, 1, t, options).us <= 1 + alone + us(count, 100) + 1e-9);
    t.resources[0].bandwidth = 10; // slower than either
    CHECK(isNear(run(maker.program, 1, t, options).us, 1 + 2 * us(count, 10)));
  }
  t.resources[0].bandwidth = 0;
  CHECK(isNear(run(maker.program, 1, t, optionsFor(count, tacosModel())).us, 1 + alone));
  // Where latency occupies links it does what they share, too: bytes do not pass meanwhile.
  t.resources[0].bandwidth = 10;
  CHECK(isNear(run(maker.program, 1, t, optionsFor(count, tacclModel())).us,
               2 * (1 + us(count, 10))));
}

TEST_CASE("a lane reads every source at its rate") {
  ProgramMaker maker(2, {{"x", Role::InOut, 2}}, 1);
  maker.add(0, transfer({local(0, 0), local(0, 1)}, {maker.to(0, 1)}, true));
  maker.add(1, transfer({maker.from(1, 0)}, {local(0, 0)}));
  CostModel model = cclModel();
  model.laneGBps = 20;
  // Two sources are slower than the link, which then gets the end of the data late.
  for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
    SimulateOptions options = optionsFor(20000, model);
    options.sharing = sharing;
    SimulateReport report = run(maker.program, 2, fullTopology(2, 50, 1), options);
    CHECK(isNear(report.us, us(20000, 20) + 1 + us(10000, 20)));
  }
}

//===----------------------------------------------------------------------===//
// Agents
//===----------------------------------------------------------------------===//

TEST_CASE("a pull occupies the agent until the data is there, a push until it has left") {
  const int64_t count = 10000;
  const double busy = us(count, 10);
  Topology t = fullTopology(2, 10, 4);
  ProgramMaker pulls(2, {{"x", Role::InOut, 1}, {"y", Role::Scratch, 2}}, 1);
  pulls.add(0, transfer({peer(1, 0, 0)}, {local(1, 0)}));
  pulls.add(0, transfer({peer(1, 0, 0)}, {local(1, 1)}));
  CHECK(isNear(run(pulls.program, 1, t, optionsFor(count)).us, 2 * (4 + busy)));

  ProgramMaker pushes(2, {{"x", Role::InOut, 1}, {"y", Role::Scratch, 2}}, 1);
  pushes.add(0, transfer({local(0, 0)}, {peer(1, 1, 0)}));
  pushes.add(0, transfer({local(0, 0)}, {peer(1, 1, 1)}));
  SimulateReport report = run(pushes.program, 1, t, optionsFor(count));
  CHECK(isNear(report.us, 4 + 2 * busy));
  CHECK(isNear(report.agents[0].endUs, 2 * busy));
}

TEST_CASE("a signal does not overtake what was written before") {
  const int64_t count = 10000;
  const double busy = us(count, 10);
  // The signal's own way is short, that of the data long.
  Topology t = fullTopology(3, 10, 1);
  for (Link &link : t.links)
    if (link.src == 0 && link.dst == 1)
      link.latency = 9;
  CostModel model = cclModel();
  model.syncUs = 0.5;
  ProgramMaker maker(3, {{"x", Role::InOut, 1}, {"y", Role::Scratch, 2}}, 1);
  maker.add(0, maker.tell(0, 2, 3));
  maker.add(0, transfer({local(0, 0)}, {peer(1, 1, 0)}));
  maker.add(0, maker.tell(0, 2, 4));
  maker.add(0, transfer({local(0, 0)}, {peer(2, 1, 0)}));
  maker.add(0, maker.tell(0, 2, 5));
  for (int32_t tag : {3, 4, 5})
    maker.add(2, maker.hear(2, 0, tag), size_t(tag - 3));
  SimulateReport report = run(maker.program, 1, t, optionsFor(count, model));
  CHECK(isNear(report.agents[2].endUs, 1 + 0.5));
  CHECK(isNear(report.agents[3].endUs, busy + 9 + 0.5));
  CHECK(isNear(report.agents[4].endUs, std::max(busy + 9, 2 * busy + 1) + 0.5));
}

TEST_CASE("slots limit what is on the way") {
  // The receiver takes 10 messages; each waits for a slot that it gives back after its arrival.
  ProgramMaker one(2, {{"x", Role::InOut, 1}}, 1);
  for (int i = 0; i < 10; ++i) {
    one.add(0, transfer({local(0, 0)}, {one.to(0, 1)}));
    one.add(1, transfer({one.from(1, 0)}, {local(0, 0)}));
  }
  const double busy = us(10000, 10);
  Topology t = fullTopology(2, 10, 3);
  SimulateOptions options = optionsFor(10000);
  CHECK(isNear(run(one.program, 1, t, options).us, 10 * (busy + 3)));
  options.slots = 8;
  SimulateReport report = run(one.program, 1, t, options);
  CHECK(isNear(report.us, 10 * busy + 3));
  CHECK(isNear(report.agents[1].dataUs, report.us));
  options.slots = 0;
  report = run(one.program, 1, t, options);
  CHECK(isNear(report.agents[0].slotUs, 9 * 3));
}

TEST_CASE("micro-batches: agents of a rank join, go on alone, or all wait for all") {
  // Two agents of rank 0 send to rank 1, to an agent each; one sends more.
  ProgramMaker maker(2, {{"x", Role::InOut, 4}}, 8);
  maker.add(0, transfer({local(0, 0)}, {maker.to(0, 1, 0)}, false, 3), 0);
  maker.add(0, transfer({local(0, 3)}, {maker.to(0, 1, 2)}, false, 1), 1);
  maker.add(1, transfer({maker.from(1, 0, 0)}, {local(0, 0)}, false, 3), 0);
  maker.add(1, transfer({maker.from(1, 0, 2)}, {local(0, 3)}, false, 1), 1);
  Topology t;
  t.axes = {{"rank", 2}};
  t.links = {{0, 1, 10, 2, {}}, {1, 0, 10, 2, {}}};
  CostModel model = cclModel();
  model.syncUs = 0.25;
  SimulateOptions options = optionsFor(4000 * 5, model);
  options.batches = 5;
  const double chunk = us(1000, 10);
  for (BatchOrder order : {BatchOrder::Rank, BatchOrder::Agent, BatchOrder::Barrier}) {
    options.batchOrder = order;
    SimulateReport report = run(maker.program, 4, t, options);
    const double expected =
        order == BatchOrder::Barrier ? 5 * (4 * chunk + 2) + 4 * 0.25 : 5 * 4 * chunk + 2;
    CHECK(isNear(report.us, expected));
    CHECK(report.moved == double(options.count * 4));
  }
  // Rank: agent 0 goes on when agent 1 has sent, behind it. Agent: at once, so that agent 1's ...
  options.batchOrder = BatchOrder::Rank;
  CHECK(run(maker.program, 4, t, options).agents[0].batchUs > 0);
  options.batchOrder = BatchOrder::Agent;
  CHECK(run(maker.program, 4, t, options).agents[0].batchUs == 0);
}

TEST_CASE("micro-batches of any length move every byte once") {
  for (int64_t count : {0, 1, 2, 17, 1000, 4097})
    for (int64_t m : {1, 3, 7}) {
      SimulateOptions options = optionsFor(count);
      options.batches = m;
      SimulateReport report = run(ringProgram(4, 2, true), 4, ringTopology(4, 25, 1), options);
      CHECK(report.moved == double(2 * 3 * count * 4));
    }
}

TEST_CASE("a rank alone has nothing to send") {
  CostModel model = cclModel();
  model.launchUs = 2;
  SimulateReport report = run(ringProgram(1, 2, true), 1, Topology(), optionsFor(100, model));
  CHECK(report.us == 2);
  CHECK(report.messages == 0);
}

TEST_CASE("the time of an agent adds up") {
  for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
    CostModel model = cclModel();
    model.launchUs = 3, model.syncUs = 0.4, model.overheadUs = 0.1, model.laneGBps = 60;
    SimulateOptions options = optionsFor(8 * 1000, model);
    options.batches = 3, options.sharing = sharing;
    SimulateReport report =
        run(twoLevelProgram(2, 4, 2), 8, boxTopology(2, 4, 450, 50, 1, 5), options);
    for (const AgentUse &a : report.agents) {
      CHECK(isNear(a.launchUs + a.busyUs + a.linkUs + a.slotUs + a.dataUs + a.signalUs + a.batchUs,
                   a.endUs, 1e-9));
      CHECK(a.busyUs > 0);
      CHECK(a.dataUs > 0);
    }
  }
}
