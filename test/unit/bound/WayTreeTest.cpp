#include "Networks.h"

#include "dialect/bound/WayTree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace ccl::model;
using namespace networks;

namespace {

struct Search {
  Fabric fabric;
  ShortestWays ways;
  ShortestWays::Work work;

  explicit Search(const Topology &t) : fabric(makeFabric(t)), ways(fabric) {
    ways.setPrices(std::vector<int64_t>(fabric.arcs.size(), 1));
  }
  void run(int32_t source) {
    ways.run(source, work);
    ways.countWays(source, work);
  }
  std::vector<int32_t> wayAt(int32_t source, int32_t rank, double at) const {
    std::vector<int32_t> arcs;
    for (int32_t node = rank; node != source; node = fabric.arcs[size_t(arcs.back())].src)
      arcs.push_back(ways.lastArc(node, work, at));
    return arcs;
  }
};

} // namespace

TEST_CASE("cheapest ways in a row: every share of it is another one") {
  Search search(mesh({4, 3, 3}));
  search.run(0);
  for (int32_t rank = 1; rank < search.fabric.ranks; ++rank) {
    CAPTURE(rank);
    double count = search.work.ways[size_t(rank)];
    std::set<std::vector<int32_t>> all;
    for (int way = 0; way < int(count); ++way) {
      all.insert(search.wayAt(0, rank, (way + 0.5) / count));
      CHECK(int64_t(all.rbegin()->size()) == search.work.distance[size_t(rank)]);
    }
    CHECK(double(all.size()) == count);
  }
  // Three axes' steps in any order.
  CHECK(search.work.ways.back() == 7 * 6 * 5 * 4 / (2.0 * 2));
}

TEST_CASE("a tree of ways: as many as asked for, each to its rank, shares of 1") {
  std::mt19937_64 random(31);
  for (int trial = 0; trial < 100; ++trial) {
    CAPTURE(trial);
    Search search(trial < 10 ? torus({4, 2 + trial}) : randomNetwork(random, 12, trial % 2, false));
    const Fabric &fabric = search.fabric;
    int32_t source = int32_t(random() % uint64_t(fabric.ranks));
    search.run(source);
    int most = 1 + trial % 5;
    WayTree tree(fabric, search.ways, search.work, source, most, random);
    CHECK(tree.to(source).empty());
    for (int32_t rank = 0; rank < fabric.ranks; ++rank) {
      if (rank == source)
        continue;
      double sum = 0;
      CHECK(double(tree.to(rank).size()) == std::min<double>(most, search.work.ways[size_t(rank)]));
      for (const WayTree::Way &way : tree.to(rank)) {
        sum += way.share;
        int32_t at = rank;
        int64_t length = 0;
        tree.eachArc(way.end, [&](int32_t arc) {
          CHECK(fabric.arcs[size_t(arc)].dst == at);
          at = fabric.arcs[size_t(arc)].src;
          ++length;
        });
        CHECK(at == source);
        CHECK(length == search.work.distance[size_t(rank)]);
      }
      CHECK(std::abs(sum - 1) < 1e-12);
    }
  }
}

TEST_CASE("a tree of ways: loads are those of the ways that are left") {
  Search search(torus({4, 4}));
  search.run(0);
  std::mt19937_64 random(32);
  WayTree tree(search.fabric, search.ways, search.work, 0, 3, random);
  // Only the first way of each rank stays, and rank 1 gets a detour over rank 2's.
  std::vector<WayTree::Way> all;
  std::vector<int32_t> firsts{0};
  for (int32_t rank = 0; rank < 16; ++rank) {
    if (rank == 1) {
      int32_t last = search.fabric.find(2, 1);
      REQUIRE(last >= 0);
      all.push_back({tree.add(tree.to(2)[0].end, last), 0.25});
      all.push_back({tree.to(1)[0].end, 0.25}); // halves, once they add up to 1
    } else if (rank > 0) {
      all.push_back({tree.to(rank)[0].end, 1});
    }
    firsts.push_back(int32_t(all.size()));
  }
  std::vector<double> expected(search.fabric.arcs.size(), 0), loads = expected;
  for (int32_t rank = 0; rank < 16; ++rank)
    for (int32_t i = firsts[size_t(rank)]; i < firsts[size_t(rank) + 1]; ++i)
      tree.eachArc(all[size_t(i)].end,
                   [&](int32_t arc) { expected[size_t(arc)] += 6 * (rank == 1 ? 0.5 : 1); });
  tree.replace(std::move(all), std::move(firsts));
  std::vector<int32_t> kindOf(loads.size());
  std::iota(kindOf.begin(), kindOf.end(), 0);
  tree.addLoads(6, kindOf, loads);
  for (size_t arc = 0; arc < loads.size(); ++arc)
    CHECK(std::abs(loads[arc] - expected[arc]) < 1e-12);
  CHECK(tree.to(1)[0].share == 0.5);
}
