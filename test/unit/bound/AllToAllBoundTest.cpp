#include "Prices.h"

#include "dialect/bound/Lp.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

using namespace ccl::model;
using namespace networks;

namespace {

// One flow for each pair of ranks; no orbits, no ways.
double directly(const Fabric &fabric) {
  Lp lp;
  int32_t rate = lp.addColumn(double(fabric.ranks));
  std::vector<std::vector<Lp::Term>> load(fabric.arcs.size());
  for (int32_t src = 0; src < fabric.ranks; ++src)
    for (int32_t dst = 0; dst < fabric.ranks; ++dst) {
      if (src == dst)
        continue;
      std::vector<std::vector<Lp::Term>> into(size_t(fabric.nodes));
      for (size_t i = 0; i < fabric.arcs.size(); ++i) {
        int32_t flow = lp.addColumn(0);
        load[i].push_back({flow, 1});
        into[size_t(fabric.arcs[i].dst)].push_back({flow, 1});
        into[size_t(fabric.arcs[i].src)].push_back({flow, -1});
      }
      into[size_t(dst)].push_back({rate, -1});
      for (int32_t node = 0; node < fabric.nodes; ++node)
        if (node != src)
          lp.addRow(into[size_t(node)], 0, 0);
    }
  for (size_t i = 0; i < fabric.arcs.size(); ++i)
    lp.addRow(load[i], -Lp::infinity, double(fabric.arcs[i].capacity));
  REQUIRE(lp.solve() == Lp::Status::Optimal);
  return lp.objective() * fabric.unit;
}

} // namespace

TEST_CASE("all_to_all and all_reduce: bounds are those of the table") {
  if (corpus().empty()) {
    MESSAGE("skipped: no collections beside the tree");
    return;
  }
  std::string folder = corpus() + "/peers/";
  int rows = 0;
  for (const std::vector<std::string> &cells : readTable(folder + "lp_bounds.csv")) {
    REQUIRE(cells.size() >= 5);
    const std::string &name = cells[0], &gpus = cells[1], &collective = cells[2], &algbw = cells[4];
    CAPTURE(name);
    CAPTURE(collective);
    std::string file = name;
    std::replace(file.begin(), file.end(), ':', '_');
    std::string path = folder + "topologies/" + file + ".txt";
    Topology t = std::filesystem::exists(path) ? readEdgeList(path)
                 : name == "mesh:6x6"          ? mesh({6, 6})
                 : name == "dgxa100:8"         ? boxes(8, 8, 300, 25, 2)
                                               : Topology();
    REQUIRE(t.ranks() == std::stoll(gpus));
    bool reduces = collective.starts_with("allreduce");
    REQUIRE((reduces || collective == "alltoall"));
    for (bool symmetric : {true, false}) {
      BandwidthBound bound =
          priceBound(t, reduces ? Collective::AllReduce : Collective::AllToAll, symmetric);
      CHECK(bound.exact);
      CHECK(std::abs(bound.algbw / std::stod(algbw) - 1) < 1e-5); // six digits
    }
    ++rows;
  }
  CHECK(rows == 33);
}

TEST_CASE("all_to_all: closed forms, with symmetry and without") {
  struct Row {
    const char *name;
    Topology topology;
    double algbw;
  };
  std::vector<Row> rows;
  // All pairs' distances over all capacity: tight where all arcs are alike.
  for (int64_t n : {3, 4, 5, 8, 9})
    rows.push_back({"ring", torus({n}), 2 * double(n) / double(n * n / 4)});
  for (int64_t d : {1, 2, 3, 5})
    rows.push_back({"hypercube", torus(std::vector<int64_t>(size_t(d), 2)), 2});
  for (int64_t n : {2, 4, 7})
    rows.push_back({"full", full(n), double(n)});
  rows.push_back({"torus", torus({4, 4}), 2});
  rows.push_back({"torus", torus({8, 4}), 1}); // the rings of 8 bind, as in a ring
  for (int64_t n : {2, 3, 8})
    rows.push_back({"star", star(n), double(n) / double(n - 1)});
  rows.push_back({"one way ring", oneWayRing(6), 6.0 / 15});
  for (int64_t n : {2, 4, 6}) // n / 2 * n * n^2 / 2 pairs over n links each way
    rows.push_back({"mesh", mesh({n, n}), 4.0 / double(n)});
  rows.push_back({"boxes", boxes(4, 8, 300, 25, 2), 32 * 200.0 / (8 * 24)});
  for (const Row &row : rows)
    for (bool symmetric : {true, false}) {
      CAPTURE(row.name);
      CAPTURE(row.topology.ranks());
      BandwidthBound bound = priceBound(row.topology, Collective::AllToAll, symmetric);
      CHECK(std::abs(bound.algbw / row.algbw - 1) < 1e-8);
      CHECK(bound.exact);
    }
}

TEST_CASE("all_to_all: 512 ranks by symmetry") {
  BandwidthBound cube = priceBound(torus({8, 8, 8}), Collective::AllToAll);
  CHECK(std::abs(cube.algbw - 1) < 1e-9);
  CHECK(cube.exact);
  // What leaves a box: 400 GB/s for 8 * 504 pairs.
  BandwidthBound pods = priceBound(boxes(64, 8, 450, 50, 1), Collective::AllToAll);
  CHECK(std::abs(pods.algbw / (512 * 400.0 / (8 * 504)) - 1) < 1e-9);
  CHECK(pods.exact);
  BandwidthBound planes = priceBound(boxes(64, 8, 300, 25, 2), Collective::AllToAll);
  CHECK(std::abs(planes.algbw / (512 * 200.0 / (8 * 504)) - 1) < 1e-9);
  CHECK(planes.exact);
  BandwidthBound pairs = priceBound(unwound(64, 63, 1), Collective::AllToAll);
  CHECK(std::abs(pairs.algbw / 64 - 1) < 1e-9);
  CHECK(pairs.exact);
}

TEST_CASE("all_to_all: the whole program, a flow for each pair, has the same value") {
  std::mt19937_64 random(21);
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    Topology t = randomNetwork(random, 8, trial % 3 != 0, trial % 2);
    BandwidthBound bound = priceBound(t, Collective::AllToAll, trial % 4 < 2);
    CHECK(std::abs(bound.algbw / directly(makeFabric(t)) - 1) < 1e-6);
    CHECK(bound.exact);
  }
}

TEST_CASE("all_to_all: irregular fabrics, within the gap that was asked for") {
  std::mt19937_64 random(22);
  auto failed = [&](Topology t, int64_t count) {
    return withFailures(std::move(t), count, random);
  };
  struct Row {
    std::string name;
    Topology topology;
    double gap;
  };
  // Where load is even, and where one place among thousands is full.
  const Row rows[] = {
      {"boxes", failed(boxes(32, 8, 450, 50, 1), 40), 0.02},
      {"boxes with rails", failed(boxes(32, 8, 450, 50, 8), 150), 0.02},
      {"unwound", failed(unwound(16, 63, 1), 5), 0.02},
      {"unwound", failed(unwound(16, 63, 1), 150), 0.02},
      {"hybrid meshes", failed(ndv2(32), 60), 0.02},
      {"torus", failed(torus({4, 8, 8}), 3), 0.01},
      {"torus", failed(torus({8, 16}), 50), 0.02},
      {"mesh", failed(mesh({16, 16}), 10), 0.005},
      {"hypercube", failed(torus(std::vector<int64_t>(8, 2)), 200), 0.02},
  };
  for (const Row &row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.topology.links.size());
    BandwidthBound bound = priceBound(row.topology, Collective::AllToAll, true, row.gap);
    CHECK(bound.attained >= (1 - row.gap) * bound.algbw);
    // Steps that are too short, or prices that stay too soft, need many more.
    CHECK(bound.flows < 300 * row.topology.ranks());
  }
}

TEST_CASE("all_to_all: what is solved up to rounding is done") {
  std::mt19937_64 random(1);
  Topology t = withFailures(boxes(64, 8, 450, 50, 1), 40, random);
  BandwidthBound bound = priceBound(t, Collective::AllToAll, true, 0.02);
  CHECK(bound.exact);
  CHECK(bound.flows < 2000);
}

TEST_CASE("all_to_all: way by way, the truth lies between") {
  // Known by symmetry, which is not used here.
  for (const Topology &t : {torus({16, 16}), boxes(16, 8, 450, 50, 4), unwound(16, 63, 1)}) {
    CAPTURE(t.links.size());
    double truth = priceBound(t, Collective::AllToAll).algbw;
    BandwidthBound bound = priceBound(t, Collective::AllToAll, false, 0.005);
    CHECK(bound.attained <= truth * (1 + 1e-9));
    CHECK(bound.algbw >= truth * (1 - 1e-9));
    CHECK(bound.attained >= 0.995 * bound.algbw);
  }
}

TEST_CASE("all_to_all: with orbits of unequal sizes and without, bounds agree") {
  std::mt19937_64 random(23);
  Topology t = withFailures(unwound(16, 63, 1), 4, random);
  Orbits orbits = findOrbits(makeFabric(t), t);
  REQUIRE(orbits.nodeOrbits > 1);
  REQUIRE(orbits.nodeOrbits < 128);
  BandwidthBound some = priceBound(t, Collective::AllToAll, true, 0.01);
  BandwidthBound none = priceBound(t, Collective::AllToAll, false, 0.01);
  CHECK(some.attained <= none.algbw);
  CHECK(none.attained <= some.algbw);
}

TEST_CASE("all_to_all: failed links among 256 ranks, the same again") {
  std::mt19937_64 random(22);
  Topology t = withFailures(boxes(32, 8, 450, 50, 1), 40, random);
  BandwidthBound bound = priceBound(t, Collective::AllToAll, false, 0.02);
  BandwidthBound again = priceBound(t, Collective::AllToAll, false, 0.02);
  CHECK(again.algbw == bound.algbw);
  CHECK(again.attained == bound.attained);
  CHECK(again.prices == bound.prices);
  // No box has more than its links.
  Fabric fabric = makeFabric(t);
  for (int32_t box = 0; box < 32; ++box) {
    double out = 0;
    for (const Arc &arc : fabric.arcs)
      if (arc.src < 256 && arc.src / 8 == box && arc.dst == 256 + 32)
        out += double(arc.capacity) * fabric.unit;
    CHECK(bound.attained <= 256 * out / (8 * 248) * (1 + 1e-9));
  }
}

TEST_CASE("all_to_all: what is not the proof is refused") {
  Topology t = boxes(2, 4, 10, 3, 2);
  Fabric fabric = makeFabric(t);
  BandwidthBound good = allToAllBound(fabric, findOrbits(fabric, t));
  refusedWherever(fabric, good);
  BandwidthBound bad;
  bad = good;
  bad.prices[0] += 1;
  refused(fabric, bad, "are alike");
  // Alone, and so in no conflict with what is alike: other prices prove less.
  int worse = 0;
  for (size_t i = 0; i < fabric.arcs.size(); ++i) {
    bad = good;
    bad.symmetries.clear();
    REQUIRE(verify(fabric, bad) == "");
    bad.prices[i] += 1;
    worse += verify(fabric, bad) != "";
  }
  CHECK(worse == int(fabric.arcs.size()));
  for (double price : {-1.0, 0.5, 1e300, std::nan("")}) {
    bad = good;
    bad.symmetries.clear();
    bad.prices[0] = price;
    refused(fabric, bad, "no integer");
  }
  bad = good;
  std::fill(bad.prices.begin(), bad.prices.end(), 0);
  refused(fabric, bad, "the prices prove");
}

TEST_CASE("all_to_all: no time gives a bound still") {
  struct Row {
    Topology topology;
    double truth;
  };
  for (const Row &row : {Row{mesh({5, 5}), 5.0 / 6}, Row{torus({16, 16}), 0.5}}) {
    Fabric fabric = makeFabric(row.topology);
    BoundOptions options;
    options.seconds = 0;
    options.gap = 0;
    BandwidthBound bound = allToAllBound(fabric, trivialOrbits(fabric), options);
    CHECK(verify(fabric, bound) == "");
    CHECK(bound.algbw >= row.truth * (1 - 1e-9));
    CHECK(std::isfinite(bound.algbw));
    CHECK(bound.attained <= row.truth * (1 + 1e-9));
  }
}

TEST_CASE("all_reduce and all_to_all: one rank, and ranks that do not reach each other") {
  for (auto compute : {allReduceBound, allToAllBound}) {
    Fabric alone = makeFabric(ranks({1}));
    BandwidthBound none = compute(alone, trivialOrbits(alone), {});
    CHECK(std::isinf(none.algbw));
    CHECK(none.exact);
    CHECK(verify(alone, none) == "");
    // Two pairs, and one link from the first to the second.
    Topology t = ranks({4});
    join(t, 0, 1, 5);
    join(t, 2, 3, 5);
    addLink(t, 1, 2, 5);
    Fabric fabric = makeFabric(t);
    BandwidthBound apart = compute(fabric, trivialOrbits(fabric), {});
    CHECK(apart.algbw == 0);
    CHECK(apart.attained == 0);
    CHECK(apart.exact);
    CHECK(verify(fabric, apart) == "");
  }
}

TEST_CASE("all_reduce and all_to_all: what a graph cannot say makes the bound not exact") {
  for (auto compute : {allReduceBound, allToAllBound}) {
    Fabric fabric = makeFabric(torus({3}));
    fabric.exact = false;
    fabric.rounding = 1e-4;
    BandwidthBound bound = compute(fabric, trivialOrbits(fabric), {});
    CHECK(!bound.exact);
    CHECK(bound.attained < bound.algbw);
    CHECK(bound.attained > bound.algbw * (1 - 1e-3));
    CHECK(verify(fabric, bound) == "");
    fabric.relaxed = true;
    BandwidthBound relaxed = compute(fabric, trivialOrbits(fabric), {});
    CHECK(relaxed.algbw == bound.algbw);
    CHECK(relaxed.attained == 0);
    CHECK(!relaxed.exact);
  }
}
