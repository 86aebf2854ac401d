//===- Pack.cpp -----------------------------------------------------------===//
#include "passes/synthesis/solver/Pack.h"

#include "passes/synthesis/solver/Arborescences.h"
#include "passes/synthesis/solver/MovingTrees.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <random>
#include <set>

namespace ccl::solver {
namespace {

constexpr double epsilon = 1e-9; // relative: weights are quotients of bandwidths

class Packer : private MovingTrees {
public:
  Packer(const Network &network, const PackProblem &problem, const PackOptions &options)
      : MovingTrees(network, problem), options(options), random(options.seed),
        unit(problem.goal > 0 ? problem.goal : guess()) {}

  Forest run() {
    Forest best;
    double bestUs = std::numeric_limits<double>::infinity();
    auto keep = [&] {
      exchange();
      const bool better = us() < bestUs * (1 - epsilon);
      if (better)
        bestUs = us(), best = flattened();
      return better;
    };
    for (size_t t = 0; t < trees.size(); ++t) {
      // What the trees that are still to come will do, too.
      scale = double(trees.size()) / double(t + 1);
      grow(t);
    }
    scale = 1;
    keep();
    int32_t idle = 0; // rounds
    for (int32_t round = 0; round < options.rounds && !isGood(bestUs) && !options.isOver();
         ++round) {
      steepness = 8 * std::pow(1.25, round % 10);
      std::vector<size_t> order(trees.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      for (size_t t : order) {
        uproot(t);
        grow(t);
      }
      idle = keep() ? 0 : idle + 1;
      if (idle == maxIdle)
        break;
    }
    return best;
  }

private:
  /// Rank `rank` of a tree takes another way.
  struct Exchange {
    User user;
    int32_t way;
    int32_t before; ///< index of the exchange that this one makes room for, or -1
    int32_t limit;  ///< that gets room
  };

  bool isGood(double time) const { return time <= problem.goal * (1 + epsilon); }

  /// What a limit does about, if nothing better is known: as much as the mean.
  double guess() const {
    double sum = 0;
    for (const Growing &tree : trees)
      for (int32_t rank = 0; rank < network.ranks(); ++rank) {
        double least = std::numeric_limits<double>::infinity();
        for (const Way &way : choices(tree, rank)) {
          double work = 0;
          for (const Use &use : network.uses(way))
            work += use.weight;
          least = std::min(least, work);
        }
        sum += std::isinf(least) ? 0 : least;
      }
    return sum > 0 ? sum / double(network.limits()) : 1;
  }

  // Growth.

  /// The ways of one kind that leave (up: enter) a rank of the tree; they have one price.
  struct Candidate {
    double key;
    int32_t depth, from, way; ///< way: the first that may lead to a rank that is not reached
    bool operator<(const Candidate &other) const { // of a max-heap
      return std::tie(key, depth, from, way) >
             std::tie(other.key, other.depth, other.from, other.way);
    }
  };

  /// What the limits of a way ask for it: the more, the busier they are.
  double price(const Way &way) const {
    double result = 0;
    for (const Use &use : network.uses(way)) {
      const double load = (busy[size_t(use.limit)] * scale + use.weight) / unit;
      result += use.weight / unit * std::exp(steepness * std::min(load - 1, 2.0));
    }
    return result;
  }

  static double longest(std::span<const Use> uses) {
    double result = 0;
    for (const Use &use : uses)
      result = std::max(result, use.weight);
    return result;
  }

  /// Goes on to a way that reaches something new, or says that there is none of the kind.
  bool advance(const Growing &tree, Candidate &candidate) const {
    std::span<const Way> ways = leaving(tree, candidate.from);
    const int32_t kind = ways[size_t(candidate.way)].kind;
    for (; candidate.way < int32_t(ways.size()); ++candidate.way) {
      const Way &way = ways[size_t(candidate.way)];
      if (way.kind != kind)
        return false;
      const size_t to = size_t(network.end(candidate.from, way));
      if (tree.depth[to] < 0 && candidate.depth <= tree.most[to])
        return true;
    }
    return false;
  }

  void grow(size_t t) {
    Growing &tree = trees[t];
    std::priority_queue<Candidate> queue;
    // Microseconds of one message after the other.
    std::vector<double> arrival(size_t(network.ranks()), 0);
    auto keyOf = [&](const Candidate &candidate, const Way &way) {
      return price(way) *
             (1 + hurry * arrival[size_t(candidate.from)] / longest(network.uses(way)));
    };
    auto push = [&](Candidate candidate) {
      if (!advance(tree, candidate))
        return;
      candidate.key = keyOf(candidate, leaving(tree, candidate.from)[size_t(candidate.way)]);
      queue.push(candidate);
    };
    int32_t reached = 0;
    auto reach = [&](int32_t rank, int32_t depth) {
      tree.depth[size_t(rank)] = depth;
      ++reached;
      for (int32_t first : kindStarts(tree.up, rank))
        push({0, depth + 1, rank, first});
    };
    reach(tree.root, 0);
    while (reached < network.ranks() && !queue.empty()) {
      const Candidate next = queue.top();
      queue.pop();
      Candidate now = next;
      if (!advance(tree, now))
        continue;
      const Way &way = leaving(tree, now.from)[size_t(now.way)];
      if (now.key = keyOf(now, way); now.key > next.key * (1 + epsilon)) {
        queue.push(now);
        continue;
      }
      const int32_t to = network.end(now.from, way);
      arrival[size_t(to)] = arrival[size_t(now.from)] + longest(network.uses(way));
      attach({int32_t(t), to}, way.mate);
      reach(to, now.depth);
      push(now);
    }
  }

  // Exchanges.

  /// Takes something off `limit`, and leaves no other busier than `most`.
  bool relieve(int32_t limit, double most) {
    std::vector<Exchange> chain;
    std::vector<int32_t> madeBy(size_t(network.limits()), -2); // exchange that fills it
    std::vector<int32_t> queue = {limit};
    madeBy[size_t(limit)] = -1;
    for (size_t i = 0; i < queue.size() && !options.isOver(); ++i) {
      const int32_t at = queue[i];
      std::vector<User> &list = users[size_t(at)];
      std::erase_if(list, [&](User user) { return !uses(user, at); });
      for (size_t u = 0; u < list.size(); ++u) {
        const User user = list[u];
        const Growing &tree = trees[size_t(user.tree)];
        const int32_t current = tree.way[size_t(user.rank)];
        const double now = weightOf(network.uses(wayOf(user)), at);
        std::span<const Way> others = choices(tree, user.rank);
        for (int32_t first : kindStarts(!tree.up, user.rank)) {
          const Way &kind = others[size_t(first)];
          if (kind.kind == others[size_t(current)].kind || weightOf(network.uses(kind), at) >= now)
            continue;
          auto [count, filled] = overfull(user, kind, most);
          if (count > 1 || (count == 1 && madeBy[size_t(filled)] != -2))
            continue;
          const int32_t w = firstThatFits(user, first);
          if (w < 0)
            continue;
          chain.push_back({user, w, madeBy[size_t(at)], at});
          if (count == 0)
            return apply(chain, most);
          madeBy[size_t(filled)] = int32_t(chain.size()) - 1;
          queue.push_back(filled);
        }
      }
    }
    return false;
  }

  /// The last exchange first; those before it may have become impossible by it.
  bool apply(const std::vector<Exchange> &chain, double most) {
    for (int32_t i = int32_t(chain.size()) - 1; i >= 0; i = chain[size_t(i)].before) {
      const Exchange &step = chain[size_t(i)];
      const Growing &tree = trees[size_t(step.user.tree)];
      const Way &way = choices(tree, step.user.rank)[size_t(step.way)];
      if (!uses(step.user, step.limit) || overfull(step.user, way, most).first > 0 ||
          !fits(step.user, way))
        return i != int32_t(chain.size()) - 1 && ++broken < maxBroken;
      move(step.user, step.way);
    }
    return true;
  }

  /// Until the goal is met or the busiest limit cannot be relieved.
  void exchange() {
    broken = 0;
    while (!options.isOver()) {
      const double now = us();
      if (isGood(now))
        return;
      // No limit gets where the busiest are, so that their number falls.
      const int32_t worst = int32_t(std::max_element(busy.begin(), busy.end()) - busy.begin());
      if (!relieve(worst, now * (1 - epsilon)))
        return;
    }
  }

  /// Lets ranks come earlier where that costs nothing; the trees as they are then.
  Forest flattened() {
    const double most = std::max(us(), problem.goal) * (1 + epsilon);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t t = 0; t < trees.size() && !options.isOver(); ++t)
        for (int32_t rank = 0; rank < network.ranks(); ++rank)
          changed |= rank != trees[t].root && rise({int32_t(t), rank}, most);
    }
    return forest();
  }

  bool rise(User user, double most) {
    const Growing &tree = trees[size_t(user.tree)];
    std::span<const Way> others = choices(tree, user.rank);
    int32_t best = -1, depth = tree.depth[size_t(user.rank)];
    for (int32_t first : kindStarts(!tree.up, user.rank)) {
      if (overfull(user, others[size_t(first)], most).first > 0)
        continue;
      for (size_t w = size_t(first); w < others.size() && depth > 1; ++w) {
        if (others[w].kind != others[size_t(first)].kind)
          break;
        if (int32_t there = tree.depth[size_t(network.end(user.rank, others[w]))] + 1;
            there < depth)
          best = int32_t(w), depth = there;
      }
    }
    if (best >= 0)
      move(user, best);
    return best >= 0;
  }

  /// How much dearer a way is for a message that comes as late as the way takes. Without, trees
  /// pass slow links one after the other, and queues add up.
  static constexpr double hurry = 1;
  static constexpr int32_t maxBroken = 1000;
  static constexpr int32_t maxIdle = 2 * 10; // twice through all steepnesses

  const PackOptions &options;
  std::mt19937_64 random;
  double steepness = 6; ///< of prices
  double scale = 1;     ///< of what limits do, to what they will do in the end
  double unit;          ///< microseconds: about what they will do
  int32_t broken = 0;   ///< chains that could not be applied to their end
};

/// Whether no rank is farther away than the problem allows.
bool isLow(const Network &network, const PackProblem &problem, const Forest &forest) {
  for (const Tree &tree : forest.trees) {
    std::vector<int32_t> least = messages(network, tree.root, tree.up);
    for (int32_t rank = 0; problem.slack >= 0 && rank < network.ranks(); ++rank) {
      int32_t depth = 0;
      for (int32_t at = rank; at != tree.root; at = Forest::parent(network, tree, at))
        ++depth;
      if (depth > least[size_t(rank)] + problem.slack)
        return false;
    }
  }
  return true;
}

} // namespace

std::string PackProblem::check(const Network &network) const {
  if (trees.empty())
    return "no trees are wanted";
  for (const Wanted &wanted : trees) {
    if (wanted.root < 0 || wanted.root >= network.ranks())
      return fmt::format("root {} is no rank of 0 to {}", wanted.root, network.ranks() - 1);
    if (network.isSymmetric() && wanted.root != 0)
      return fmt::format("root {}: where all ranks are alike, only rank 0 has trees", wanted.root);
  }
  // Roots and directions that are wanted, each once.
  std::set<std::pair<int32_t, bool>> wanted;
  for (const Wanted &tree : trees)
    wanted.insert({tree.root, tree.up});
  for (auto [root, up] : wanted) {
    std::vector<int32_t> away = messages(network, root, up);
    for (int32_t rank = 0; rank < network.ranks(); ++rank)
      if (away[size_t(rank)] < 0)
        return fmt::format("no way from rank {} to rank {}", up ? rank : root, up ? root : rank);
  }
  return "";
}

Forest pack(const Network &network, const PackProblem &problem, const PackOptions &options) {
  Forest forest = Packer(network, problem, options).run();
  const Measure found = measure(network, forest);
  if (found.us() <= problem.goal * (1 + epsilon))
    return forest;
  std::optional<Forest> exact = packArborescences(network, problem, found.us(), options);
  return exact && isLow(network, problem, *exact) && measure(network, *exact).us() < found.us()
             ? *exact
             : forest;
}

} // namespace ccl::solver
