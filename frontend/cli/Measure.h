//===- Measure.h - One program, many sizes, all ranks ------------------------===//
#pragma once

#include "frontend/cli/Workload.h"
#include "runtime/Member.h"

#include <functional>

namespace ccl::cli {

struct MeasureOptions {
  int64_t iterations = -1; ///< timed launches per size and form; -1: up to 20, bounded in time
  int64_t warmup = -1;     ///< untimed launches before; -1: up to 5, bounded in time
  int64_t checks = 1;      ///< launches that are judged, each with new inputs
  bool outOfPlace = true, inPlace = true;
  bool blocking = false; ///< a barrier of all ranks after every launch
  std::chrono::milliseconds timeout{30000};
  int64_t microBatches = 0;
};

/// What was found for one size in one form.
struct Measurement {
  Lengths lengths;   ///< of the shards
  int64_t bytes = 0; ///< of the larger buffer; of uneven launches, of the rank with most
  bool inPlace = false;
  double us = 0;     ///< slowest rank's mean time of a launch
  int64_t wrong = 0; ///< wrong elements, of all ranks, and damaged elements of red zones
};

// nccl-tests' defaults, and how long they may take for one size in one form.
constexpr int64_t defaultIterations = 20, defaultWarmup = 5;
constexpr double iterationBudgetUs = 120e3, warmupBudgetUs = 30e3;
/// As many launches of `launchUs` as fit, at least one, at most `most`.
int64_t launchesWithin(double budgetUs, double launchUs, int64_t most);

/// Bytes that the buffers of all ranks take for shards of these lengths; the largest number
/// if that is too small for them.
int64_t bytesNeeded(const Workload &workload, const Lengths &lengths, bool outOfPlace);

/// One rank's memory. After a failure peers may use it until they all have returned.
struct RankBuffers {
  GuardedBuffer first{0}, second{0};
};

/// Called by every rank: runs `program` for all these lengths. Rank 0 reports each measurement and
/// calls `onFirstResult` once, when the first launch has ended on all ranks.
llvm::Error measure(Member &member, const std::shared_ptr<LoadedProgram> &program,
                    const Workload &workload, const std::vector<Lengths> &sizes,
                    const MeasureOptions &options, RankBuffers &buffers,
                    const std::function<void()> &onFirstResult,
                    const std::function<void(const Measurement &)> &report);

} // namespace ccl::cli
