//===- CutSearch.h - The cuts that bound a collective ---------------------===//
//
// The three searches behind `cutBound`. Each finds the cut that takes longest, by Newton's method
// on maximum flows (Dinkelbach 1967), in integers. They look at what leaves S; the collectives that
// go the other way are searched on the reversed fabric.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Bound.h"

#include <span>

namespace ccl::model {

/// A set S of nodes with at least one rank in it and one outside: `shards` of them have to leave
/// it over `capacity`, as few as lowest terms allow. capacity 0: they cannot.
struct Cut {
  int64_t shards = 0, capacity = 1;
  std::vector<bool> side;
  /// Whether it takes longer than `other`.
  bool exceeds(const Cut &other) const {
    return __int128(shards) * other.capacity > __int128(other.shards) * capacity;
  }
};

/// What is searched: ranks, and nodes that have to be treated as if they were ranks without a
/// shard of their own, because they copy.
struct CutProblem {
  const Fabric &fabric;
  const Orbits &orbits; ///< of `fabric`, or without members
  std::span<const int32_t> copying = {};
  /// A cut that is known, to start from.
  const Cut *known = nullptr;
};

/// Max over S of |ranks in S| / capacity(S): every rank's shard goes everywhere. At least 2 ranks.
Cut allGatherCut(const CutProblem &problem, int64_t &flows);
/// Max over S around the root of 1 / capacity(S).
Cut broadcastCut(const CutProblem &problem, int32_t root, int64_t &flows);
/// Max over S around the root of |ranks not in S| / capacity(S).
Cut scatterCut(const CutProblem &problem, int32_t root, int64_t &flows);

/// Capacity leaving, entering each node.
std::vector<int64_t> outCapacities(const Fabric &fabric);
std::vector<int64_t> inCapacities(const Fabric &fabric);
int64_t capacityLeaving(const Fabric &fabric, const std::vector<bool> &side);

/// Whether what switches do not do (copy, except the nodes of `copying`) costs nothing: each of
/// the others has as much capacity in as out, or more.
bool isPreflow(const Fabric &fabric, std::span<const int32_t> copying);
/// `fabric` with capacities multiplied by `scale`, and then, out of switches that are not in
/// `copying`, made so small that it is a preflow fabric. First those arcs give, in proportion,
/// whose nodes can spare some of what enters them, from 0 to `allSpare` of it; then, if that is not
/// enough, all. Arcs of one orbit stay equal if `isSymmetric`.
constexpr int64_t allSpare = 1 << 20;
Fabric preflowPart(const Fabric &fabric, std::span<const int32_t> copying,
                   const std::vector<int64_t> &spare, int64_t &scale, bool &isSymmetric);

} // namespace ccl::model
