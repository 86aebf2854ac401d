//===- Plan.h - The best algorithm for a topology and a size -------------------===//
//
// From a topology and a collective to an L1 algorithm that is proved:
//
//   bound -> packings (PlanPackings.h) -> shapes, judged by a formula -> the most promising ones
//   ordered, lowered, simulated and proved (PlanProgram.h) -> neighbours of the best
//
// A *shape* is a packing, cut into equal pieces that follow each other through its trees, with so
// many agents a link. The result depends on the request alone, unless the deadline, or a
// cancellation, comes first.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/generators/Generators.h"

#include "dialect/bound/Bound.h"
#include "dialect/simulate/Cost.h"

#include "mlir/IR/OwningOpRef.h"

#include <chrono>
#include <functional>

namespace ccl {

/// Trees of a root (in pairs of all_reduce: as many as are asked for): more take long, and gain
/// little.
constexpr int32_t mostTreesOfRoot = 64;

/// 0: as the planner likes.
struct PlanLimits {
  int32_t chunks = 0;  ///< of a root's shard, at most
  int32_t height = 0;  ///< messages one after the other, at most
  int32_t agents = 0;  ///< for a link, at most
  int32_t pieces = 0;  ///< of a chunk, at most
  int32_t batches = 0; ///< micro-batches of a launch, at most
};

struct PlanRequest {
  GeneratorRequest generator; ///< collective, reduction, ranks, root
  std::vector<int64_t> bytes; ///< nccl-tests' sizes, each positive
  int64_t elementBytes = 4;
  model::CostModel model;
  int32_t slots = 16; ///< of staged channels, at most
  PlanLimits limits;
  bool symmetric = true; ///< one tree for all ranks, where the topology lets
  uint64_t seed = 1;
  double boundSeconds = 60; ///< as of model::BoundOptions
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  /// Asked now and then. Then, as at the deadline, what has begun is finished, and the best so far
  /// is the plan.
  std::function<bool()> isCancelled;
  std::function<void(const std::string &)> progress; ///< "simulate: 3 of 8"

  /// What is wrong with it, or "".
  std::string check(const model::Topology &topology) const;
  bool isOver() const {
    return std::chrono::steady_clock::now() > deadline || (isCancelled && isCancelled());
  }
  void tell(const std::string &what) const {
    if (progress)
      progress(what);
  }
};

/// The collectives that there are plans for.
llvm::ArrayRef<model::Collective> plannedCollectives();

/// A row of the trade between height and rate.
struct PlanTrade {
  int32_t height = 0, chunks = 1;
  double fluidRatio = 0;
  double mostRatio = 0; ///< of so many chunks, whatever the height
  bool pairs = false;   ///< all_reduce: chunks of the buffer, with roots where they serve best
};

struct SizePlan {
  int64_t bytes = 0;    ///< of the plan's count, which is rounded down, to at least 1
  int64_t count = 0;    ///< elements of a shard
  size_t algorithm = 0; ///< index into PlanReport::algorithms
  double us = 0;        ///< simulated
  double algbw = 0;     ///< GB/s
  double boundUs = 0;   ///< no schedule is faster
  double ratio() const { return us > 0 ? boundUs / us : 1; }
};

struct PlannedAlgorithm {
  std::string name;
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< L1
  int32_t chunks = 1, pieces = 1, agents = 1, height = 0;
  int32_t batches = 1;       ///< micro-batches of a launch
  double fluidRatio = 0;     ///< of the trees to the bound
  int32_t slots = 0;         ///< of staged channels, as it is lowered and simulated; 0: it has none
  int32_t minSlots = 0;      ///< that it needs
  bool holdsInPlace = false; ///< also with input and output as one memory
  uint64_t moves = 0;        ///< of all ranks
  std::string remark;        ///< "proved on one rank of 64 by symmetry", or ""
};

struct PlanSeconds {
  double bound = 0, pack = 0, order = 0, lower = 0, simulate = 0, prove = 0;
};

struct PlanReport {
  /// There is no plan, and why: the request does not allow one, or (`broken`) whatever was tried is
  /// stuck, or refused by the proof.
  std::string error;
  bool broken = false;
  bool stopped = false; ///< before all was tried that would have been

  model::BandwidthBound bound;
  bool symmetric = false;        ///< the ranks are alike, and do alike
  std::vector<PlanTrade> trades; ///< by height
  std::vector<SizePlan> sizes;   ///< as in the request
  std::vector<PlannedAlgorithm> algorithms;
  int64_t simulated = 0, rejected = 0; ///< programs; those that were stuck or disproved
  PlanSeconds seconds;
};

/// `request.check` has found nothing. The context has the dialects `affine` and `ccl`.
PlanReport plan(mlir::MLIRContext &context, const model::Topology &topology,
                const PlanRequest &request);

} // namespace ccl
