//===- Arborescences.cpp --------------------------------------------------===//
#include "passes/synthesis/solver/Arborescences.h"

#include "dialect/bound/Flow.h"

#include <algorithm>
#include <cmath>

namespace ccl::solver {
namespace {

class Arborescences {
public:
  Arborescences(const Network &network, const PackProblem &problem, const PackOptions &options)
      : network(network), root(problem.trees.front().root), up(problem.trees.front().up),
        count(int64_t(problem.trees.size())), options(options), graph(network.ranks()) {
    for (int32_t rank = 0; rank < network.ranks(); ++rank) {
      first.push_back(int32_t(weights.size()));
      for (const Way &way : leaving(rank)) {
        graph.addArc(rank, network.end(rank, way), 0);
        weights.push_back(network.uses(way).front().weight);
      }
    }
  }

  static bool fits(const Network &network, const PackProblem &problem) {
    if (network.isSymmetric() || problem.trees.empty())
      return false;
    for (const PackProblem::Wanted &wanted : problem.trees)
      if (wanted.root != problem.trees.front().root || wanted.up != problem.trees.front().up)
        return false;
    std::vector<bool> isTaken(size_t(network.limits()), false);
    for (int32_t rank = 0; rank < network.ranks(); ++rank)
      for (const Way &way : network.out(rank)) {
        const int32_t limit = network.uses(way).front().limit;
        if (way.numUses != 1 || isTaken[size_t(limit)])
          return false;
        isTaken[size_t(limit)] = true;
      }
    return true;
  }

  /// The least time from `from` on, and below `below`, that is enough, or 0.
  double leastTime(double from, double below) {
    std::vector<double> distinct = weights, times = {from};
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (double weight : distinct)
      for (double chunks = std::ceil(from / weight); chunks * weight < below; ++chunks)
        times.push_back(chunks * weight);
    std::sort(times.begin(), times.end());
    auto found = std::partition_point(times.begin(), times.end(),
                                      [&](double time) { return !isEnough(time); });
    return found == times.end() ? 0 : *found;
  }

  std::optional<Forest> trees(double time) {
    setCapacities(time);
    Forest forest;
    for (int64_t left = count; left-- > 0;) {
      Tree tree{root, up, std::vector<int32_t>(size_t(network.ranks()), -1)};
      if (!grow(tree, left))
        return std::nullopt;
      forest.trees.push_back(std::move(tree));
    }
    return forest;
  }

private:
  std::span<const Way> leaving(int32_t rank) const {
    return up ? network.in(rank) : network.out(rank);
  }
  bool isOver() const {
    return std::chrono::steady_clock::now() > options.deadline ||
           (options.isCancelled && options.isCancelled());
  }

  void setCapacities(double time) {
    for (size_t arc = 0; arc < weights.size(); ++arc)
      graph.setCapacity(int32_t(arc), int64_t(std::floor(time / weights[arc] * (1 + 1e-9))));
  }

  bool isEnough(double time) {
    setCapacities(time);
    for (int32_t rank = 0; rank < network.ranks(); ++rank)
      if (rank != root && !isOver() && graph.run(root, rank, count) < count)
        return false;
    return true;
  }

  /// One tree that leaves room for `left` others.
  bool grow(Tree &tree, int64_t left) {
    std::vector<int32_t> reached = {root};
    std::vector<bool> isReached(size_t(network.ranks()), false);
    isReached[size_t(root)] = true;
    for (size_t i = 0; i < reached.size() && !isOver(); ++i) {
      std::span<const Way> ways = leaving(reached[i]);
      for (size_t w = 0; w < ways.size(); ++w) {
        const int32_t to = network.end(reached[i], ways[w]);
        const int32_t arc = first[size_t(reached[i])] + int32_t(w);
        const int64_t capacity = graph.capacity(arc);
        if (isReached[size_t(to)] || capacity == 0)
          continue;
        graph.setCapacity(arc, capacity - 1);
        if (left > 0 && graph.run(root, to, left) < left) {
          graph.setCapacity(arc, capacity); // and for this tree that will stay so
          continue;
        }
        isReached[size_t(to)] = true;
        tree.ways[size_t(to)] = ways[w].mate;
        reached.push_back(to);
      }
    }
    return reached.size() == isReached.size();
  }

  const Network &network;
  const int32_t root;
  const bool up;
  const int64_t count;
  const PackOptions &options;
  model::FlowGraph graph;     ///< arcs: ways that leave (up: enter), by rank
  std::vector<int32_t> first; ///< by rank, its arcs
  std::vector<double> weights;
};

} // namespace

std::optional<Forest> packArborescences(const Network &network, const PackProblem &problem,
                                        double below, const PackOptions &options) {
  if (!Arborescences::fits(network, problem))
    return std::nullopt;
  Arborescences search(network, problem, options);
  const double time = search.leastTime(problem.goal, below * (1 - 1e-9));
  return time > 0 ? search.trees(time) : std::nullopt;
}

} // namespace ccl::solver
