//===- Paths.h - Scatter and gather: a way of its own for every chunk -----------===//
//
// Of scatter every rank gets chunks of its own from the root, of gather the root gets them from
// every rank. That is a flow of one source: with k chunks for every rank, in time T a limit carries
// floor(T / weight) chunks, and whole flows through whole capacities exist if any do (Ford and
// Fulkerson). The least T for which all chunks get through is found by a binary search; the flow
// falls apart into paths, the shortest first.
//
// Exact where any link into a switch may be followed by any out of it. If routes allow less, the
// messages of a path take the ways that there are between the ranks it passes.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/solver/Pack.h"

namespace ccl::solver {

struct PathProblem {
  int32_t root = 0;
  bool up = false;       ///< gather
  int32_t chunks = 1;    ///< for (from) every rank
  bool shortest = false; ///< every message goes to a rank that is one message farther away
  double goal = 0;       ///< as PackProblem

  /// Something is wrong with the request, or a rank cannot be reached: else "".
  std::string check(const Network &network) const;
};

/// A path (Tree::leaf) for every chunk of every rank, by rank, those of the root without a message.
/// `check` has found nothing; the network is one without shifts. What the deadline leaves is
/// slower, not wrong.
Forest packPaths(const Network &network, const PathProblem &problem,
                 const PackOptions &options = {});

} // namespace ccl::solver
