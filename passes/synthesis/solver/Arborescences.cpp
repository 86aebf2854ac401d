//===- Arborescences.cpp --------------------------------------------------===//
#include "passes/synthesis/solver/Arborescences.h"

#include "passes/synthesis/solver/Junctions.h"

#include <algorithm>
#include <cmath>

namespace ccl::solver {
namespace {

constexpr int32_t manyRanks = 64, mostRanks = 256;

class Arborescences {
public:
  Arborescences(const Network &network, const PackProblem &problem, const PackOptions &options,
                Junctions switched)
      : network(network), root(problem.trees.front().root), up(problem.trees.front().up),
        count(int64_t(problem.trees.size())), options(options), junctions(std::move(switched)),
        fabric(junctions.nodes), weights(junctions.links.size(), 0),
        leaving(size_t(network.ranks())) {
    const std::vector<double> byLimit = network.limitWeights();
    for (size_t i = 0; i < weights.size(); ++i) {
      fabric.addArc(junctions.links[i].src, junctions.links[i].dst, 0);
      weights[i] = byLimit[size_t(junctions.links[i].limit)];
    }
  }

  static bool fits(const Network &network, const PackProblem &problem) {
    if (network.isSymmetric() || problem.trees.empty() || network.ranks() > mostRanks)
      return false;
    const PackProblem::Wanted &first = problem.trees.front();
    return std::all_of(problem.trees.begin(), problem.trees.end(), [&](const auto &wanted) {
      return wanted.root == first.root && wanted.up == first.up;
    });
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
    std::optional<RankLinks> links = splitOff(junctions, capacities(time), network.ranks(), root,
                                              count, [this] { return options.isOver(); });
    if (!links)
      return std::nullopt;
    model::FlowGraph graph(network.ranks());
    for (const auto &[ends, capacity] : *links)
      leaving[size_t(ends.first)].push_back(
          {ends.second, graph.addArc(ends.first, ends.second, capacity)});
    Forest forest;
    for (int64_t left = count; left-- > 0;) {
      Tree tree{root, up, std::vector<int32_t>(size_t(network.ranks()), -1)};
      if (!grow(graph, tree, left))
        return std::nullopt;
      forest.trees.push_back(std::move(tree));
    }
    return forest;
  }

private:
  struct Link {
    int32_t to, arc;
  };

  std::vector<int64_t> capacities(double time) const {
    std::vector<int64_t> result;
    for (double weight : weights)
      result.push_back(int64_t(std::floor(time / weight * (1 + 1e-9))));
    return result;
  }

  bool isEnough(double time) {
    const std::vector<int64_t> chunks = capacities(time);
    for (size_t arc = 0; arc < chunks.size(); ++arc)
      fabric.setCapacity(int32_t(arc), chunks[arc]);
    for (int32_t rank = 0; rank < network.ranks(); ++rank)
      if (rank != root && !options.isOver() && fabric.run(root, rank, count) < count)
        return false;
    return true;
  }

  /// The way that a message between two ranks takes, or -1.
  int32_t wayOf(int32_t from, int32_t to) const {
    std::span<const Way> ways = up ? network.out(to) : network.in(to);
    for (size_t w = 0; w < ways.size(); ++w)
      if (network.end(to, ways[w]) == from)
        return int32_t(w);
    return -1;
  }

  /// One tree that leaves room for `left` others.
  bool grow(model::FlowGraph &graph, Tree &tree, int64_t left) {
    std::vector<int32_t> reached = {root};
    std::vector<bool> isReached(size_t(network.ranks()), false);
    isReached[size_t(root)] = true;
    for (size_t i = 0; i < reached.size() && !options.isOver(); ++i)
      for (const auto &[to, arc] : leaving[size_t(reached[i])]) {
        const int64_t capacity = graph.capacity(arc);
        if (isReached[size_t(to)] || capacity == 0)
          continue;
        const int32_t way = wayOf(reached[i], to);
        if (way < 0)
          continue;
        graph.setCapacity(arc, capacity - 1);
        if (left > 0 && graph.run(root, to, left) < left) {
          graph.setCapacity(arc, capacity); // and for this tree that will stay so
          continue;
        }
        isReached[size_t(to)] = true;
        tree.ways[size_t(to)] = way;
        reached.push_back(to);
      }
    return reached.size() == isReached.size();
  }

  const Network &network;
  const int32_t root;
  const bool up;
  const int64_t count;
  const PackOptions &options;
  const Junctions junctions;
  model::FlowGraph fabric;                ///< arcs: links of the junctions
  std::vector<double> weights;            ///< by link
  std::vector<std::vector<Link>> leaving; ///< between ranks
};

} // namespace

std::optional<Forest> packArborescences(const Network &network, const PackProblem &problem,
                                        double below, const PackOptions &options) {
  if (!Arborescences::fits(network, problem))
    return std::nullopt;
  std::optional<Junctions> junctions = findJunctions(network, problem.trees.front().up);
  if (!junctions)
    return std::nullopt;
  // To do without switches takes long where there are many, and makes trees high.
  if (problem.slack >= 0 && network.ranks() > manyRanks && junctions->hasSwitches(network.ranks()))
    return std::nullopt;
  Arborescences search(network, problem, options, std::move(*junctions));
  const double time = search.leastTime(problem.goal, below * (1 - 1e-9));
  return time > 0 ? search.trees(time) : std::nullopt;
}

} // namespace ccl::solver
