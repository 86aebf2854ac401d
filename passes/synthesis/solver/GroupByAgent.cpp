//===- GroupByAgent.cpp -------------------------------------------------------------===//
#include "passes/synthesis/solver/GroupByAgent.h"

#include <algorithm>
#include <deque>
#include <map>

namespace ccl::solver {
namespace {

class Grouping {
public:
  Grouping(const Network &network, const Forest &forest, const OrderProblem &problem,
           std::span<const Hop> hops)
      : network(network), forest(forest), problem(problem), hops(hops),
        missing(forest.trees.size() * size_t(network.ranks()), 0), next(missing.size()),
        behind(forest.trees.size()), unfinished(forest.trees.size(), 0) {}

  std::vector<Hop> run() {
    connect();
    toNextUp(0);
    std::vector<Hop> result;
    result.reserve(hops.size());
    while (result.size() < hops.size()) {
      const size_t before = result.size();
      for (std::deque<size_t> *queue : queues)
        drain(*queue, result);
      if (result.size() == before) // cannot be: `hops` is such an order
        return std::vector<Hop>(hops.begin(), hops.end());
    }
    return result;
  }

private:
  size_t place(size_t tree, int32_t rank) const {
    return tree * size_t(network.ranks()) + size_t(rank);
  }
  size_t place(const Hop &hop) const { return place(size_t(hop.tree), hop.rank); }

  void connect() {
    for (size_t i = 0; i < hops.size(); ++i) {
      const Hop &hop = hops[i];
      const Tree &tree = forest.trees[size_t(hop.tree)];
      const int32_t parent = Forest::parent(network, tree, hop.rank);
      const Way &way = Forest::way(network, tree, hop.rank);
      const int32_t sender = network.isSymmetric() ? 0 : tree.up ? hop.rank : parent;
      std::deque<size_t> &queue =
          agents[{sender, way.exit * problem.lanes + hop.tree % problem.lanes}];
      if (queue.empty())
        queues.push_back(&queue);
      queue.push_back(i);
      ++unfinished[size_t(hop.tree)];
      // In an up tree the parent's hop needs this one; in a down tree this one the parent's.
      if (parent == tree.root)
        continue;
      const size_t needs = place(size_t(hop.tree), tree.up ? parent : hop.rank);
      const size_t gives = place(size_t(hop.tree), tree.up ? hop.rank : parent);
      ++missing[needs];
      next[gives].push_back(needs);
    }
    for (size_t i = 0; i < hops.size(); ++i) {
      const size_t tree = size_t(hops[i].tree);
      if (problem.after.empty() || problem.after[tree] < 0 ||
          Forest::parent(network, forest.trees[tree], hops[i].rank) != forest.trees[tree].root)
        continue;
      ++missing[place(hops[i])];
      behind[size_t(problem.after[tree])].push_back(place(hops[i]));
    }
  }

  bool isUp(size_t hop) const { return forest.trees[size_t(hops[hop].tree)].up; }
  void toNextUp(size_t from) {
    for (nextUp = from; nextUp < hops.size() && !isUp(nextUp);)
      ++nextUp;
  }
  bool isReady(size_t hop) const {
    return missing[place(hops[hop])] == 0 && (!isUp(hop) || hop == nextUp);
  }

  void drain(std::deque<size_t> &queue, std::vector<Hop> &result) {
    for (; !queue.empty() && isReady(queue.front()); queue.pop_front()) {
      const Hop &hop = hops[queue.front()];
      if (isUp(queue.front()))
        toNextUp(queue.front() + 1);
      result.push_back(hop);
      for (size_t needs : next[place(hop)])
        --missing[needs];
      if (--unfinished[size_t(hop.tree)] == 0)
        for (size_t needs : behind[size_t(hop.tree)])
          --missing[needs];
    }
  }

  const Network &network;
  const Forest &forest;
  const OrderProblem &problem;
  std::span<const Hop> hops;
  std::map<std::pair<int32_t, int32_t>, std::deque<size_t>> agents; ///< hops, in order
  std::vector<std::deque<size_t> *> queues;                         ///< by first use
  std::vector<int32_t> missing;            ///< by place: hops that have to come before
  std::vector<std::vector<size_t>> next;   ///< by place: those that need it
  std::vector<std::vector<size_t>> behind; ///< by tree: those that need all of it
  std::vector<int32_t> unfinished;         ///< by tree: hops
  size_t nextUp = 0;
};

} // namespace

std::vector<Hop> groupByAgent(const Network &network, const Forest &forest,
                              const OrderProblem &problem, std::span<const Hop> hops) {
  return Grouping(network, forest, problem, hops).run();
}

} // namespace ccl::solver
