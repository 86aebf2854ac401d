// What a simulation refuses, and the timelines, paths and traces that it leaves.

#include "dialect/simulate/SimulateTrace.h"

#include "SimulateRuns.h"

using namespace ccl::model;

//===----------------------------------------------------------------------===//
// What cannot be simulated
//===----------------------------------------------------------------------===//

TEST_CASE("what is wrong has words") {
  Topology t = ringTopology(4, 25, 1);
  Program ring = ringProgram(4, 2, true);
  SimulateOptions options = optionsFor(1000);
  auto message = [&](const Program &program, const Topology &topology) {
    SimulateReport report = simulate(program, allReduce(4, 4), topology, options);
    REQUIRE(report.faults.size() >= 1);
    return report.faults[0].message;
  };
  SUBCASE("stuck") {
    Program one = ringProgram(4, 1, true);
    SimulateReport report = simulate(one, allReduce(4, 4), t, options);
    REQUIRE(!report.ok());
    CHECK(report.faults[0].kind == FaultKind::Deadlock);
    // In the words of the checker.
    CHECK(report.faults[0].message == check(one, allReduce(4, 4)).faults[0].message);
    options.slots = 2;
    CHECK(simulate(one, allReduce(4, 4), t, options).ok());
  }
  SUBCASE("no way") {
    Program far = oneMessage(4);
    far.ranks[0].channels[0].peer = 2, far.ranks[2] = far.ranks[1], far.ranks[1] = RankProgram();
    CHECK(message(far, t) == "rank 0, block 0, instruction 0: data goes from rank 0 to rank 2, but "
                             "in topology ring every way between them leads through other ranks");
  }
  SUBCASE("ranks") {
    CHECK(message(ring, ringTopology(5, 25, 1)) ==
          "the program has 4 ranks, but topology ring has 5");
    Program three = ringProgram(3, 2, true);
    CHECK(message(three, t) == "the contract is about 4 ranks, the program has 3");
  }
  SUBCASE("places") {
    ring.ranks[1].agents[0].code[0].from[0].chunk = 4;
    CHECK(message(ring, t) ==
          "rank 1, block 0, instruction 0: x: 1 chunk from chunk 4 on are outside [0, 4)");
    ring.ranks[1].agents[0].code[0].from[0].buffer = 2;
    CHECK(message(ring, t) == "rank 1, block 0, instruction 0: buffer 2 is outside [0, 1)");
  }
  SUBCASE("channels") {
    ring.ranks[2].agents[0].code.pop_back();
    CHECK(simulate(ring, allReduce(4, 4), t, options).faults[0].kind == FaultKind::Unpaired);
  }
  SUBCASE("topology") {
    t.links[0].bandwidth = 0;
    CHECK(message(ring, t) ==
          "the link from rank 0 to rank 1 has bandwidth 0 GB/s, which is not positive");
  }
  SUBCASE("numbers") {
    options.batches = 0;
    CHECK(message(ring, t) ==
          "0 micro-batches are outside [1, 2147483647]; take fewer, or a smaller size");
    options.batches = 1, options.count = -1;
    CHECK(message(ring, t) == "-1 elements a shard, but there are at least 0");
    options.count = int64_t(1) << 62;
    CHECK(message(ring, t) == "4611686018427387904 elements a shard are more than can be counted");
    options.count = 4, options.batches = int64_t(1) << 30;
    CHECK(message(ring, t) == "28 instructions in 1073741824 micro-batches are more than the "
                              "1000000000 that a simulation takes; take fewer micro-batches, or a "
                              "smaller size");
    options.batches = 1000000, options.timeline = true;
    CHECK(message(ring, t) == "28 instructions in 1000000 micro-batches are more than the 10000000 "
                              "that a simulation with a timeline takes; take fewer micro-batches, "
                              "or a smaller size");
    options.batches = 1, options.timeline = false;
    options.model.syncUs = NAN;
    CHECK(message(ring, t) ==
          "cost model ccl: sync is nan, which is not from 0 to 1000000000000000");
    options.model.syncUs = 0, options.model.laneGBps = 1e-300;
    CHECK(message(ring, t) == "cost model ccl: lane is 1e-300, which is below 1e-06");
    options.model = tecclModel(), options.sharing = Sharing::Fair;
    CHECK(message(ring, t) == "cost model teccl has an order of messages on links, so there is no "
                              "fair sharing; models ccl and nccl have it");
  }
}

//===----------------------------------------------------------------------===//
// Timeline
//===----------------------------------------------------------------------===//

TEST_CASE("the critical path is the whole time, without gaps") {
  for (BatchOrder order : {BatchOrder::Rank, BatchOrder::Agent, BatchOrder::Barrier})
    for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
      CostModel model = cclModel();
      model.launchUs = 2, model.syncUs = 0.3;
      SimulateOptions options = optionsFor(8 * 1000, model);
      options.batches = 3, options.batchOrder = order, options.sharing = sharing;
      options.timeline = true;
      SimulateReport report =
          run(twoLevelProgram(2, 4, 2), 8, boxTopology(2, 4, 450, 50, 1, 5), options);
      std::vector<PathPart> path = criticalPath(report);
      REQUIRE(path.size() > 10);
      CHECK(path.front().begin == 0);
      CHECK(path.front().kind == PathPart::Kind::Launch);
      CHECK(path.back().end == report.us);
      for (size_t i = 1; i < path.size(); ++i)
        CHECK(path[i].begin == path[i - 1].end);
      options.timeline = false;
      CHECK(run(twoLevelProgram(2, 4, 2), 8, boxTopology(2, 4, 450, 50, 1, 5), options).us ==
            report.us);
    }
}

TEST_CASE("the path through a timeline that nobody simulated ends") {
  SimulateReport report;
  report.us = 3;
  Timeline &line = report.timeline.emplace();
  using Cause = Timeline::Cause;
  // What a span waits for comes before it: not here.
  line.spans = {{0, 0, 0, Cause::Span, 1, 1, 3}, {0, 1, 0, Cause::Span, 0, 1, 2}};
  CHECK(criticalPath(report).size() == 1);
  line.spans[0].cause = 0;
  CHECK(criticalPath(report).size() == 1);
  line.spans[0].cause = 7;
  CHECK(criticalPath(report).size() == 1);
  line.spans[0] = {0, 0, 0, Cause::Flight, 0, 1, 3};
  line.flights = {{1, 0, 1, false, 4, 0.5, 1}};
  CHECK(criticalPath(report).size() == 2);
  line.spans[0].cause = 1;
  CHECK(criticalPath(report).size() == 1);
  line.spans[0].cause = -1;
  CHECK(criticalPath(report).size() == 1);
  // A message arrives last, and belongs to nothing.
  report.us = 9;
  line.flights = {{5, 0, 1, false, 4, 0.5, 9}};
  CHECK(criticalPath(report).size() == 1);
}

TEST_CASE("a link does one thing at a time, as long as it is said to be busy") {
  SimulateOptions options = optionsFor(8 * 1000);
  options.timeline = true, options.batches = 4;
  Topology t = boxTopology(2, 4, 450, 50, 1, 5);
  SimulateReport report = run(twoLevelProgram(2, 4, 4), 8, t, options);
  std::vector<double> busy(t.links.size()), end(t.links.size());
  for (const Timeline::Service &service : report.timeline->services) {
    CHECK(service.begin >= end[size_t(service.link)]);
    end[size_t(service.link)] = service.end;
    busy[size_t(service.link)] += service.end - service.begin;
  }
  double bytes = 0;
  for (size_t l = 0; l < busy.size(); ++l) {
    CHECK(std::abs(busy[l] - report.links[l].busyUs) < 1e-9);
    CHECK(isNear(report.links[l].busyUs * t.links[l].bandwidth * 1000, report.links[l].bytes));
    bytes += report.links[l].bytes;
  }
  CHECK(bytes == 2 * report.moved); // two links a way
}

TEST_CASE("runs are equal to the last bit") {
  SimulateOptions options = optionsFor(12345);
  options.batches = 3, options.timeline = true;
  auto text = [&] {
    Program program = twoLevelProgram(3, 4, 2);
    Topology t = boxTopology(3, 4, 450, 50, 1, 5);
    return chromeTrace(run(program, 12, t, options), program, t);
  };
  CHECK(text() == text());
}

TEST_CASE("a trace is JSON with all spans and services") {
  Program program = ringProgram(3, 2, true);
  Topology t = starTopology(3, 25, 1);
  t.switches[0].name = "a \"quoted\" \\ name\n";
  SimulateOptions options = optionsFor(3000);
  options.timeline = true;
  SimulateReport report = run(program, 3, t, options);
  const std::string text = chromeTrace(report, program, t);
  auto count = [&](const std::string &what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++n;
    return n;
  };
  size_t waits = count("\"name\":\"waiting\"");
  CHECK(waits > 0);
  CHECK(count("\"ph\":\"X\"") ==
        report.timeline->spans.size() + report.timeline->services.size() + waits);
  CHECK(count("\"ph\":\"s\"") == count("\"ph\":\"f\""));
  CHECK(count("a \\\"quoted\\\" \\\\ name\\u000a") > 0);
  CHECK(count("reduce, receive from rank 0, send to rank 2") > 0);
  // Brackets outside of strings close in order.
  std::string open;
  bool inString = false, sound = true;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inString && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      inString = !inString;
    else if (!inString && (text[i] == '{' || text[i] == '['))
      open += text[i] == '{' ? '}' : ']';
    else if (!inString && (text[i] == '}' || text[i] == ']')) {
      sound &= !open.empty() && open.back() == text[i];
      if (!open.empty())
        open.pop_back();
    }
  }
  CHECK(sound);
  CHECK(open.empty());
  CHECK(!inString);
}
