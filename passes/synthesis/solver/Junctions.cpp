//===- Junctions.cpp ------------------------------------------------------===//
#include "passes/synthesis/solver/Junctions.h"

#include "dialect/bound/Classes.h"

#include <algorithm>

namespace ccl::solver {

std::optional<Junctions> findJunctions(const Network &network, bool up) {
  const int32_t ranks = network.ranks();
  // Ranks, then both ends of each limit.
  model::Classes ends(size_t(ranks) + 2 * size_t(network.limits()));
  auto begin = [&](int32_t limit) { return ranks + 2 * limit; };
  std::vector<bool> isUsed(size_t(network.limits()), false);
  for (int32_t rank = 0; rank < ranks; ++rank)
    for (const Way &way : network.out(rank)) {
      int32_t at = rank;
      for (const Use &use : network.uses(way)) {
        isUsed[size_t(use.limit)] = true;
        ends.join(at, begin(use.limit));
        at = begin(use.limit) + 1;
      }
      ends.join(at, network.end(rank, way));
    }
  std::vector<int32_t> number;
  Junctions result;
  result.nodes = ends.number(number);
  for (int32_t rank = 0; rank < ranks; ++rank)
    if (number[size_t(rank)] != rank)
      return std::nullopt;
  for (int32_t limit = 0; limit < network.limits(); ++limit) {
    const int32_t src = number[size_t(begin(limit))], dst = number[size_t(begin(limit)) + 1];
    if (!isUsed[size_t(limit)])
      continue;
    if (src == dst)
      return std::nullopt;
    result.links.push_back({up ? dst : src, up ? src : dst, limit});
  }
  return result;
}

namespace {

class Splitter {
public:
  Splitter(const Junctions &junctions, const std::vector<int64_t> &capacities, int32_t ranks,
           int32_t root, int64_t count, const std::function<bool()> &isOver)
      : ranks(ranks), root(root), count(count), isOver(isOver), graph(junctions.nodes) {
    for (size_t i = 0; i < junctions.links.size(); ++i)
      add(junctions.links[i].src, junctions.links[i].dst, std::min(capacities[i], count));
    for (int32_t rank = 0; rank < ranks; ++rank)
      if (rank != root)
        sinks.push_back(rank);
  }

  std::optional<RankLinks> run(int32_t nodes) {
    for (int32_t node = ranks; node < nodes; ++node)
      if (!remove(node))
        return std::nullopt;
    RankLinks result;
    for (const auto &[ends, arc] : arcs)
      if (graph.capacity(arc) > 0)
        result[ends] = graph.capacity(arc);
    return result;
  }

private:
  int64_t capacity(int32_t src, int32_t dst) const {
    auto found = arcs.find({src, dst});
    return found == arcs.end() ? 0 : graph.capacity(found->second);
  }

  void add(int32_t src, int32_t dst, int64_t more) {
    if (src == dst)
      return;
    auto [entry, isNew] = arcs.try_emplace({src, dst}, int32_t(arcs.size()));
    if (isNew)
      graph.addArc(src, dst, more);
    else
      graph.setCapacity(entry->second, graph.capacity(entry->second) + more);
  }

  bool holds() {
    for (size_t i = 0; i < sinks.size(); ++i)
      if (graph.run(root, sinks[i], count) < count) {
        std::rotate(sinks.begin(), sinks.begin() + int64_t(i), sinks.begin() + int64_t(i) + 1);
        return false;
      }
    return true;
  }

  void splitOne(int32_t from, int32_t node, int32_t to, int64_t amount) {
    add(from, node, -amount);
    add(node, to, -amount);
    add(from, to, amount);
  }

  /// As evenly as possible, so that no rank is far behind another.
  bool remove(int32_t node) {
    std::vector<int32_t> before, after;
    for (const auto &[ends, arc] : arcs) {
      if (ends.second == node)
        before.push_back(ends.first);
      if (ends.first == node)
        after.push_back(ends.second);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < after.size(); ++i)
        for (size_t j = 0; j < before.size(); ++j) {
          const int32_t to = after[i], from = before[(i + j + 1) % before.size()];
          if (from == to || capacity(from, node) == 0 || capacity(node, to) == 0)
            continue;
          if (isOver())
            return false;
          splitOne(from, node, to, 1);
          if (holds())
            changed = true;
          else
            splitOne(from, node, to, -1);
        }
    }
    if (before.empty() && after.empty())
      return true;
    // What is left is not needed, if nothing went wrong.
    for (int32_t from : before)
      add(from, node, -capacity(from, node));
    for (int32_t to : after)
      add(node, to, -capacity(node, to));
    return holds();
  }

  const int32_t ranks, root;
  const int64_t count;
  const std::function<bool()> &isOver;
  model::FlowGraph graph;
  RankLinks arcs; ///< their numbers
  std::vector<int32_t> sinks;
};

} // namespace

std::optional<RankLinks> splitOff(const Junctions &junctions, std::vector<int64_t> capacities,
                                  int32_t ranks, int32_t root, int64_t count,
                                  const std::function<bool()> &isOver) {
  return Splitter(junctions, capacities, ranks, root, count, isOver).run(junctions.nodes);
}

} // namespace ccl::solver
