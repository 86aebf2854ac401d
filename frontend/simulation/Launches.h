//===- Launches.h - Launches of a program on a topology ---------------------------===//
//
// What the command and the library for applications have in common around
// dialect/simulate/Simulate.h, without MLIR.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/simulate/Simulate.h"

namespace ccl::simulation {

/// A cost model by name. Numbers from 0 on replace the model's own.
struct ModelRequest {
  std::string name = "ccl";
  double launchUs = -1, syncUs = -1, overheadUs = -1, laneGBps = -1;
  double epochUs = 0; ///< 0: the model's own
};
/// For a topology of so many nodes. Nothing: there is no such model.
std::optional<model::CostModel> makeModel(const ModelRequest &request, int64_t nodes = 1);
/// Of as many as the topology tells.
std::optional<model::CostModel> makeModel(const ModelRequest &request,
                                          const model::Topology &topology);

/// As a launch here cuts: micro-batches of which every longest chunk fits a slot, and as many as
/// the algorithm wants (0: any number), unless that makes slices too short.
int64_t defaultBatches(const model::Program &program, const model::Contract &contract,
                       int64_t count, int64_t elementBytes, int64_t wanted);

/// A result with all that it is about.
struct Launch {
  std::string name; ///< of the program
  const model::Program &program;
  const model::Contract &contract;
  const model::Topology &topology;
  const model::SimulateOptions &options;
  const model::SimulateReport &report;
  double boundUs = 0;      ///< no launch of this size takes less; 0: not known
  std::string certificate; ///< why
};
/// The page of frontend/picture; the report has a timeline.
std::string page(const Launch &launch);

} // namespace ccl::simulation
