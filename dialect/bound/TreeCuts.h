//===- TreeCuts.h - Cuts that trees cannot pass ---------------------------===//
//
// Trees of total rate x(v) rooted at v fit into capacities a(e) and reach a terminal t if and only
// if x(S) <= a(leaving S) for all S without t (Edmonds 1973). Whether, and which S, is one maximum
// flow from a source in front of all roots.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Bound.h"
#include "dialect/bound/Flow.h"

#include <set>
#include <span>

namespace ccl::model {

/// Rates of roots by node and capacities by arc, in shares of the largest capacity.
struct TreeRates {
  std::vector<double> root, broadcast, reduce;
};

/// Finds cuts, each once.
class TreeCuts {
public:
  /// Of trees that broadcast, or (in the reversed graph) that reduce.
  TreeCuts(const Fabric &fabric, bool reduce);

  /// Makes the rates of `rates` those of the next calls, roots times `factor`, all rounded down.
  void load(const TreeRates &rates, double factor = 1);
  /// Appends the cuts around `terminal` that what was loaded violates, if they are new. Returns
  /// whether there are any, new or not.
  bool separate(int32_t terminal, std::vector<PricedCut> &cuts);
  /// The largest factor, at most `factor`, that the root rates of `rates` (loaded before) may have
  /// before a cut around `terminal` is violated. New cuts met on the way are appended.
  double scale(const TreeRates &rates, int32_t terminal, double factor,
               std::vector<PricedCut> &cuts);
  /// Lowers root rates of `attained` to what reaches `terminal` of what was loaded: to the last
  /// digit, so that the rest is feasible.
  void limit(int32_t terminal, std::vector<double> &attained);
  int64_t flows() const { return runs; }

private:
  void loadRoots(const TreeRates &rates, double factor);
  bool violated(int32_t terminal, double tolerance);
  void append(const std::vector<bool> &side, std::vector<PricedCut> &cuts);
  std::vector<bool> widestSide(int32_t terminal);

  const Fabric &fabric;
  const bool reduce;
  FlowGraph graph;
  const int32_t source;
  int32_t firstRootArc = 0;
  std::vector<int32_t> arcStart, arcAt; ///< into each node
  const double perUnit;                 ///< of a rate 1; capacities are integers
  int64_t wanted = 0, runs = 0;
  std::set<std::pair<bool, std::vector<int32_t>>> known;
};

} // namespace ccl::model
