//===- Forest.cpp ---------------------------------------------------------===//
#include "passes/synthesis/solver/Forest.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::solver {
namespace {

std::span<const Way> choices(const Network &network, const Tree &tree, int32_t rank) {
  return tree.up ? network.out(rank) : network.in(rank);
}

/// Depths of all ranks, or what is wrong.
std::string descend(const Network &network, const Tree &tree, Measure &measure) {
  const size_t ranks = size_t(network.ranks());
  if (tree.ways.size() != ranks || tree.root < 0 || size_t(tree.root) >= ranks)
    return "not a tree of these ranks";
  std::vector<int32_t> depth(ranks, -1);
  std::vector<double> latency(ranks, 0);
  std::vector<int32_t> path;
  depth[size_t(tree.root)] = 0;
  const bool isPath = tree.leaf >= 0;
  if (isPath && size_t(tree.leaf) >= ranks)
    return "a path to no rank";
  for (int32_t rank = isPath ? tree.leaf : 0; rank < (isPath ? tree.leaf + 1 : network.ranks());
       ++rank) {
    path.clear();
    for (int32_t at = rank; depth[size_t(at)] < 0; at = Forest::parent(network, tree, at)) {
      const int32_t way = tree.ways[size_t(at)];
      if (way < 0 || size_t(way) >= choices(network, tree, at).size())
        return fmt::format("rank {} has no parent", at);
      path.push_back(at);
      if (path.size() > ranks)
        return fmt::format("rank {} is in a circle", rank);
    }
    for (size_t i = path.size(); i-- > 0;) {
      const size_t at = size_t(path[i]);
      const size_t parent = size_t(Forest::parent(network, tree, path[i]));
      const Way &way = Forest::way(network, tree, path[i]);
      depth[at] = depth[parent] + 1;
      latency[at] = latency[parent] + way.latency;
    }
  }
  if (tree.ways[size_t(tree.root)] >= 0)
    return "the root has a parent";
  for (size_t rank = 0; rank < ranks; ++rank)
    if (tree.has(int32_t(rank)) && depth[rank] < 0)
      return fmt::format("rank {} is beside the path", rank);
  measure.height = std::max(measure.height, *std::max_element(depth.begin(), depth.end()));
  measure.latency = std::max(measure.latency, *std::max_element(latency.begin(), latency.end()));
  return "";
}

} // namespace

const Way &Forest::way(const Network &network, const Tree &tree, int32_t rank) {
  return choices(network, tree, rank)[size_t(tree.ways[size_t(rank)])];
}

int32_t Forest::parent(const Network &network, const Tree &tree, int32_t rank) {
  return tree.has(rank) ? network.end(rank, way(network, tree, rank)) : -1;
}

Measure measure(const Network &network, const Forest &forest) {
  Measure result;
  result.busy.assign(size_t(network.limits()), 0);
  for (size_t t = 0; t < forest.trees.size(); ++t) {
    const Tree &tree = forest.trees[t];
    if (std::string wrong = descend(network, tree, result); !wrong.empty()) {
      result.error = fmt::format("tree {}: {}", t, wrong);
      return result;
    }
    for (int32_t rank = 0; rank < network.ranks(); ++rank)
      if (tree.has(rank))
        for (const Use &use : network.uses(Forest::way(network, tree, rank)))
          result.busy[size_t(use.limit)] += use.weight;
  }
  for (int32_t limit = 0; limit < network.limits(); ++limit)
    if (result.busiest < 0 || result.busy[size_t(limit)] > result.us())
      result.busiest = limit;
  return result;
}

} // namespace ccl::solver
