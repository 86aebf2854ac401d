//===- multimem.cuh - One place of all ranks, through the switch --------------===//
//
// Where every rank's buffer is bound to one multicast address, a load there brings the
// combination of all ranks' elements, in the switch's own order, and a store goes to all. Only
// 16-byte vectors go that way; the elements at both ends go from and to each peer. All rows of a
// launch are alike, and all ranks' buffers have the same offset in 16 bytes.
//
//   CCL_MULTIMEM       what is loaded: "add.v4.f32", "min.s32"
//   CCL_MULTIMEM_BYTES of one load: 4, 8, 16; 0: nothing is
//===----------------------------------------------------------------------===//
#pragma once

#include "move.cuh"

#ifdef CCL_MULTIMEM
namespace ccl::cuda {

/// The same memory has two addresses here: what is done through one is seen through the other.
__device__ __forceinline__ void fenceAlias() { asm volatile("fence.proxy.alias;" ::: "memory"); }

#define CCL_LOAD "multimem.ld_reduce.relaxed.sys.global." CCL_MULTIMEM
__device__ __forceinline__ Vector loadFromAll(const Vector *p) {
  union {
    Vector all;
    u32 words[4];
  } x;
#if CCL_MULTIMEM_BYTES == 16
  asm volatile(CCL_LOAD " {%0, %1, %2, %3}, [%4];"
               : "=r"(x.words[0]), "=r"(x.words[1]), "=r"(x.words[2]), "=r"(x.words[3])
               : "l"(p)
               : "memory");
#elif CCL_MULTIMEM_BYTES == 8
#pragma unroll
  for (int i = 0; i < 2; ++i)
    asm volatile(CCL_LOAD " %0, [%1];" : "=l"(x.all.words[i]) : "l"(&p->words[i]) : "memory");
#elif CCL_MULTIMEM_BYTES == 4
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm volatile(CCL_LOAD " %0, [%1];"
                 : "=r"(x.words[i])
                 : "l"(reinterpret_cast<const char *>(p) + 4 * i)
                 : "memory");
#endif
  return x.all;
}
#undef CCL_LOAD

__device__ __forceinline__ void storeToAll(Vector *p, const Vector &x) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p),
               "r"(u32(x.words[0])), "r"(u32(x.words[0] >> 32)), "r"(u32(x.words[1])),
               "r"(u32(x.words[1] >> 32))
               : "memory");
}

/// The buffer of rank r of an operand that is a place of all, at what `stream` is of it.
__device__ __forceinline__ typename E::Stored *placeOf(const Stream &stream, int r) {
  const BufferView &view = launched().buffers[stream.peer];
  return reinterpret_cast<typename E::Stored *>(view.peers[r] + view.offset + stream.flag);
}

/// One element at a time.
__device__ __forceinline__ void moveElement(i64 at, int kind, int sources, int operands) {
  using Stored = typename E::Stored;
  const Stream *from = state.streams;
  const bool fromAll = kind & allSources;
  const int ranks = launched().ranks, many = fromAll ? ranks : sources;
  Stored x;
  Combination<Stored> sum;
#pragma unroll 1
  for (int s = 0; s < many; ++s) {
    x = fromAll ? placeOf(from[0], s)[at] : reinterpret_cast<const Stored *>(from[s].data)[at];
    if (s == 0)
      sum.start(x);
    else
      sum.add(x);
  }
  if (many > 1)
    x = sum.result();
#pragma unroll 1
  for (int d = sources; d < operands; ++d) {
    if (!(kind & allDestinations))
      reinterpret_cast<Stored *>(from[d].data)[at] = x;
    else
#pragma unroll 1
      for (int r = 0; r < ranks; ++r)
        placeOf(from[d], r)[at] = x;
  }
}

/// A side that is a place of all ranks is one operand. Without the same offset in 16 bytes on all
/// sides, all goes element by element.
__device__ __noinline__ void moveThroughSwitch(i64 n, bool aligned, int kind, int sources,
                                               int operands) {
  constexpr i64 perVector = 16 / elementBytes;
  const i64 begin = i64(-u64(state.streams[0].data) % 16) / elementBytes;
  const i64 head = aligned ? smaller(begin, n) : n, vectors = (n - head) / perVector;
  fenceAlias();
#pragma unroll 1
  for (i64 i = threadIndex(); i < n - vectors * perVector; i += threads)
    moveElement(i < head ? i : i + vectors * perVector, kind, sources, operands);
  constexpr int U = 2;
  const i64 end = head * elementBytes + vectors * 16;
#pragma unroll 1
  for (i64 at = head * elementBytes + firstOf<U>(threadIndex()) * 16; at < end;
       at += U * threads * 16) {
    const int there = countOf<U>(end - at);
    Vector some[U];
    const char *first = state.streams[0].data + at;
    if (kind & allSources) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        some[u] = Vector{};
        if (u < there)
          some[u] = loadFromAll(reinterpret_cast<const Vector *>(first) + u * lanes);
      }
    } else {
      loadSome<16 * lanes>(some, first, there);
      if constexpr (combines<R>)
        if (sources > 1)
          combineAll(wholeBlock(), some, sources, at, there);
    }
#pragma unroll 1
    for (int d = sources; d < operands; ++d) {
      char *to = state.streams[d].data + at;
      if (!(kind & allDestinations))
        storeSome<16 * lanes>(to, some, there);
      else
#pragma unroll
        for (int u = 0; u < U; ++u)
          if (u < there)
            storeToAll(reinterpret_cast<Vector *>(to) + u * lanes, some[u]);
    }
  }
  fenceAlias();
}

} // namespace ccl::cuda
#endif
