//===- ShortestWays.h - Least prices from one node to all others ----------===//
//
// Dijkstra's algorithm (1959) in integers, and the flow that sends one unit to every rank on
// cheapest ways, divided equally among them.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Fabric.h"

#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace ccl::model {

class ShortestWays {
public:
  static constexpr int64_t unreachable = std::numeric_limits<int64_t>::max();

  /// What one run needs, kept by the caller: runs with a `Work` of their own may be concurrent.
  struct Work {
    std::vector<int64_t> distance; ///< by node
    std::vector<int32_t> order;    ///< nodes that can be reached, nearest first
    std::vector<double> ways, through;
    std::vector<std::pair<int64_t, int32_t>> heap;
  };

  /// Arcs without capacity count as absent. The fabric must outlive this.
  explicit ShortestWays(const Fabric &fabric);

  /// By arc, at most 2^40 and not negative.
  void setPrices(std::span<const int64_t> prices);
  void setPrice(int32_t arc, int64_t price);
  void run(int32_t source, Work &work) const;
  /// After `run`, and if all prices are positive: adds `amount` times the flow to `loads`, by arc.
  /// `touched`, if any, gets the arcs that carry some.
  void addLoads(int32_t source, double amount, Work &work, std::span<double> loads,
                std::vector<int32_t> *touched = nullptr) const;
  /// After `run`: the sum of the distances to all ranks; -1 if one cannot be reached.
  __int128 distanceToRanks(const Work &work) const;

private:
  struct Half {
    int32_t node, arc;
    int64_t price;
  };
  const Fabric &fabric;
  std::vector<int32_t> outStart, inStart;
  std::vector<Half> out, in;
  std::vector<int32_t> outAt, inAt; ///< by arc: where it is in `out` and `in`; -1 if absent
};

} // namespace ccl::model
