//===- ShortestWays.cpp - Least prices from one node to all others --------===//

#include "dialect/bound/ShortestWays.h"

#include <algorithm>
#include <functional>

namespace ccl::model {

ShortestWays::ShortestWays(const Fabric &fabric)
    : fabric(fabric), outStart(size_t(fabric.nodes) + 1), inStart(size_t(fabric.nodes) + 1) {
  for (const Arc &arc : fabric.arcs)
    if (arc.capacity > 0) {
      ++outStart[size_t(arc.src) + 1];
      ++inStart[size_t(arc.dst) + 1];
    }
  for (size_t node = 0; node < size_t(fabric.nodes); ++node) {
    outStart[node + 1] += outStart[node];
    inStart[node + 1] += inStart[node];
  }
  out.resize(size_t(outStart.back()));
  in.resize(out.size());
  std::vector<int32_t> nextOut = outStart, nextIn = inStart;
  for (size_t i = 0; i < fabric.arcs.size(); ++i) {
    const Arc &arc = fabric.arcs[i];
    if (arc.capacity <= 0)
      continue;
    out[size_t(nextOut[size_t(arc.src)]++)] = {arc.dst, int32_t(i), 1};
    in[size_t(nextIn[size_t(arc.dst)]++)] = {arc.src, int32_t(i), 1};
  }
}

void ShortestWays::setPrices(std::span<const int64_t> prices) {
  for (Half &half : out)
    half.price = prices[size_t(half.arc)];
  for (Half &half : in)
    half.price = prices[size_t(half.arc)];
}

void ShortestWays::run(int32_t source, Work &work) const {
  work.distance.assign(size_t(fabric.nodes), unreachable);
  work.last.assign(size_t(fabric.nodes), -1);
  work.order.clear();
  work.heap.clear();
  work.distance[size_t(source)] = 0;
  work.heap.push_back({0, source});
  while (!work.heap.empty()) {
    std::pop_heap(work.heap.begin(), work.heap.end(), std::greater<>());
    auto [distance, node] = work.heap.back();
    work.heap.pop_back();
    if (distance != work.distance[size_t(node)])
      continue;
    work.order.push_back(node);
    for (int32_t i = outStart[size_t(node)]; i < outStart[size_t(node) + 1]; ++i) {
      const Half &half = out[size_t(i)];
      int64_t further = distance + half.price;
      if (further < work.distance[size_t(half.node)]) {
        work.distance[size_t(half.node)] = further;
        work.last[size_t(half.node)] = half.arc;
        work.heap.push_back({further, half.node});
        std::push_heap(work.heap.begin(), work.heap.end(), std::greater<>());
      }
    }
  }
}

bool ShortestWays::ends(const Half &half, int32_t node, const Work &work) const {
  int64_t before = work.distance[size_t(half.node)];
  return before != unreachable && before + half.price == work.distance[size_t(node)];
}

void ShortestWays::countWays(int32_t source, Work &work) const {
  work.ways.assign(size_t(fabric.nodes), 0);
  work.ways[size_t(source)] = 1;
  for (int32_t node : work.order)
    for (int32_t i = inStart[size_t(node)]; i < inStart[size_t(node) + 1]; ++i)
      if (const Half &half = in[size_t(i)]; ends(half, node, work))
        work.ways[size_t(node)] += work.ways[size_t(half.node)];
}

int32_t ShortestWays::lastArc(int32_t node, const Work &work, double &at) const {
  double before = at * work.ways[size_t(node)];
  const Half *chosen = nullptr;
  for (int32_t i = inStart[size_t(node)]; i < inStart[size_t(node) + 1]; ++i) {
    const Half &half = in[size_t(i)];
    if (!ends(half, node, work))
      continue;
    chosen = &half;
    double ways = work.ways[size_t(half.node)];
    if (before < ways)
      break;
    before -= ways;
  }
  at = std::min(before / work.ways[size_t(chosen->node)], 1 - 1e-12);
  return chosen->arc;
}

void ShortestWays::addLoads(int32_t source, double amount, Work &work,
                            std::span<double> loads) const {
  work.through.assign(size_t(fabric.nodes), 0);
  for (size_t k = work.order.size(); k-- > 0;) {
    int32_t node = work.order[k];
    if (node == source)
      continue;
    double amountHere = work.through[size_t(node)] + (fabric.isRank(node) ? amount : 0);
    if (amountHere == 0)
      continue;
    double share = amountHere / work.ways[size_t(node)];
    for (int32_t i = inStart[size_t(node)]; i < inStart[size_t(node) + 1]; ++i) {
      const Half &half = in[size_t(i)];
      if (!ends(half, node, work))
        continue;
      double part = share * work.ways[size_t(half.node)];
      loads[size_t(half.arc)] += part;
      work.through[size_t(half.node)] += part;
    }
  }
}

__int128 ShortestWays::distanceToRanks(const Work &work) const {
  __int128 sum = 0;
  for (int32_t rank = 0; rank < fabric.ranks; ++rank) {
    if (work.distance[size_t(rank)] == unreachable)
      return -1;
    sum += work.distance[size_t(rank)];
  }
  return sum;
}

} // namespace ccl::model
