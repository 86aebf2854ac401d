//===- PlanPackings.h - The forests that a plan may be made of --------------===//
//
// A packing is a forest for one number of chunks and one bound on heights. Which one is best
// depends on the size: low trees are soon done, many chunks balance the links. `Packings` finds
// those that no other one beats in both.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/Plan.h"

#include "dialect/bound/Bound.h"
#include "passes/synthesis/solver/Forest.h"

namespace ccl {

struct Packing {
  int32_t chunks = 1; ///< a shard of a root is cut into so many, each with a tree
  int32_t slack = 0;  ///< as of solver::PackProblem
  /// all_reduce: all up trees, then the down trees of the same chunks.
  solver::Forest forest;
  solver::Measure measure;
  double hopUs = 0;     ///< longest that one arc keeps a link busy, if a chunk is a megabyte
  double allChunks = 1; ///< of the buffer
  double fluidGBps = 0; ///< algbw if time were nothing but the busiest limit's
  int32_t height = 0;   ///< messages one after the other, of all_reduce up and down
  double latencyUs = 0; ///< and their latency

  size_t upTrees() const;
};

class Packings {
public:
  /// `network` is symmetric only where every rank is a root.
  Packings(const solver::Network &network, const PlanRequest &request, double goalGBps);

  /// "" or why there is none.
  std::string find();
  /// By height, then quality: none is as low, and as good, as another. Of equal ones that of fewest
  /// chunks.
  std::vector<Packing> &best() { return kept; }

private:
  std::vector<int32_t> chunkCounts() const;
  int32_t phases() const; ///< of trees, one after the other
  Packing pack(int32_t chunks, int32_t slack) const;
  bool isBeaten(int32_t height, double fluidGBps) const;
  void keep(Packing packing);

  const solver::Network &network;
  const PlanRequest &request;
  const double goalGBps;
  std::vector<Packing> kept;
};

/// Whether one rank is the root of all.
bool isRooted(model::Collective collective);
/// Whether trees reduce; whether they copy. all_reduce does both.
bool goesUp(model::Collective collective);
bool goesDown(model::Collective collective);

} // namespace ccl
