//===- Paths.cpp ----------------------------------------------------------===//
#include "passes/synthesis/solver/Paths.h"

#include "dialect/bound/Flow.h"
#include "passes/synthesis/solver/MovingTrees.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace ccl::solver {
namespace {

/// Ranks, then two ends of each limit, then a sink behind all ranks. Messages are chains of limits.
/// Where chunks go up, everything is looked at the other way round.
class PathFlow {
public:
  PathFlow(const Network &network, const PathProblem &problem, const PackOptions &options)
      : network(network), problem(problem), options(options), ranks(network.ranks()),
        sink(ranks + 2 * network.limits()), graph(sink + 1), leaving(size_t(sink)),
        distance(messages(network, problem.root, problem.up)) {
    addLimits();
    for (int32_t rank = 0; rank < ranks; ++rank)
      if (rank != problem.root)
        addMessages(rank);
    for (int32_t rank = 0; rank < ranks; ++rank)
      if (rank != problem.root)
        addArc(rank, sink, problem.chunks);
  }

  Forest paths() {
    setCapacities(leastTime());
    graph.run(problem.root, sink);
    std::vector<int64_t> flow;
    for (size_t arc = 0; arc < ends.size(); ++arc)
      flow.push_back(graph.flow(int32_t(arc)));
    std::vector<std::vector<Tree>> found;
    found.resize(size_t(ranks));
    while (takePath(flow, found)) {
    }
    Forest forest;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      std::vector<Tree> &mine = found[size_t(rank)];
      if (rank == problem.root)
        mine.assign(size_t(problem.chunks), startOf(rank));
      forest.trees.insert(forest.trees.end(), mine.begin(), mine.end());
    }
    return forest;
  }

private:
  std::span<const Way> choices(int32_t rank) const {
    return problem.up ? network.out(rank) : network.in(rank);
  }
  int32_t entry(int32_t limit) const { return ranks + 2 * limit; }

  void addArc(int32_t src, int32_t dst, int64_t capacity) {
    leaving[size_t(src)].push_back(int32_t(ends.size()));
    ends.push_back(dst);
    graph.addArc(src, dst, capacity);
  }

  void addLimits() {
    weights = network.limitWeights();
    for (int32_t limit = 0; limit < network.limits(); ++limit)
      addArc(entry(limit), entry(limit) + 1, 0);
  }

  void addMessages(int32_t rank) {
    for (const Way &way : choices(rank)) {
      const int32_t from = network.end(rank, way);
      if (problem.shortest && distance[size_t(from)] + 1 != distance[size_t(rank)])
        continue;
      int32_t at = from;
      for (int32_t i = 0; i < way.numUses; ++i) {
        const int32_t limit = network.uses(way)[size_t(problem.up ? way.numUses - 1 - i : i)].limit;
        connect(at, entry(limit));
        at = entry(limit) + 1;
      }
      connect(at, rank);
    }
  }

  void connect(int32_t src, int32_t dst) {
    if (known.insert({src, dst}).second)
      addArc(src, dst, problem.chunks * int64_t(ranks));
  }

  void setCapacities(double time) {
    for (size_t limit = 0; limit < weights.size(); ++limit)
      if (weights[limit] > 0)
        graph.setCapacity(int32_t(limit), int64_t(std::floor(time / weights[limit] * (1 + 1e-9))));
  }

  bool isEnough(double time) {
    setCapacities(time);
    const int64_t all = int64_t(problem.chunks) * (ranks - 1);
    return graph.run(problem.root, sink, all) == all;
  }

  double leastTime() {
    double low = problem.goal, high = problem.goal;
    if (high <= 0)
      high = *std::max_element(weights.begin(), weights.end());
    while (!isEnough(high))
      low = high, high *= 1.25;
    std::vector<double> distinct = weights, times = {high};
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (double weight : distinct)
      for (double chunks = std::ceil(low / weight); weight > 0 && chunks * weight < high; ++chunks)
        times.push_back(chunks * weight);
    std::sort(times.begin(), times.end());
    return *std::partition_point(times.begin(), times.end() - 1,
                                 [&](double time) { return options.isOver() || !isEnough(time); });
  }

  Tree startOf(int32_t leaf) const {
    return {problem.root, problem.up, std::vector<int32_t>(size_t(ranks), -1), leaf};
  }

  /// Moves one chunk of the flow, the shortest way, to the trees of its rank.
  bool takePath(std::vector<int64_t> &flow, std::vector<std::vector<Tree>> &found) {
    std::vector<int32_t> by(size_t(sink) + 1, -1); // the arc that a node was reached by
    std::vector<int32_t> queue = {problem.root}, from(size_t(sink) + 1, -1);
    for (size_t i = 0; i < queue.size() && by[size_t(sink)] < 0; ++i)
      for (int32_t arc : leaving[size_t(queue[i])]) {
        const int32_t to = ends[size_t(arc)];
        if (flow[size_t(arc)] <= 0 || by[size_t(to)] >= 0 || to == problem.root)
          continue;
        by[size_t(to)] = arc, from[size_t(to)] = queue[i];
        queue.push_back(to);
      }
    if (by[size_t(sink)] < 0)
      return false;
    std::vector<int32_t> nodes = {sink}; // of the path, the last first
    while (nodes.back() != problem.root) {
      --flow[size_t(by[size_t(nodes.back())])];
      nodes.push_back(from[size_t(nodes.back())]);
    }
    const int32_t leaf = nodes[1];
    found[size_t(leaf)].push_back(treeOf(leaf, nodes));
    return true;
  }

  Tree treeOf(int32_t leaf, const std::vector<int32_t> &nodes) const {
    Tree tree = startOf(leaf);
    std::vector<int32_t> limits; // of the message to `rank`
    int32_t rank = leaf;
    for (size_t i = 2; i < nodes.size(); ++i) {
      if (nodes[i] >= ranks) {
        limits.push_back((nodes[i] - ranks) / 2);
        continue;
      }
      tree.ways[size_t(rank)] = wayFrom(nodes[i], rank, limits);
      if (tree.ways[size_t(rank)] < 0)
        return shortestTo(leaf);
      limits.clear();
      rank = nodes[i];
    }
    return tree;
  }

  /// The way over these limits, or another one, or -1.
  int32_t wayFrom(int32_t parent, int32_t rank, const std::vector<int32_t> &limits) const {
    std::span<const Way> ways = choices(rank);
    int32_t any = -1;
    for (size_t w = 0; w < ways.size(); ++w) {
      if (network.end(rank, ways[w]) != parent)
        continue;
      std::span<const Use> uses = network.uses(ways[w]);
      any = int32_t(w);
      if (2 * uses.size() == limits.size() &&
          std::all_of(uses.begin(), uses.end(), [&](const Use &use) {
            return std::find(limits.begin(), limits.end(), use.limit) != limits.end();
          }))
        break;
    }
    return any;
  }

  Tree shortestTo(int32_t leaf) const {
    Tree tree = startOf(leaf);
    for (int32_t rank = leaf; rank != problem.root;) {
      std::span<const Way> ways = choices(rank);
      auto way = std::find_if(ways.begin(), ways.end(), [&](const Way &w) {
        return distance[size_t(network.end(rank, w))] + 1 == distance[size_t(rank)];
      });
      tree.ways[size_t(rank)] = int32_t(way - ways.begin());
      rank = network.end(rank, *way);
    }
    return tree;
  }

  const Network &network;
  const PathProblem &problem;
  const PackOptions &options;
  const int32_t ranks, sink;
  model::FlowGraph graph;                    ///< the arcs of limits first
  std::vector<int32_t> ends;                 ///< by arc
  std::vector<std::vector<int32_t>> leaving; ///< by node
  std::vector<double> weights;               ///< by limit
  std::vector<int32_t> distance;             ///< messages from the root
  std::set<std::pair<int32_t, int32_t>> known;
};

} // namespace

std::string PathProblem::check(const Network &network) const {
  if (chunks < 1)
    return fmt::format("{} chunks: there has to be one", chunks);
  if (network.isSymmetric())
    return "paths of one root are looked for without shifts";
  PackProblem reach;
  reach.trees.push_back({root, up});
  return reach.check(network);
}

Forest packPaths(const Network &network, const PathProblem &problem, const PackOptions &options) {
  return PathFlow(network, problem, options).paths();
}

} // namespace ccl::solver
