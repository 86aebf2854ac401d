//===- move.cuh - Data from memory to memory ----------------------------------===//
#pragma once

#include "operands.cuh"

namespace ccl::cuda {

/// Elements of several sources, combined from left to right. As many as fit, in registers.
template <typename Bits>
struct Combination {
  static constexpr int n = sizeof(Bits) / sizeof(typename E::Stored);
  union Parts {
    Bits bits;
    typename E::Stored elements[n];
    __device__ Parts() {}
  };
  typename E::Value values[n];

  __device__ __forceinline__ void start(const Bits &from) {
    Parts parts;
    parts.bits = from;
#pragma unroll
    for (int i = 0; i < n; ++i)
      values[i] = E::widen(parts.elements[i]);
  }
  __device__ __forceinline__ void add(const Bits &from) {
    Parts parts;
    parts.bits = from;
#pragma unroll
    for (int i = 0; i < n; ++i)
      values[i] = R::combine(values[i], E::widen(parts.elements[i]));
  }
  __device__ __forceinline__ Bits result() const {
    Parts parts;
#pragma unroll
    for (int i = 0; i < n; ++i)
      parts.elements[i] = E::narrow(values[i]);
    return parts.bits;
  }
};

/// Programs of None have no transfer with more than one source.
template <typename T>
constexpr bool combines = true;
template <>
constexpr bool combines<None> = false;

/// A thread has U vectors at once, one of each of so many pieces of memory that its warp goes
/// through. Where the first one is of what `thread` of a team has:
template <int U>
__device__ __forceinline__ int firstOf(int thread) {
  return thread / lanes * (U * lanes) + thread % lanes;
}
/// How many there are from the first one on, in front of what lies `left` bytes behind it.
template <int U>
__device__ __forceinline__ int countOf(i64 left) {
  constexpr u32 piece = 16 * lanes;
  return int((u32(smaller(left, i64(U * piece))) + piece - 1) / piece);
}

/// Whether elements are added up as they are; else each takes its time to widen.
constexpr bool asTheyAre = sizeof(typename E::Value) == elementBytes;

/// Adds the sources of a transfer behind the first one, `at` bytes behind where they begin. Loads
/// of one are under way while the one before is waited for.
template <int U>
__device__ __forceinline__ void combineAll(const Team &team, Vector (&some)[U], int sources, i64 at,
                                           int there) {
  Combination<Vector> sums[U];
  Vector next[U];
  if constexpr (!asTheyAre)
    loadSome<16 * lanes>(next, team.stream(1).data + at, there);
#pragma unroll
  for (int u = 0; u < U; ++u)
    sums[u].start(some[u]);
#pragma unroll 1
  for (int s = 1; s < sources; ++s) {
    if constexpr (asTheyAre)
      loadSome<16 * lanes>(next, team.stream(s).data + at, there);
#pragma unroll
    for (int u = 0; u < U; ++u)
      sums[u].add(next[u]);
    if constexpr (!asTheyAre)
      if (s + 1 < sources)
        loadSome<16 * lanes>(next, team.stream(s + 1).data + at, there);
  }
#pragma unroll
  for (int u = 0; u < U; ++u)
    some[u] = sums[u].result();
}

/// Vectors from `at` to `end`, in bytes behind where the operands begin.
template <int U, bool adds>
__device__ __forceinline__ void moveVectors(const Team &team, int sources, int operands, i64 at,
                                            i64 end) {
#pragma unroll 1
  for (at += firstOf<U>(team.thread) * 16; at < end; at += U * team.size * 16) {
    const int there = countOf<U>(end - at);
    Vector some[U];
    loadSome<16 * lanes>(some, team.stream(0).data + at, there);
    if constexpr (adds)
      if (asTheyAre || sources > 1)
        combineAll(team, some, sources, at, there);
#pragma unroll 1
    for (int d = sources; d < operands; ++d) {
      char *to = team.stream(d).data;
      if (sources > 1 || to != team.stream(0).data)
        storeSome<16 * lanes>(to + at, some, there);
    }
  }
}

/// One by one: `length` elements, those from `head` on `skipped` elements further behind.
__device__ __forceinline__ void moveElements(const Team &team, int sources, int operands,
                                             i64 length, i64 head, i64 skipped) {
  using Stored = typename E::Stored;
#pragma unroll 1
  for (i64 i = team.thread; i < length; i += team.size) {
    const i64 at = i < head ? i : i + skipped;
    Stored x = reinterpret_cast<const Stored *>(team.stream(0).data)[at];
    if constexpr (combines<R>)
      if (asTheyAre || sources > 1) {
        Combination<Stored> sum;
        sum.start(x);
#pragma unroll 1
        for (int s = 1; s < sources; ++s)
          sum.add(reinterpret_cast<const Stored *>(team.stream(s).data)[at]);
        x = sum.result();
      }
#pragma unroll 1
    for (int d = sources; d < operands; ++d)
      if (char *to = team.stream(d).data; sources > 1 || to != team.stream(0).data)
        reinterpret_cast<Stored *>(to)[at] = x;
  }
}

#ifdef CCL_TMA
__device__ void copyBulk(i64 skipped, i64 bytes, int operands); // of bulk.cuh
#endif

/// In memory on both sides: 16 bytes at a time where all operands have the same offset in that,
/// elements at both ends, never a byte outside.
__device__ __noinline__ void moveMemory(Team team, i64 n, bool aligned, int sources, int operands) {
  if constexpr (!inRows)
    team = wholeBlock();
  constexpr i64 perVector = 16 / elementBytes;
  const i64 begin = (-u32(u64(team.stream(0).data)) & 15) / u32(elementBytes);
  const i64 head = aligned ? smaller(begin, n) : n, vectors = i64(u64(n - head) / perVector);
  moveElements(team, sources, operands, n - vectors * perVector, head, vectors * perVector);
#ifdef CCL_TMA
  if (sources == 1) {
    if (threadIndex() == 0 && vectors > 0)
      copyBulk(head * elementBytes, vectors * 16, operands);
    return;
  }
#endif
  // What is added up has registers of its own, one for each element.
  constexpr int atOnce = 4, added = elementBytes < atOnce ? elementBytes : atOnce;
  const i64 at = head * elementBytes, end = at + vectors * 16;
  if constexpr (added == atOnce)
    moveVectors<atOnce, combines<R>>(team, sources, operands, at, end);
  else if (sources == 1)
    moveVectors<atOnce, false>(team, 1, operands, at, end);
  else if constexpr (combines<R>)
    moveVectors<added, true>(team, sources, operands, at, end);
}

} // namespace ccl::cuda
