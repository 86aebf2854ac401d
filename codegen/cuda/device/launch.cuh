//===- launch.cuh - Beginning and end of a launch, and what finishes it ------===//
#pragma once

#include "waits.cuh"

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

/// The k-th meeting of all ranks at a barrier: `words` are this rank's at the others.
__device__ __noinline__ void tellPeers(u64 *const *words, u64 k) {
  const Launch &launch = *state.launch;
#pragma unroll 1
  for (int p = threadIndex(); p < launch.ranks; p += threads)
    if (p != state.me)
      storeRelease(words[p], k);
}
__device__ __noinline__ bool hearPeers(const u64 *words, u64 k, i64 barrier) {
  const Launch &launch = *state.launch;
  bool fails = false;
#pragma unroll 1
  for (int p = threadIndex(); p < launch.ranks; p += threads)
    if (p != state.me)
      fails |= !waitFor(words + 16 * i64(p), k, 0, {barrier, p, false, 0});
  return syncAny(fails);
}

/// Whether this block has something to do. Peers' buffers may be touched when it returns. A grid
/// is that of `one` rank, or that of `all`.
__device__ __noinline__ bool begin(Block &b, const Launch &one, const Launch *all,
                                   int blocksPerRank) {
  int block = blockIndex();
  if (all) {
    all += block / blocksPerRank;
    block %= blocksPerRank;
  }
  const Launch &launch = all ? *all : one;
  if (block >= launch.instances * launch.agents)
    return false;
  if (threadIndex() == 0) {
    state.launch = &launch;
    state.me = launch.me;
    state.instance = block / launch.agents;
    state.agent = block % launch.agents;
    state.batch = state.instance;
    state.epoch = i64(loadAcquire(&launch.sync->launches));
  }
  syncBlock();
  const bool copied = launch.numEnds <= sharedEnds;
  if (copied)
#pragma unroll 1
    for (int e = threadIndex(); e < launch.numEnds; e += threads) {
      state.copies[e] = *sharedEnd(e);
      state.used[e] = 0;
    }
  if (threadIndex() == 0)
    state.copied = copied;
  b.failed = false;
  if constexpr ((CCL_BARRIERS & entryBarrier) != 0) {
    if (block == 0)
      tellPeers(launch.sync->peersEntered, u64(state.epoch) + 1);
    b.failed = hearPeers(launch.sync->entered, u64(state.epoch) + 1, -1);
  }
  syncBlock();
  return true;
}

/// By one thread: all agents of an instance have come; if `all`, those of every rank.
__device__ __noinline__ bool meetAgents(bool all) {
  const Launch &launch = *state.launch;
  RankSync &sync = *launch.sync;
  u64 *generation = sync.generation + 16 * state.instance;
  const u64 old = loadAcquire(generation);
  if (addAcqRel(sync.joined + 32 * state.instance, 1) + 1 != u32(launch.agents))
    return waitFor(generation, old + 1, 0, {-2, int(state.me), false, 0});
  if (all) {
    const u64 turn = ++sync.turn[16 * state.instance];
    const i64 row = i64(state.instance) * launch.ranks;
#pragma unroll 1
    for (int p = 0; p < launch.ranks; ++p)
      if (p != state.me)
        storeRelease(sync.peersTurns[row + p], turn);
#pragma unroll 1
    for (int p = 0; p < launch.ranks; ++p)
      if (p != state.me && !waitFor(sync.turns + 16 * (row + p), turn, 0, {-2, p, false, 0}))
        return false;
  }
  storeRelaxed(sync.joined + 32 * state.instance, 0);
  storeRelease(generation, old + 1);
  return true;
}

/// Whether there is a micro-batch more for this instance. Its agents wait for each other first,
/// and where the proof asks for it for those of all ranks.
__device__ __noinline__ bool nextBatch(Block &b) {
  const Launch &launch = *state.launch;
  constexpr bool all = CCL_BARRIERS & batchBarrier;
  const bool more = state.batch + launch.instances < launch.microBatches && !b.failed;
  syncBlock();
  if (threadIndex() == 0)
    state.batch += launch.instances;
  if constexpr (all || CCL_AGENTS > 1) {
    bool fails = false;
    if (more && threadIndex() == 0)
      fails = !meetAgents(all);
    b.failed |= syncAny(fails);
  } else {
    syncBlock();
  }
  return more && !b.failed;
}

/// What has been done is there for the next launch. The last block of a rank waits for the peers
/// that may still touch its memory, if the proof asks for that.
__device__ __noinline__ void end(Block &b) {
  const Launch &launch = *state.launch;
  RankSync &sync = *launch.sync;
  syncBlock();
  if (state.copied)
#pragma unroll 1
    for (int e = threadIndex(); e < launch.numEnds; e += threads)
      if (state.used[e]) {
        ChannelEnd &end = *sharedEnd(e);
        end.next = state.copies[e].next;
        end.slot = state.copies[e].slot;
      }
  syncBlock();
  if (threadIndex() == 0)
    state.last = addAcqRel(&sync.blocksDone, 1) + 1 == u32(launch.instances * launch.agents);
  syncBlock();
  if (!state.last)
    return;
  if constexpr ((CCL_BARRIERS & exitBarrier) != 0)
    if (!b.failed) {
      tellPeers(sync.peersExited, u64(state.epoch) + 1);
      hearPeers(sync.exited, u64(state.epoch) + 1, -3);
    }
  if (threadIndex() == 0) {
    storeRelaxed(&sync.blocksDone, 0);
    storeRelease(&sync.launches, u64(state.epoch) + 1);
  }
}

} // namespace ccl::cuda
