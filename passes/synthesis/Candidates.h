//===- Candidates.h - The fastest of the planner's and the generators' ------------===//
#pragma once

#include "passes/synthesis/PlanProgram.h"

namespace ccl {

struct Candidate {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< of one algorithm
  std::string name;                         ///< "ring" or "planner"
  double us = 0;                            ///< simulated, of the request's one size

  AlgorithmOp algorithm() const;
};

/// Proved; as a stage of another algorithm also with `in` and `out` as one memory. Nothing: `error`
/// says why.
std::optional<Candidate> findCandidate(mlir::MLIRContext &context, const model::Topology &topology,
                                       const PlanRequest &request, bool isStage,
                                       std::string &error);

} // namespace ccl
