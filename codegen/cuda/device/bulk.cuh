//===- bulk.cuh - Copies by the tensor memory accelerator ---------------------===//
//
// One thread has 16-byte aligned data copied to shared memory and from there to every destination,
// several pieces under way; the others see to the elements at both ends. Memory is that of this
// GPU or of a peer.
//===----------------------------------------------------------------------===//
#pragma once

#include "move.cuh"

#ifdef CCL_TMA
namespace ccl::cuda {

constexpr int stages = 4, loadsAhead = 2, stageBytes = 8192;

struct alignas(128) BulkState {
  char pieces[stages][stageBytes];
  u64 filled[stages]; ///< barriers: the piece is there
  u64 done;           ///< pieces of all transfers before
};
__shared__ BulkState bulk;

__device__ __forceinline__ u32 sharedAddress(const void *p) {
  return u32(__cvta_generic_to_shared(p));
}
/// What others did before, as far as this thread knows, is so for the accelerator, and the other
/// way round.
__device__ __forceinline__ void fenceBulk() { asm volatile("fence.proxy.async;" ::: "memory"); }

/// By one thread of the block, once.
__device__ __forceinline__ void beginBulk() {
#pragma unroll 1
  for (int s = 0; s < stages; ++s)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(sharedAddress(&bulk.filled[s]))
                 : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  bulk.done = 0;
}

__device__ __forceinline__ u32 bytesOf(i64 piece, i64 bytes) {
  return u32(smaller(bytes - piece * stageBytes, i64(stageBytes)));
}

/// Piece `piece`, which is the number-th of all, to its stage.
__device__ __forceinline__ void loadPiece(const char *from, i64 piece, u64 number, i64 bytes) {
  const int stage = int(number % stages);
  const u32 barrier = sharedAddress(&bulk.filled[stage]), size = bytesOf(piece, bytes);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(size)
               : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1], %2, [%3];" ::"r"(sharedAddress(bulk.pieces[stage])),
               "l"(from + piece * stageBytes), "r"(size), "r"(barrier)
               : "memory");
}

/// A copy that has begun ends by itself, so this has no deadline.
__device__ __forceinline__ void awaitPiece(u64 number) {
  const u32 barrier = sharedAddress(&bulk.filled[number % stages]), parity = number / stages % 2;
  u32 there = 0;
#pragma unroll 1
  while (!there)
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(there)
                 : "r"(barrier), "r"(parity)
                 : "memory");
}

/// By one thread: `bytes` that lie `skipped` bytes behind where the operands begin, a multiple of
/// 16, from the only source to all destinations.
__device__ __noinline__ void copyBulk(i64 skipped, i64 bytes, int operands) {
  const char *from = state.streams[0].data + skipped;
  const i64 pieces = i64(u64(bytes + stageBytes - 1) / stageBytes);
  const u64 before = bulk.done;
  fenceBulk();
#pragma unroll 1
  for (i64 i = 0; i < smaller(pieces, i64(loadsAhead)); ++i)
    loadPiece(from, i, before + i, bytes);
#pragma unroll 1
  for (i64 i = 0; i < pieces; ++i) {
    if (i + loadsAhead < pieces) {
      // Its stage is that of piece i + loadsAhead - stages, which has been read by all stores.
      asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(stages - loadsAhead - 1) : "memory");
      loadPiece(from, i + loadsAhead, before + i + loadsAhead, bytes);
    }
    awaitPiece(before + i);
#pragma unroll 1
    for (int d = 1; d < operands; ++d) {
      char *to = state.streams[d].data + skipped;
      if (to != from)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                         to + i * stageBytes),
                     "r"(sharedAddress(bulk.pieces[(before + i) % stages])), "r"(bytesOf(i, bytes))
                     : "memory");
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  bulk.done = before + pieces;
  fenceBulk();
}

} // namespace ccl::cuda
#endif
