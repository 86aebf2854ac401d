//===- operands.cuh - Where the data of a transfer lie ------------------------===//
#pragma once

#include "waits.cuh"

namespace ccl::cuda {

/// What a transfer is, besides its operands.
struct Shape {
  int sources, operands, kind;
};
/// Bits of a kind. In all of memory and `simple`: none.
enum Kind : int {
  flagged = 1,          ///< flags in the data of some operand
  inLines = 2,          ///< of some in those of ll128
  wholeSlots = 4,       ///< what a slot of a chunk has goes, not only the elements of a row
  allSources = 8,       ///< the only one is a place of all ranks; see multimem.cuh
  allDestinations = 16, ///< and of destinations
};

/// Slice of the micro-batch of chunk k of a row.
__device__ __forceinline__ Shard slice(int k, int row) {
  const Launch &launch = *state.launch;
  constexpr unsigned chunks = CCL_CHUNKS;
  const int shard = int(unsigned(k) / chunks), c = int(unsigned(k) % chunks);
  Shard whole{shard * launch.count, launch.count};
  if (launch.shards)
    whole = launch.shards[row][shard];
  // Chunk c is [c * length / chunks, (c + 1) * length / chunks).
  i64 begin = 0, length = whole.length;
  if constexpr (chunks > 1) {
    using Small = typename Choice<(chunks < 0x8000), u32, u64>::Type;
    const u64 each = u64(whole.length) / chunks;
    const Small rest = Small(u64(whole.length) - each * chunks);
    const Small first = c * rest / chunks;
    begin = i64(c * each + first);
    length = i64(each + ((c + 1) * rest / chunks - first));
  }
  const i64 from = state.here.microBatch * length >> launch.batchShift;
  const i64 to = (state.here.microBatch + 1) * length >> launch.batchShift;
  return {whole.start + begin + from, to - from};
}

/// What never is in fresh memory, and differs between uses of a slot.
__device__ constexpr u32 flagOf(u64 next) { return u32(next + 1) * 2 + 1; }

/// Bytes of a slot in front of what lies `bytes` behind its start in memory.
__device__ __forceinline__ i64 startInSlot(int wire, i64 bytes) {
  if ((wires & ll) != 0 && wire == ll)
    return (bytes + 7) / 8 * 16;
  if ((wires & ll128) != 0 && wire == ll128)
    return i64(u64(bytes + 119) / 120 * 128);
  if ((wires & lamport) != 0 && wire == lamport)
    return (bytes + 7) / 8 * 8;
  return bytes;
}

/// Where chunk j of an operand lies.
__device__ __forceinline__ Stream locate(const Operand &operand, int j) {
  const Launch &launch = *state.launch;
  const i64 bytes = launch.stride * elementBytes;
  if (operand.peer == -2) {
    const ChannelEnd &end = endAt(operand.chunk);
    const int wire = operand.buffer;
    return {end.slots + end.slot * end.slotPitch + startInSlot(wire, j * bytes),
            wire == ll ? flagOf(end.next) : end.next + 1,
            -1,
            false,
            end.peer,
            wire};
  }
  const BufferView &view = launch.buffers[operand.buffer];
  const int chunk = operand.chunk + j;
#ifdef CCL_MULTIMEM
  if (operand.peer == -3) {
    const bool isScratch = CCL_ROLES[operand.buffer] == 's';
    const Shard part = isScratch
                           ? Shard{chunk * launch.stride, -1}
                           : slice(chunk, 2 * state.here.rank + (CCL_ROLES[operand.buffer] == 'o'));
    const i64 start =
        part.start * elementBytes + (isScratch ? state.here.instance * view.instancePitch : 0);
    return {view.multicast + start, u64(start), part.length, true, operand.buffer, memory};
  }
#endif
  const int rank = operand.peer < 0 ? state.here.rank : operand.peer;
  char *base = operand.peer < 0 ? view.own : view.peers[rank] + view.offset;
  const char role = CCL_ROLES[operand.buffer];
  if (role == 's')
    return {
        base + state.here.instance * view.instancePitch + chunk * bytes, 0, -1, false, -1, memory};
  const Shard part = slice(chunk, 2 * rank + (role == 'o'));
  return {base + part.start * elementBytes, 0, part.length, rank == state.here.rank, -1, memory};
}

/// By the first threads: operands [begin, end) are there, those from `sources` on are
/// destinations: use(i, operand, to).
template <typename F>
__device__ __forceinline__ void eachOperand(int sources, int operands, F use) {
  if (threadIndex() < lanes)
#pragma unroll 1
    for (int i = threadIndex(); i < operands; i += lanes)
      use(i, state.operands[i], i >= sources);
}

/// Waits until an operand may be used. Whether that came. Data with flags tell by themselves that
/// they are there.
__device__ __forceinline__ bool awaitOperand(const Operand &operand, bool to) {
  if (operand.peer != -2 || (operand.buffer != simple && !to))
    return true;
  const ChannelEnd &end = endAt(operand.chunk);
  return waitFor(end.arrive, end.next + 1 - (to ? u64(end.numSlots) : 0),
                 awaited(to ? freed : filled, operand.chunk));
}

/// What the streams of a transfer are together.
struct Together {
  /// Elements: of a row of this rank if there is one (in an uneven launch a peer's may be longer),
  /// else of a peer's, else -1.
  i64 length;
  bool aligned; ///< all begin at the same offset in 16 bytes
  bool moves;   ///< some destination is not the only source
};
__device__ __forceinline__ Together lookAtAll(const Stream *streams, int sources, int operands) {
  Together found{-1, true, false};
  bool own = false;
  const u64 first = u64(streams[0].data);
#pragma unroll 1
  for (int i = 0; i < operands; ++i) {
    const Stream &stream = streams[i];
    const u64 differs = u64(stream.data) ^ first;
    found.aligned &= differs % 16 == 0;
    found.moves |= differs != 0;
    if (stream.length >= 0 && (found.length < 0 || stream.own && !own)) {
      found.length = stream.length;
      own = stream.own;
    }
  }
  found.moves |= sources > 1;
  return found;
}

} // namespace ccl::cuda
