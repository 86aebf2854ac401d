//===- PlanOrder.h - A shape of a plan as a list schedule ---------------------===//
//
// Trees with so many pieces and agents, in the order in which agents work. That takes milliseconds
// where a program takes seconds, and says nearly the same: so it is what shapes are ranked by.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/PlanPackings.h"
#include "passes/synthesis/solver/Order.h"

namespace ccl {

struct PlanShape {
  size_t packing = 0;
  int32_t pieces = 1, agents = 1;
  int32_t slots = 0;   ///< of staged channels; 0: there are none
  int32_t batches = 1; ///< micro-batches of a launch
  friend auto operator<=>(const PlanShape &, const PlanShape &) = default;
};

/// Every tree of a packing once for each piece.
struct PlanOrder {
  solver::Forest forest;
  std::vector<int32_t> chunks; ///< by tree
  solver::OrderProblem problem;
  std::vector<solver::Hop> hops;

  /// In as many runs through time as there may be for `work` hops in all; 0: as the solver likes.
  PlanOrder(const solver::Network &network, const Packing &packing, const PlanShape &shape,
            const PlanRequest &request, int64_t bytes, int64_t work = 0);
};

} // namespace ccl
