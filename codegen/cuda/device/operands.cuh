//===- operands.cuh - Where the data of a transfer lie -----------------------===//
#pragma once

#include "waits.cuh"

namespace ccl::cuda {

/// Slice of the micro-batch of chunk k of a row.
__device__ __noinline__ Shard slice(i64 k, int row) {
  const Launch &launch = *state.launch;
  constexpr unsigned chunks = CCL_CHUNKS;
  const int shard = int(unsigned(k) / chunks), c = int(unsigned(k) % chunks);
  Shard whole{shard * launch.count, launch.count};
  if (launch.shards)
    whole = launch.shards[row][shard];
  const i64 begin = i64(u64(c * whole.length) / chunks);
  const i64 length = i64(u64((c + 1) * whole.length) / chunks) - begin;
  const i64 from = state.batch * length >> launch.batchShift;
  const i64 to = (state.batch + 1) * length >> launch.batchShift;
  return {whole.start + begin + from, to - from};
}

/// What never is in fresh memory, and differs between uses of a slot.
__device__ constexpr u32 flagOf(u64 next) { return u32(next + 1) * 2 + 1; }

/// Where chunk j of an operand lies.
__device__ __noinline__ Stream locate(Wire wire, Operand operand, i64 j) {
  const Launch &launch = *state.launch;
  const i64 bytes = launch.stride * elementBytes;
  if (operand.peer == -2) {
    const ChannelEnd &end = endAt(int(operand.chunk));
    const i64 start = wire == simple ? j * bytes
                      : wire == ll   ? (j * bytes + 7) / 8 * 16
                                     : (j * bytes + 119) / 120 * 128;
    return {end.slots + end.slot * end.slotPitch + start,
            wire == ll ? flagOf(end.next) : end.next + 1, -1, false, end.peer};
  }
  const BufferView &view = launch.buffers[operand.buffer];
  const i64 chunk = operand.chunk + j;
  const i64 rank = operand.peer < 0 ? state.me : operand.peer;
  char *base = operand.peer < 0 ? view.own : view.peers[rank] + view.offset;
  const char role = CCL_ROLES[operand.buffer];
  if (role == 's')
    return {base + state.instance * view.instancePitch + chunk * bytes, 0, -1, false, -1};
  const Shard part = slice(chunk, int(2 * rank + (role == 'o')));
  return {base + part.start * elementBytes, 0, part.length, rank == state.me, -1};
}

/// Operand i, by thread i: waits until it may be used, and finds it. Whether that failed.
__device__ __noinline__ bool prepare(i64 instruction, int i, Wire wire, bool to, Operand operand) {
  bool fails = false;
  // Data with flags tell by themselves that they are there.
  if (operand.peer == -2 && (wire == simple || to)) {
    const ChannelEnd &end = endAt(int(operand.chunk));
    fails = !waitFor(end.arrive, end.next + 1, to ? u64(end.numSlots) : 0,
                     {instruction, end.peer, to, end.numSlots});
  }
  state.streams[i] = locate(wire, operand, 0);
  return fails;
}
/// After it: the peer may go on.
__device__ __noinline__ void publish(Wire wire, bool to, Operand operand) {
  if (operand.peer != -2)
    return;
  ChannelEnd &end = endAt(int(operand.chunk));
  if (wire == simple || !to)
    storeRelease(end.depart, end.next + 1);
  advance(end, int(operand.chunk));
}

/// Elements of the transfer at hand: of a row of this rank if there is one (in an uneven launch
/// a peer's may be longer), else of a peer's, else `strided`.
__device__ __forceinline__ i64 lengthOf(int operands, i64 strided) {
  i64 length = -1;
#pragma unroll 1
  for (int i = 0; i < operands; ++i) {
    const Stream &stream = state.streams[i];
    if (stream.length < 0)
      continue;
    if (stream.own)
      return stream.length;
    if (length < 0)
      length = stream.length;
  }
  return length < 0 ? strided : length;
}

} // namespace ccl::cuda
