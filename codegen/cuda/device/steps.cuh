//===- steps.cuh - What agents of copy engines do besides copies --------------===//
#pragma once

#include "launch.cuh"

#ifdef CCL_STEPS
namespace ccl::cuda {

/// Instruction i, by one thread. Whether what it waits for came.
__device__ __forceinline__ bool stepOne(const Step &step, i64 i) {
  const TableInstruction instruction = step.tables.instructions[i];
  const int e = launched().endOf[step.tables.operands[instruction.operands].chunk];
  if constexpr (copied)
    copyEnd(e);
  if (instruction.pattern == -2)
    return waitOne(e);
  advance(e, true);
  return true;
}

/// Those that follow each other and name different channels: a thread for each. A step that comes
/// after one that failed signals nothing: what it would tell is not so.
__device__ __forceinline__ void stepThrough(Block &b, const Step &step) {
  i64 next = 0;
#pragma unroll 1
  for (i64 i = step.begin; i < step.end && !b.failed; i = next) {
    next = smaller(step.end, i + step.tables.instructions[i].count);
    bool fails = false;
    reportAs(int(i - step.first));
    syncWarp(); // all threads of a step are in one
#pragma unroll 1
    for (i64 mine = i + threadIndex(); mine < next && !fails; mine += threadCount())
      fails = !stepOne(step, mine);
    b.failed = syncAny(fails);
  }
}

/// A block of few threads: all of a step. Copies before it in its stream are done, those behind
/// it begin when it ends.
__device__ __forceinline__ void runStep(const Launch &launch, const Step &step) {
  RankSync &sync = *launch.sync;
  copyLaunch(launch);
  reportAs(-1);
  if (threadIndex() == 0) {
    state.began = state.looked = nanoseconds(); // its time-out is its own: copies have none
    state.here = {
        int(launch.me), step.agent, step.instance, launch.plan, i64(loadAcquire(&sync.launches)),
        step.microBatch};
  }
  Block b{syncAny(loadRelaxed(&sync.failed) != 0)};
  if constexpr ((CCL_BARRIERS & entryBarrier) != 0)
    if ((step.what & entersLaunch) != 0 && !b.failed)
      b.failed = meetPeers(false, nullptr, sync.entered, u64(state.here.launch) + 1);
  stepThrough(b, step);
  if ((step.what & endsBatch) != 0 && !b.failed) {
    constexpr bool all = CCL_BARRIERS & batchBarrier;
    bool fails = false;
    reportAs(-2);
    if constexpr (all || CCL_AGENTS > 1)
      fails = threadIndex() == 0 && !meetAgents(all);
    b.failed = syncAny(fails);
  }
  if (b.failed && threadIndex() == 0)
    storeRelaxed(&sync.failed, 1);
  if (step.what & endsLaunch)
    end(b);
}

} // namespace ccl::cuda
#endif
