#include "dialect/model/Topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

namespace ccl::model {
namespace {

/// The nodes that `start` reaches, along the links or against them.
std::vector<bool> reachable(const Topology &topology, int32_t start, bool forward) {
  size_t nodes = size_t(topology.nodes());
  std::vector<size_t> first(nodes + 1);
  for (const Link &link : topology.links)
    ++first[size_t(forward ? link.src : link.dst) + 1];
  for (size_t n = 0; n < nodes; ++n)
    first[n + 1] += first[n];
  std::vector<int32_t> next(topology.links.size());
  std::vector<size_t> fill(first.begin(), first.end() - 1);
  for (const Link &link : topology.links)
    next[fill[size_t(forward ? link.src : link.dst)]++] = forward ? link.dst : link.src;

  std::vector<bool> seen(nodes);
  std::vector<int32_t> work = {start};
  seen[size_t(start)] = true;
  while (!work.empty()) {
    size_t node = size_t(work.back());
    work.pop_back();
    for (size_t i = first[node]; i < first[node + 1]; ++i) {
      if (seen[size_t(next[i])])
        continue;
      seen[size_t(next[i])] = true;
      work.push_back(next[i]);
    }
  }
  return seen;
}

std::string checkNames(const Topology &topology) {
  std::set<std::string> axes, switches;
  for (const Axis &axis : topology.axes) {
    if (axis.size < 1)
      return fmt::format("axis {} has size {}, but needs at least 1", axis.name, axis.size);
    if (!axes.insert(axis.name).second)
      return fmt::format("two axes are named {}", axis.name);
  }
  int64_t ranks = 1;
  for (const Axis &axis : topology.axes) {
    if (axis.size > std::numeric_limits<int32_t>::max() / ranks)
      return "the axes make more than 2147483647 ranks";
    ranks *= axis.size;
  }
  if (topology.nodes() > std::numeric_limits<int32_t>::max())
    return "ranks and switches are more than 2147483647 nodes";
  for (const Switch &s : topology.switches)
    if (!switches.insert(s.name).second)
      return fmt::format("two switches are named {}", s.name);
  return "";
}

std::string checkLink(const Topology &topology, size_t index) {
  const Link &link = topology.links[index];
  int64_t nodes = topology.nodes();
  for (int32_t node : {link.src, link.dst})
    if (node < 0 || node >= nodes)
      return fmt::format("link {}: node {} is outside [0, {})", index, node, nodes);
  std::string ends = fmt::format("the link from {} to {}", topology.nodeName(link.src),
                                 topology.nodeName(link.dst));
  if (link.src == link.dst)
    return ends + " joins a node to itself";
  if (!(link.bandwidth > 0) || !std::isfinite(link.bandwidth))
    return fmt::format("{} has bandwidth {} GB/s, which is not positive", ends, link.bandwidth);
  if (link.bandwidth < leastBandwidth || link.bandwidth > mostBandwidth)
    return fmt::format("{} has bandwidth {} GB/s, which is not from {} to {}", ends, link.bandwidth,
                       leastBandwidth, mostBandwidth);
  if (!(link.latency >= 0) || !std::isfinite(link.latency))
    return fmt::format("{} has latency {} us, which is negative or not finite", ends, link.latency);
  if (link.latency > mostLatency)
    return fmt::format("{} has latency {} us, which is more than {}", ends, link.latency,
                       mostLatency);
  for (int32_t resource : link.resources)
    if (resource < 0 || size_t(resource) >= topology.resources.size())
      return fmt::format("{} shares resource {}, which is outside [0, {})", ends, resource,
                         topology.resources.size());
  return "";
}

std::string checkResources(const Topology &topology) {
  std::set<std::string> names;
  for (const Resource &resource : topology.resources) {
    if (!names.insert(resource.name).second)
      return fmt::format("two resources are named {}", resource.name);
    if (!(resource.bandwidth >= 0) || !std::isfinite(resource.bandwidth))
      return fmt::format("resource {} has bandwidth {} GB/s, which is negative or not finite",
                         resource.name, resource.bandwidth);
    if (resource.bandwidth > 0 &&
        (resource.bandwidth < leastBandwidth || resource.bandwidth > mostBandwidth))
      return fmt::format("resource {} has bandwidth {} GB/s, which is not from {} to {}",
                         resource.name, resource.bandwidth, leastBandwidth, mostBandwidth);
  }
  return "";
}

} // namespace

constexpr std::array<std::string_view, 4> switchKinds = {"switch", "nic", "pcie", "cpu"};

std::string_view name(SwitchKind kind) { return switchKinds[size_t(kind)]; }

std::optional<SwitchKind> parseSwitchKind(std::string_view text) {
  auto it = std::find(switchKinds.begin(), switchKinds.end(), text);
  if (it == switchKinds.end())
    return std::nullopt;
  return SwitchKind(it - switchKinds.begin());
}

int64_t Topology::ranks() const {
  int64_t product = 1;
  for (const Axis &axis : axes)
    product *= axis.size;
  return product;
}

std::vector<int64_t> Topology::coordinates(int64_t rank) const {
  std::vector<int64_t> result(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    result[i] = rank % axes[i].size;
    rank /= axes[i].size;
  }
  return result;
}

int64_t Topology::rankAt(const std::vector<int64_t> &coordinates) const {
  int64_t rank = 0;
  for (size_t i = 0; i < axes.size() && i < coordinates.size(); ++i)
    rank = rank * axes[i].size + coordinates[i];
  return rank;
}

std::string Topology::nodeName(int32_t node) const {
  int64_t index = node - ranks();
  if (index < 0)
    return fmt::format("rank {}", node);
  if (size_t(index) < switches.size())
    return switches[size_t(index)].name;
  return fmt::format("node {}", node);
}

std::string Topology::check() const {
  if (std::string error = checkNames(*this); !error.empty())
    return error;
  if (reconfigurable && (!(*reconfigurable >= 0) || !std::isfinite(*reconfigurable)))
    return fmt::format("links change in {} us, which is negative or not finite", *reconfigurable);
  if (std::string error = checkResources(*this); !error.empty())
    return error;
  for (size_t i = 0; i < links.size(); ++i)
    if (std::string error = checkLink(*this, i); !error.empty())
      return error;
  // All ranks reach each other if rank 0 reaches all and all reach rank 0.
  std::vector<bool> from = reachable(*this, 0, true), to = reachable(*this, 0, false);
  for (int64_t rank = 1; rank < ranks(); ++rank) {
    if (!from[size_t(rank)])
      return fmt::format("rank 0 cannot reach rank {}: no path of links", rank);
    if (!to[size_t(rank)])
      return fmt::format("rank {} cannot reach rank 0: no path of links", rank);
  }
  return "";
}

} // namespace ccl::model
