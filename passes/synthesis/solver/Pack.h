//===- Pack.h - Balanced trees by growth and exchange ------------------------===//
//
// Packs the trees that are asked for so that the busiest limit has little to do. Trees grow one
// after the other, each arc where it leaves the least work for its busiest limit (TACOS, MICRO
// 2024, does the like in time), and where it comes early. Then arcs move away from busiest limits
// along augmenting paths: a move that fills a limit is followed by one that empties it (as
// bipartite matchings grow, only that a way may use several limits, and that no move may close a
// circle). Where that is stuck, trees grow anew in another order; the best are kept. Trees of one
// root in a network without switches are packed exactly where that was not enough
// (Arborescences.h).
//
// How close that comes is for bounds to say (bound/Bound.h, and Rate.h for a number of trees):
// nothing here proves it.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/solver/Forest.h"

#include <chrono>
#include <functional>

namespace ccl::solver {

struct PackProblem {
  struct Wanted {
    int32_t root = 0;
    bool up = false;
  };
  std::vector<Wanted> trees;
  /// Ranks are at most so many messages farther from the root than they must be; negative: any.
  int32_t slack = 1;
  /// Microseconds (Measure::us) that need not be undercut: the bound, or better what Rate.h says of
  /// so many trees. 0: not known.
  double goal = 0;

  /// Something is wrong with the request, or a rank cannot be reached: else "".
  std::string check(const Network &network) const;
};

struct PackOptions {
  uint64_t seed = 1;
  /// In which trees grow anew, at most, once exchanges alone are stuck.
  int32_t rounds = 64;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> isCancelled; ///< asked now and then

  bool isOver() const {
    return std::chrono::steady_clock::now() > deadline || (isCancelled && isCancelled());
  }
};

/// The best found; `check` has found nothing. The result depends on `rounds` and `seed` only,
/// unless the deadline, or a cancellation, comes first.
Forest pack(const Network &network, const PackProblem &problem, const PackOptions &options = {});

} // namespace ccl::solver
