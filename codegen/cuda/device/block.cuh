//===- block.cuh - What a block knows ----------------------------------------===//
#pragma once

#include "elements.cuh"

namespace ccl::cuda {

struct Launch : LaunchHead {
  BufferView buffers[CCL_BUFFERS > 0 ? CCL_BUFFERS : 1];
};

/// How an operand's data lie, and how one sees that they are there. Bits: see CCL_WIRES. That of a
/// channel's protocol p is 1 << p.
enum Wire : int { memory = 0, simple = 1, ll = 2, ll128 = 4, lamport = 8 };
constexpr int wires = CCL_WIRES;

constexpr bool flaggedWires = (wires & ~simple) != 0;

/// What is there of transfers: several rows of operands (see transferEach); slots of channels and
/// memory of peers as operands; several chunks or batches; kinds.
constexpr bool inRows = CCL_ROWS, slots = CCL_SLOTS, peers = CCL_PEERS, severalTurns = CCL_TURNS;
#ifdef CCL_MULTIMEM
constexpr bool kinds = true;
#else
constexpr bool kinds = flaggedWires;
#endif
__device__ constexpr bool hasScratch(const char *roles) {
  return *roles != 0 && (*roles == 's' || hasScratch(roles + 1));
}

/// Threads that see to channels and operands: some of the first warp, so that they need no
/// barrier of the block among each other.
constexpr int lanes = threads < 32 ? threads : 32;

/// A block keeps the ends of its program in shared memory while it runs; too many stay where they
/// are.
#ifdef CCL_TMA // which needs most of it
constexpr bool copied = CCL_ENDS <= 64;
#else
constexpr bool copied = CCL_ENDS <= 256;
#endif
constexpr int sharedEnds = copied && CCL_ENDS > 0 ? CCL_ENDS : 1;

/// What one operand is while elements are moved.
struct Stream {
  char *data;
  u64 flag; ///< of ll and ll128
  /// Elements, if a row of shards tells: plus `ofPeer` if it is not this rank's; else `untold`.
  u64 length;
  int peer; ///< of a channel
  int wire;
};
constexpr u64 ofPeer = u64(1) << 62, untold = ~u64(0);

/// Transfers of a loop that have nothing to do with each other: `n` at `perIteration` for
/// x, x + step, ... Of long ones the whole block moves one after the other; of short ones the time
/// is that of one access, so that each gets some warps.
struct Rows {
  int step, n, perIteration;
  u32 ofIteration, ofOperands; ///< inverses
  int atOnce, batches, teams, warps;
  u32 ofWarps;
};

struct Site;

/// The transfer at hand: operands are so many sources, then destinations, of each row. `sites`
/// tells what they are, or null if that has been put into their places.
struct Moved {
  int sources, operands, kind;
  int count; ///< adjacent chunks
  const Site *sites;
  int x, y;
  Rows rows;
};

/// The same for all threads.
struct BlockState {
  u64 launch[sizeof(Launch) / 8]; ///< see launched
  Where here;
  int instruction; ///< which waits, or a barrier: WaitReport::instruction
  /// Of the transfer at hand: sources, then destinations. `buffer` of a channel is its wire.
  Operand operands[CCL_OPERANDS > 0 ? CCL_OPERANDS : 1];
  Stream streams[CCL_OPERANDS > 0 ? CCL_OPERANDS : 1];
  ChannelEnd copies[sharedEnds];
  ChannelEnd *homes[sharedEnds];
  Moved moved;
  int named[CCL_NAMED > 0 ? CCL_NAMED : 1]; ///< ends
  int last;
  u64 began, looked; ///< when the launch did, and when its first thread last saw whether it is over
};
__shared__ BlockState state;

/// What the block was started with, in shared memory: from where it came, each look at it would
/// take the time of an access to memory.
__device__ __forceinline__ const Launch &launched() {
  return *reinterpret_cast<const Launch *>(state.launch);
}
/// By all threads, which meet before they use it.
__device__ __forceinline__ void copyLaunch(const Launch &launch) {
  static_assert(sizeof(Launch) % 8 == 0);
#pragma unroll 1
  for (int i = threadIndex(); i < int(sizeof(Launch) / 8); i += threadCount())
    state.launch[i] = reinterpret_cast<const u64 *>(&launch)[i];
}

/// What waits from now on belong to. The threads that wait meet in between.
__device__ __forceinline__ void reportAs(int instruction) {
  if (threadIndex() == 0)
    state.instruction = instruction;
}

/// Those who move something together, and what they move: sources, then destinations.
struct Team {
  int first;        ///< of its streams
  int thread, size; ///< of its threads: which this is, and how many

  __device__ __forceinline__ const Stream &stream(int i) const { return state.streams[first + i]; }
};
__device__ __forceinline__ Team wholeBlock() { return {0, threadIndex(), threads}; }

/// What a thread keeps of its own: equal in all threads of the block.
struct Block {
  int failed;
};

struct Channel {
  int end; ///< see endAt
};

/// End e of this instance.
__device__ __forceinline__ ChannelEnd *homeOf(int e) {
  return launched().ends[i64(state.here.instance) * launched().numEnds + e];
}
__device__ __forceinline__ ChannelEnd &endAt(int e) {
  if constexpr (copied)
    return state.copies[e];
  else
    return *homeOf(e);
}

__device__ __forceinline__ Channel channel(int family, int peer) {
  return {launched().endOf[family * launched().ranks + peer]};
}
/// The same under its number in the program. See places.cuh.
__device__ __forceinline__ Channel named(int number) { return {state.named[number]}; }
/// Of this block, looked up wherever it is used, so that no register is kept for it.
__device__ __forceinline__ int rank() { return state.here.rank; }

/// a mod m, never negative; quotients rounded down and up. m and b are positive.
__device__ constexpr int mod(int a, int m) {
  return (m & (m - 1)) == 0 ? a & (m - 1) : a % m + (a % m < 0 ? m : 0);
}
__device__ constexpr int floorDiv(int a, int b) { return (a - mod(a, b)) / b; }
__device__ constexpr int ceilDiv(int a, int b) { return -floorDiv(-a, b); }
__device__ __forceinline__ int smaller(int a, int b) { return a < b ? a : b; }
__device__ __forceinline__ int larger(int a, int b) { return a > b ? a : b; }
__device__ __forceinline__ i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

} // namespace ccl::cuda
