//===- Fabric.cpp - A topology as a graph with integer capacities ---------===//

#include "dialect/bound/Fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

namespace ccl::model {
namespace {

constexpr double limit = double(int64_t(1) << 60);

/// digits * 10^exponent, the shortest decimal number that is read as `value`.
struct Decimal {
  int64_t digits = 0;
  int32_t exponent = 0;
};

Decimal toDecimal(double value) {
  char text[40];
  std::to_chars_result end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  Decimal result;
  const char *at = text;
  bool fraction = false;
  for (; at < end.ptr && *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    result.digits = 10 * result.digits + (*at - '0');
    result.exponent -= fraction;
  }
  int32_t exponent = 0;
  bool negative = at + 1 < end.ptr && at[1] == '-';
  for (at += 2; at < end.ptr; ++at)
    exponent = 10 * exponent + (*at - '0');
  result.exponent += negative ? -exponent : exponent;
  while (result.digits != 0 && result.digits % 10 == 0)
    result.digits /= 10, ++result.exponent;
  return result;
}

/// The fabric before its capacities are integers.
struct Part {
  int32_t src, dst;
  double bandwidth, latency;
};

/// Capacities and the unit of them, if the sum of all, `ranks` times, stays below 2^60.
std::optional<std::vector<int64_t>> exactCapacities(const std::vector<Part> &parts, int32_t ranks,
                                                    double &unit) {
  std::vector<Decimal> decimals;
  int32_t least = std::numeric_limits<int32_t>::max();
  for (const Part &part : parts) {
    decimals.push_back(toDecimal(part.bandwidth));
    least = std::min(least, decimals.back().exponent);
  }
  std::vector<int64_t> result;
  int64_t divisor = 0;
  for (const Decimal &decimal : decimals) {
    __int128 capacity = decimal.digits;
    for (int32_t e = least; e < decimal.exponent; ++e) {
      capacity *= 10;
      if (double(capacity) >= limit)
        return std::nullopt;
    }
    result.push_back(int64_t(capacity));
    divisor = std::gcd(divisor, result.back());
  }
  double sum = 0;
  for (int64_t &capacity : result)
    sum += double(capacity /= divisor);
  if (sum * ranks >= limit)
    return std::nullopt;
  std::string text = fmt::format("{}e{}", divisor, least); // rounded once
  std::from_chars(text.data(), text.data() + text.size(), unit);
  return result;
}

/// The same rounded up to a multiple of a power of two, as fine as the limit allows.
std::vector<int64_t> roundedCapacities(const std::vector<Part> &parts, int32_t ranks,
                                       Fabric &fabric) {
  double most = 0;
  for (const Part &part : parts)
    most = std::max(most, part.bandwidth);
  // ceil adds at most 1 to each capacity; that takes the last of the 60 digits of two.
  int exponent =
      std::ilogb(most) + std::ilogb(double(parts.size())) + std::ilogb(double(ranks)) + 3 - 59;
  constexpr int leastExponent = -1022;
  fabric.unit = std::ldexp(1.0, std::max(exponent, leastExponent));
  std::vector<int64_t> result;
  for (const Part &part : parts) {
    double capacity = std::max(1.0, std::ceil(part.bandwidth / fabric.unit)); // 0: underflow
    fabric.rounding =
        std::max(fabric.rounding, (capacity * fabric.unit - part.bandwidth) / part.bandwidth);
    result.push_back(int64_t(capacity));
  }
  fabric.exact = fabric.rounding == 0;
  return result;
}

/// Some links that leave one node, or enter one, and what they have together.
struct Group {
  int32_t node;
  bool leaves;
  int32_t resource;
  double bandwidth;
  std::vector<int32_t> links;
};

/// Makes the parts: links, and what they share.
class Sharing {
public:
  Sharing(const Topology &topology, Fabric &fabric, std::vector<std::string> *ignored)
      : topology(topology), fabric(fabric), ignored(ignored) {
    for (const Link &link : topology.links)
      bandwidth.push_back(link.bandwidth), src.push_back(link.src), dst.push_back(link.dst);
  }

  std::vector<Part> run() {
    std::vector<std::vector<int32_t>> members(topology.resources.size());
    for (size_t i = 0; i < topology.links.size(); ++i)
      for (int32_t resource : topology.links[i].resources)
        if (members[size_t(resource)].empty() || members[size_t(resource)].back() != int32_t(i))
          members[size_t(resource)].push_back(int32_t(i));
    for (size_t r = 0; r < members.size(); ++r)
      cut(int32_t(r), members[r]);
    // The larger ones first: what lies within another is placed behind it.
    std::sort(groups.begin(), groups.end(), [](const Group &a, const Group &b) {
      if (a.links.size() != b.links.size())
        return a.links.size() > b.links.size();
      return std::tie(a.resource, a.node, a.leaves) < std::tie(b.resource, b.node, b.leaves);
    });
    for (const Group &group : groups)
      place(group);
    for (size_t i = 0; i < topology.links.size(); ++i)
      parts.push_back({src[i], dst[i], bandwidth[i], topology.links[i].latency});
    return std::move(parts);
  }

private:
  void leaveOut(int32_t resource, std::string what) {
    fabric.relaxed = true;
    if (ignored)
      ignored->push_back(fmt::format("resource {}: {}", topology.resources[size_t(resource)].name,
                                     std::move(what)));
  }

  /// Cuts the links of a resource into groups with a node in common.
  void cut(int32_t resource, std::vector<int32_t> links) {
    double most = 0, least = std::numeric_limits<double>::infinity();
    for (int32_t link : links)
      most = std::max(most, bandwidth[size_t(link)]),
      least = std::min(least, bandwidth[size_t(link)]);
    double together = topology.resources[size_t(resource)].bandwidth;
    if (together == 0 && most > least)
      leaveOut(resource, fmt::format("its links take turns with unequal bandwidths; they are given "
                                     "{} GB/s together",
                                     most));
    if (together == 0)
      together = most;

    int32_t pieces = 0;
    for (; !links.empty(); ++pieces) {
      std::map<std::pair<int32_t, bool>, int32_t> count; // enters before leaves
      for (int32_t link : links)
        ++count[{topology.links[size_t(link)].src, true}],
            ++count[{topology.links[size_t(link)].dst, false}];
      auto best = std::max_element(count.begin(), count.end(), [](const auto &a, const auto &b) {
        return a.second < b.second;
      });
      Group group{best->first.first, best->first.second, resource, together, {}};
      std::vector<int32_t> others;
      for (int32_t link : links) {
        const Link &l = topology.links[size_t(link)];
        bool in = (group.leaves ? l.src : l.dst) == group.node;
        (in ? group.links : others).push_back(link);
      }
      links = std::move(others);
      if (group.links.size() == 1) {
        double &own = bandwidth[size_t(group.links[0])];
        own = std::min(own, together);
      } else {
        groups.push_back(std::move(group));
      }
    }
    if (pieces > 1)
      leaveOut(resource, fmt::format("its links have no node in common; each of {} groups is "
                                     "limited alone",
                                     pieces));
  }

  void place(const Group &group) {
    double sum = 0;
    for (int32_t link : group.links)
      sum += bandwidth[size_t(link)];
    if (sum <= group.bandwidth)
      return; // never felt
    std::vector<int32_t> &end = group.leaves ? src : dst;
    int32_t behind = end[size_t(group.links[0])];
    for (int32_t link : group.links)
      if (end[size_t(link)] != behind) {
        leaveOut(group.resource,
                 fmt::format("at {} it shares some of its links, not all, with another resource; "
                             "it is left out there",
                             topology.nodeName(group.node)));
        return;
      }
    int32_t node = fabric.nodes++;
    fabric.copies.push_back(false), fabric.combines.push_back(false);
    for (int32_t link : group.links)
      end[size_t(link)] = node;
    if (group.leaves)
      parts.push_back({behind, node, group.bandwidth, 0});
    else
      parts.push_back({node, behind, group.bandwidth, 0});
  }

  const Topology &topology;
  Fabric &fabric;
  std::vector<std::string> *ignored;
  std::vector<double> bandwidth;
  std::vector<int32_t> src, dst; ///< by link: its ends in the fabric
  std::vector<Group> groups;
  std::vector<Part> parts;
};

void sortArcs(std::vector<Arc> &arcs) {
  std::sort(arcs.begin(), arcs.end(), [](const Arc &a, const Arc &b) {
    return std::tie(a.src, a.dst) < std::tie(b.src, b.dst);
  });
}

} // namespace

Fabric makeFabric(const Topology &topology, std::vector<std::string> *ignored) {
  Fabric fabric;
  fabric.ranks = int32_t(topology.ranks());
  fabric.nodes = int32_t(topology.nodes());
  fabric.copies.assign(size_t(fabric.nodes), false);
  fabric.combines.assign(size_t(fabric.nodes), false);
  for (size_t i = 0; i < topology.switches.size(); ++i) {
    fabric.copies[size_t(fabric.ranks) + i] = topology.switches[i].multicast;
    fabric.combines[size_t(fabric.ranks) + i] = topology.switches[i].reduce;
  }
  std::vector<Part> parts = Sharing(topology, fabric, ignored).run();
  if (parts.empty())
    return fabric;

  std::optional<std::vector<int64_t>> capacities =
      exactCapacities(parts, fabric.ranks, fabric.unit);
  if (!capacities)
    capacities = roundedCapacities(parts, fabric.ranks, fabric);

  std::vector<Arc> arcs;
  for (size_t i = 0; i < parts.size(); ++i)
    arcs.push_back({parts[i].src, parts[i].dst, (*capacities)[i], parts[i].latency});
  sortArcs(arcs);
  for (const Arc &arc : arcs) {
    Arc *last = fabric.arcs.empty() ? nullptr : &fabric.arcs.back();
    if (last && last->src == arc.src && last->dst == arc.dst) {
      last->capacity += arc.capacity;
      last->latency = std::min(last->latency, arc.latency);
    } else {
      fabric.arcs.push_back(arc);
    }
  }
  return fabric;
}

Fabric Fabric::reversed() const {
  Fabric result = *this;
  std::swap(result.copies, result.combines);
  for (Arc &arc : result.arcs)
    std::swap(arc.src, arc.dst);
  sortArcs(result.arcs);
  return result;
}

int32_t Fabric::find(int32_t src, int32_t dst) const {
  auto it = std::lower_bound(arcs.begin(), arcs.end(), std::pair(src, dst),
                             [](const Arc &arc, const std::pair<int32_t, int32_t> &key) {
                               return std::pair(arc.src, arc.dst) < key;
                             });
  bool there = it != arcs.end() && it->src == src && it->dst == dst;
  return there ? int32_t(it - arcs.begin()) : -1;
}

} // namespace ccl::model
