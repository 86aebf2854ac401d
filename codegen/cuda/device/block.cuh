//===- block.cuh - What a block knows ----------------------------------------===//
#pragma once

#include "elements.cuh"

namespace ccl::cuda {

struct Launch : LaunchHead {
  BufferView buffers[CCL_BUFFERS > 0 ? CCL_BUFFERS : 1];
};

/// How an operand's data lie, and how one sees that they are there.
enum Wire { memory, simple, ll, ll128 };

/// Ends that a block keeps in shared memory while it runs; more stay where they are.
constexpr int sharedEnds = 64;

/// What one operand is while elements are moved.
struct Stream {
  char *data;
  u64 flag;   ///< of ll and ll128
  i64 length; ///< elements, if a row of shards tells, else -1
  bool own;   ///< row of this rank
  int peer;   ///< of a channel
};

/// The same for all threads.
struct BlockState {
  const Launch *launch;
  bool copied; ///< the ends are in `copies`
  i64 me, batch, epoch;
  int instance, agent;
  Stream streams[CCL_OPERANDS > 0 ? CCL_OPERANDS : 1];
  ChannelEnd copies[sharedEnds];
  u8 used[sharedEnds];
  int last;
};
__shared__ BlockState state;

/// What a thread keeps of its own: equal in all threads of the block.
struct Block {
  bool failed;
};

struct Channel {
  int end; ///< see endAt
};

/// End e of this instance.
__device__ __forceinline__ ChannelEnd *const &sharedEnd(int e) {
  return state.launch->ends[i64(state.instance) * state.launch->numEnds + e];
}
__device__ __forceinline__ ChannelEnd &endAt(int e) {
  return state.copied ? state.copies[e] : *sharedEnd(e);
}

__device__ __forceinline__ Channel channel(int family, i64 peer) {
  return {state.launch->endOf[i64(family) * state.launch->ranks + peer]};
}
/// A slot of it.
__device__ __forceinline__ Operand slot(Channel c) { return {-2, 0, c.end}; }
/// A chunk of this rank's buffer `b`, and of another rank's.
__device__ __forceinline__ Operand at(int b, i64 chunk) { return {-1, b, chunk}; }
__device__ __forceinline__ Operand at(int b, i64 chunk, i64 rank) { return {int(rank), b, chunk}; }

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
