//===- WayTree.h - What the ranks get from one of them, way by way --------===//
#pragma once

#include "dialect/bound/ShortestWays.h"

#include <random>

namespace ccl::model {

/// Ways from one rank to all others, and what share of what goes to a rank takes which. What ways
/// begin with in common is held once.
class WayTree {
public:
  struct Way {
    int32_t end; ///< its last step
    double share;
  };
  /// The source: where every way begins.
  static constexpr int32_t root = 0;

  /// Up to `most` of the cheapest ways to every rank, spread evenly over all there are, with equal
  /// shares. `work` is that of the run for `source`, with ways counted.
  WayTree(const Fabric &fabric, const ShortestWays &cheapest, const ShortestWays::Work &work,
          int32_t source, int most, std::mt19937_64 &random);

  std::span<const Way> to(int32_t rank) const {
    return std::span(ways).subspan(size_t(first[size_t(rank)]),
                                   size_t(first[size_t(rank) + 1] - first[size_t(rank)]));
  }
  /// Another step: `arc` behind the step `before`.
  int32_t add(int32_t before, int32_t arc) {
    steps.push_back({before, arc});
    return int32_t(steps.size()) - 1;
  }
  template <typename Visit>
  void eachArc(int32_t end, Visit visit) const {
    for (; end != root; end = steps[size_t(end)].before)
      visit(steps[size_t(end)].arc);
  }
  /// The ways of all ranks anew, one rank after the other: those to rank r are from firsts[r] to
  /// firsts[r + 1]. Steps that none of them takes go.
  void replace(std::vector<Way> &&all, std::vector<int32_t> &&firsts);
  /// Makes shares add up to 1 for each rank, and adds `amount` times the flow to `loads`, by the
  /// kind of arc.
  void addLoads(double amount, std::span<const int32_t> kindOf, std::span<double> loads);

private:
  struct Step {
    int32_t before, arc;
  };
  std::vector<Step> steps;    ///< a step comes after the one before it
  std::vector<int32_t> first; ///< by rank
  std::vector<Way> ways;
};

} // namespace ccl::model
