//===- Routes.cpp ---------------------------------------------------------===//
#include "dialect/simulate/Routes.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace ccl::model {
namespace {

/// One of `count` equal things for a pair of ranks (the finalizer of SplitMix64).
size_t spread(int32_t src, int32_t dst, size_t step, size_t count) {
  uint64_t z = (uint64_t(uint32_t(src)) << 32 | uint32_t(dst)) + 0x9e3779b97f4a7c15u * (step + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return size_t((z ^ (z >> 31)) % count);
}

} // namespace

Routes::Routes(const Topology &topology) : ranks(int32_t(topology.ranks())) {
  const std::vector<Link> &links = topology.links;
  std::vector<int32_t> order(links.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = int32_t(i);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const Link &x = links[size_t(a)], &y = links[size_t(b)];
    return std::tuple(x.src, x.dst, !x.resources.empty(), x.latency, a) <
           std::tuple(y.src, y.dst, !y.resources.empty(), y.latency, b);
  });
  for (int32_t index : order) {
    const Link &link = links[size_t(index)];
    bool joins = false;
    if (!allWires.empty() && link.resources.empty()) {
      const Wire &last = allWires.back();
      joins = last.src == link.src && last.dst == link.dst && last.latency == link.latency &&
              links[size_t(last.links.front())].resources.empty();
    }
    if (!joins)
      allWires.push_back({link.src, link.dst, 0, link.latency, {}});
    allWires.back().bandwidth += link.bandwidth;
    allWires.back().links.push_back(index);
  }
  const size_t nodes = size_t(topology.nodes());
  firstOut.resize(nodes + 1), firstIn.resize(nodes + 1);
  for (const Wire &wire : allWires)
    ++firstOut[size_t(wire.src) + 1], ++firstIn[size_t(wire.dst) + 1];
  for (size_t n = 0; n < nodes; ++n)
    firstOut[n + 1] += firstOut[n], firstIn[n + 1] += firstIn[n];
  in.resize(allWires.size());
  std::vector<size_t> fill(firstIn.begin(), firstIn.end() - 1);
  for (size_t w = 0; w < allWires.size(); ++w)
    in[fill[size_t(allWires[w].dst)]++] = int32_t(w);
}

/// Breadth first; the width of a node is final when its level is done.
void Routes::explore(int32_t src) {
  explored = src;
  levels.assign(firstOut.size() - 1, -1);
  widths.assign(levels.size(), 0);
  levels[size_t(src)] = 0;
  widths[size_t(src)] = std::numeric_limits<double>::infinity();
  std::vector<int32_t> queue = {src};
  for (size_t next = 0; next < queue.size(); ++next) {
    const int32_t node = queue[next];
    if (node < ranks && node != src)
      continue; // ranks do not forward
    for (size_t w = firstOut[size_t(node)]; w < firstOut[size_t(node) + 1]; ++w) {
      const size_t to = size_t(allWires[w].dst);
      if (levels[to] < 0) {
        levels[to] = levels[size_t(node)] + 1;
        queue.push_back(int32_t(to));
      }
      if (levels[to] == levels[size_t(node)] + 1)
        widths[to] = std::max(widths[to], std::min(widths[size_t(node)], allWires[w].bandwidth));
    }
  }
}

std::span<const Wire> Routes::between(int32_t src, int32_t dst) const {
  const std::span<const Wire> out(allWires.data() + firstOut[size_t(src)],
                                  allWires.data() + firstOut[size_t(src) + 1]);
  const auto found = std::ranges::equal_range(out, dst, {}, &Wire::dst);
  return {found.begin(), found.end()};
}

/// Of the candidates.
void Routes::addOneOf(int32_t src, int32_t dst) {
  only &= candidates.size() == 1;
  result.push_back(candidates[spread(src, dst, result.size(), candidates.size())]);
}

void Routes::addDirect(int32_t src, int32_t dst) {
  double widest = 0;
  candidates.clear();
  for (const Wire &wire : between(src, dst)) {
    if (wire.bandwidth < widest)
      continue;
    if (wire.bandwidth > widest)
      candidates.clear();
    widest = wire.bandwidth;
    candidates.push_back(int32_t(&wire - allWires.data()));
  }
  if (!candidates.empty())
    addOneOf(src, dst);
}

const std::vector<int32_t> &Routes::way(int32_t src, int32_t dst) {
  result.clear();
  only = true;
  if (src == dst)
    return result;
  addDirect(src, dst);
  if (!result.empty())
    return result;
  if (explored != src)
    explore(src);
  if (levels[size_t(dst)] < 0)
    return result;
  const double width = widths[size_t(dst)];
  for (int32_t node = dst; node != src;) {
    candidates.clear();
    for (size_t i = firstIn[size_t(node)]; i < firstIn[size_t(node) + 1]; ++i) {
      const Wire &wire = allWires[size_t(in[i])];
      const bool forwards = wire.src == src || wire.src >= ranks;
      if (forwards && levels[size_t(wire.src)] == levels[size_t(node)] - 1 &&
          std::min(widths[size_t(wire.src)], wire.bandwidth) >= width)
        candidates.push_back(in[i]);
    }
    addOneOf(src, dst);
    node = allWires[size_t(result.back())].src;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

} // namespace ccl::model
