//===- move.cuh - Data from memory to memory ---------------------------------===//
#pragma once

#include "operands.cuh"

namespace ccl::cuda {

struct alignas(16) Vector {
  u64 words[2];
};

/// Elements of several sources, combined from left to right. As many as fit, in registers.
template <typename Bits, int S>
__device__ __forceinline__ Bits combineBits(const Bits (&from)[S]) {
  if constexpr (S == 1) {
    return from[0];
  } else {
    constexpr int n = sizeof(Bits) / sizeof(typename E::Stored);
    union Parts {
      Bits bits;
      typename E::Stored elements[n];
      __device__ Parts() {}
    };
    typename E::Value values[n];
    Parts parts;
    parts.bits = from[0];
#pragma unroll
    for (int i = 0; i < n; ++i)
      values[i] = E::widen(parts.elements[i]);
#pragma unroll
    for (int s = 1; s < S; ++s) {
      parts.bits = from[s];
#pragma unroll
      for (int i = 0; i < n; ++i)
        values[i] = R::combine(values[i], E::widen(parts.elements[i]));
    }
#pragma unroll
    for (int i = 0; i < n; ++i)
      parts.elements[i] = E::narrow(values[i]);
    return parts.bits;
  }
}

/// Sources of a transfer that are held in registers; of more, one after the other is added.
constexpr int mostHeld = 8;

/// Vectors of every source that a thread holds at once.
__device__ constexpr int unrollOf(int sources) { return sources == 1 ? 4 : sources <= 3 ? 2 : 1; }

/// Where the operands of a transfer lie, in registers.
template <int S, int D>
struct Places {
  const char *from[S];
  char *to[D]; ///< null: there is none, or it is the only source
};

/// The combination of many sources, at element or vector `at` behind `skipped` bytes.
template <typename Bits, int S>
__device__ __forceinline__ Bits combineMany(i64 skipped, i64 at) {
  auto load = [&](int s) {
    return reinterpret_cast<const Bits *>(state.streams[s].data + skipped)[at];
  };
  constexpr int n = sizeof(Bits) / sizeof(typename E::Stored);
  union Parts {
    Bits bits;
    typename E::Stored elements[n];
    __device__ Parts() {}
  };
  typename E::Value values[n];
  Parts parts;
  parts.bits = load(0);
#pragma unroll
  for (int i = 0; i < n; ++i)
    values[i] = E::widen(parts.elements[i]);
#pragma unroll 4
  for (int s = 1; s < S; ++s) {
    parts.bits = load(s);
#pragma unroll
    for (int i = 0; i < n; ++i)
      values[i] = R::combine(values[i], E::widen(parts.elements[i]));
  }
#pragma unroll
  for (int i = 0; i < n; ++i)
    parts.elements[i] = E::narrow(values[i]);
  return parts.bits;
}

template <typename Bits, int S>
__device__ __forceinline__ void moveOneOfMany(int destinations, i64 skipped, i64 at) {
  const Bits result = combineMany<Bits, S>(skipped, at);
#pragma unroll 1
  for (int d = S; d < S + destinations; ++d)
    if (S > 1 || state.streams[d].data != state.streams[0].data)
      reinterpret_cast<Bits *>(state.streams[d].data + skipped)[at] = result;
}

/// In memory on both sides, many operands.
template <int S>
__device__ __forceinline__ void moveMany(i64 n, int destinations) {
  using Stored = typename E::Stored;
  const u64 first = u64(state.streams[0].data);
  u64 differs = 0;
#pragma unroll 1
  for (int o = 1; o < S + destinations; ++o)
    differs |= u64(state.streams[o].data) ^ first;
  constexpr i64 perVector = 16 / elementBytes;
  const i64 head = differs % 16 == 0 ? smaller(i64(-first % 16) / elementBytes, n) : n;
  const i64 vectors = (n - head) / perVector, tail = n - vectors * perVector;
#pragma unroll 1
  for (i64 i = threadIndex(); i < tail; i += threads) // both ends
    moveOneOfMany<Stored, S>(destinations, 0, i < head ? i : i + vectors * perVector);
#pragma unroll 1
  for (i64 v = threadIndex(); v < vectors; v += threads)
    moveOneOfMany<Vector, S>(destinations, head * elementBytes, v);
}

template <int U, typename Bits, int S, int D>
__device__ __forceinline__ void moveSome(const Places<S, D> &places, i64 first, i64 end) {
  Bits loaded[U][S];
#pragma unroll
  for (int u = 0; u < U; ++u)
    if (first + u * threads < end)
#pragma unroll
      for (int s = 0; s < S; ++s)
        loaded[u][s] = reinterpret_cast<const Bits *>(places.from[s])[first + u * threads];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (first + u * threads >= end)
      return;
    const Bits result = combineBits<Bits, S>(loaded[u]);
#pragma unroll
    for (int d = 0; d < D; ++d)
      if (places.to[d])
        reinterpret_cast<Bits *>(places.to[d])[first + u * threads] = result;
  }
}

/// In memory on both sides: 16 bytes at a time where all operands have the same offset in that,
/// elements at both ends, never a byte outside.
template <int S, int D>
__device__ __forceinline__ void moveMemory(i64 n, int destinations) {
  using Stored = typename E::Stored;
  Places<S, D> places;
  u64 differs = 0;
  bool nothing = true;
#pragma unroll
  for (int s = 0; s < S; ++s) {
    places.from[s] = state.streams[s].data;
    differs |= u64(places.from[s]) ^ u64(places.from[0]);
  }
#pragma unroll
  for (int d = 0; d < D; ++d) {
    places.to[d] = d < destinations ? state.streams[S + d].data : nullptr;
    if (S == 1 && places.to[d] == places.from[0])
      places.to[d] = nullptr;
    if (!places.to[d])
      continue;
    nothing = false;
    differs |= u64(places.to[d]) ^ u64(places.from[0]);
  }
  if (nothing)
    return;
  const bool alike = differs % 16 == 0;
  constexpr i64 perVector = 16 / elementBytes;
  const i64 head = alike ? smaller(i64(-u64(places.from[0]) % 16) / elementBytes, n) : n;
  const i64 vectors = (n - head) / perVector, tail = n - vectors * perVector;
#pragma unroll 1
  for (i64 i = threadIndex(); i < tail; i += threads) { // both ends
    const i64 at = i < head ? i : i + vectors * perVector;
    moveSome<1, Stored>(places, at, at + 1);
  }
#pragma unroll
  for (int s = 0; s < S; ++s)
    places.from[s] += head * elementBytes;
#pragma unroll
  for (int d = 0; d < D; ++d)
    if (places.to[d])
      places.to[d] += head * elementBytes;
  constexpr int U = unrollOf(S);
#pragma unroll 1
  for (i64 v = threadIndex(); v < vectors; v += U * threads)
    moveSome<U, Vector>(places, v, vectors);
}

} // namespace ccl::cuda
