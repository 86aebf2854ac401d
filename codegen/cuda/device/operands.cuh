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
  const Launch &launch = launched();
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
__device__ __forceinline__ void locate(Stream &stream, const Operand &operand, int j) {
  const Launch &launch = launched();
  const i64 bytes = launch.stride * elementBytes;
  if (slots && operand.peer == -2) {
    const ChannelEnd &end = endAt(operand.chunk);
    const int wire = operand.buffer;
    stream.data = end.slots + end.slot * end.slotPitch + startInSlot(wire, j * bytes);
    stream.length = untold;
    if constexpr (flaggedWires) {
      stream.flag = wire == ll ? flagOf(end.next) : end.next + 1;
      stream.peer = end.peer;
      stream.wire = wire;
    }
    return;
  }
  const BufferView &view = launch.buffers[operand.buffer];
  const char role = CCL_ROLES[operand.buffer];
  const int chunk = operand.chunk + j, me = rank(),
            rank = !peers || operand.peer < 0 ? me : operand.peer;
  char *base = !peers || operand.peer < 0 ? view.own : view.peers[rank] + view.offset;
  i64 start = 0;
#ifdef CCL_MULTIMEM
  if (operand.peer == -3) {
    base = view.multicast;
    stream.peer = operand.buffer;
  }
#endif
  if (hasScratch(CCL_ROLES) && role == 's') {
    start = state.here.instance * view.instancePitch + chunk * bytes;
    stream.length = untold;
  } else {
    const Shard part = slice(chunk, 2 * rank + (role == 'o'));
    start = part.start * elementBytes;
    stream.length = u64(part.length) + (rank == me ? 0 : ofPeer);
  }
  stream.data = base + start;
#ifdef CCL_MULTIMEM
  if (operand.peer == -3)
    stream.flag = u64(start);
#endif
  if constexpr (flaggedWires)
    stream.wire = memory;
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
__device__ __forceinline__ Together lookAtAll(const Team &team, int sources, int operands) {
  const u64 first = u64(team.stream(0).data);
  u64 differs = 0, length = untold;
#pragma unroll 1
  for (int i = 0; i < operands; ++i) {
    const Stream &stream = team.stream(i);
    differs |= u64(stream.data) ^ first;
    length = stream.length < length ? stream.length : length;
  }
  return {length == untold ? -1 : i64(length & ~ofPeer), differs % 16 == 0,
          differs != 0 || sources > 1};
}

} // namespace ccl::cuda
