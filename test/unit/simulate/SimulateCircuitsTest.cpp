// Fabrics that change links, against closed forms.

#include "dialect/simulate/SimulateTrace.h"

#include "SimulateRuns.h"

#include "test/random/Seeds.h"

using namespace ccl::model;

namespace {

constexpr double delay = 5;

Topology optical(Topology t, double us = delay) {
  t.reconfigurable = us;
  return t;
}

/// One way round: a rank has one port to send and one to receive.
Topology oneWayRing(int64_t n, double bandwidth, double latency) {
  Topology t;
  t.name = "one way", t.axes = {{"rank", n}};
  for (int64_t r = 0; r < n; ++r)
    t.links.push_back({int32_t(r), int32_t((r + 1) % n), bandwidth, latency, {}});
  return t;
}

/// Messages of one chunk, in order, by one agent of the sender each; received by agents of their
/// own.
Program messages(int64_t ranks, const std::vector<std::pair<int32_t, int32_t>> &pairs) {
  ProgramMaker maker(ranks, {{"x", Role::InOut, 1}}, 1);
  int32_t tag = 0;
  for (auto [a, b] : pairs) {
    maker.add(a, transfer({local(0, 0)}, {maker.to(a, b, tag)}));
    maker.add(b, transfer({maker.from(b, a, tag)}, {local(0, 0)}), size_t(tag + 1));
    tag += 2;
  }
  return maker.program;
}

} // namespace

TEST_CASE("a link that is not there is made first, and agents know what they wait for") {
  const int64_t count = 10000;
  const double busy = us(count, 10);
  SimulateOptions options = optionsFor(count);
  options.timeline = true;
  SimulateReport report = run(messages(4, {{0, 2}}), 1, optical(ringTopology(4, 10, 1)), options);
  CHECK(isNear(report.us, delay + busy + 1));
  CHECK(report.changes == 1);
  CHECK(report.usesCircuits);
  CHECK(report.agents[0].changeUs == delay);
  CHECK(report.agents[0].linkUs == delay);
  CHECK(isNear(report.agents[0].busyUs, busy));
  std::vector<PathPart> path = criticalPath(report);
  REQUIRE(!path.empty());
  CHECK(path.front().changeUs == delay);
  REQUIRE(report.timeline->changes.size() == 1);
  CHECK(report.timeline->changes[0].end == delay);
  const std::string trace = chromeTrace(report, messages(4, {{0, 2}}), ringTopology(4, 10, 1));
  CHECK(trace.find("changes to rank 0 to rank 2") != std::string::npos);
}

TEST_CASE("a change waits for what is on the way, and takes the old link away") {
  const int64_t count = 10000;
  const double busy = us(count, 10), latency = 3;
  const Topology t = optical(oneWayRing(3, 10, latency));
  auto time = [&](const std::vector<std::pair<int32_t, int32_t>> &pairs) {
    return run(messages(3, pairs), 1, t, optionsFor(count));
  };
  // The second message may go when the first has arrived.
  SimulateReport two = time({{0, 1}, {0, 2}});
  CHECK(isNear(two.us, busy + latency + delay + busy + latency));
  CHECK(isNear(two.agents[0].changeUs, latency + delay));
  // Back again: another change.
  SimulateReport three = time({{0, 1}, {0, 2}, {0, 1}});
  CHECK(isNear(three.us, 3 * (busy + latency) + 2 * delay));
  CHECK(three.changes == 2);
  // It stays: no other.
  SimulateReport stays = time({{0, 2}, {0, 2}});
  CHECK(isNear(stays.us, delay + 2 * busy + latency));
  CHECK(stays.changes == 1);
  // Rank 1 had sent to 2, whose port is taken now: its own leads nowhere, and has to be joined.
  SimulateReport lost = time({{0, 2}, {1, 2}});
  CHECK(lost.changes == 2);
  CHECK(isNear(lost.us, delay + busy + latency + delay + busy + latency));
}

TEST_CASE("a program that fits the links changes nothing") {
  for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
    SimulateOptions options = optionsFor(8 * 1000);
    options.sharing = sharing;
    const Program ring = ringProgram(8, 2, true);
    SimulateReport still = run(ring, 8, ringTopology(8, 10, 1), options);
    SimulateReport could = run(ring, 8, optical(ringTopology(8, 10, 1)), options);
    CHECK(could.us == still.us);
    CHECK(could.changes == 0);
    CHECK(!could.usesCircuits);
  }
}

TEST_CASE("signals need no circuit, only the latency of one") {
  ProgramMaker maker(4, {{"x", Role::InOut, 1}}, 1);
  maker.add(0, maker.tell(0, 2));
  maker.add(2, maker.hear(2, 0));
  for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
    SimulateOptions options = optionsFor(100);
    options.sharing = sharing;
    SimulateReport report = run(maker.program, 1, optical(ringTopology(4, 10, 3)), options);
    CHECK(report.us == 3);
    CHECK(!report.usesCircuits);
  }
}

TEST_CASE("recursive doubling on rings: all ranks change links at once, once a distance") {
  const int64_t n = 8, count = 30000;
  ProgramMaker maker(n, {{"x", Role::InOut, 1}}, 1);
  for (int32_t distance = 1; distance < n; distance *= 2)
    for (int32_t r = 0; r < n; ++r) {
      maker.add(r, transfer({local(0, 0)}, {maker.to(r, r ^ distance)}));
      maker.add(r, transfer({maker.from(r, r ^ distance), local(0, 0)}, {local(0, 0)}, true));
    }
  for (double us : {0.0, 11.5}) {
    SimulateReport report =
        run(maker.program, 1, optical(ringTopology(n, 50, 2), us), optionsFor(count));
    CHECK(isNear(report.us, 3 * (2 + ccl::model::us(count, 50)) + 2 * us));
    CHECK(report.changes == 2 * n);
  }
}

TEST_CASE("a circuit is as slow as the slower one of its ports") {
  Topology t = optical(chainTopology({40, 10, 20}, 1));
  t.links[0].latency = 4; // from rank 0
  const int64_t count = 10000;
  // To rank 3, whose link has 20; to rank 2, whose quiet link is the one from rank 1.
  CHECK(isNear(run(messages(4, {{0, 3}}), 1, t, optionsFor(count)).us, delay + us(count, 20) + 4));
  CHECK(isNear(run(messages(4, {{0, 2}}), 1, t, optionsFor(count)).us, delay + us(count, 10) + 4));
}

TEST_CASE("random messages: a port leads where its last change led, and was quiet before") {
  uint64_t changes = 0;
  for (uint64_t seed : ccl::random::seeds(300)) {
    CAPTURE(seed);
    ccl::soak::Dice dice(seed, 7);
    const int64_t n = 3 + dice.below(5);
    Topology t = dice.chance(50) ? ringTopology(n, 10, 2) : oneWayRing(n, 10, 2);
    for (Link &link : t.links)
      link.bandwidth = double(5 + dice.below(20)), link.latency = double(dice.below(4));
    t.reconfigurable = double(dice.below(6));
    std::vector<std::pair<int32_t, int32_t>> pairs;
    for (int64_t more = 1 + dice.below(30); more > 0; --more)
      if (int64_t a = dice.below(n), b = dice.below(n); a != b)
        pairs.push_back({int32_t(a), int32_t(b)});
    SimulateOptions options = optionsFor(dice.below(20000));
    options.timeline = true;
    SimulateReport report = run(messages(n, pairs), 1, t, options);
    const Timeline &line = *report.timeline;
    changes += report.changes;
    CHECK(report.changes == line.changes.size());
    CHECK(report.moved == double(pairs.size()) * double(options.count) * 4);
    for (const Timeline::Service &service : line.services) {
      const Timeline::Flight &flight = line.flights[size_t(service.flight)];
      const Link &link = t.links[size_t(service.link)];
      CHECK(link.src == flight.src);
      CHECK(service.end - service.begin >= flight.bytes / link.bandwidth / 1000 * (1 - 1e-9));
      int32_t leadsTo = link.dst;
      for (const Timeline::Change &change : line.changes) { // in the order of one port
        if (change.link != service.link)
          continue;
        CHECK((flight.arrive <= change.begin + 1e-9 || service.begin >= change.end - 1e-9));
        if (change.end <= service.begin + 1e-9)
          leadsTo = change.dst;
      }
      CHECK(leadsTo == flight.dst);
      // As many at once as a rank has ports.
      int64_t atOnce = 0, ports = 0;
      for (const Timeline::Service &other : line.services)
        atOnce += line.flights[size_t(other.flight)].dst == flight.dst &&
                  other.begin <= service.begin && service.begin < other.end;
      for (const Link &other : t.links)
        ports += other.dst == flight.dst;
      CHECK(atOnce <= ports);
    }
    for (const AgentUse &a : report.agents)
      CHECK(isNear(a.launchUs + a.busyUs + a.linkUs + a.slotUs + a.dataUs + a.signalUs + a.batchUs,
                   a.endUs, 1e-9));
  }
  CHECK(changes > 0);
}

TEST_CASE("what cannot change has words") {
  Topology t = optical(ringTopology(4, 10, 1));
  const Program far = messages(4, {{0, 2}});
  SimulateOptions options = optionsFor(100);
  auto message = [&](const Topology &topology) {
    SimulateReport report = simulate(far, allReduce(4, 1), topology, options);
    REQUIRE(!report.ok());
    return report.faults[0].message;
  };
  SUBCASE("fair") {
    options.sharing = Sharing::Fair;
    CHECK(message(t) == "rank 0, block 0, instruction 0: data goes from rank 0 to rank 2, for "
                        "which topology ring has to change links; fair sharing has no order of "
                        "messages that says when");
  }
  SUBCASE("shared links are no circuits") {
    t.resources = {{"port", 0}};
    for (Link &link : t.links)
      if (link.src == 0)
        link.resources = {0};
    CHECK(message(t) == "rank 0, block 0, instruction 0: data goes from rank 0 to rank 2, but in "
                        "topology ring every way between them leads through other ranks, and rank "
                        "0 sends on no link that can be changed");
  }
  SUBCASE("time") {
    t.reconfigurable = -1;
    CHECK(message(t) == "links change in -1 us, which is negative or not finite");
  }
}

TEST_CASE("any circuits: all ports of a rank on one switch") {
  Topology t = optical(ringTopology(4, 10, 1));
  t.links[0].latency = 0.25;
  t.switches = {{"circuits"}};
  addBoth(t, 2, 4, 3, 7);
  const Topology any = withAnyCircuits(t);
  CHECK(any.check() == "");
  CHECK(!any.reconfigurable);
  REQUIRE(any.links.size() == 2 + 8);
  CHECK(any.switches[1].name != any.switches[0].name);
  for (const Link &link : any.links) {
    if (link.src == 0)
      CHECK((link.bandwidth == 20 && link.latency == 0.25 && link.dst == 5));
    if (link.dst == 0)
      CHECK((link.bandwidth == 20 && link.latency == 0));
  }
}
