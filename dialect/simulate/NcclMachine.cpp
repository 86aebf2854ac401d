//===- NcclMachine.cpp - The machine that NCCL's cost model sees ----------===//
//
// NCCL looks for as many channels as possible at the fastest speed possible, from tables of
// speeds. Here capacities alone decide how many there are.
//===----------------------------------------------------------------------===//

#include "dialect/bound/Flow.h"
#include "dialect/simulate/NcclModel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>

using namespace ccl::model;

namespace {

// GB/s of a channel that NCCL tries, on one node and on several.
constexpr double olderIntra[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double olderInter[] = {48, 30, 28, 24, 20, 18,  15,  12,   10,  9,
                                 7,  6,  5,  4,  3,  2.4, 1.2, 0.24, 0.12};
constexpr double hopperIntra[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr double hopperInter[] = {48, 45, 42, 40, 30,  24,  22,   20,  17.5,
                                  15, 12, 6,  3,  2.4, 1.2, 0.24, 0.12};
constexpr double blackwellIntra[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
constexpr double blackwellInter[] = {96,   80, 48, 45.1, 42, 40,  30,  24,   22,  20,
                                     17.5, 15, 12, 6,    3,  2.4, 1.2, 0.24, 0.12};

constexpr int32_t mostChannels = 32, mostHeads = 32;
/// Bandwidths are compared as NCCL does, to a MB/s.
constexpr double tolerance = 1e-3;

std::span<const double> speedsOf(int32_t arch, bool several) {
  if (arch >= 100)
    return several ? std::span<const double>(blackwellInter) : blackwellIntra;
  if (arch >= 90)
    return several ? std::span<const double>(hopperInter) : hopperIntra;
  return several ? std::span<const double>(olderInter) : olderIntra;
}

/// What one node, the least of all, has. GB/s.
struct NodeLinks {
  double rank = 0;           ///< out of a rank, to the other ranks of its node
  std::vector<double> pairs; ///< from a rank to each vertex next to it, largest first
  double cut = 0;            ///< through the worst cut between ranks of the node
  std::vector<double> nics;  ///< out of the node, each, largest first
  bool nvlink = false, nvswitch = false, reduces = false;
};

/// Who is on which node.
class Placement {
public:
  Placement(const Topology &topology) : topology(topology), owner(size_t(topology.nodes()), none) {
    placeRanks();
    placeSwitches();
    vertices.resize(size_t(nodes)), links.resize(size_t(nodes));
    for (int32_t v = 0; v < topology.nodes(); ++v)
      if (of(v) >= 0)
        vertices[size_t(of(v))].push_back(v);
    for (const Link &link : topology.links)
      if (of(link.src) >= 0)
        links[size_t(of(link.src))].push_back(link);
  }

  static constexpr int32_t none = -2, shared = -1;
  int64_t nodes = 1;
  /// The node of a rank or switch; `shared` if it is as near to another.
  int32_t of(int32_t vertex) const { return owner[size_t(vertex)]; }
  /// Of every node: its ranks and switches, and the links out of them.
  std::vector<std::vector<int32_t>> vertices;
  std::vector<std::vector<Link>> links;

private:
  void placeRanks() {
    const int64_t ranks = topology.ranks();
    for (size_t axis = 0; axis < topology.axes.size(); ++axis)
      if (topology.axes[axis].name == "node") {
        for (int64_t r = 0; r < ranks; ++r)
          owner[size_t(r)] = int32_t(topology.coordinates(r)[axis]);
        nodes = topology.axes[axis].size;
        return;
      }
    std::vector<int32_t> parent(owner.size());
    std::iota(parent.begin(), parent.end(), 0);
    auto find = [&](int32_t v) {
      while (parent[size_t(v)] != v)
        v = parent[size_t(v)] = parent[size_t(parent[size_t(v)])];
      return v;
    };
    auto isNic = [&](int32_t v) {
      return v >= ranks && topology.switches[size_t(v - ranks)].kind == SwitchKind::Nic;
    };
    for (const Link &link : topology.links)
      if (!isNic(link.src) && !isNic(link.dst))
        parent[size_t(find(link.src))] = find(link.dst);
    std::map<int32_t, int32_t> numbers;
    for (int32_t r = 0; r < ranks; ++r)
      owner[size_t(r)] = numbers.try_emplace(find(r), int32_t(numbers.size())).first->second;
    nodes = int64_t(numbers.size());
  }

  /// A switch belongs to the node that it is nearest to.
  void placeSwitches() {
    std::vector<std::vector<int32_t>> neighbors(owner.size());
    for (const Link &link : topology.links) {
      neighbors[size_t(link.src)].push_back(link.dst);
      neighbors[size_t(link.dst)].push_back(link.src);
    }
    std::vector<int32_t> front(size_t(topology.ranks()));
    std::iota(front.begin(), front.end(), 0);
    while (!front.empty()) {
      std::map<int32_t, int32_t> next;
      for (int32_t v : front)
        for (int32_t w : neighbors[size_t(v)])
          if (owner[size_t(w)] == none) {
            auto [entry, isNew] = next.try_emplace(w, owner[size_t(v)]);
            if (!isNew && entry->second != owner[size_t(v)])
              entry->second = shared;
          }
      front.clear();
      for (auto [w, o] : next)
        owner[size_t(w)] = o, front.push_back(w);
    }
  }

  const Topology &topology;
  std::vector<int32_t> owner;
};

/// One by one the smaller; what only one of them has is left out.
std::vector<double> weaker(std::vector<double> a, const std::vector<double> &b) {
  a.resize(std::min(a.size(), b.size()));
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = std::min(a[i], b[i]);
  return a;
}

/// Capacities in MB/s.
int64_t integral(double bandwidth) { return std::llround(bandwidth * 1000); }

NodeLinks linksOf(const Topology &topology, const Placement &placement, int32_t node) {
  NodeLinks result;
  const int64_t ranks = topology.ranks();
  auto isRank = [&](int32_t v) { return v < ranks; };
  auto kindOf = [&](int32_t v) { return topology.switches[size_t(v - ranks)].kind; };
  auto isNvlink = [&](int32_t v) { return isRank(v) || kindOf(v) == SwitchKind::Switch; };

  // The part of the graph, its vertices numbered anew; the source is in front of all ranks.
  std::map<int32_t, int32_t> number;
  std::vector<int32_t> members;
  for (int32_t v : placement.vertices[size_t(node)]) {
    number.try_emplace(v, int32_t(number.size()));
    if (isRank(v)) {
      members.push_back(v);
    } else if (kindOf(v) == SwitchKind::Switch) {
      const Switch &sw = topology.switches[size_t(v - ranks)];
      result.nvswitch = true;
      result.reduces |= sw.multicast && sw.reduce;
    }
  }
  FlowGraph graph(int32_t(number.size()) + 1);
  const int32_t source = int32_t(number.size());
  std::vector<int32_t> entries;
  for (int32_t rank : members)
    entries.push_back(graph.addArc(source, number[rank], 0));
  for (const Link &link : placement.links[size_t(node)])
    if (placement.of(link.dst) == node) {
      graph.addArc(number[link.src], number[link.dst], integral(link.bandwidth));
      result.nvlink |= isRank(link.src) && isNvlink(link.dst);
    }

  std::map<int32_t, std::map<int32_t, double>> out;
  for (const Link &link : placement.links[size_t(node)])
    if (isRank(link.src) && placement.of(link.dst) == node &&
        (result.nvlink ? isNvlink(link.dst) : kindOf(link.dst) != SwitchKind::Nic))
      out[link.src][link.dst] += link.bandwidth;
  result.rank = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < members.size(); ++i) {
    std::vector<double> pairs;
    for (auto [to, bandwidth] : out[members[i]])
      pairs.push_back(bandwidth);
    std::sort(pairs.rbegin(), pairs.rend());
    result.rank = std::min(result.rank, std::accumulate(pairs.begin(), pairs.end(), 0.0));
    result.pairs = i == 0 ? std::move(pairs) : weaker(std::move(result.pairs), pairs);
  }

  result.cut = result.rank;
  for (size_t i = 1; i < members.size(); ++i)
    result.cut = std::min(
        result.cut,
        double(graph.run(number[members[0]], number[members[i]], integral(result.cut))) / 1000);

  // A NIC gives no more than what gets to it.
  for (int32_t entry : entries)
    graph.setCapacity(entry, int64_t(1) << 40);
  for (const Link &link : placement.links[size_t(node)])
    if (placement.of(link.dst) != node) {
      double bandwidth = link.bandwidth;
      if (!isRank(link.src))
        bandwidth = double(graph.run(source, number[link.src], integral(bandwidth))) / 1000;
      if (bandwidth > 0)
        result.nics.push_back(bandwidth);
    }
  std::sort(result.nics.rbegin(), result.nics.rend());
  return result;
}

class ChannelSearch {
public:
  ChannelSearch(const NodeLinks &links, int64_t ranksPerNode, bool several, int32_t arch)
      : links(links), perNode(ranksPerNode), several(several), arch(arch),
        speeds(speedsOf(arch, several)) {
    for (double nic : links.nics)
      nicTotal += nic;
  }

  NcclGraph ring() const {
    double most = several ? links.nics.front() : links.pairs.front();
    double total = several ? nicTotal : links.rank;
    NcclGraph best;
    size_t i = 0;
    while (i + 1 < speeds.size() && speeds[i] > most + tolerance)
      ++i;
    for (; i < speeds.size(); ++i) {
      if (best.channels > 0 && speeds[i] / best.bwInter <= 0.49)
        break;
      int32_t channels = ringsAt(speeds[i]);
      if (channels * speeds[i] > best.channels * best.bwIntra + tolerance)
        best = {channels, speeds[i], speeds[i]};
      if (best.channels * best.bwInter >= total - tolerance)
        break;
    }
    if (best.channels == 0)
      return {1, 0.1, 0.1};
    return twice(best);
  }

  /// As many as rings; on several nodes faster inside, as far as links allow and it helps.
  NcclGraph tree(NcclGraph graph) const {
    if (perNode == 1)
      return graph;
    for (size_t i = indexOf(graph.bwIntra); i-- > 0 && graph.bwIntra < 2 * graph.bwInter;) {
      if (graph.channels * speeds[i] > links.cut + tolerance)
        break;
      graph.bwIntra = speeds[i];
    }
    return graph;
  }

  /// A head for every GPU, on several nodes for every NIC. Each GPU has what it is the head of
  /// twice on its links, what others are once.
  NcclGraph nvls() const {
    int64_t heads = std::min<int64_t>(perNode, mostHeads);
    if (several)
      heads = std::min<int64_t>(heads, int64_t(links.nics.size()));
    size_t i = 0;
    while (i < speeds.size() &&
           (speeds[i] * double(heads + 1) > links.rank + tolerance || !nicsCarry(heads, speeds[i])))
      ++i;
    if (i == speeds.size())
      return {};
    NcclGraph graph{int32_t(heads), speeds[i], speeds[i]};
    while (i-- > 0 && graph.bwInter < 2 * graph.bwIntra && nicsCarry(heads, speeds[i]))
      graph.bwInter = speeds[i];
    return graph;
  }

  NcclGraph collnet() const {
    int64_t heads = std::min<int64_t>(perNode, int64_t(links.nics.size()));
    for (double speed : speeds)
      if (nicsCarry(heads, speed) && ringsAt(speed) >= heads)
        return {int32_t(heads), speed, speed};
    return {};
  }

private:
  static double countAt(double speed, const std::vector<double> &bandwidths) {
    double count = 0;
    for (double bandwidth : bandwidths)
      count += std::floor((bandwidth + tolerance) / speed);
    return count;
  }

  int32_t ringsAt(double speed) const {
    double most = mostChannels;
    if (several)
      most = std::min(most, countAt(speed, links.nics));
    // Between nodes a ring leaves through one GPU's NIC instead of through its links.
    double nic = several ? nicTotal / double(perNode) : 0;
    if (perNode > 1)
      most = std::min({most, countAt(speed, links.pairs) + countAt(speed, {nic}),
                       std::floor((links.cut + nic + tolerance) / speed)});
    return int32_t(most);
  }

  bool nicsCarry(int64_t heads, double speed) const {
    return !several || links.nics[size_t(heads) - 1] + tolerance >= speed;
  }

  /// Fast channels are split in two, so that more thread blocks can be at work.
  NcclGraph twice(NcclGraph graph) const {
    if (graph.bwIntra < 25 || (arch > 80 && graph.bwIntra < 50 && graph.channels > 4))
      return graph;
    int32_t channels = std::min(2 * graph.channels, mostChannels);
    double parts = (channels + graph.channels - 1) / graph.channels;
    return {channels, graph.bwIntra / parts, graph.bwInter / parts};
  }

  size_t indexOf(double speed) const {
    size_t i = 0;
    while (i < speeds.size() && speeds[i] > speed)
      ++i;
    return i;
  }

  const NodeLinks &links;
  int64_t perNode;
  bool several;
  int32_t arch;
  std::span<const double> speeds;
  double nicTotal = 0;
};

/// The least of both.
NodeLinks weaker(NodeLinks a, const NodeLinks &b) {
  a.rank = std::min(a.rank, b.rank);
  a.pairs = weaker(std::move(a.pairs), b.pairs);
  a.cut = std::min(a.cut, b.cut);
  a.nics = weaker(std::move(a.nics), b.nics);
  a.nvlink &= b.nvlink, a.nvswitch &= b.nvswitch, a.reduces &= b.reduces;
  return a;
}

} // namespace

std::optional<NcclMachine> ccl::model::ncclMachineOf(const Topology &topology,
                                                     const NcclMachineOptions &options,
                                                     std::string *why) {
  auto fail = [&](std::string message) -> std::optional<NcclMachine> {
    if (why)
      *why = std::move(message);
    return {};
  };
  if (std::string error = topology.check(); !error.empty())
    return fail(std::move(error));
  NcclMachine machine;
  machine.ranks = topology.ranks();
  machine.arch = options.arch;
  machine.cpu = options.cpu;
  machine.sharp = options.sharp;
  Placement placement(topology);
  machine.nodes = placement.nodes;
  std::vector<int64_t> sizes(size_t(machine.nodes));
  for (int32_t r = 0; r < machine.ranks; ++r)
    ++sizes[size_t(placement.of(r))];
  for (size_t i = 1; i < sizes.size(); ++i)
    if (sizes[i] != sizes[0])
      return fail(fmt::format("node 0 has {} ranks, node {} has {}; NCCL's model is of equal nodes",
                              sizes[0], i, sizes[i]));
  constexpr int64_t mostRanks = 576;
  if (sizes[0] > mostRanks)
    return fail(fmt::format("a node has {} ranks; NCCL knows at most {}", sizes[0], mostRanks));
  if (std::string error = machine.check(); !error.empty() || machine.ranks == 1)
    return error.empty() ? std::optional(machine) : fail(std::move(error));

  NodeLinks links = linksOf(topology, placement, 0);
  for (int32_t node = 1; node < machine.nodes; ++node)
    links = weaker(std::move(links), linksOf(topology, placement, node));
  bool several = machine.nodes > 1;
  if (machine.ranksPerNode() > 1 && !(links.cut > 0))
    return fail("ranks of a node do not reach each other inside of it");
  if (several && links.nics.empty())
    return fail("a node has no link that leaves it");
  machine.nvlink = links.nvlink, machine.nvswitch = links.nvswitch;
  machine.ll128 = links.nvlink;
  ChannelSearch search(links, machine.ranksPerNode(), several, machine.arch);
  machine.ring = search.ring();
  machine.tree = search.tree(machine.ring);
  if (machine.arch >= 90 && links.nvswitch && links.reduces && machine.ranksPerNode() > 1)
    machine.nvls = search.nvls();
  if (several && machine.sharp)
    machine.collnet = search.collnet();
  return machine;
}
