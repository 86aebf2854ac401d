//===- Rate.h - What a number of equal trees can reach ---------------------===//
//
// With k trees for each root, all of which carry equally much, a link carries a whole number of
// chunks. In time T that is floor(T x bandwidth), and k chunks of every root must be able to flow
// to (up: from) every rank over what is left of the capacities: the least such T is what no k
// trees are faster than (ForestColl, arXiv 2402.06787, has the rule). As k grows it comes down to
// k times the cut bound.
//
// Trees of one rank that shifts take to all others load all links of a class alike, so that the
// whole number is that of the class.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Fabric.h"

#include <chrono>
#include <optional>

namespace ccl::solver {

struct RateProblem {
  int32_t trees = 1; ///< of each root, or of the only one
  bool up = false;
  std::optional<int32_t> root; ///< of broadcast and reduce; else every rank is one
  bool symmetric = true;       ///< as Network::Options
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();

  /// Something is wrong with the request: else "".
  std::string check(const model::Topology &topology) const;
};

/// Microseconds, if every chunk is a megabyte, that no such trees undercut (Measure::us). Of a
/// topology in which every rank reaches every other. What the deadline leaves is lower, not wrong.
double leastTime(const model::Topology &topology, const RateProblem &problem);

struct RateRow {
  int32_t trees;
  double us;
  double share; ///< of the bandwidth bound, at most 1
};
/// `leastTime` of 1 to `most` trees.
std::vector<RateRow> sweep(const model::Topology &topology, RateProblem problem, int32_t most);

} // namespace ccl::solver
