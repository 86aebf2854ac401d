#include "dialect/simulate/Routes.h"

#include "test/unit/simulate/Timing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace ccl::model;

namespace {

std::vector<int32_t> nodesOf(const Routes &routes, const std::vector<int32_t> &way) {
  std::vector<int32_t> nodes;
  for (int32_t wire : way)
    nodes.push_back(routes.wires()[size_t(wire)].dst);
  return nodes;
}

/// Hops and width of the best way, by relaxing all links as long as anything changes.
std::pair<int, double> bestWay(const Topology &t, int32_t src, int32_t dst) {
  std::vector<std::pair<int, double>> best(size_t(t.nodes()), {1 << 20, 0.0});
  best[size_t(src)] = {0, 1e9};
  for (bool changed = true; changed;) {
    changed = false;
    for (const Link &link : t.links) {
      if (link.src != src && link.src < t.ranks())
        continue;
      auto [hops, width] = best[size_t(link.src)];
      std::pair<int, double> via = {hops + 1, std::min(width, link.bandwidth)};
      std::pair<int, double> &now = best[size_t(link.dst)];
      if (hops < 1 << 20 &&
          (via.first < now.first || (via.first == now.first && via.second > now.second)))
        now = via, changed = true;
    }
  }
  return best[size_t(dst)];
}

} // namespace

TEST_CASE("a direct link comes before any other way") {
  Topology t = starTopology(3, 100, 1);
  addBoth(t, 0, 1, 1, 5);
  Routes routes(t);
  CHECK(nodesOf(routes, routes.way(0, 1)) == std::vector<int32_t>{1});
  CHECK(nodesOf(routes, routes.way(0, 2)) == std::vector<int32_t>{3, 2});
  CHECK(routes.way(2, 2).empty());
}

TEST_CASE("whether a way is one of several as good") {
  auto isOnly = [](const Topology &t, int32_t src, int32_t dst) {
    Routes routes(t);
    routes.way(src, dst);
    return routes.isOnly();
  };
  Topology t = starTopology(3, 100, 1);
  CHECK(isOnly(t, 0, 1));
  t.switches.push_back({"other"});
  addBoth(t, 0, 4, 100, 1), addBoth(t, 1, 4, 90, 1);
  CHECK(isOnly(t, 0, 1)); // the other is narrower
  t.links.back().bandwidth = t.links[t.links.size() - 2].bandwidth = 100;
  CHECK_FALSE(isOnly(t, 0, 1));
  CHECK(isOnly(t, 0, 2));
  addBoth(t, 0, 1, 10, 1);
  CHECK(isOnly(t, 0, 1)); // the direct one
  addBoth(t, 0, 1, 10, 2);
  CHECK_FALSE(isOnly(t, 0, 1)); // two wires, by their latencies
}

TEST_CASE("ranks do not forward") {
  Topology t = ringTopology(4, 10, 1);
  Routes routes(t);
  CHECK(routes.way(0, 1).size() == 1);
  CHECK(routes.way(0, 3).size() == 1);
  CHECK(routes.way(0, 2).empty());
}

TEST_CASE("fewest hops, then the widest") {
  Topology t;
  t.axes = {{"rank", 2}};
  t.switches = {{"narrow"}, {"wide"}, {"far1"}, {"far2"}};
  addBoth(t, 0, 2, 50, 1), addBoth(t, 2, 1, 10, 1);
  addBoth(t, 0, 3, 20, 1), addBoth(t, 3, 1, 20, 1);
  addBoth(t, 0, 4, 99, 0), addBoth(t, 4, 5, 99, 0), addBoth(t, 5, 1, 99, 0);
  Routes routes(t);
  CHECK(nodesOf(routes, routes.way(0, 1)) == std::vector<int32_t>{3, 1});
}

TEST_CASE("parallel links are one wire, unless they share something") {
  Topology t;
  t.axes = {{"rank", 2}};
  t.resources = {{"slot", 30}};
  t.links = {{0, 1, 25, 1, {}},
             {1, 0, 25, 1, {}},
             {0, 1, 50, 1, {}},
             {0, 1, 25, 2, {}},
             {0, 1, 90, 1, {0}}};
  Routes routes(t);
  REQUIRE(routes.wires().size() == 4);
  CHECK(routes.wires()[0].bandwidth == 75);
  CHECK(routes.wires()[0].links == std::vector<int32_t>{0, 2});
  CHECK(routes.wires()[2].bandwidth == 90);
  const std::vector<int32_t> &way = routes.way(0, 1);
  REQUIRE(way.size() == 1);
  CHECK(routes.wires()[size_t(way[0])].bandwidth == 90);
}

TEST_CASE("equal ways are spread over the pairs, the same pair takes the same") {
  // Two leaves of eight ranks below four spines.
  Topology t;
  t.axes = {{"rank", 16}};
  t.switches = {{"leaf0"}, {"leaf1"}, {"s0"}, {"s1"}, {"s2"}, {"s3"}};
  for (int32_t r = 0; r < 16; ++r)
    addBoth(t, r, 16 + r / 8, 50, 1);
  for (int32_t leaf : {16, 17})
    for (int32_t spine = 18; spine < 22; ++spine)
      addBoth(t, leaf, spine, 50, 1);
  Routes routes(t), again(t);
  std::map<int32_t, int> load;
  for (int32_t a = 0; a < 8; ++a)
    for (int32_t b = 8; b < 16; ++b) {
      std::vector<int32_t> way = routes.way(a, b);
      REQUIRE(way.size() == 4);
      ++load[routes.wires()[size_t(way[1])].dst];
    }
  for (int32_t b = 15; b >= 8; --b)
    for (int32_t a = 7; a >= 0; --a)
      CHECK(again.way(a, b) == routes.way(a, b));
  REQUIRE(load.size() == 4);
  for (auto [spine, ways] : load)
    CHECK(ways >= 8); // of 64, 16 in the mean
}

TEST_CASE("ways of random graphs have the hops and the width of the best") {
  std::mt19937 random(5);
  int found = 0, none = 0;
  for (int round = 0; round < 300; ++round) {
    Topology t;
    const int64_t ranks = 2 + int64_t(random() % 5), switches = int64_t(random() % 8);
    t.axes = {{"rank", ranks}};
    for (int64_t s = 0; s < switches; ++s)
      t.switches.push_back({"s" + std::to_string(s)});
    const int64_t nodes = t.nodes();
    for (int64_t l = 0; l < 3 * nodes; ++l) {
      int32_t a = int32_t(int64_t(random()) % nodes), b = int32_t(int64_t(random()) % nodes);
      bool known = a == b;
      for (const Link &link : t.links)
        known |= link.src == a && link.dst == b;
      if (!known)
        t.links.push_back({a, b, double(1 + random() % 4), 1, {}});
    }
    Routes routes(t);
    for (int32_t a = 0; a < ranks; ++a)
      for (int32_t b = 0; b < ranks; ++b) {
        if (a == b)
          continue;
        auto [hops, width] = bestWay(t, a, b);
        const std::vector<int32_t> &way = routes.way(a, b);
        if (hops == 1 << 20) {
          CHECK(way.empty());
          ++none;
          continue;
        }
        ++found;
        REQUIRE(int(way.size()) == hops);
        int32_t at = a;
        double narrowest = 1e9;
        for (int32_t wire : way) {
          CHECK(routes.wires()[size_t(wire)].src == at);
          at = routes.wires()[size_t(wire)].dst;
          CHECK((at == b || at >= ranks));
          narrowest = std::min(narrowest, routes.wires()[size_t(wire)].bandwidth);
        }
        CHECK(at == b);
        CHECK(narrowest == width);
      }
  }
  CHECK(found > 1000);
  CHECK(none > 100);
}
