//===- MovingTrees.h - Trees that are being packed -----------------------------===//
//
// What Pack.h changes: trees whose ranks take one way, then another, with the work of limits, and
// who makes it, kept up to date.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/solver/Pack.h"

namespace ccl::solver {

/// Messages from the root to every rank (up: to the root), at least; -1: no way.
std::vector<int32_t> messages(const Network &network, int32_t root, bool up);

class MovingTrees {
public:
  MovingTrees(const Network &network, const PackProblem &problem);

  struct Growing {
    Growing(PackProblem::Wanted wanted, size_t ranks)
        : root(wanted.root), up(wanted.up), way(ranks, -1), parent(ranks, -1), depth(ranks, -1),
          firstChild(ranks, -1), next(ranks, -1), previous(ranks, -1) {}
    int32_t root;
    bool up;
    std::vector<int32_t> way, parent, depth;
    std::vector<int32_t> firstChild, next, previous; ///< siblings
    std::vector<int32_t> most;                       ///< depth
  };
  struct User {
    int32_t tree, rank;
  };

  /// Ways to a rank's parent, and to its children.
  std::span<const Way> choices(const Growing &tree, int32_t rank) const {
    return tree.up ? network.out(rank) : network.in(rank);
  }
  std::span<const Way> leaving(const Growing &tree, int32_t rank) const {
    return tree.up ? network.in(rank) : network.out(rank);
  }
  const Way &wayOf(User user) const {
    const Growing &tree = trees[size_t(user.tree)];
    return choices(tree, user.rank)[size_t(tree.way[size_t(user.rank)])];
  }
  /// Positions in `in` (`incoming`) or `out` of a rank at which ways of another kind begin.
  const std::vector<int32_t> &kindStarts(bool incoming, int32_t rank) const {
    return starting[incoming][network.isSymmetric() ? 0 : size_t(rank)];
  }
  double us() const;

  void attach(User user, int32_t way);
  void detach(User user);
  /// Takes a whole tree out.
  void uproot(size_t t);
  /// To another way; what is below comes along.
  void move(User user, int32_t way);
  /// Whether the tree stays one, and low enough.
  bool fits(User user, const Way &way);
  /// Of the ways of a kind, whose first is `first`, or -1.
  int32_t firstThatFits(User user, int32_t first);

  static double weightOf(std::span<const Use> uses, int32_t limit);
  bool uses(User user, int32_t limit) const;
  /// Limits that would be busier than `most` by another way, and were not by as much before: how
  /// many (at most 2 are counted), and the first.
  std::pair<int32_t, int32_t> overfull(User user, const Way &way, double most) const;
  Forest forest() const;

  const Network &network;
  const PackProblem &problem;
  std::vector<Growing> trees;
  std::vector<double> busy;             ///< by limit
  std::vector<std::vector<User>> users; ///< by limit: all that use it, and some that did

private:
  void findKinds();
  template <typename Visit>
  void below(const Growing &tree, int32_t rank, Visit visit);

  std::vector<std::vector<int32_t>> starting[2]; ///< by direction, and representative
  std::vector<int32_t> stack;
};

} // namespace ccl::solver
