//===- MovingTrees.cpp ----------------------------------------------------===//
#include "passes/synthesis/solver/MovingTrees.h"

#include <algorithm>

namespace ccl::solver {

std::vector<int32_t> messages(const Network &network, int32_t root, bool up) {
  std::vector<int32_t> result(size_t(network.ranks()), -1);
  std::vector<int32_t> queue = {root};
  result[size_t(root)] = 0;
  for (size_t i = 0; i < queue.size() && queue.size() < result.size(); ++i)
    for (const Way &way : up ? network.in(queue[i]) : network.out(queue[i]))
      if (int32_t to = network.end(queue[i], way); result[size_t(to)] < 0) {
        result[size_t(to)] = result[size_t(queue[i])] + 1;
        queue.push_back(to);
      }
  return result;
}

MovingTrees::MovingTrees(const Network &network, const PackProblem &problem)
    : network(network), problem(problem), busy(size_t(network.limits()), 0),
      users(size_t(network.limits())) {
  findKinds();
  for (const PackProblem::Wanted &wanted : problem.trees) {
    trees.emplace_back(wanted, size_t(network.ranks()));
    trees.back().most = messages(network, wanted.root, wanted.up);
    for (int32_t &most : trees.back().most)
      most = problem.slack < 0 ? network.ranks() : most + problem.slack;
  }
}

void MovingTrees::findKinds() {
  for (bool up : {false, true})
    for (int32_t rank = 0; rank < network.representatives(); ++rank) {
      std::vector<int32_t> &starts = starting[up].emplace_back();
      std::span<const Way> ways = up ? network.in(rank) : network.out(rank);
      for (size_t i = 0; i < ways.size(); ++i)
        if (i == 0 || ways[i].kind != ways[i - 1].kind)
          starts.push_back(int32_t(i));
    }
}

double MovingTrees::us() const {
  return busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end());
}

Forest MovingTrees::forest() const {
  Forest result;
  for (const Growing &tree : trees)
    result.trees.push_back({tree.root, tree.up, tree.way});
  return result;
}

void MovingTrees::attach(User user, int32_t way) {
  Growing &tree = trees[size_t(user.tree)];
  const size_t rank = size_t(user.rank);
  tree.way[rank] = way;
  const Way &taken = wayOf(user);
  const int32_t parent = network.end(user.rank, taken);
  tree.parent[rank] = parent;
  tree.previous[rank] = -1;
  tree.next[rank] = tree.firstChild[size_t(parent)];
  if (tree.next[rank] >= 0)
    tree.previous[size_t(tree.next[rank])] = user.rank;
  tree.firstChild[size_t(parent)] = user.rank;
  for (const Use &use : network.uses(taken)) {
    busy[size_t(use.limit)] += use.weight;
    users[size_t(use.limit)].push_back(user);
  }
}

void MovingTrees::detach(User user) {
  Growing &tree = trees[size_t(user.tree)];
  const size_t rank = size_t(user.rank);
  for (const Use &use : network.uses(wayOf(user)))
    busy[size_t(use.limit)] -= use.weight;
  if (tree.previous[rank] >= 0)
    tree.next[size_t(tree.previous[rank])] = tree.next[rank];
  else
    tree.firstChild[size_t(tree.parent[rank])] = tree.next[rank];
  if (tree.next[rank] >= 0)
    tree.previous[size_t(tree.next[rank])] = tree.previous[rank];
}

template <typename Visit>
void MovingTrees::below(const Growing &tree, int32_t rank, Visit visit) {
  stack.assign(1, rank);
  while (!stack.empty()) {
    const int32_t at = stack.back();
    stack.pop_back();
    visit(at);
    for (int32_t c = tree.firstChild[size_t(at)]; c >= 0; c = tree.next[size_t(c)])
      stack.push_back(c);
  }
}

void MovingTrees::move(User user, int32_t way) {
  detach(user);
  attach(user, way);
  Growing &tree = trees[size_t(user.tree)];
  const size_t parent = size_t(tree.parent[size_t(user.rank)]);
  const int32_t deeper = tree.depth[parent] + 1 - tree.depth[size_t(user.rank)];
  if (deeper != 0)
    below(tree, user.rank, [&](int32_t rank) { tree.depth[size_t(rank)] += deeper; });
}

bool MovingTrees::fits(User user, const Way &way) {
  const Growing &tree = trees[size_t(user.tree)];
  const int32_t parent = network.end(user.rank, way);
  for (int32_t at = parent; at >= 0; at = tree.parent[size_t(at)])
    if (at == user.rank)
      return false;
  const int32_t deeper = tree.depth[size_t(parent)] + 1 - tree.depth[size_t(user.rank)];
  if (deeper <= 0 || problem.slack < 0)
    return true;
  bool low = true;
  below(tree, user.rank,
        [&](int32_t rank) { low &= tree.depth[size_t(rank)] + deeper <= tree.most[size_t(rank)]; });
  return low;
}

int32_t MovingTrees::firstThatFits(User user, int32_t first) {
  std::span<const Way> ways = choices(trees[size_t(user.tree)], user.rank);
  for (int32_t w = first; w < int32_t(ways.size()); ++w) {
    if (ways[size_t(w)].kind != ways[size_t(first)].kind)
      return -1;
    if (fits(user, ways[size_t(w)]))
      return w;
  }
  return -1;
}

void MovingTrees::uproot(size_t t) {
  Growing &tree = trees[t];
  for (int32_t rank = 0; rank < network.ranks(); ++rank)
    if (rank != tree.root)
      for (const Use &use : network.uses(wayOf({int32_t(t), rank})))
        busy[size_t(use.limit)] -= use.weight;
  Growing fresh({tree.root, tree.up}, size_t(network.ranks()));
  fresh.most = std::move(tree.most);
  tree = std::move(fresh);
}

double MovingTrees::weightOf(std::span<const Use> uses, int32_t limit) {
  for (const Use &use : uses)
    if (use.limit == limit)
      return use.weight;
  return 0;
}

bool MovingTrees::uses(User user, int32_t limit) const {
  const Growing &tree = trees[size_t(user.tree)];
  if (tree.way[size_t(user.rank)] < 0)
    return false; // of a tree that grows anew
  return weightOf(network.uses(wayOf(user)), limit) > 0;
}

std::pair<int32_t, int32_t> MovingTrees::overfull(User user, const Way &way, double most) const {
  std::span<const Use> now = network.uses(wayOf(user));
  int32_t count = 0, first = -1;
  for (const Use &use : network.uses(way)) {
    const double more = use.weight - weightOf(now, use.limit);
    if (more <= 0 || busy[size_t(use.limit)] + more <= most)
      continue;
    if (count++ == 0)
      first = use.limit;
    else
      return {2, first};
  }
  return {count, first};
}

} // namespace ccl::solver
