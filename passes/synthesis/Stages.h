//===- Stages.h - Collectives of a module and what applies them ------------------===//
//
// Shared by the passes from a collective (L0) to an algorithm.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/lowering/StageMaps.h"
#include "passes/synthesis/PlanProgram.h"
#include "passes/synthesis/solver/RankGroups.h"

namespace ccl {

TopologyOp topologyOf(CollectiveOpInterface collective);
/// Its axes; without any that it names, all.
solver::AxisSet axesOf(CollectiveOpInterface collective, const model::Topology &topology);
/// Whether all ranks take part together: it names every axis of more than one rank.
bool isWhole(CollectiveOpInterface collective, const model::Topology &topology);

/// Where an algorithm applies a collective.
struct StageUse {
  ApplyOp apply;
  double share = 1;          ///< of the algorithm's bytes, in a group
  std::vector<int64_t> only; ///< by axis: the one coordinate that takes part, or -1
};
/// All applies of `stage` by algorithms whose stages are collectives.
std::vector<StageUse> usesOf(CollectiveOpInterface stage);

/// The algorithm, its topology, and all that it applies, in a module of their own.
mlir::OwningOpRef<mlir::ModuleOp> extract(AlgorithmOp algorithm);

/// A request as the passes make it, of the kind of collective that `contract` states.
PlanRequest makeRequest(ContractAttr contract, int64_t ranks, int64_t bytes,
                        const model::CostModel &model);

/// The cost model of a pass's option. Emits an error.
mlir::FailureOr<model::CostModel> readModel(mlir::ModuleOp module, llvm::StringRef pass,
                                            llvm::StringRef name);
/// What is said of a name that is none.
std::string unknownModel(llvm::StringRef name);

/// What ccl-pipeline-micro-batches tries at most.
constexpr int64_t mostMicroBatches = 4096;

} // namespace ccl
