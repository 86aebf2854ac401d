#include "Prices.h"

#include "dialect/bound/Lp.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace ccl::model;
using namespace networks;

namespace {

BandwidthBound boundOf(const Topology &t, bool symmetric = true, double gap = 0) {
  return priceBound(t, Collective::AllReduce, symmetric, gap);
}

// The least cost of a tree that reaches all ranks from `root`, over all choices of one arc into
// each other node; reversed if `reduce`. Ranks only.
double cheapestTree(const Fabric &fabric, const std::vector<double> &prices, int32_t root,
                    bool reduce) {
  size_t nodes = size_t(fabric.nodes);
  std::vector<int32_t> parent(nodes, -1);
  double best = INFINITY;
  std::function<void(size_t, double)> choose = [&](size_t node, double cost) {
    if (cost >= best)
      return;
    if (node == nodes) {
      for (size_t start = 0; start < nodes; ++start) {
        size_t at = start;
        for (size_t steps = 0; at != size_t(root) && steps < nodes; ++steps)
          at = size_t(parent[at]);
        if (at != size_t(root))
          return;
      }
      best = cost;
      return;
    }
    if (node == size_t(root))
      return choose(node + 1, cost);
    for (size_t i = 0; i < fabric.arcs.size(); ++i) {
      const Arc &arc = fabric.arcs[i];
      if (size_t(reduce ? arc.src : arc.dst) != node)
        continue;
      parent[node] = reduce ? arc.dst : arc.src;
      choose(node + 1, cost + prices[i]);
    }
  };
  choose(0, 0);
  return best;
}

} // namespace

TEST_CASE("all_reduce: closed forms, with symmetry and without") {
  struct Row {
    const char *name;
    Topology topology;
    double algbw;
  };
  std::vector<Row> rows;
  for (int64_t n : {2, 3, 5, 8})
    rows.push_back({"ring", torus({n}), n == 2 ? 1.0 : double(n) / double(n - 1)});
  for (int64_t n : {3, 4, 8})
    rows.push_back({"full", full(n), double(n) / 2});
  for (int64_t d : {1, 2, 3, 4, 5}) // d 2^d arcs for 2 (2^d - 1) messages
    rows.push_back({"hypercube", torus(std::vector<int64_t>(size_t(d), 2)),
                    double(d << d) / double(2 * ((1 << d) - 1))});
  rows.push_back({"torus", torus({4, 4}), 64.0 / 30});
  rows.push_back({"torus", torus({3, 4, 5}), 6.0 * 60 / (2 * 59)});
  for (int64_t n : {2, 3, 4, 5, 6, 7})
    rows.push_back({"mesh", mesh({n, n}), 2 * double(n) / double(n + 1)});
  for (int64_t n : {2, 3, 8})
    rows.push_back({"star", star(n), double(n) / double(2 * (n - 1))});
  rows.push_back({"one way ring", oneWayRing(6), 6.0 / 10});
  for (const Row &row : rows)
    for (bool symmetric : {true, false}) {
      CAPTURE(row.name);
      CAPTURE(row.topology.ranks());
      BandwidthBound bound = boundOf(row.topology, symmetric);
      CHECK(std::abs(bound.algbw / row.algbw - 1) < 1e-9);
      CHECK(bound.exact);
    }
}

TEST_CASE("all_reduce: a switch that both multicasts and reduces replaces a root") {
  for (int which = 0; which < 4; ++which) {
    Topology t = ranks({8});
    int32_t s = addSwitch(t, which & 1, which & 2);
    for (int64_t rank = 0; rank < 8; ++rank)
      join(t, rank, s, 1);
    BandwidthBound bound = boundOf(t);
    // One of the two does not help: what enters a switch that forwards has to leave it.
    CHECK(bound.algbw == doctest::Approx(which == 3 ? 1.0 : 4.0 / 7));
    CHECK(bound.exact);
  }
}

TEST_CASE("all_reduce: switches that help make bounds higher, never lower") {
  std::mt19937_64 random(41);
  for (int trial = 0; trial < 60; ++trial) {
    Topology t = randomNetwork(random, 9, true, trial % 2);
    double last = 0;
    for (int which : {0, 1, 3}) {
      for (Switch &s : t.switches) {
        s.multicast = which & 1;
        s.reduce = which & 2;
      }
      BandwidthBound bound = boundOf(t, false);
      CHECK(bound.algbw >= last * (1 - 1e-9));
      last = bound.algbw;
    }
  }
}

// Every variable of the program, flows to and from each rank included; no cuts, no orbits.
static double directly(const Fabric &fabric) {
  Lp lp;
  size_t nodes = size_t(fabric.nodes), arcs = fabric.arcs.size();
  std::vector<int32_t> root, a, b;
  for (int32_t rank = 0; rank < fabric.ranks; ++rank)
    root.push_back(lp.addColumn(1));
  for (const Arc &arc : fabric.arcs) {
    a.push_back(lp.addColumn(0));
    b.push_back(lp.addColumn(0));
    lp.addRow(std::vector<Lp::Term>{{a.back(), 1}, {b.back(), 1}}, -Lp::infinity,
              double(arc.capacity));
  }
  for (bool reduce : {false, true}) {
    const std::vector<int32_t> &share = reduce ? b : a;
    for (int32_t rank = 0; rank < fabric.ranks; ++rank) {
      std::vector<std::vector<Lp::Term>> into(nodes);
      for (size_t i = 0; i < arcs; ++i) {
        int32_t flow = lp.addColumn(0);
        lp.addRow(std::vector<Lp::Term>{{flow, 1}, {share[i], -1}}, -Lp::infinity, 0);
        const Arc &arc = fabric.arcs[i];
        into[size_t(reduce ? arc.src : arc.dst)].push_back({flow, 1});
        into[size_t(reduce ? arc.dst : arc.src)].push_back({flow, -1});
      }
      for (size_t node = 0; node < nodes; ++node) {
        if (node == size_t(rank))
          continue;
        if (node < root.size())
          into[node].push_back({root[node], 1});
        lp.addRow(into[node], 0, 0);
      }
    }
    for (size_t node = size_t(fabric.ranks); node < nodes; ++node) {
      std::vector<Lp::Term> balance;
      for (size_t i = 0; i < arcs; ++i) {
        if (size_t(fabric.arcs[i].dst) == node)
          balance.push_back({share[i], 1});
        if (size_t(fabric.arcs[i].src) == node)
          balance.push_back({share[i], -1});
      }
      lp.addRow(balance, 0, 0);
    }
  }
  REQUIRE(lp.solve() == Lp::Status::Optimal);
  return lp.objective() * fabric.unit;
}

TEST_CASE("all_reduce: the whole program, flows and all, has the same value") {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    Topology t = randomNetwork(random, 8, trial % 3 != 0, trial % 2);
    BandwidthBound bound = boundOf(t, trial % 4 < 2);
    CHECK(std::abs(bound.algbw / directly(makeFabric(t)) - 1) < 1e-6);
    CHECK(bound.exact);
  }
}

// With a row for every cut there is.
static double byAllCuts(const Fabric &fabric) {
  Lp lp;
  std::vector<int32_t> root, a, b;
  for (int32_t node = 0; node < fabric.nodes; ++node) {
    bool can =
        fabric.isRank(node) || (fabric.copies[size_t(node)] && fabric.combines[size_t(node)]);
    root.push_back(lp.addColumn(can, 0, can ? Lp::infinity : 0));
  }
  for (const Arc &arc : fabric.arcs) {
    a.push_back(lp.addColumn(0));
    b.push_back(lp.addColumn(0));
    lp.addRow(std::vector<Lp::Term>{{a.back(), 1}, {b.back(), 1}}, -Lp::infinity,
              double(arc.capacity));
  }
  uint32_t ranks = (1u << fabric.ranks) - 1;
  for (uint32_t set = 1; set + 1 < 1u << fabric.nodes; ++set) {
    if ((set & ranks) == ranks)
      continue;
    std::vector<Lp::Term> leave, enter;
    for (int32_t node = 0; node < fabric.nodes; ++node)
      if (set >> node & 1) {
        leave.push_back({root[size_t(node)], 1});
        enter.push_back({root[size_t(node)], 1});
      }
    for (size_t i = 0; i < fabric.arcs.size(); ++i) {
      bool src = set >> fabric.arcs[i].src & 1, dst = set >> fabric.arcs[i].dst & 1;
      if (src && !dst)
        leave.push_back({a[i], -1});
      if (!src && dst)
        enter.push_back({b[i], -1});
    }
    lp.addRow(leave, -Lp::infinity, 0);
    lp.addRow(enter, -Lp::infinity, 0);
  }
  for (int32_t node = fabric.ranks; node < fabric.nodes; ++node)
    for (bool reduce : {false, true}) {
      if (reduce ? fabric.combines[size_t(node)] : fabric.copies[size_t(node)])
        continue;
      std::vector<Lp::Term> balance;
      for (size_t i = 0; i < fabric.arcs.size(); ++i) {
        if (fabric.arcs[i].dst == node)
          balance.push_back({reduce ? b[i] : a[i], 1});
        if (fabric.arcs[i].src == node)
          balance.push_back({reduce ? b[i] : a[i], -1});
      }
      lp.addRow(balance, 0, 0);
    }
  REQUIRE(lp.solve() == Lp::Status::Optimal);
  return lp.objective() * fabric.unit;
}

TEST_CASE("all_reduce: a row for each cut there is, and any switches, give the same value") {
  std::mt19937_64 random(12);
  int exact = 0, helped = 0;
  for (int trial = 0; trial < 120; ++trial) {
    CAPTURE(trial);
    Topology t = randomNetwork(random, 8, true, trial % 2);
    for (Switch &s : t.switches) {
      s.multicast = random() % 2;
      s.reduce = random() % 2;
      helped += s.multicast || s.reduce;
    }
    BandwidthBound bound = boundOf(t, trial % 4 < 2);
    CHECK(std::abs(bound.algbw / byAllCuts(makeFabric(t)) - 1) < 1e-6);
    exact += bound.exact;
  }
  MESSAGE("attained by what was tried: ", exact, " of 120");
  CHECK(helped > 30);
  CHECK(exact > 60);
}

TEST_CASE("all_reduce: every pair of trees pays what the prices say") {
  std::mt19937_64 random(13);
  for (int trial = 0; trial < 40; ++trial) {
    Topology t = randomNetwork(random, 6, false, trial % 2);
    Fabric fabric = makeFabric(t);
    BandwidthBound bound = boundOf(t, false);
    double paid = 0, least = INFINITY;
    for (size_t i = 0; i < fabric.arcs.size(); ++i)
      paid += bound.prices[i] * double(fabric.arcs[i].capacity);
    for (int32_t root = 0; root < fabric.ranks; ++root)
      least = std::min(least, cheapestTree(fabric, bound.prices, root, false) +
                                  cheapestTree(fabric, bound.prices, root, true));
    CHECK(paid / least * fabric.unit <= bound.algbw * (1 + 1e-9));
  }
}

TEST_CASE("all_reduce: what is not the proof is refused") {
  Topology t = boxes(2, 4, 10, 3, 2);
  Fabric fabric = makeFabric(t);
  BandwidthBound good = allReduceBound(fabric, findOrbits(fabric, t));
  refusedWherever(fabric, good);
  REQUIRE(!good.cuts.empty());
  BandwidthBound bad;
  bad = good;
  bad.cuts.pop_back();
  CHECK(verify(fabric, bad) != "");
  for (size_t i = 0; i < good.cuts.size(); ++i)
    for (double weight : {good.cuts[i].weight + 1, good.cuts[i].weight - 1}) {
      bad = good;
      bad.cuts[i].weight = weight;
      CHECK(verify(fabric, bad) != "");
    }
  bad = good;
  bad.cuts[0].weight = 0.5;
  refused(fabric, bad, "no integer");
  bad = good;
  bad.cuts[0].nodes = {fabric.nodes};
  refused(fabric, bad, "node");
  bad = good;
  bad.cuts[0].nodes.clear();
  for (int32_t rank = 0; rank < fabric.ranks; ++rank)
    bad.cuts[0].nodes.push_back(rank);
  bad.cuts[0].complement = false;
  refused(fabric, bad, "no rank outside");
  bad = good;
  bad.broadcastPotentials[0] = 1;
  refused(fabric, bad, "potential");
  bad = good;
  bad.broadcastPotentials.pop_back();
  refused(fabric, bad, "potential");
  for (double change : {1.0, -1.0}) {
    bad = good;
    for (double &price : bad.prices)
      price += change;
    refused(fabric, bad, "price");
  }
  bad = good;
  bad.prices[0] += 1;
  refused(fabric, bad, "price");
  // Without them the cuts stand for themselves only.
  bad = good;
  bad.symmetries.clear();
  CHECK(verify(fabric, bad) != "");
}

TEST_CASE("all_reduce: failed links, within the gap that was asked for") {
  std::mt19937_64 random(14);
  Topology t = withFailures(boxes(8, 8, 450, 50, 1), 20, random);
  BandwidthBound rough = boundOf(t, false, 0.02), fine = boundOf(t, false, 0);
  CHECK(rough.attained >= 0.98 * rough.algbw);
  CHECK(fine.exact);
  CHECK(rough.algbw >= fine.algbw * (1 - 1e-9));
  CHECK(rough.attained <= fine.algbw * (1 + 1e-9));
}

TEST_CASE("all_reduce: tori with holes, soon, and the same again") {
  std::mt19937_64 random(15);
  for (const std::vector<int64_t> &sizes : {std::vector<int64_t>{4, 4, 8}, {8, 16}}) {
    Topology t = withFailures(torus(sizes), 40, random);
    BandwidthBound bound = boundOf(t, true, 0.02), again = boundOf(t, true, 0.02);
    CHECK(bound.attained >= 0.98 * bound.algbw);
    // What fits in part counts: else most rounds would bring cuts only.
    CHECK(bound.flows < 20 * t.ranks());
    CHECK(again.attained == bound.attained);
    CHECK(again.algbw == bound.algbw);
    CHECK(again.flows == bound.flows);
  }
}

TEST_CASE("all_reduce: no time gives a bound still") {
  Topology t = mesh({4, 4});
  Fabric fabric = makeFabric(t);
  BoundOptions options;
  options.seconds = 0;
  BandwidthBound bound = allReduceBound(fabric, trivialOrbits(fabric), options);
  CHECK(verify(fabric, bound) == "");
  CHECK(bound.algbw >= 1.6 * (1 - 1e-9));
  CHECK(std::isfinite(bound.algbw));
  CHECK(bound.attained <= 1.6 * (1 + 1e-9));
}

TEST_CASE("all_reduce: larger fabrics by symmetry") {
  // Eight times 72 ranks: each has 950 GB/s for 575 shards to come in, and as many to go out.
  BandwidthBound racks = boundOf(boxes(8, 72, 900, 50, 1));
  CHECK(std::abs(racks.algbw / (576.0 * 950 / 575 / 2) - 1) < 1e-9);
  CHECK(racks.exact);
  BandwidthBound grid = boundOf(mesh({16, 16}));
  CHECK(std::abs(grid.algbw / (32.0 / 17) - 1) < 1e-9);
  CHECK(grid.exact);
}
