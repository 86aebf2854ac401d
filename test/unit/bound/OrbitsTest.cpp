#include "dialect/bound/Fabric.h"
#include "test/unit/bound/Networks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace ccl::model;
using namespace networks;

namespace {

/// A tree of switches, `down` below each, `ranks` below the lowest.
Topology tree(int64_t levels, int64_t down, int64_t ranksEach) {
  int64_t leaves = 1;
  std::vector<int64_t> sizes;
  for (int64_t level = 1; level < levels; ++level)
    leaves *= down, sizes.push_back(down);
  sizes.push_back(ranksEach);
  Topology t = ranks(sizes);
  std::vector<int32_t> above;
  for (int64_t width = 1; width <= leaves; width *= down) {
    std::vector<int32_t> row;
    for (int64_t i = 0; i < width; ++i) {
      row.push_back(addSwitch(t));
      if (!above.empty())
        join(t, row.back(), above[size_t(i / down)], double(100 / width + 1));
    }
    above = row;
  }
  for (int64_t rank = 0; rank < t.ranks(); ++rank)
    join(t, rank, above[size_t(rank / ranksEach)], 1);
  return t;
}

/// Every generator is an automorphism, and the orbits are those of the generators.
void checkOrbits(const Fabric &fabric, const Orbits &orbits) {
  std::map<std::pair<int32_t, int32_t>, size_t> arcs;
  for (size_t i = 0; i < fabric.arcs.size(); ++i)
    arcs[{fabric.arcs[i].src, fabric.arcs[i].dst}] = i;
  // Orbits by spreading from each member.
  std::vector<std::vector<size_t>> nodeNext(size_t(fabric.nodes)), arcNext(fabric.arcs.size());
  for (const std::vector<int32_t> &image : orbits.generators) {
    REQUIRE(image.size() == size_t(fabric.nodes));
    REQUIRE(std::set<int32_t>(image.begin(), image.end()).size() == image.size());
    for (size_t node = 0; node < image.size(); ++node) {
      REQUIRE(fabric.isRank(int32_t(node)) == fabric.isRank(image[node]));
      REQUIRE(fabric.copies[node] == fabric.copies[size_t(image[node])]);
      REQUIRE(fabric.combines[node] == fabric.combines[size_t(image[node])]);
      nodeNext[node].push_back(size_t(image[node]));
    }
    for (size_t i = 0; i < fabric.arcs.size(); ++i) {
      auto it = arcs.find({image[size_t(fabric.arcs[i].src)], image[size_t(fabric.arcs[i].dst)]});
      REQUIRE(it != arcs.end());
      REQUIRE(fabric.arcs[it->second].capacity == fabric.arcs[i].capacity);
      arcNext[i].push_back(it->second);
    }
  }
  auto number = [](const std::vector<std::vector<size_t>> &next) {
    std::vector<int32_t> of(next.size(), -1);
    int32_t count = 0;
    for (size_t first = 0; first < next.size(); ++first) {
      if (of[first] >= 0)
        continue;
      std::vector<size_t> queue = {first};
      of[first] = count;
      for (size_t at = 0; at < queue.size(); ++at)
        for (size_t to : next[queue[at]])
          if (of[to] < 0)
            of[to] = count, queue.push_back(to);
      ++count;
    }
    return of;
  };
  CHECK(number(nodeNext) == orbits.ofNode);
  CHECK(number(arcNext) == orbits.ofArc);
  CHECK(orbits.nodeOrbits == 1 + *std::max_element(orbits.ofNode.begin(), orbits.ofNode.end()));
  bool one = std::all_of(orbits.ofNode.begin(), orbits.ofNode.begin() + fabric.ranks,
                         [&](int32_t orbit) { return orbit == orbits.ofNode[0]; });
  CHECK(orbits.transitive == one);

  // Shifts move ranks as some product of generators may, commute, and reach everybody.
  if (orbits.shifts.empty())
    return;
  std::vector<bool> reached(size_t(fabric.ranks));
  std::vector<int64_t> queue = {0};
  reached[0] = true;
  for (size_t at = 0; at < queue.size(); ++at)
    for (const Orbits::Shift &shift : orbits.shifts) {
      int64_t to = shift(queue[at]);
      for (const Orbits::Shift &other : orbits.shifts)
        CHECK(other(to) == shift(other(queue[at])));
      if (!reached[size_t(to)])
        reached[size_t(to)] = true, queue.push_back(to);
    }
  CHECK(queue.size() == size_t(fabric.ranks));
}

Orbits orbitsOf(const Topology &t) {
  Fabric fabric = makeFabric(t);
  Orbits orbits = findOrbits(fabric, t);
  checkOrbits(fabric, orbits);
  return orbits;
}

void expect(const Topology &t, int32_t nodes, int32_t arcs) {
  Orbits orbits = orbitsOf(t);
  CHECK(orbits.nodeOrbits == nodes);
  CHECK(orbits.arcOrbits == arcs);
}

/// The same with one axis for all ranks, as edge lists have it.
Topology flat(Topology t) {
  t.axes = {{"rank", t.ranks()}};
  return t;
}

} // namespace

TEST_CASE("regular networks have few orbits") {
  expect(torus({7}), 1, 1);
  expect(oneWayRing(7), 1, 1);
  expect(torus({4, 4, 4}), 1, 1);
  expect(torus({3, 4, 5}), 1, 3);
  expect(torus({4, 5, 5}), 1, 2);
  expect(torus({2, 2, 2, 2, 2}), 1, 1);
  expect(full(9), 1, 1);
  expect(mesh({5}), 3, 4);
  expect(mesh({4, 4}), 3, 6);
  expect(star(6), 2, 2);
  expect(boxes(5, 4, 9, 2, 1), 3, 4);
  expect(boxes(5, 4, 9, 2, 2), 3, 4);
  expect(boxes(5, 4, 9, 2, 4), 3, 4);
  expect(unwound(4, 5, 2), 1, 2);
  expect(dgx1(), 2, 8); // a group of four
  expect(ndv2(4), 4, 14);
}

TEST_CASE("grids that the topology does not state are found") {
  expect(flat(torus({4, 4, 4})), 1, 1);
  expect(flat(torus({3, 4, 5})), 1, 3);
  expect(flat(torus({2, 2, 2, 2, 2})), 1, 1);
  expect(flat(boxes(5, 4, 9, 2, 1)), 3, 4);
  expect(flat(boxes(6, 4, 9, 2, 2)), 3, 4);
  expect(flat(unwound(4, 5, 2)), 1, 2);
}

TEST_CASE("switches behind switches") {
  expect(tree(2, 3, 4), 3, 4);
  expect(tree(3, 3, 2), 4, 6);
  expect(tree(4, 2, 3), 5, 8);
}

TEST_CASE("copies and latencies set nodes apart") {
  Topology t = boxes(2, 2, 9, 2, 1);
  CHECK(orbitsOf(t).transitive);
  t.switches[0].multicast = true;
  CHECK_FALSE(orbitsOf(t).transitive);
  t = torus({6});
  t.links[0].latency = 3;
  Fabric fabric = makeFabric(t);
  CHECK(findOrbits(fabric, t).transitive);
  CHECK_FALSE(findOrbits(fabric, t, true).transitive);
}

TEST_CASE("what is left equal when links fail") {
  std::mt19937_64 random(9);
  // One box of eight has a link less: the others, and the other ranks of that, are equal still.
  Topology t = boxes(8, 4, 9, 2, 1);
  t.links.erase(t.links.begin()); // rank 0 to its switch
  Orbits orbits = orbitsOf(t);
  CHECK(orbits.nodeOrbits == 1 + 1 + 1 + 2 + 1); // rank 0, its peers, the rest, switches
  for (int i = 0; i < 40; ++i) {
    CAPTURE(i);
    Topology u = i % 2 ? boxes(6, 4, 9, 2, 2) : torus({4, 6});
    orbitsOf(withFailures(u, 1 + i / 4, random));
  }
}

TEST_CASE("thousands of boxes, one of which has a link less") {
  // Equal boxes are joined by few automorphisms: one for each pair of them would be too many.
  Topology t = boxes(2048, 2, 9, 2, 1);
  t.links.erase(t.links.begin()); // rank 0 to its switch
  const Orbits orbits = orbitsOf(t);
  CHECK(orbits.nodeOrbits == 1 + 1 + 1 + 2 + 1); // rank 0, its peer, the rest, switches
  CHECK(orbits.generators.size() < 100);
  CHECK_FALSE(orbits.transitive);
}

TEST_CASE("NICs and a network for each of thousands of GPUs of a number") {
  const int64_t nodes = 1024, gpus = 4, n = nodes * gpus;
  Topology t = ranks({nodes, gpus});
  for (int64_t node = 0; node < nodes; ++node)
    addSwitch(t);
  for (int64_t rail = 0; rail < gpus; ++rail)
    addSwitch(t);
  for (int64_t rank = 0; rank < n; ++rank) {
    const int64_t nic = addSwitch(t);
    join(t, rank, n + rank / gpus, 450);
    join(t, rank, nic, 64);
    join(t, nic, n + nodes + rank % gpus, 50);
  }
  expect(t, 4, 6);
  t.links.pop_back(); // the last rail to the last NIC
  // The last rank, its box and its rail are set apart, and so is who is in both, or in none.
  const Orbits orbits = orbitsOf(t);
  CHECK(orbits.nodeOrbits == 4 + 4 + 2 + 2);
}

TEST_CASE("random networks: orbits are orbits, and the trivial ones are there, too") {
  std::mt19937_64 random(4);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    Topology t = randomNetwork(random, 8, i % 2, i % 4 < 2);
    orbitsOf(t);
    Fabric fabric = makeFabric(t);
    Orbits none = trivialOrbits(fabric);
    checkOrbits(fabric, none);
    CHECK(none.nodeOrbits == fabric.nodes);
  }
}
