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

/// Some of `U` vectors or elements of a thread, `apart` from each other: those in front of
/// `there`.
template <int U, typename Bits>
struct Some {
  Bits all[U];

  __device__ __forceinline__ void load(const char *from, int apart, int there) {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      all[u] = Bits{}; // else registers would be kept for what was there before
      if (u * apart < there)
        all[u] = loadGlobal(reinterpret_cast<const Bits *>(from) + u * apart);
    }
  }
  __device__ __forceinline__ void store(char *to, int apart, int there) const {
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (u * apart < there)
        storeGlobal(reinterpret_cast<Bits *>(to) + u * apart, all[u]);
  }
};

/// All sources of a transfer, from the first one on, `at` bytes behind where they begin: 2 * U
/// loads are under way.
template <int U, typename Bits>
__device__ __forceinline__ void combineAll(const Team &team, Some<U, Bits> &some, int sources,
                                           i64 at, int there) {
  Combination<Bits> sums[U];
  Some<U, Bits> next;
  next.load(team.streams[1].data + at, team.size, there);
#pragma unroll
  for (int u = 0; u < U; ++u)
    sums[u].start(some.all[u]);
#pragma unroll 1
  for (int s = 2;; ++s) {
    some = next;
    if (s < sources)
      next.load(team.streams[s].data + at, team.size, there);
#pragma unroll
    for (int u = 0; u < U; ++u)
      sums[u].add(some.all[u]);
    if (s >= sources)
      break;
  }
#pragma unroll
  for (int u = 0; u < U; ++u)
    some.all[u] = sums[u].result();
}

/// `length` vectors or elements that lie `at` bytes behind where the operands begin. Only
/// elements are copied and combined by one code.
template <int U, typename Bits, bool copies>
__device__ __forceinline__ void moveSome(const Team &team, int sources, int operands, i64 at,
                                         i64 length) {
  constexpr int size = sizeof(Bits);
  at += team.thread * size;
#pragma unroll 1
  for (i64 left = length - team.thread; left > 0; left -= U * team.size) {
    const int there = int(smaller(left, i64(U * team.size)));
    const char *first = team.streams[0].data + at;
    Some<U, Bits> some;
    some.load(first, team.size, there);
    if constexpr (combines<R>)
      if (!copies || sources > 1)
        combineAll(team, some, sources, at, there);
#pragma unroll 1
    for (int d = sources; d < operands; ++d) {
      char *to = team.streams[d].data + at;
      if (sources > 1 || to != first)
        some.store(to, team.size, there);
    }
    at += U * team.size * size;
  }
}

#ifdef CCL_TMA
__device__ void copyBulk(const Stream *streams, i64 skipped, i64 bytes,
                         int operands); // of bulk.cuh
#endif

/// In memory on both sides: 16 bytes at a time where all operands have the same offset in that,
/// elements at both ends, never a byte outside.
__device__ __forceinline__ void moveMemory(const Team &team, i64 n, bool aligned, int sources,
                                           int operands) {
  constexpr i64 perVector = 16 / elementBytes;
  const i64 begin = i64(-u64(team.streams[0].data) % 16) / elementBytes;
  const i64 head = aligned ? smaller(begin, n) : n, vectors = (n - head) / perVector;
  i64 at = 0, length = head;
#pragma unroll 1
  for (bool isHead = true;; isHead = false) {
    moveSome<1, typename E::Stored, true>(team, sources, operands, at * elementBytes, length);
    if (!isHead)
      break;
    at = head + vectors * perVector;
    length = n - at;
  }
#ifdef CCL_TMA
  if (sources == 1) {
    if (threadIndex() == 0 && vectors > 0)
      copyBulk(team.streams, head * elementBytes, vectors * 16, operands);
    return;
  }
#endif
  if (sources == 1)
    moveSome<4, Vector, true>(team, 1, operands, head * elementBytes, vectors);
  else if constexpr (combines<R>)
    moveSome<elementBytes == 1 ? 1 : 2, Vector, false>(team, sources, operands, head * elementBytes,
                                                       vectors);
}

} // namespace ccl::cuda
