#include "frontend/topology/Join.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace ccl::topology {
namespace {

constexpr int64_t mostNodes = 1 << 20, mostLinks = 1 << 26;

class Joiner {
public:
  Joiner(const Box &box, int64_t copies, const Network &network, std::string &error)
      : box(box), network(network), copies(copies), error(error) {}
  std::optional<model::Topology> join();

private:
  bool check();
  void copyBoxes();
  void addRails(int64_t planes);
  void addFatTree();
  bool addGraph();
  /// The node of a NIC of a box; with `rank` the node of a rank.
  int32_t node(int64_t copy, int32_t inBox) const;
  int32_t addSwitch(std::string name) {
    topology.switches.push_back({std::move(name)});
    return int32_t(topology.nodes() - 1);
  }
  void link(int32_t a, int32_t b, double bandwidth, double latency) {
    topology.links.push_back({a, b, bandwidth, latency, {}});
    topology.links.push_back({b, a, bandwidth, latency, {}});
  }
  bool fail(std::string text) {
    error = std::move(text);
    return false;
  }

  const Box &box;
  const Network &network;
  const int64_t copies;
  std::string &error;
  model::Topology topology;
};

int32_t Joiner::node(int64_t copy, int32_t inBox) const {
  int64_t ranks = box.topology.ranks(), switches = int64_t(box.topology.switches.size());
  if (inBox < ranks)
    return int32_t(copy * ranks + inBox);
  return int32_t(copies * ranks + copy * switches + inBox - ranks);
}

bool Joiner::check() {
  if (copies < 1)
    return fail(fmt::format("{} nodes; at least 1 is needed", copies));
  if (copies > mostNodes / box.topology.nodes() ||
      copies > mostLinks / int64_t(box.topology.links.size() + 2 * box.nics.size() + 1))
    return fail(fmt::format("{} copies of {} nodes and {} links are more than {} nodes or {} links",
                            copies, box.topology.nodes(), box.topology.links.size(), mostNodes,
                            mostLinks));
  if (box.nics.empty())
    return fail(fmt::format("{} has no NICs, so {} copies of it cannot be joined",
                            box.topology.name, copies));
  if (network.kind == Network::Kind::Graph)
    return true;
  for (const NicPort &nic : box.nics)
    if (!(nic.bandwidth > 0))
      return fail(fmt::format("the network speed of {} is not known; say which (GB/s a NIC)",
                              box.topology.nodeName(nic.node)));
  return true;
}

void Joiner::copyBoxes() {
  const model::Topology &one = box.topology;
  topology.name = one.name;
  topology.axes = one.axes;
  std::string axis = "node";
  auto taken = [&] {
    for (const model::Axis &other : one.axes)
      if (other.name == axis)
        return true;
    return false;
  };
  while (taken())
    axis = "outer_" + axis;
  topology.axes.insert(topology.axes.begin(), {axis, copies});
  topology.reconfigurable = one.reconfigurable;
  for (int64_t copy = 0; copy < copies; ++copy) {
    int32_t firstResource = int32_t(topology.resources.size());
    for (model::Switch s : one.switches) {
      s.name = fmt::format("node{}.{}", copy, s.name);
      topology.switches.push_back(std::move(s));
    }
    for (model::Resource resource : one.resources) {
      resource.name = fmt::format("node{}.{}", copy, resource.name);
      topology.resources.push_back(std::move(resource));
    }
    for (model::Link l : one.links) {
      l.src = node(copy, l.src);
      l.dst = node(copy, l.dst);
      for (int32_t &resource : l.resources)
        resource += firstResource;
      topology.links.push_back(std::move(l));
    }
  }
}

void Joiner::addRails(int64_t planes) {
  std::vector<int32_t> switches;
  for (int64_t i = 0; i < planes; ++i)
    switches.push_back(addSwitch(planes == 1 ? "network" : fmt::format("rail{}", i)));
  for (int64_t copy = 0; copy < copies; ++copy)
    for (size_t i = 0; i < box.nics.size(); ++i)
      link(node(copy, box.nics[i].node), switches[i % size_t(planes)], box.nics[i].bandwidth,
           box.nics[i].latency);
}

void Joiner::addFatTree() {
  double perBox = 0;
  for (const NicPort &nic : box.nics)
    perBox += nic.bandwidth;
  int64_t leaves = (copies + network.perLeaf - 1) / network.perLeaf;
  std::vector<int32_t> switches;
  for (int64_t i = 0; i < leaves; ++i)
    switches.push_back(addSwitch(fmt::format("leaf{}", i)));
  int32_t core = leaves > 1 ? addSwitch("core") : -1;
  for (int64_t copy = 0; copy < copies; ++copy)
    for (const NicPort &nic : box.nics)
      link(node(copy, nic.node), switches[size_t(copy / network.perLeaf)], nic.bandwidth,
           nic.latency);
  for (int64_t i = 0; i < leaves && leaves > 1; ++i) {
    int64_t below = std::min(network.perLeaf, copies - i * network.perLeaf);
    link(switches[size_t(i)], core, perBox * double(below) / network.oversubscription, 0);
  }
}

bool Joiner::addGraph() {
  const model::Topology &graph = network.graph;
  int64_t ends = graph.ranks(), nics = int64_t(box.nics.size());
  bool perNic = ends == copies * nics;
  if (!perNic && ends != copies)
    return fail(fmt::format("the network's graph has {} ends; {} nodes with {} NICs each need {} "
                            "(one for every NIC) or {} (one for every node)",
                            ends, copies, nics, copies * nics, copies));
  std::vector<int32_t> nodes(size_t(graph.nodes()));
  for (int64_t i = ends; i < graph.nodes(); ++i)
    nodes[size_t(i)] = addSwitch("network." + graph.switches[size_t(i - ends)].name);
  for (int64_t i = 0; i < ends; ++i) {
    if (perNic) {
      nodes[size_t(i)] = node(i / nics, box.nics[size_t(i % nics)].node);
      continue;
    }
    // A node of the graph is a box: a switch that its NICs reach with all they have.
    nodes[size_t(i)] = addSwitch(fmt::format("node{}.uplink", i));
    for (const NicPort &nic : box.nics) {
      if (!(nic.bandwidth > 0))
        return fail(fmt::format("the network speed of {} is not known; say which (GB/s a NIC)",
                                box.topology.nodeName(nic.node)));
      link(node(i, nic.node), nodes[size_t(i)], nic.bandwidth, nic.latency);
    }
  }
  for (const model::Link &l : graph.links)
    topology.links.push_back(
        {nodes[size_t(l.src)], nodes[size_t(l.dst)], l.bandwidth, l.latency, {}});
  return true;
}

std::optional<model::Topology> Joiner::join() {
  if (!check())
    return std::nullopt;
  copyBoxes();
  switch (network.kind) {
  case Network::Kind::Rails: addRails(int64_t(box.nics.size())); break;
  case Network::Kind::Planes: addRails(std::min(network.planes, int64_t(box.nics.size()))); break;
  case Network::Kind::FatTree: addFatTree(); break;
  case Network::Kind::Graph:
    if (!addGraph())
      return std::nullopt;
    break;
  }
  if (std::string problem = topology.check(); !problem.empty()) {
    error = fmt::format("{} joined nodes: {}", copies, problem);
    return std::nullopt;
  }
  return std::move(topology);
}

template <typename T>
bool readNumber(std::string_view text, T &value) {
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

} // namespace

std::optional<Network> parseNetwork(std::string_view text, std::string &error) {
  Network network;
  std::string_view name = text.substr(0, text.find(':'));
  std::string_view rest = name.size() < text.size() ? text.substr(name.size() + 1) : "";
  bool good = false;
  if (text == "rail" || text == "rails") {
    good = true;
  } else if (text == "switch") {
    network.kind = Network::Kind::Planes;
    good = true;
  } else if (name == "planes") {
    network.kind = Network::Kind::Planes;
    good = readNumber(rest, network.planes) && network.planes >= 1;
  } else if (name == "fat-tree") {
    network.kind = Network::Kind::FatTree;
    std::string_view ratio = rest.substr(0, rest.find('/'));
    good = readNumber(ratio, network.oversubscription) && network.oversubscription >= 1 &&
           network.oversubscription <= 1e6;
    if (good && ratio.size() < rest.size())
      good = readNumber(rest.substr(ratio.size() + 1), network.perLeaf) && network.perLeaf >= 1;
  }
  if (good)
    return network;
  error = fmt::format("`{}` is no network: rail, switch, planes:N, fat-tree:RATIO or "
                      "fat-tree:RATIO/NODES-A-LEAF with a ratio of at least 1, or graph:FILE",
                      text);
  return std::nullopt;
}

std::optional<model::Topology> joinNodes(const Box &box, int64_t copies, const Network &network,
                                         std::string &error) {
  return Joiner(box, copies, network, error).join();
}

} // namespace ccl::topology
