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
    std::vector<int32_t> last;     ///< by node: the last arc of one of the cheapest ways, or -1
    std::vector<double> ways;      ///< by node: how many cheapest ways there are
    std::vector<double> through;
    std::vector<std::pair<int64_t, int32_t>> heap;
  };

  /// Arcs without capacity count as absent. The fabric must outlive this.
  explicit ShortestWays(const Fabric &fabric);

  /// By arc, at most 2^40 and not negative.
  void setPrices(std::span<const int64_t> prices);
  void run(int32_t source, Work &work) const;
  // What follows comes after `run`. What needs `ways` asks for positive prices.
  void countWays(int32_t source, Work &work) const;
  /// After `countWays`. Let all cheapest ways to `node` be in a row, those with the same last arc
  /// side by side: the last arc of the one that stands at the share `at` (in [0, 1)) of the row.
  /// `at` becomes the share at which what comes before that arc stands among its like.
  int32_t lastArc(int32_t node, const Work &work, double &at) const;
  /// After `countWays`: adds `amount` times the flow to `loads`, by arc.
  void addLoads(int32_t source, double amount, Work &work, std::span<double> loads) const;
  /// The sum of the distances to all ranks; -1 if one cannot be reached.
  __int128 distanceToRanks(const Work &work) const;

private:
  struct Half {
    int32_t node, arc;
    int64_t price;
  };
  /// Whether a cheapest way to `node` ends with `half`, one of the arcs into it.
  bool ends(const Half &half, int32_t node, const Work &work) const;

  const Fabric &fabric;
  std::vector<int32_t> outStart, inStart;
  std::vector<Half> out, in;
};

} // namespace ccl::model
