//===- units.cuh - Data with flags between them ------------------------------===//
#pragma once

#include "move.cuh"

namespace ccl::cuda {

/// Eight bytes of a row of `n` elements, as many as there are.
__device__ __forceinline__ u64 loadElements(const char *data, i64 unit, i64 n) {
  constexpr int perUnit = 8 / elementBytes;
  const char *p = data + 8 * unit;
  if (u64(p) % 8 == 0 && (unit + 1) * perUnit <= n)
    return *reinterpret_cast<const u64 *>(p);
  u64 word = 0;
#pragma unroll 1
  for (int i = 0; i < perUnit && unit * perUnit + i < n; ++i)
    word |= u64(reinterpret_cast<const Bits<elementBytes> *>(p)[i]) << (8 * elementBytes * i);
  return word;
}
__device__ __forceinline__ void storeElements(char *data, i64 unit, i64 n, u64 word) {
  constexpr int perUnit = 8 / elementBytes;
  char *p = data + 8 * unit;
  if (u64(p) % 8 == 0 && (unit + 1) * perUnit <= n) {
    *reinterpret_cast<u64 *>(p) = word;
    return;
  }
#pragma unroll 1
  for (int i = 0; i < perUnit && unit * perUnit + i < n; ++i)
    reinterpret_cast<Bits<elementBytes> *>(p)[i] =
        Bits<elementBytes>(word >> (8 * elementBytes * i));
}

/// Unit `unit` (eight bytes) of operand s, for lane `lane` of an ll128 line. Whether it was there.
__device__ __forceinline__ bool loadUnit(Wire wire, const Stream &from, i64 unit, i64 n,
                                         bool exists, i64 line, int lane, u64 &word) {
  if (wire == ll128)
    return loadWord(from.data + 128 * line, lane, from.flag, word);
  if (!exists)
    return true;
  if (wire == ll)
    return loadLine(from.data + 16 * unit, u32(from.flag), word);
  word = loadElements(from.data, unit, n);
  return true;
}
__device__ __forceinline__ void storeUnit(Wire wire, const Stream &to, i64 unit, i64 n, bool exists,
                                          i64 line, int lane, u64 word) {
  if (wire == ll128)
    storeWord(to.data + 128 * line, lane, lane == 15 ? to.flag : word);
  else if (!exists)
    return;
  else if (wire == ll)
    storeLine(to.data + 16 * unit, word, u32(to.flag));
  else
    storeElements(to.data, unit, n, word);
}

template <Wire... w>
struct Wires {
  static constexpr int size = sizeof...(w);
  static __device__ __forceinline__ constexpr Wire at(int i) {
    const Wire all[] = {w...};
    return all[i];
  }
  static constexpr bool any128 = ((w == ll128) || ...);
  static constexpr bool flagged = ((w == ll || w == ll128) || ...);
};

/// With flags in the data on some side: words of eight bytes, each when it is there. `sent`
/// elements of a slot get flags, for who takes all that a slot of a chunk has. Whether some data
/// never came.
template <typename Sources, typename Destinations>
__device__ __forceinline__ bool moveUnits(i64 instruction, i64 n, i64 sent) {
  constexpr int S = Sources::size, D = Destinations::size;
  constexpr bool lines = Sources::any128 || Destinations::any128;
  const i64 units = (sent * elementBytes + 7) / 8;
  // Lanes of ll128 go through a line together, 15 words and the flag, whole warps at a time.
  const i64 end = lines ? ((units + 14) / 15 * 16 + 31) / 32 * 32 : units;
#pragma unroll 1
  for (i64 i = threadIndex(); i < end; i += threads) {
    const int lane = int(i % 16);
    const bool inLine = !lines || i / 16 * 15 < units;
    // Lanes behind the last line do what those of the first one do, without effect.
    const i64 line = inLine ? i / 16 : 0, unit = lines ? line * 15 + lane : i;
    const bool exists = unit < units && (!lines || lane < 15);
    u64 words[S], began = 0;
#pragma unroll 1
    for (int polls = 0;;) {
      bool there = true;
#pragma unroll
      for (int s = 0; s < S; ++s) {
        words[s] = 0;
        there &= loadUnit(Sources::at(s), state.streams[s], unit, n, exists, line, lane, words[s]);
      }
      if (lines ? allOfWarp(there) : there)
        break;
      relax();
      if (++polls < pollsBetweenLooks)
        continue;
      polls = 0;
      int awaited = 0;
#pragma unroll
      for (int s = 1; s < S; ++s)
        if (Sources::at(s) == ll || Sources::at(s) == ll128)
          awaited = s;
      const bool goesOn = look(began, {instruction, state.streams[awaited].peer, false, 1},
                               state.streams[awaited].flag, 0);
      if (!(lines ? allOfWarp(goesOn) : goesOn))
        return true;
    }
    if (!inLine)
      continue;
    const u64 result = combineBits<u64, S>(words);
#pragma unroll
    for (int d = 0; d < D; ++d)
      if (S > 1 || state.streams[S + d].data != state.streams[0].data)
        storeUnit(Destinations::at(d), state.streams[S + d], unit, n, exists, line, lane, result);
  }
  return false;
}

} // namespace ccl::cuda
