//===- Fabric.h - A topology as a graph with integer capacities -----------===//
//
// What bounds are computed on: nodes 0..ranks-1 are ranks, the others forward.
// Capacities are integers, so that flows, cuts and the bounds made of them are
// exact; `unit` is what 1 stands for.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Topology.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ccl::model {

struct Arc {
  int32_t src, dst;
  int64_t capacity;
  double latency = 0; ///< microseconds: the least of the links joined here
};

struct Fabric {
  int32_t ranks = 0;
  int32_t nodes = 0;
  std::vector<Arc> arcs; ///< at most one for each (src, dst), sorted by it
  double unit = 1;       ///< GB/s (1e9 bytes a second) of capacity 1
  /// Whether capacities are the topology's to the last digit. Else they are rounded up, so that
  /// bounds hold: no capacity by a larger share of it than `rounding`.
  bool exact = true;
  double rounding = 0;
  /// Whether the topology limits something that this graph does not: see `makeFabric`.
  bool relaxed = false;
  std::vector<bool> copies, combines; ///< by node: a switch that multicasts, reduces

  bool isRank(int32_t node) const { return node < ranks; }
  /// Every arc the other way round: what copied combines, what combined copies.
  Fabric reversed() const;
  /// The arc from `src` to `dst`, or -1.
  int32_t find(int32_t src, int32_t dst) const;
};

/// The links of `topology` (whose `check()` is ""), parallel ones joined; links in no path
/// between ranks stay. What several links share becomes an arc of its own, by splitting the node
/// that all of them leave, or enter. Sharing that has no such form makes the graph `relaxed`:
/// bounds are weaker, not wrong, and `ignored` says of each such resource what is left out:
///   - one whose links have no node in common is cut into groups that have, each limited alone;
///   - at one node, of two resources that share some links but not all of the smaller one's, the
///     second is left out;
///   - links of unequal bandwidths that take turns may have the largest of them together.
/// ranks * (sum of capacities) < 2^60.
Fabric makeFabric(const Topology &topology, std::vector<std::string> *ignored = nullptr);

/// Which nodes, and which arcs, some automorphism of the fabric takes to each other. Only
/// automorphisms that were found and verified count; a fabric has always the trivial orbits.
struct Orbits {
  /// Takes rank r to r + stride, around within blocks of stride * size ranks.
  struct Shift {
    int64_t stride, size;
    int64_t operator()(int64_t rank) const {
      bool last = rank / stride % size == size - 1;
      return rank + (last ? stride - stride * size : stride);
    }
  };
  std::vector<int32_t> ofNode, ofArc; ///< orbit numbers, from 0, by first member
  int32_t nodeOrbits = 0, arcOrbits = 0;
  /// Whether all ranks are in one orbit.
  bool transitive = false;
  /// Shifts of ranks that extend to automorphisms, and take any rank to any other together. They
  /// commute. Empty: none such was found.
  std::vector<Shift> shifts;
  /// Automorphisms, node v becomes generators[i][v], whose group has exactly these orbits.
  std::vector<std::vector<int32_t>> generators;
};
/// Every node and arc an orbit of its own.
Orbits trivialOrbits(const Fabric &fabric);
/// Looks for automorphisms that the topology states (shifts along its axes, reflections and
/// exchanges of equal axes), for shifts along axes that it does not state (an edge list of a
/// torus), and for exchanges of equal parts (the ranks of a box, boxes behind equal switches), and
/// verifies each: O(arcs) for one. With `latencies` automorphisms keep these, too.
Orbits findOrbits(const Fabric &fabric, const Topology &topology, bool latencies = false);

} // namespace ccl::model
