//===- RankGroups.h - What a group of ranks has of a topology -------------------===//
//
// A stage of a decomposed collective runs in all groups of ranks that differ in some axes alone, at
// the same time. A group has the links that its messages take (simulate/Routes.h), through the
// switches between its ranks, and of what other groups take as well an equal part.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Bound.h"

namespace ccl::solver {

/// Which axes of a topology, by number.
using AxisSet = std::vector<bool>;

struct RankGroup {
  int64_t number = 0; ///< row-major in the axes that its ranks share
  std::vector<int32_t> ranks;
  /// Ranks are those of `ranks` by position, and switches and resources have names and an order of
  /// their own: groups that are found to be alike have equal ones.
  model::Topology topology;
  size_t classNumber = 0;
};

struct RankGroups {
  std::vector<RankGroup> groups;
  /// By class: the first group of it.
  std::vector<size_t> representatives;
};

/// Ranks that differ along `axes` alone. Where an axis that is not among these has a number in
/// `only` (by axis; -1: none) the groups of that coordinate take part alone. The topology's
/// `check()` finds nothing.
RankGroups findGroups(const model::Topology &topology, const AxisSet &axes,
                      const std::vector<int64_t> &only = {});

/// Equal for topologies that differ in names alone.
std::string topologyKey(const model::Topology &topology);

/// "gpu" or "node, gpu".
std::string axisNames(const model::Topology &topology, const AxisSet &axes);

} // namespace ccl::solver
