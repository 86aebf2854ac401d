// Switches that copy and add, against closed forms.

#include "dialect/simulate/Routes.h"

#include "SimulateRuns.h"

#include "test/random/Seeds.h"

#include <set>

using namespace ccl::model;

namespace {

std::vector<Operand> onAll(int64_t n, int32_t but, int32_t buffer, int64_t chunk) {
  std::vector<Operand> places;
  for (int32_t r = 0; r < n; ++r)
    if (r != but)
      places.push_back(peer(r, buffer, chunk));
  return places;
}

Program toAll(int64_t n) {
  ProgramMaker maker(n, {{"x", Role::InOut, 1}}, 1);
  maker.add(0, transfer({local(0, 0)}, onAll(n, 0, 0, 0)));
  return maker.program;
}

Program fromAll(int64_t n) {
  ProgramMaker maker(n, {{"x", Role::InOut, 1}}, 1);
  maker.add(0, transfer(onAll(n, 0, 0, 0), {local(0, 0)}, true));
  return maker.program;
}

double bytesOn(const SimulateReport &report, const Topology &t, int32_t src, int32_t dst) {
  double bytes = 0;
  for (size_t l = 0; l < t.links.size(); ++l)
    if (t.links[l].src == src && t.links[l].dst == dst)
      bytes += report.links[l].bytes;
  return bytes;
}

} // namespace

TEST_CASE("one copy goes up to a switch that multicasts, one sum comes down") {
  const int64_t n = 5, count = 10000;
  const double busy = us(count, 20), alpha = 2, bytes = double(count) * 4;
  for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
    SimulateOptions options = optionsFor(count);
    options.sharing = sharing;
    Topology t = starTopology(n, 20, alpha / 2);
    for (bool inSwitch : {false, true}) {
      CAPTURE(inSwitch);
      t.switches[0].multicast = t.switches[0].reduce = inSwitch;
      const double times = inSwitch ? 1 : double(n - 1);
      SimulateReport copied = run(toAll(n), 1, t, options);
      CHECK(isNear(copied.us, times * busy + alpha));
      CHECK(bytesOn(copied, t, 0, int32_t(n)) == times * bytes);
      CHECK(bytesOn(copied, t, int32_t(n), 3) == bytes);
      CHECK(copied.messages == uint64_t(n - 1));
      CHECK(isNear(copied.agents[0].endUs, times * busy)); // what it sends has left
      SimulateReport summed = run(fromAll(n), 1, t, options);
      CHECK(isNear(summed.us, times * busy + alpha));
      CHECK(bytesOn(summed, t, int32_t(n), 0) == times * bytes);
      CHECK(bytesOn(summed, t, 3, int32_t(n)) == bytes);
      CHECK(isNear(summed.agents[0].endUs, summed.us));
    }
    // Each does its own part only.
    t.switches[0].multicast = false;
    CHECK(isNear(run(toAll(n), 1, t, options).us, double(n - 1) * busy + alpha));
    CHECK(isNear(run(fromAll(n), 1, t, options).us, busy + alpha));
  }
}

TEST_CASE("copies are of one place by one transfer") {
  const int64_t n = 3, count = 10000;
  const double half = us(count / 2, 20);
  Topology t = starTopology(n, 20, 0);
  t.switches[0].multicast = t.switches[0].reduce = true;
  auto time = [&](auto add) {
    ProgramMaker maker(n, {{"x", Role::InOut, 2}, {"s", Role::Scratch, 2}}, 1);
    add(maker);
    return run(maker.program, 2, t, optionsFor(count)).us;
  };
  auto x = [](int32_t rank, int64_t chunk) { return peer(rank, 0, chunk); };
  CHECK(isNear(
      time([&](ProgramMaker &m) { m.add(0, transfer({local(0, 0)}, {x(1, 1), x(2, 1)})); }), half));
  CHECK(isNear(time([&](ProgramMaker &m) { // to two places
                 m.add(0, transfer({local(0, 0)}, {x(1, 0), x(2, 1)}));
               }),
               2 * half));
  CHECK(isNear(time([&](ProgramMaker &m) { // to another buffer
                 m.add(0, transfer({local(0, 0)}, {x(1, 0), peer(2, 1, 0)}));
               }),
               2 * half));
  CHECK(isNear(time([&](ProgramMaker &m) { // to slots
                 m.add(0, transfer({local(0, 0)}, {m.to(0, 1), m.to(0, 2)}));
                 for (int32_t r : {1, 2})
                   m.add(r, transfer({m.from(r, 0)}, {local(0, 0)}));
               }),
               2 * half));
  CHECK(isNear(time([&](ProgramMaker &m) { // of two transfers
                 for (int32_t r : {1, 2})
                   m.add(0, transfer({local(0, 0)}, {x(r, 0)}));
               }),
               2 * half));
  CHECK(isNear(time([&](ProgramMaker &m) { // a sum of two places
                 m.add(0, transfer({x(1, 0), x(2, 1)}, {local(0, 0)}, true));
               }),
               2 * half));
}

TEST_CASE("of several switches the last that copies, and the first that adds") {
  // 0 - a - b - {1, 2, 3}, and rank 4 at a.
  Topology t;
  t.name = "line", t.axes = {{"rank", 5}}, t.switches = {{"a"}, {"b"}};
  addBoth(t, 0, 5, 40, 1), addBoth(t, 5, 6, 10, 1), addBoth(t, 4, 5, 40, 1);
  for (int32_t r : {1, 2, 3})
    addBoth(t, r, 6, 40, 1);
  const int64_t count = 10000;
  const double bytes = double(count) * 4, middle = us(count, 10);
  for (Sharing sharing : {Sharing::Fifo, Sharing::Fair})
    for (bool atA : {false, true})
      for (bool atB : {false, true}) {
        CAPTURE(atA);
        CAPTURE(atB);
        SimulateOptions options = optionsFor(count);
        options.sharing = sharing;
        t.switches[0].multicast = t.switches[0].reduce = atA;
        t.switches[1].multicast = t.switches[1].reduce = atB;
        const double between = atB ? 1 : 3;
        const double up = atA ? 1 : atB ? 2 : 4;
        SimulateReport down = run(toAll(5), 1, t, options), back = run(fromAll(5), 1, t, options);
        CHECK(bytesOn(down, t, 0, 5) == up * bytes);
        CHECK(bytesOn(down, t, 5, 6) == between * bytes);
        CHECK(bytesOn(down, t, 6, 2) == bytes);
        CHECK(bytesOn(back, t, 5, 0) == up * bytes);
        CHECK(bytesOn(back, t, 6, 5) == between * bytes);
        CHECK(down.us >= between * middle + 3 - 1e-9);
        CHECK(back.us >= between * middle + 3 - 1e-9);
        if (atB) {
          CHECK(isNear(down.us, middle + 3, sharing == Sharing::Fair || atA ? 1e-9 : 0.3));
          CHECK(isNear(back.us, middle + 3, sharing == Sharing::Fair || atA ? 1e-9 : 0.3));
        }
      }
}

TEST_CASE("a sum waits for its last part") {
  // Rank 2 is slow, rank 1 far.
  Topology t;
  t.axes = {{"rank", 3}}, t.switches = {{"sw", false, true}};
  addBoth(t, 0, 3, 40, 1), addBoth(t, 1, 3, 40, 9), addBoth(t, 2, 3, 5, 1);
  for (int64_t count : {1000, 100000}) {
    SimulateReport report = run(fromAll(3), 1, t, optionsFor(count));
    CHECK(isNear(report.us, std::max(9 + us(count, 40), 1 + us(count, 5)) + 1));
  }
  CHECK(run(fromAll(3), 1, t, optionsFor(0)).us == 10);
}

TEST_CASE("copies and sums in micro-batches") {
  Topology t = starTopology(4, 20, 0.5);
  t.switches[0].multicast = t.switches[0].reduce = true;
  for (Sharing sharing : {Sharing::Fifo, Sharing::Fair})
    for (int64_t count : {0, 7, 10000}) {
      SimulateOptions options = optionsFor(count);
      options.batches = 5, options.sharing = sharing, options.timeline = true;
      for (const Program &program : {toAll(4), fromAll(4)}) {
        SimulateReport report = run(program, 1, t, options);
        CHECK(report.moved == double(3 * 4 * count));
        CHECK(report.messages == 15);
        for (const Timeline::Flight &flight : report.timeline->flights)
          CHECK(flight.arrive > flight.issue);
      }
    }
}

namespace {

/// How often a wire is passed: ways are cut where switches copy (seen from the other end: add), and
/// messages are one up to such a cut if all pieces before it are the same.
std::map<int32_t, int> passages(const Topology &t, int64_t n, bool adds) {
  Routes routes(t);
  std::map<int32_t, int> result;
  std::set<std::vector<int32_t>> seen; ///< ways up to the end of a piece
  for (int32_t r = 1; r < n; ++r) {
    std::vector<int32_t> way = adds ? routes.way(r, 0) : routes.way(0, r);
    if (adds)
      std::reverse(way.begin(), way.end());
    size_t begin = 0;
    for (size_t i = 0; i < way.size(); ++i) {
      const Wire &wire = routes.wires()[size_t(way[i])];
      const int64_t node = (adds ? wire.src : wire.dst) - n;
      const bool cuts = node >= 0 && (adds ? t.switches[size_t(node)].reduce
                                           : t.switches[size_t(node)].multicast);
      if (!cuts && i + 1 < way.size())
        continue;
      // The last piece is of one message only.
      const bool isNew =
          seen.insert({way.begin(), way.begin() + ptrdiff_t(i) + 1}).second || i + 1 == way.size();
      for (size_t j = begin; j <= i && isNew; ++j)
        ++result[way[j]];
      begin = i + 1;
    }
  }
  return result;
}

} // namespace

TEST_CASE("random fabrics: links carry what was cut, and nothing is lost") {
  int64_t shared = 0;
  for (uint64_t seed : ccl::random::seeds(300)) {
    CAPTURE(seed);
    ccl::soak::Dice dice(seed, 6);
    const int64_t n = 2 + dice.below(8), count = dice.below(2000);
    Topology t = randomTopology(n, dice);
    for (Switch &s : t.switches)
      s.multicast = dice.chance(60), s.reduce = dice.chance(60);
    const Routes routes(t);
    for (bool adds : {false, true})
      for (Sharing sharing : {Sharing::Fifo, Sharing::Fair}) {
        SimulateOptions options = optionsFor(count);
        options.sharing = sharing;
        SimulateReport report = run(adds ? fromAll(n) : toAll(n), 1, t, options);
        CHECK(report.moved == double(n - 1) * double(count) * 4);
        std::map<int32_t, int> expected = passages(t, n, adds);
        for (size_t w = 0; w < routes.wires().size(); ++w) {
          double bytes = 0;
          for (int32_t link : routes.wires()[w].links)
            bytes += report.links[size_t(link)].bytes;
          CHECK(isNear(bytes, double(expected[int32_t(w)]) * double(count) * 4));
        }
        int passed = 0, hops = 0;
        for (auto [wire, times] : expected)
          passed += times;
        Routes ways(t);
        for (int32_t r = 1; r < n; ++r)
          hops += int(adds ? ways.way(r, 0).size() : ways.way(0, r).size());
        shared += hops - passed;
      }
  }
  CHECK(shared > 0);
}
