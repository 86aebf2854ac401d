//===- launch.cuh - Beginning and end of a launch, and what finishes it ------===//
#pragma once

#include "bulk.cuh"

namespace ccl::cuda {

/// to[i] = from[i] / ranks, for n elements; integers are truncated.
__device__ __forceinline__ void divideAll(void *to, const void *from, i64 n, i64 ranks) {
  using Stored = typename E::Stored;
  using Value = typename E::Value;
#pragma unroll 1
  for (i64 i = i64(blockIndex()) * threads + threadIndex(); i < n;
       i += i64(blockCount()) * threads) {
    const Value x = E::widen(static_cast<const Stored *>(from)[i]);
    Value result;
    if constexpr (Value(0.5) != Value(0))
      result = x / Value(ranks);
    else if constexpr (Value(-1) < Value(0))
      result = Value(i64(x) / ranks);
    else
      result = Value(u64(x) / u64(ranks));
    static_cast<Stored *>(to)[i] = E::narrow(result);
  }
}

//===----------------------------------------------------------------------===//
// Beginning and end
//===----------------------------------------------------------------------===//

/// The k-th meeting of all ranks at a barrier: `peersWords` are this rank's at the others, which it
/// writes if it `tells`, `words` those of the others here. Whether it failed.
__device__ __noinline__ bool meetPeers(bool tells, u64 *const *peersWords, const u64 *words,
                                       u64 k) {
  bool fails = false;
  const int ranks = launched().ranks;
  if (tells)
#pragma unroll 1
    for (int p = threadIndex(); p < ranks; p += threadCount())
      if (p != state.here.rank)
        storeRelease(peersWords[p], k);
#pragma unroll 1
  for (int p = threadIndex(); p < ranks; p += threadCount())
    if (p != state.here.rank)
      fails |= !waitFor(words + 16 * i64(p), k, awaited(barrier, p));
  return syncAny(fails);
}

/// End e of this instance to `state`, by one thread. Other blocks of the rank are at ends that are
/// theirs.
__device__ __forceinline__ void copyEnd(int e) {
  static_assert(sizeof(ChannelEnd) % 8 == 0);
  ChannelEnd *home = homeOf(e);
  state.homes[e] = home;
  u64 *copy = reinterpret_cast<u64 *>(state.copies + e);
#pragma unroll
  for (int w = 0; w < int(sizeof(ChannelEnd) / 8); ++w)
    copy[w] = loadRelaxed(reinterpret_cast<const u64 *>(home) + w);
}

/// Whether this block has something to do. Peers' buffers may be touched when it returns. A grid
/// is that of `one` rank, or that of `all`.
__device__ __forceinline__ bool begin(Block &b, const Launch &one, const Launch *all,
                                      int blocksPerRank) {
  u32 block = u32(blockIndex());
  const Launch *mine = &one;
  if (all) {
    mine = all + block / u32(blocksPerRank);
    block %= u32(blocksPerRank);
  }
  const Launch &launch = *mine;
  if (block >= u32(launch.instances * launch.blocks))
    return false;
  copyLaunch(launch);
  reportAs(-1);
  if (threadIndex() == 0) {
    state.began = state.looked = nanoseconds();
    const int instance = int(CCL_AGENTS > 1 ? block / u32(launch.blocks) : block);
    state.here = {int(launch.me), int(block) - instance * launch.blocks,    instance,
                  launch.plan,    i64(loadAcquire(&launch.sync->launches)), instance};
  }
#ifdef CCL_TMA
  if (threadIndex() == 0)
    beginBulk();
#endif
  syncBlock();
  if constexpr (copied)
#pragma unroll 1
    for (int e = threadIndex(); e < launch.numEnds; e += threads)
      copyEnd(e);
  b.failed = false;
  if constexpr ((CCL_BARRIERS & entryBarrier) != 0)
    b.failed = meetPeers(block == 0, launch.sync->peersEntered, launch.sync->entered,
                         u64(state.here.launch) + 1);
  syncBlock();
  return true;
}

/// By one thread: all agents of an instance have come; if `all`, those of every rank. Whether
/// that came.
__device__ __forceinline__ bool meetAgents(bool all) {
  const Launch &launch = launched();
  RankSync &sync = *launch.sync;
  u64 *generation = sync.generation + 16 * state.here.instance;
  const u64 old = loadAcquire(generation);
  if (CCL_AGENTS > 1 &&
      addAcqRel(sync.joined + 32 * state.here.instance, 1) + 1 != u32(launch.agents))
    return waitFor(generation, old + 1, awaited(barrier, state.here.rank));
  if (all) {
    const u64 turn = ++sync.turn[16 * state.here.instance];
    const i64 row = i64(state.here.instance) * launch.ranks;
#pragma unroll 1
    for (int p = 0; p < launch.ranks; ++p)
      if (p != state.here.rank)
        storeRelease(sync.peersTurns[row + p], turn);
#pragma unroll 1
    for (int p = 0; p < launch.ranks; ++p)
      if (p != state.here.rank && !waitFor(sync.turns + 16 * (row + p), turn, awaited(barrier, p)))
        return false;
  }
  if (CCL_AGENTS > 1)
    storeRelaxed(sync.joined + 32 * state.here.instance, 0);
  storeRelease(generation, old + 1);
  return true;
}

/// So many nanoseconds between two looks of who does not wait for long.
constexpr u64 betweenLooks = 1000000;

/// By one thread, between micro-batches: of many that never wait for long nobody else would see
/// that the time is over, or that another has failed. Whether that is so.
__device__ __forceinline__ bool isOver() {
  const u64 now = nanoseconds();
  if (now - state.looked < betweenLooks)
    return false;
  state.looked = now;
  return look(0, awaited(barrier, -1), 0, 0) == 0;
}

/// Whether there is a micro-batch more for this instance. Its agents wait for each other first,
/// and where the proof asks for it for those of all ranks.
__device__ __forceinline__ bool nextBatch(Block &b) {
  const Launch &launch = launched();
  constexpr bool all = CCL_BARRIERS & batchBarrier;
  const bool more = state.here.microBatch + launch.instances < launch.microBatches && !b.failed;
  bool fails = b.failed;
  syncBlock();
  reportAs(-2);
  if (threadIndex() == 0) {
    state.here.microBatch += launch.instances;
    fails |= more && isOver();
    if constexpr (all || CCL_AGENTS > 1)
      fails |= more && !fails && !meetAgents(all);
  }
  b.failed |= syncAny(fails);
  return more && !b.failed;
}

/// What has been done is there for the next launch. The last agent of a rank waits for the peers
/// that may still touch its memory, if the proof asks for that.
__device__ __forceinline__ void end(Block &b) {
  const Launch &launch = launched();
  RankSync &sync = *launch.sync;
  syncBlock();
  reportAs(-3);
  if (threadIndex() == 0)
    state.last = addAcqRel(&sync.blocksDone, 1) + 1 == u32(launch.instances * launch.agents);
  syncBlock();
  if (!state.last)
    return;
  if constexpr ((CCL_BARRIERS & exitBarrier) != 0)
    if (!b.failed)
      meetPeers(true, sync.peersExited, sync.exited, u64(state.here.launch) + 1);
  if (threadIndex() == 0) {
    storeRelaxed(&sync.blocksDone, 0);
    storeRelease(&sync.launches, u64(state.here.launch) + 1);
  }
}

} // namespace ccl::cuda
