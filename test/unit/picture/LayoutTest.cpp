#include "frontend/picture/Layout.h"
#include "test/unit/picture/Cases.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <random>
#include <set>

using namespace ccl::picture;
using namespace ccl::model;

namespace {

std::vector<Topology> topologies() {
  Topology leaves = dgx(2, 8, true); // with CPUs, and names that do not fit
  leaves.name = "leaves";
  for (Switch &s : leaves.switches)
    s.name = "a switch with a very long name, of which this is " + s.name;
  leaves.switches[2].kind = SwitchKind::Cpu;
  return {dgx(2, 8),        dgx(2, 8, true), dgx(1, 8),      dgx(4, 8),        dgx(8, 8),
          dgx(16, 4, true), dgx(32, 2),      dgx(64, 1),     dgx(75, 8),       dgx(2000, 8),
          ring(1),          ring(2),         ring(8),        ring(64),         ring(65),
          ring(600),        torus({4, 4}),   torus({2, 2}),  torus({4, 4, 4}), torus({2, 2, 2, 2}),
          torus({8, 8, 8}), torus({3, 5}),   torus({9, 70}), full(8),          full(64),
          star(1),          star(12),        star(64),       star(600),        meshes(2, 8),
          meshes(3, 4),     meshes(8, 2),    leaves};
}

bool within(const Box &inner, const Box &outer) {
  constexpr double slack = 1e-6;
  return inner.x >= outer.x - slack && inner.y >= outer.y - slack &&
         inner.right() <= outer.right() + slack && inner.bottom() <= outer.bottom() + slack;
}

void checkLayout(const Topology &topology) {
  CAPTURE(topology.name);
  CAPTURE(topology.ranks());
  const Layout layout = layOut(topology);
  const Box all{0, 0, layout.width, layout.height};
  for (size_t i = 0; i < layout.labels.size(); ++i) {
    CHECK(within(layout.labels[i].box, all));
    for (size_t j = i + 1; j < layout.labels.size(); ++j) {
      const bool meets = layout.labels[i].box.meets(layout.labels[j].box);
      CAPTURE(layout.labels[i].text);
      CAPTURE(layout.labels[j].text);
      if (meets)
        CHECK(!meets);
    }
  }
  for (size_t i = 0; i < layout.nodes.size(); ++i) {
    CHECK(within(layout.nodes[i].box, all));
    for (size_t j = i + 1; j < layout.nodes.size(); ++j)
      if (layout.nodes[i].box.meets(layout.nodes[j].box))
        FAIL_CHECK(layout.nodes[i].name << " is drawn over " << layout.nodes[j].name);
    // Titles and captions stand beside nodes, and labels of nodes within them.
    for (const LabelBox &label : layout.labels) {
      const bool meets = label.box.meets(layout.nodes[i].box);
      if (meets && (label.kind != LabelBox::Kind::Node || !within(label.box, layout.nodes[i].box)))
        FAIL_CHECK(label.text << " is written over " << layout.nodes[i].name);
    }
  }
  for (const Box &frame : layout.frames)
    CHECK(within(frame, all));
  if (topology.ranks() > mostRanks) {
    CHECK(layout.note != "");
    return;
  }
  // Every rank, every switch and every link is there once.
  std::multiset<int32_t> nodes, links;
  for (const PlacedNode &node : layout.nodes)
    nodes.insert(node.node);
  for (const PlacedWire &wire : layout.wires)
    links.insert(wire.links.begin(), wire.links.end());
  CHECK(int64_t(nodes.size()) == topology.nodes());
  for (int32_t node = 0; node < topology.nodes(); ++node)
    CHECK(nodes.count(node) == 1);
  CHECK(links.size() == topology.links.size());
  for (size_t l = 0; l < topology.links.size(); ++l)
    CHECK(links.count(int32_t(l)) == 1);
}

} // namespace

TEST_CASE("nothing overlaps, nothing is missing") {
  for (const Topology &topology : topologies())
    checkLayout(topology);
}

TEST_CASE("nothing overlaps on random topologies") {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    std::mt19937 dice(seed);
    auto below = [&](uint32_t n) { return int64_t(dice() % n); };
    Topology t;
    t.name = fmt::format("seed {}", seed);
    for (int64_t a = 0, axes = 1 + below(3); a < axes; ++a)
      t.axes.push_back({std::string(size_t(1 + below(12)), char('a' + a)), 1 + below(6)});
    for (int64_t s = 0, switches = below(12); s < switches; ++s)
      t.switches.push_back({std::string(size_t(1 + below(20)), 'W') + fmt::format("{}", s), false,
                            false, SwitchKind(below(4))});
    const uint32_t nodes = uint32_t(t.nodes());
    // A chain, so that all are joined, and others.
    for (uint32_t n = 0; n + 1 < nodes; ++n) {
      t.links.push_back({int32_t(n), int32_t(n + 1), 10, 1, {}});
      t.links.push_back({int32_t(n + 1), int32_t(n), 10, 1, {}});
    }
    for (int64_t l = below(40); l > 0 && nodes > 1; --l) {
      const int64_t a = below(nodes), b = below(nodes);
      if (a != b)
        t.links.push_back({int32_t(a), int32_t(b), 1 + double(below(100)), 1, {}});
    }
    checkLayout(t);
  }
}

TEST_CASE("switches stand above their ranks, NICs below, rails outside") {
  const Topology topology = dgx(2, 8);
  const Layout layout = layOut(topology);
  REQUIRE(layout.frames.size() == 2);
  for (const PlacedNode &node : layout.nodes) {
    CAPTURE(node.name);
    int inside = 0;
    for (const Box &frame : layout.frames)
      inside += within(node.box, frame);
    CHECK(inside == (node.name.starts_with("rail") ? 0 : 1));
    for (const PlacedNode &rank : layout.nodes) {
      if (rank.shape != PlacedNode::Shape::Rank)
        continue;
      if (node.name.find("nvswitch") != std::string::npos)
        CHECK(node.box.bottom() < rank.box.y);
      if (node.shape == PlacedNode::Shape::Nic || node.name.starts_with("rail"))
        CHECK(node.box.y > rank.box.bottom());
      if (rank.node < 8)
        CHECK(within(rank.box, layout.frames[0]));
    }
  }
  // NIC 3 of node 1 below rank 11.
  auto named = [&](std::string_view name) {
    for (const PlacedNode &node : layout.nodes)
      if (node.name == name)
        return node;
    FAIL("no such node");
    return PlacedNode();
  };
  CHECK(named("n1.nic3").box.midX() == doctest::Approx(named("rank 11").box.midX()));
}

TEST_CASE("a torus is a grid") {
  const Topology topology = torus({4, 4});
  const Layout layout = layOut(topology);
  for (const PlacedNode &node : layout.nodes) {
    CHECK(node.box.x == layout.nodes[size_t(node.node % 4)].box.x);
    CHECK(node.box.y == layout.nodes[size_t(node.node / 4 * 4)].box.y);
  }
  // Links between neighbors are straight; the others bend, so that they pass nodes between.
  for (const PlacedWire &wire : layout.wires) {
    const int32_t a = layout.nodes[size_t(wire.from)].node, b = layout.nodes[size_t(wire.to)].node;
    const bool near = std::abs(a % 4 - b % 4) + std::abs(a / 4 - b / 4) == 1;
    CHECK((wire.bendX == 0 && wire.bendY == 0) == near);
  }
}

TEST_CASE("many ranks are tiles, and the group with the busiest link") {
  const Topology topology = dgx(75, 8);
  std::vector<double> share(topology.links.size(), 0.1);
  for (size_t l = 0; l < topology.links.size(); ++l)
    if (topology.links[l].src == 42 * 8 + 5)
      share[l] = 0.9;
  const Layout layout = layOut(topology, share);
  std::vector<int32_t> tiles;
  std::set<int32_t> ranks;
  for (const PlacedNode &node : layout.nodes) {
    if (node.shape == PlacedNode::Shape::Tile) {
      tiles.push_back(node.node);
      // Links that leave or enter ranks, the NVSwitch and the NICs of the node.
      CHECK(node.links.size() == 2 * (8 + 8 + 8));
      CHECK(node.name == fmt::format("node {}", node.node / 8));
    }
    if (node.shape == PlacedNode::Shape::Rank)
      ranks.insert(node.node);
  }
  CHECK(tiles.size() == 75);
  CHECK(ranks == std::set<int32_t>{336, 337, 338, 339, 340, 341, 342, 343});
  CHECK(layout.note.find("node 42") != std::string::npos);
}

TEST_CASE("the same topology has the same layout") {
  for (const Topology &topology : topologies()) {
    const Layout a = layOut(topology), b = layOut(topology);
    REQUIRE(a.nodes.size() == b.nodes.size());
    for (size_t i = 0; i < a.nodes.size(); ++i) {
      CHECK(a.nodes[i].node == b.nodes[i].node);
      CHECK(a.nodes[i].box.x == b.nodes[i].box.x);
      CHECK(a.nodes[i].box.y == b.nodes[i].box.y);
    }
  }
}
