#include "frontend/topology/Join.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <map>
#include <set>

using namespace ccl;
using namespace ccl::topology;

namespace {

/// Two GPUs, linked with 100, each with a NIC; NICs have 10 and 20 to the network.
Box smallBox(double second = 20) {
  Machine machine;
  machine.name = "small";
  machine.add({DeviceKind::Gpu, "gpu0"});
  machine.add({DeviceKind::Gpu, "gpu1"});
  machine.connect(0, 1, {100, 80}, 0.5);
  for (int32_t i = 0; i < 2; ++i) {
    Device nic;
    nic.kind = DeviceKind::Nic;
    nic.name = fmt::format("mlx{}", i);
    nic.net = {i == 0 ? 10 : second, i == 0 ? 10 : second};
    nic.latency = 2;
    machine.connect(machine.add(nic), i, {32, 24});
  }
  return makeBox(machine, Rates::Nominal);
}

/// Bandwidths between named nodes; parallel links add up.
std::map<std::pair<std::string, std::string>, double> linksOf(const model::Topology &topology) {
  std::map<std::pair<std::string, std::string>, double> links;
  for (const model::Link &link : topology.links)
    links[{topology.nodeName(link.src), topology.nodeName(link.dst)}] += link.bandwidth;
  return links;
}

Network networkOf(std::string_view text) {
  std::string error;
  std::optional<Network> network = parseNetwork(text, error);
  REQUIRE_MESSAGE(network, error);
  return *network;
}

} // namespace

TEST_CASE("a machine becomes a box in either rates") {
  Box box = smallBox();
  CHECK(box.topology.ranks() == 2);
  CHECK(box.topology.check() == "");
  REQUIRE(box.nics.size() == 2);
  CHECK(box.nics[1].bandwidth == 20);
  CHECK(box.topology.switches[1].kind == model::SwitchKind::Nic);
  auto links = linksOf(box.topology);
  CHECK(links.size() == 6);
  CHECK(links.at({"rank 0", "rank 1"}) == 100);
  CHECK(links.at({"mlx1", "rank 1"}) == 32);
}

TEST_CASE("rails: NIC i of every box on switch i") {
  Box box = smallBox();
  std::string error;
  std::optional<model::Topology> joined = joinNodes(box, 3, networkOf("rail"), error);
  REQUIRE_MESSAGE(joined, error);
  CHECK(joined->check() == "");
  REQUIRE(joined->axes.size() == 2);
  CHECK(joined->axes[0].name == "node");
  CHECK(joined->axes[0].size == 3);
  CHECK(joined->axes[1].size == 2);
  CHECK(joined->switches.size() == 3 * 2 + 2);
  auto links = linksOf(*joined);
  CHECK(links.size() == 3 * (6 + 4));
  for (int node = 0; node < 3; ++node) {
    CHECK(links.at({fmt::format("rank {}", 2 * node), fmt::format("rank {}", 2 * node + 1)}) ==
          100);
    CHECK(links.at({fmt::format("node{}.mlx0", node), "rail0"}) == 10);
    CHECK(links.at({"rail1", fmt::format("node{}.mlx1", node)}) == 20);
    CHECK(links.at({fmt::format("node{}.mlx1", node), fmt::format("rank {}", 2 * node + 1)}) == 32);
  }
  for (const model::Link &link : joined->links) {
    bool network = joined->nodeName(link.src).starts_with("rail") ||
                   joined->nodeName(link.dst).starts_with("rail");
    if (network)
      CHECK(link.latency == 2);
  }
}

TEST_CASE("one plane, and a fat tree with oversubscription") {
  Box box = smallBox();
  std::string error;
  std::optional<model::Topology> joined = joinNodes(box, 4, networkOf("switch"), error);
  REQUIRE(joined);
  CHECK(linksOf(*joined).at({"node3.mlx1", "network"}) == 20);

  joined = joinNodes(box, 5, networkOf("fat-tree:2.5/2"), error);
  REQUIRE_MESSAGE(joined, error);
  CHECK(joined->check() == "");
  auto links = linksOf(*joined);
  CHECK(links.at({"node2.mlx0", "leaf1"}) == 10);
  CHECK(links.at({"leaf0", "core"}) == 2 * 30 / 2.5);
  CHECK(links.at({"core", "leaf2"}) == 30 / 2.5); // one box is left for the last leaf
  CHECK_FALSE(links.contains({"node0.mlx0", "core"}));

  joined = joinNodes(box, 2, networkOf("fat-tree:1/4"), error); // one leaf needs no core
  REQUIRE(joined);
  CHECK(joined->switches.back().name == "leaf0");
}

TEST_CASE("a given graph joins NICs, or boxes") {
  Box box = smallBox();
  std::string error;
  Network network;
  network.kind = Network::Kind::Graph;
  network.graph.axes = {{"gpu", 4}}; // NICs of two boxes, in a ring, one way
  for (int32_t i = 0; i < 4; ++i)
    network.graph.links.push_back({i, (i + 1) % 4, 7, 3, {}});
  std::optional<model::Topology> joined = joinNodes(box, 2, network, error);
  REQUIRE_MESSAGE(joined, error);
  auto links = linksOf(*joined);
  CHECK(links.at({"node0.mlx1", "node1.mlx0"}) == 7);
  CHECK_FALSE(links.contains({"node1.mlx0", "node0.mlx1"}));

  joined = joinNodes(box, 4, network, error); // the same four ends are boxes now
  REQUIRE_MESSAGE(joined, error);
  links = linksOf(*joined);
  CHECK(links.at({"node3.mlx1", "node3.uplink"}) == 20);
  CHECK(links.at({"node3.uplink", "node0.uplink"}) == 7);

  CHECK_FALSE(joinNodes(box, 3, network, error));
  CHECK(error ==
        "the network's graph has 4 ends; 3 nodes with 2 NICs each need 6 (one for every NIC) "
        "or 3 (one for every node)");
}

TEST_CASE("what cannot be joined") {
  std::string error;
  Box box = smallBox(0);
  CHECK_FALSE(joinNodes(box, 2, Network{}, error));
  CHECK(error == "the network speed of mlx1 is not known; say which (GB/s a NIC)");
  box.nics.clear();
  CHECK_FALSE(joinNodes(box, 2, Network{}, error));
  CHECK(error == "small has no NICs, so 2 copies of it cannot be joined");
  CHECK_FALSE(joinNodes(smallBox(), 0, Network{}, error));
  CHECK(error == "0 nodes; at least 1 is needed");
  CHECK_FALSE(joinNodes(smallBox(), int64_t(1) << 40, Network{}, error));
  CHECK(error.find("are more than") != error.npos);
  for (std::string_view text :
       {"", "rails:2", "planes", "planes:0", "planes:x", "fat-tree", "fat-tree:0.5", "fat-tree:2/0",
        "fat-tree:nan", "torus", "switch:1"}) {
    CAPTURE(text);
    CHECK_FALSE(parseNetwork(text, error));
    CHECK(error.find("is no network: rail, switch, planes:N, fat-tree:RATIO") != error.npos);
  }
}
