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

/// Whether transfers of several rows of operands are there. See transferEach.
constexpr bool inRows = CCL_ROWS;

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
  u64 flag;   ///< of ll and ll128
  i64 length; ///< elements, if a row of shards tells, else -1
  bool own;   ///< row of this rank
  int peer;   ///< of a channel
  int wire;
};

/// The same for all threads.
struct BlockState {
  const Launch *launch;
  Where here;
  int instruction; ///< which waits, or a barrier: WaitReport::instruction
  /// Of the transfer at hand: sources, then destinations. `buffer` of a channel is its wire.
  Operand operands[CCL_OPERANDS > 0 ? CCL_OPERANDS : 1];
  Stream streams[CCL_OPERANDS > 0 ? CCL_OPERANDS : 1];
  ChannelEnd copies[sharedEnds];
  ChannelEnd *homes[sharedEnds];
  int named[CCL_NAMED > 0 ? CCL_NAMED : 1]; ///< ends
  int last;
  u64 began, looked; ///< when the launch did, and when its first thread last saw whether it is over
};
__shared__ BlockState state;

/// What waits from now on belong to. The threads that wait meet in between.
__device__ __forceinline__ void reportAs(int instruction) {
  if (threadIndex() == 0)
    state.instruction = instruction;
}

/// Those who move something together, and what they move: sources, then destinations.
struct Team {
  const Stream *streams;
  int thread, size; ///< of its threads: which this is, and how many
};
__device__ __forceinline__ Team wholeBlock() { return {state.streams, threadIndex(), threads}; }

/// What a thread keeps of its own: equal in all threads of the block.
struct Block {
  bool failed;
};

struct Channel {
  int end; ///< see endAt
};

/// End e of this instance.
__device__ __forceinline__ ChannelEnd *homeOf(int e) {
  return state.launch->ends[i64(state.here.instance) * state.launch->numEnds + e];
}
__device__ __forceinline__ ChannelEnd &endAt(int e) {
  if constexpr (copied)
    return state.copies[e];
  else
    return *homeOf(e);
}

__device__ __forceinline__ Channel channel(int family, int peer) {
  return {state.launch->endOf[family * state.launch->ranks + peer]};
}
/// A channel that a program has under a number of its own: what it is lies in shared memory, so
/// that no register is kept for it. Named by the first thread, and there for the others of its warp
/// when they meet next.
struct Named {
  int number;
  __device__ __forceinline__ Named(int number, Channel c) : number(number) {
    if (threadIndex() == 0)
      state.named[number] = c.end;
  }
  __device__ __forceinline__ operator Channel() const { return {state.named[number]}; }
};
/// The rank of this block, looked up wherever it is used for the same reason.
struct Me {
  __device__ __forceinline__ operator int() const { return state.here.rank; }
};
/// Of a side of a transfer: a slot of a channel, a chunk of this rank's buffer `b`, or of another
/// rank's.
__device__ __forceinline__ Operand slot(Channel c, Wire wire) { return {-2, wire, c.end}; }
/// Of a named one: looked up by the thread that puts the operand in its place.
struct NamedSlot {
  Named channel;
  Wire wire;
  __device__ __forceinline__ operator Operand() const { return slot(Channel(channel), wire); }
};
__device__ __forceinline__ NamedSlot slot(const Named &c, Wire wire) { return {c, wire}; }
__device__ __forceinline__ Operand at(int b, int chunk) { return {-1, b, chunk}; }
__device__ __forceinline__ Operand at(int b, int chunk, int rank) { return {rank, b, chunk}; }
/// The same chunk of all ranks.
__device__ __forceinline__ Operand atAll(int b, int chunk) { return {-3, b, chunk}; }

/// a mod m, never negative; quotients rounded down and up. m and b are positive.
__device__ __forceinline__ int mod(int a, int m) {
  const int r = a % m;
  return r < 0 ? r + m : r;
}
__device__ __forceinline__ int floorDiv(int a, int b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
__device__ __forceinline__ int ceilDiv(int a, int b) { return -floorDiv(-a, b); }
__device__ __forceinline__ int smaller(int a, int b) { return a < b ? a : b; }
__device__ __forceinline__ int larger(int a, int b) { return a > b ? a : b; }
__device__ __forceinline__ i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

} // namespace ccl::cuda
