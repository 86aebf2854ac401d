//===- GpuCut.h - How a launch on GPUs is cut into instances and slices ------------===//
//
// An instance is a copy of a program's blocks that executes every so manieth micro-batch.
// Pure functions, like runtime/Launch.h.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Launch.h"

namespace ccl::cuda {

/// No launch has more: memory for the counters of so many is there from the start.
constexpr int64_t mostInstances = 64;

struct GpuCutRules {
  int64_t slotBytes = 0;
  int64_t atLeast = 0;   ///< micro-batches
  int64_t instances = 0; ///< as many: a power of two; 0: what is good for the size
  int64_t resident = 1;  ///< instances whose blocks run at once
};

struct GpuCut {
  Cut cut; ///< micro-batches: a power of two and a multiple of the instances
  int64_t instances = 1;
  int batchShift = 0; ///< log2 of the micro-batches
};

/// Like chooseCut(), for each instance. Fails with BadArgument if a slot cannot hold the least
/// that a channel of this plan moves, or `instances` is no number for it.
llvm::Expected<GpuCut> chooseGpuCut(const Plan &plan, const RankFacts &facts, int64_t count,
                                    const GpuCutRules &rules);

} // namespace ccl::cuda
