#include "dialect/bound/Bound.h"
#include "dialect/bound/Flow.h"
#include "test/unit/bound/Networks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

using namespace ccl::model;
using namespace networks;

namespace {

constexpr Collective cutCollectives[] = {Collective::AllGather, Collective::ReduceScatter,
                                         Collective::Broadcast, Collective::Reduce,
                                         Collective::Scatter,   Collective::Gather};

BandwidthBound boundOf(const Topology &t, Collective collective, int64_t root = 0) {
  BoundOptions options;
  options.root = root;
  std::optional<BandwidthBound> bound = bandwidthBound(t, collective, options);
  REQUIRE(bound);
  CHECK(verify(makeFabric(t), *bound) == "");
  return *bound;
}

/// The topology of a name in the table of bounds, by these loops.
Topology fromSpec(const std::string &spec) {
  if (spec.starts_with("h800x64")) // capacities doubled
    return boxes(64, 8, 360, 91, 8);
  std::string kind = spec.substr(0, spec.find(':'));
  std::vector<int64_t> sizes;
  std::stringstream numbers(spec.find(':') == std::string::npos ? ""
                                                                : spec.substr(kind.size() + 1));
  for (std::string size; std::getline(numbers, size, 'x');)
    sizes.push_back(std::stoll(size));
  std::reverse(sizes.begin(), sizes.end()); // the first is the fastest
  int64_t n = sizes.empty() ? 0 : sizes[0];
  if (kind == "ring" || kind == "torus")
    return torus(sizes);
  if (kind == "mesh")
    return mesh(sizes);
  if (kind == "cube")
    return torus(std::vector<int64_t>(size_t(n), 2));
  if (kind == "uniring")
    return oneWayRing(n);
  if (kind == "full")
    return full(n);
  if (kind == "star")
    return star(n);
  if (kind == "dgx1")
    return dgx1();
  if (kind == "ndv2")
    return ndv2(n);
  if (kind == "dgx2")
    return boxes(n, 16, 150, 12, 1);
  if (kind == "dgxa100")
    return boxes(n, 8, 300, 25, 2);
  if (kind == "dgxh100")
    return boxes(n, 8, 450, 50, 1);
  if (kind == "dgxh100rail")
    return boxes(n, 8, 450, 50, 8);
  if (kind == "nvl72")
    return boxes(n, 72, 900, 50, 1);
  if (kind == "unw")
    return unwound(n, 64, 48.0 / double(n - 1));
  if (kind == "unwb")
    return unwound(n, 63, 63.0 / double(n - 1));
  return Topology();
}

} // namespace

TEST_CASE("bounds of all_gather and reduce_scatter are those of the table") {
  if (corpus().empty()) {
    MESSAGE("skipped: no collections beside the tree");
    return;
  }
  std::string folder = corpus() + "/peers/";
  int rows = 0, lists = 0;
  // A name may have a comma or a semicolon inside brackets: cells are counted from the end.
  for (const std::vector<std::string> &cells : readTable(folder + "bounds.csv")) {
    REQUIRE(cells.size() >= 10);
    size_t rest = cells.size() - 9;
    std::string name = cells[0];
    for (size_t i = 1; i < rest; ++i)
      name += "," + cells[i];
    CAPTURE(name);
    auto number = [&](size_t column) { return std::stoll(cells[rest - 1 + column]); };

    std::string file = name;
    std::replace(file.begin(), file.end(), ':', '_');
    if (file == "unwb_16(capacities x10)")
      file = "unwb_16_capx10";
    std::string path = folder + "topologies/" + file + ".txt";
    std::vector<Topology> forms;
    if (std::filesystem::exists(path))
      forms.push_back(readEdgeList(path)), ++lists;
    if (file != "unwb_16_capx10") // capacities are no whole numbers otherwise
      forms.push_back(fromSpec(name));
    for (const Topology &t : forms) {
      REQUIRE(t.ranks() == number(1));
      REQUIRE(t.nodes() == number(2));
      REQUIRE(int64_t(t.links.size()) == number(3));
      Fabric fabric = makeFabric(t);
      for (Collective collective : {Collective::AllGather, Collective::ReduceScatter}) {
        BandwidthBound bound = boundOf(t, collective);
        CHECK(bound.exact);
        CHECK(bound.attained == bound.algbw);
        // unit is a whole number of the table's capacities, or the other way round.
        double time = bound.shardTime.value() / fabric.unit;
        CHECK(std::abs(time * double(number(5)) / double(number(4)) - 1) < 1e-12);
        CHECK(std::abs(bound.algbw / std::stod(cells[rest - 1 + 6]) - 1) < 1e-5); // six digits
        if (fabric.unit == std::floor(fabric.unit))
          CHECK(bound.shardTime.num * number(5) ==
                number(4) * bound.shardTime.den * int64_t(fabric.unit));
      }
    }
    ++rows;
  }
  CHECK(rows == 54);
  CHECK(lists == 43);
}

TEST_CASE("closed forms") {
  auto allGather = [](const Topology &t) { return boundOf(t, Collective::AllGather).shardTime; };
  for (int64_t n = 3; n <= 40; ++n) {
    CAPTURE(n);
    CHECK(allGather(torus({n})).value() == double(n - 1) / 2);
    CHECK(allGather(oneWayRing(n)) == Rational{n - 1, 1});
    CHECK(allGather(full(n)) == Rational{1, 1});
    CHECK(allGather(star(n)) == Rational{n - 1, 1});
    CHECK(allGather(mesh({n})) == Rational{n - 1, 1});
    CHECK(boundOf(torus({n}), Collective::Broadcast).algbw == 2);
    CHECK(boundOf(full(n), Collective::Broadcast, n - 1).algbw == double(n - 1));
    CHECK(boundOf(star(n, 7), Collective::Reduce).algbw == 7);
    CHECK(boundOf(star(n, 7), Collective::Gather).algbw == doctest::Approx(7.0 * n / (n - 1)));
    CHECK(boundOf(mesh({n}), Collective::Scatter).shardTime == Rational{n - 1, 1});
    CHECK(boundOf(mesh({n}), Collective::Scatter, n / 2).shardTime == Rational{n / 2, 1});
  }
  for (int64_t d = 1; d <= 9; ++d) {
    Topology cube = torus(std::vector<int64_t>(size_t(d), 2));
    CHECK(allGather(cube).value() == double((int64_t(1) << d) - 1) / double(d));
    CHECK(boundOf(cube, Collective::Broadcast, (int64_t(1) << d) / 3).algbw == double(d));
  }
  for (int64_t n = 3; n <= 9; ++n)
    CHECK(allGather(torus({n, n, n})).value() == doctest::Approx(double(n * n * n - 1) / 6));
}

TEST_CASE("broadcast is the least of the maximum flows") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    Topology t = randomNetwork(random, 14, i % 2, i % 4 < 2);
    Fabric fabric = makeFabric(t);
    int64_t root = int64_t(random() % uint64_t(fabric.ranks));
    FlowGraph graph(fabric.nodes, fabric.arcs);
    int64_t least = INT64_MAX, back = INT64_MAX;
    for (int32_t rank = 0; rank < fabric.ranks; ++rank)
      if (rank != root) {
        least = std::min(least, graph.run(int32_t(root), rank));
        back = std::min(back, graph.run(rank, int32_t(root)));
      }
    CHECK(boundOf(t, Collective::Broadcast, root).shardTime == Rational{1, least});
    CHECK(boundOf(t, Collective::Reduce, root).shardTime == Rational{1, back});
  }
}

// Larger than all cuts can be looked at: the cut proves that nothing is faster, and flows from
// all ranks at once to each one, computed anew, that no cut is slower.
TEST_CASE("in large networks each rank can take in everything at the bound") {
  std::mt19937_64 random(6);
  const Topology topologies[] = {
      boxes(20, 5, 20, 3, 1), boxes(3, 80, 9, 2, 3), mesh({9, 11}), torus({60}),
      unwound(6, 5, 1),       star(150, 3),          mesh({90}),    ndv2(5)};
  for (int i = 0; i < 48; ++i) {
    CAPTURE(i);
    Topology t = withFailures(topologies[i % 8], i / 8 % 3 * 2, random);
    Fabric fabric = makeFabric(t);
    Orbits orbits = findOrbits(fabric, t);
    for (Collective collective : {Collective::AllGather, Collective::ReduceScatter}) {
      BandwidthBound bound = cutBound(fabric, orbits, collective);
      REQUIRE(verify(fabric, bound) == "");
      Fabric forward = collective == Collective::AllGather ? fabric : fabric.reversed();
      FlowGraph graph(fabric.nodes);
      for (const Arc &arc : forward.arcs)
        graph.addArc(arc.src, arc.dst, arc.capacity * bound.shardTime.num);
      int32_t source = graph.addNode();
      for (int32_t rank = 0; rank < fabric.ranks; ++rank)
        graph.addArc(source, rank, bound.shardTime.den);
      for (int32_t rank = 0; rank < fabric.ranks; ++rank)
        REQUIRE(graph.run(source, rank) == fabric.ranks * bound.shardTime.den);
    }
    int64_t root = int64_t(random() % uint64_t(fabric.ranks));
    BandwidthBound bound = cutBound(fabric, orbits, Collective::Broadcast, root);
    FlowGraph graph(fabric.nodes, fabric.arcs);
    int64_t least = INT64_MAX;
    for (int32_t rank = 0; rank < fabric.ranks; ++rank)
      if (rank != root)
        least = std::min(least, graph.run(int32_t(root), rank));
    REQUIRE(bound.shardTime == Rational{1, least});
  }
}

TEST_CASE("one orbit of sinks stands for all") {
  std::mt19937_64 random(7);
  std::vector<Topology> topologies = {torus({4, 6}), torus({3, 3, 3}),     mesh({5, 5}),
                                      ndv2(3),       boxes(6, 4, 9, 2, 2), unwound(4, 5, 2)};
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    Topology t = topologies[size_t(i) % topologies.size()];
    t = withFailures(t, i / 12, random);
    Fabric fabric = makeFabric(t);
    Orbits orbits = findOrbits(fabric, t), none = trivialOrbits(fabric);
    for (Collective collective : cutCollectives) {
      BandwidthBound with = cutBound(fabric, orbits, collective, 1);
      BandwidthBound without = cutBound(fabric, none, collective, 1);
      CHECK(with.shardTime == without.shardTime);
      CHECK(with.exact == without.exact);
      CHECK(with.attained == without.attained);
      CHECK(verify(fabric, with) == "");
      CHECK(verify(fabric, without) == "");
    }
  }
}

TEST_CASE("the certificate says what crosses which border") {
  CHECK(boundOf(boxes(3, 2, 10, 1, 1), Collective::AllGather).certificate ==
        "the shards of 4 ranks leave {rank 2 to rank 5, 3 switches} over 2 GB/s");
  CHECK(boundOf(boxes(3, 2, 10, 1, 1), Collective::Broadcast, 3).certificate ==
        "the buffer of rank 3 leaves {rank 2 to rank 3, 1 switch} over 2 GB/s");
  CHECK(boundOf(star(4, 12.5), Collective::AllGather).certificate ==
        "the shards of 3 ranks leave all nodes but rank 0 over 12.5 GB/s");
  CHECK(boundOf(oneWayRing(4), Collective::Gather, 2).certificate ==
        "the shards of 3 ranks enter {rank 2} over 1 GB/s");
}

TEST_CASE("what is wrong with a certificate is found") {
  Topology t = boxes(3, 2, 10, 1, 1);
  Fabric fabric = makeFabric(t);
  for (Collective collective : cutCollectives) {
    BandwidthBound good = boundOf(t, collective, 2), bad = good;
    bad.algbw *= 0.999;
    CHECK(verify(fabric, bad) != "");
    bad = good, bad.shardTime.den += 1;
    CHECK(verify(fabric, bad) != "");
    bad = good, bad.cut.pop_back();
    CHECK(verify(fabric, bad) != "");
    bad = good, bad.cut.assign(bad.cut.size(), true);
    CHECK(verify(fabric, bad) != "");
    bad = good, bad.cut.flip(); // where there is a root it is on the wrong side then
    CHECK((!hasRoot(collective) || verify(fabric, bad) != ""));
    for (size_t node = 0; node < good.cut.size(); ++node) {
      bad = good, bad.cut[node].flip();
      CHECK(verify(fabric, bad) != "");
    }
    bad = good, bad.root = 99;
    CHECK((!hasRoot(collective) || verify(fabric, bad) != ""));
  }
}

TEST_CASE("one rank, no way, no bound") {
  CHECK(boundOf(ranks({1}), Collective::AllGather).algbw ==
        std::numeric_limits<double>::infinity());
  CHECK_FALSE(bandwidthBound(torus({4}), Collective::Barrier));
  CHECK_FALSE(bandwidthBound(torus({4}), Collective::Permute));
  CHECK_FALSE(bandwidthBound(torus({4}), Collective::Broadcast, {.root = 4}));
  Topology t = ranks({3});
  addLink(t, 0, 1, 1), addLink(t, 1, 2, 1);
  Fabric fabric = makeFabric(t);
  Orbits orbits = findOrbits(fabric, t);
  for (Collective collective : cutCollectives) {
    BandwidthBound bound = cutBound(fabric, orbits, collective, 1);
    CHECK(bound.algbw == 0);
    CHECK(bound.exact);
    CHECK(verify(fabric, bound) == "");
    CHECK(bound.certificate.find("no link does") != std::string::npos);
  }
}

TEST_CASE("a switch that copies, or combines") {
  // The root has one link, the two others nothing but the switch.
  for (bool copies : {false, true}) {
    Topology t = ranks({3});
    int32_t s = addSwitch(t, copies, copies);
    addLink(t, 0, s, 2), addLink(t, s, 1, 2), addLink(t, s, 2, 2);
    addLink(t, 1, s, 0.5), addLink(t, 2, s, 0.5), addLink(t, s, 0, 1);
    BandwidthBound bound = boundOf(t, Collective::Broadcast);
    CHECK(bound.algbw == 2);
    CHECK(bound.exact == copies);
    CHECK(bound.attained == (copies ? 2 : doctest::Approx(1.5))); // 3 come in, 4 would go out
  }
  // Whether it multicasts does not matter to a reduction.
  Topology t = ranks({3});
  int32_t s = addSwitch(t, true, false);
  addLink(t, 1, s, 2), addLink(t, 2, s, 2), addLink(t, s, 0, 2), addLink(t, 0, s, 1);
  addLink(t, s, 1, 0.5), addLink(t, s, 2, 0.5);
  CHECK(boundOf(t, Collective::Reduce).attained == doctest::Approx(1.5));
  CHECK_FALSE(boundOf(t, Collective::Reduce).exact);
  t.switches[0].reduce = true;
  CHECK(boundOf(t, Collective::Reduce).exact);
}

TEST_CASE("capacities that are rounded, and sharing that is left out, are no exact bounds") {
  Topology t = torus({5});
  for (size_t i = 0; i < t.links.size(); ++i)
    t.links[i].bandwidth = (i % 2 ? 1e9 : 1) / double(3 + i);
  BandwidthBound bound = boundOf(t, Collective::AllGather);
  CHECK_FALSE(bound.exact);
  CHECK(bound.attained < bound.algbw);
  CHECK(bound.attained > bound.algbw * (1 - 1e-6));

  t = torus({5});
  t.resources = {{"bus", 2}};
  for (Link &link : t.links)
    link.resources = {0};
  bound = boundOf(t, Collective::AllGather);
  CHECK_FALSE(bound.exact);
  CHECK(bound.attained == 0);
}
