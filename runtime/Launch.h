//===- Launch.h - What one launch of one rank is ---------------------------===//
//
// Everything about a launch that needs no other rank, but for its memory (RankMemory.h): which
// form runs, how chunks are cut. Pure functions of the plan and the arguments;
// ranks with equal arguments come to equal counts, forms and cuts.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Control.h"
#include "runtime/Uneven.h"

namespace ccl {

/// What a plan says about one rank, found once.
struct RankFacts {
  bool needsIn = false;                    ///< `in` holds data at entry
  bool needsOut = false;                   ///< `out` must hold something at exit
  int64_t inShards = 0, outShards = 0;     ///< as the user counts
  int64_t inPosition = 0, outPosition = 0; ///< in place: shard in the larger buffer
  int64_t inWidth = 0, outWidth = 0;       ///< shards of the plan's buffers
  int64_t places = 0;                      ///< shards of the larger buffer
  bool inRead = false, inWritten = false;  ///< by peers, directly
  bool outRead = false, outWritten = false;
  int kernel = -1;        ///< index into Plan::kernels
  size_t indexInSet = 0;  ///< among the ranks of that kernel
  bool usesSlots = false; ///< some kernel of the program does
};
llvm::Expected<RankFacts> findFacts(const Plan &plan, int64_t rank);

/// How chunks are cut: see KernelArgs.
struct Cut {
  int64_t microBatches = 1;
  int64_t stride = 0;
};
/// Every slice of `plan.maxCount` chunks fits a slot of `slotBytes`; `atLeast` micro-
/// batches. Fails if a slot cannot hold even one element of each chunk.
llvm::Expected<Cut> chooseCut(const Plan &plan, const RankFacts &facts, int64_t count,
                              int64_t slotBytes, int64_t atLeast);

/// One launch of one rank.
struct LaunchShape {
  Form form = Form::Either; ///< of the caller's pointers
  bool runInPlace = false;  ///< the form that the kernel runs
  int64_t count = 0;        ///< the caller's; the longest shard if they are uneven
  int64_t runCount = 0;     ///< the kernel's: padded if the plan is `divisible`
  Cut cut;
  int64_t instances = 1;                ///< each has scratch of its own
  const UnevenShards *uneven = nullptr; ///< of this launch, if its shards are uneven
  bool packed = false;                  ///< the kernel runs on uneven shards as they are
  bool isPadded() const { return count != runCount; }
};
/// All but the cut. `uneven` are the shards if args.uneven.
llvm::Expected<LaunchShape> findUncutShape(const Plan &plan, const RankFacts &facts, int64_t rank,
                                           const LaunchArgs &args,
                                           const UnevenShards *uneven = nullptr);
/// With the cut that chooseCut() gives.
llvm::Expected<LaunchShape> findShape(const Plan &plan, const RankFacts &facts, int64_t rank,
                                      const LaunchArgs &args, int64_t slotBytes,
                                      const UnevenShards *uneven = nullptr);

} // namespace ccl
