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
  outAt.assign(fabric.arcs.size(), -1);
  inAt.assign(fabric.arcs.size(), -1);
  std::vector<int32_t> nextOut = outStart, nextIn = inStart;
  for (size_t i = 0; i < fabric.arcs.size(); ++i) {
    const Arc &arc = fabric.arcs[i];
    if (arc.capacity <= 0)
      continue;
    outAt[i] = nextOut[size_t(arc.src)]++;
    inAt[i] = nextIn[size_t(arc.dst)]++;
    out[size_t(outAt[i])] = {arc.dst, int32_t(i), 1};
    in[size_t(inAt[i])] = {arc.src, int32_t(i), 1};
  }
}

void ShortestWays::setPrices(std::span<const int64_t> prices) {
  for (Half &half : out)
    half.price = prices[size_t(half.arc)];
  for (Half &half : in)
    half.price = prices[size_t(half.arc)];
}

void ShortestWays::setPrice(int32_t arc, int64_t price) {
  if (outAt[size_t(arc)] < 0)
    return;
  out[size_t(outAt[size_t(arc)])].price = price;
  in[size_t(inAt[size_t(arc)])].price = price;
}

void ShortestWays::run(int32_t source, Work &work) const {
  work.distance.assign(size_t(fabric.nodes), unreachable);
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
      int64_t further = distance + out[size_t(i)].price;
      int64_t &known = work.distance[size_t(out[size_t(i)].node)];
      if (further < known) {
        known = further;
        work.heap.push_back({further, out[size_t(i)].node});
        std::push_heap(work.heap.begin(), work.heap.end(), std::greater<>());
      }
    }
  }
}

void ShortestWays::addLoads(int32_t source, double amount, Work &work, std::span<double> loads,
                            std::vector<int32_t> *touched) const {
  work.ways.assign(size_t(fabric.nodes), 0);
  work.through.assign(size_t(fabric.nodes), 0);
  work.ways[size_t(source)] = 1;
  for (int32_t node : work.order)
    for (int32_t i = inStart[size_t(node)]; i < inStart[size_t(node) + 1]; ++i) {
      const Half &half = in[size_t(i)];
      int64_t before = work.distance[size_t(half.node)];
      if (before != unreachable && before + half.price == work.distance[size_t(node)])
        work.ways[size_t(node)] += work.ways[size_t(half.node)];
    }
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
      int64_t before = work.distance[size_t(half.node)];
      if (before == unreachable || before + half.price != work.distance[size_t(node)])
        continue;
      double part = share * work.ways[size_t(half.node)];
      loads[size_t(half.arc)] += part;
      if (touched)
        touched->push_back(half.arc);
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
