//===- Automorphisms.h - Symmetries of a fabric, found and verified -------===//
//
// An automorphism is given by where it takes the ranks. Where it takes the switches follows by
// refinement: a switch is told apart by its neighbours, these by theirs, and in the end by ranks.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Classes.h"

#include <span>
#include <utility>

namespace ccl::model {

class Automorphisms {
public:
  Automorphisms(const Fabric &fabric, bool latencies);

  using Moves = std::vector<std::pair<int32_t, int32_t>>;
  /// Tries the permutation of ranks that takes `first` to `second` for each of `moves` and leaves
  /// the others where they are. If it extends to an automorphism, joins what that takes to each
  /// other, and returns true; `where` gets the images of all nodes. Costs no more than the arcs
  /// at the nodes that move.
  bool attempt(const Moves &moves, std::vector<int32_t> *where = nullptr);

  /// Whether there is nothing left to join: nodes, and arcs, of one colour are all in one orbit.
  bool isComplete() const;
  /// Ranks of different colours are in different orbits.
  uint64_t colour(int32_t rank) const { return colours[size_t(rank)]; }
  bool joined(int32_t a, int32_t b) { return nodes.find(a) == nodes.find(b); }
  Orbits orbits();

private:
  struct Step { ///< one arc, as seen from one of its ends
    int32_t other;
    uint64_t weight;
  };
  std::span<const Step> steps(int32_t node) const;
  int32_t findArc(int32_t src, int32_t dst) const;
  bool sameKind(int32_t arc, int32_t other) const;
  void refineColours();
  uint64_t weightOf(const Arc &arc) const;
  size_t countArcColours() const;
  void labelSwitches();
  bool moveSwitches(const Moves &ranks, Moves &all);
  bool mapArcs(const Moves &all, Moves &arcs);

  const Fabric &fabric;
  bool latencies;
  std::vector<int32_t> firstOut, firstStep;
  std::vector<Step> allSteps;
  std::vector<uint64_t> colours;
  size_t nodeColours = 0, arcColours = 0; ///< different ones
  /// By round and node: what neighbours add to its label, and the label before.
  std::vector<std::vector<uint64_t>> sums, labels;
  Classes nodes, arcs;
  std::vector<std::vector<int32_t>> generators;
  bool isFull = false; ///< no room for more generators
  // Kept between attempts: identity and zeros.
  std::vector<int32_t> image;
  std::vector<uint64_t> delta, label;
  std::vector<bool> isTouched, differs;
};

} // namespace ccl::model
