//===- Cases.h - Networks and forests that several tests look at ------------===//
#pragma once

#include "dialect/bound/Bound.h"
#include "frontend/topology/Presets.h"
#include "passes/synthesis/solver/Order.h"
#include "passes/synthesis/solver/Pack.h"
#include "passes/synthesis/solver/Rate.h"

#include <stdexcept>

namespace cases {

using namespace ccl;
using model::Collective;
using model::Topology;

inline Topology named(const std::string &name) {
  std::string error;
  std::optional<topology::Named> found =
      topology::namedTopology(name, topology::Rates::Nominal, error);
  if (!found)
    throw std::runtime_error(name + ": " + error);
  return found->topology;
}

/// Microseconds that a collective of `chunks` megabytes takes at the bound.
inline double boundUs(const Topology &t, Collective collective, double chunks) {
  return chunks * 1000 / model::bandwidthBound(t, collective)->algbw;
}

/// k trees of every representative.
inline solver::PackProblem rootedEverywhere(const solver::Network &network, int32_t k, bool up,
                                            int32_t slack = -1) {
  solver::PackProblem problem;
  problem.slack = slack;
  for (int32_t rank = 0; rank < network.representatives(); ++rank)
    problem.trees.insert(problem.trees.end(), size_t(k), {rank, up});
  return problem;
}

inline std::vector<std::vector<int32_t>> waysOf(const solver::Forest &forest) {
  std::vector<std::vector<int32_t>> result;
  for (const solver::Tree &tree : forest.trees)
    result.push_back(tree.ways);
  return result;
}

/// Every tree several times, in equal pieces.
struct Pieces {
  solver::Forest forest;
  solver::OrderProblem problem;
};

inline Pieces inPieces(const solver::Forest &forest, int32_t pieces) {
  Pieces result;
  for (const solver::Tree &tree : forest.trees)
    for (int32_t piece = 0; piece < pieces; ++piece) {
      result.forest.trees.push_back(tree);
      result.problem.piece.push_back(piece);
    }
  return result;
}

} // namespace cases
