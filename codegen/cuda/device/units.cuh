//===- units.cuh - Data with flags between them -------------------------------===//
#pragma once

#include "move.cuh"

#ifdef CCL_FLAGS
namespace ccl::cuda {

/// As many elements of eight bytes as there are: of a row of `n`, or not aligned.
__device__ __noinline__ u64 loadPart(const char *data, i64 unit, i64 n) {
  constexpr int perUnit = 8 / elementBytes;
  u64 word = 0;
#pragma unroll 1
  for (int i = 0; i < perUnit && unit * perUnit + i < n; ++i)
    word |= u64(reinterpret_cast<const Bits<elementBytes> *>(data + 8 * unit)[i])
            << (8 * elementBytes * i);
  return word;
}
__device__ __noinline__ void storePart(char *data, i64 unit, i64 n, u64 word) {
  constexpr int perUnit = 8 / elementBytes;
#pragma unroll 1
  for (int i = 0; i < perUnit && unit * perUnit + i < n; ++i)
    reinterpret_cast<Bits<elementBytes> *>(data + 8 * unit)[i] =
        Bits<elementBytes>(word >> (8 * elementBytes * i));
}
__device__ __forceinline__ bool isWhole(const char *data, i64 unit, i64 n) {
  return u64(data) % 8 == 0 && (unit + 1) * (8 / elementBytes) <= n;
}

/// What a word of a `lamport` slot is before it is written: floats of minus and plus zero. Data
/// that are just that become equal ones.
constexpr u64 unwritten = 0x8000000080000000;
__device__ __forceinline__ u64 written(u64 word) {
  return word == unwritten ? word ^ 0x80000000 : word;
}
__device__ __forceinline__ u64 *wordOf(const Stream &stream, i64 unit) {
  return reinterpret_cast<u64 *>(stream.data) + unit;
}

/// Where a thread is in rows of `n` elements: unit `unit` (eight bytes), and for lines of ll128
/// lane `lane` of line `line`.
struct Place {
  i64 unit, line, n;
  int lane;
  bool exists;
};

/// The unit of a source, and whether it was there.
template <bool lines>
__device__ __forceinline__ bool loadUnit(const Stream &from, const Place &place, u64 &word) {
  if constexpr (lines)
    if (from.wire == ll128)
      return loadWord(from.data + 128 * place.line, place.lane, from.flag, word);
  if (!place.exists)
    return true;
  if constexpr ((wires & ll) != 0)
    if (from.wire == ll)
      return loadLine(from.data + 16 * place.unit, u32(from.flag), word);
  if constexpr ((wires & lamport) != 0)
    if (from.wire == lamport) {
      word = loadRelaxed(wordOf(from, place.unit));
      return word != unwritten;
    }
  word = isWhole(from.data, place.unit, place.n) ? *wordOf(from, place.unit)
                                                 : loadPart(from.data, place.unit, place.n);
  return true;
}
template <bool lines>
__device__ __forceinline__ void storeUnit(const Stream &to, const Place &place, u64 word) {
  if constexpr (lines)
    if (to.wire == ll128)
      return storeWord(to.data + 128 * place.line, place.lane, place.lane == 15 ? to.flag : word);
  if (!place.exists)
    return;
  if constexpr ((wires & ll) != 0)
    if (to.wire == ll)
      return storeLine(to.data + 16 * place.unit, word, u32(to.flag));
  if constexpr ((wires & lamport) != 0)
    if (to.wire == lamport)
      return storeRelaxed(wordOf(to, place.unit), written(word));
  if (isWhole(to.data, place.unit, place.n))
    *wordOf(to, place.unit) = word;
  else
    storePart(to.data, place.unit, place.n, word);
}

/// Of sources [first, first + G) that there are: until all units are there. Whether that came.
template <bool lines, int G>
__device__ __forceinline__ bool awaitUnits(u64 (&words)[G], int first, int sources,
                                           const Place &place) {
  u64 began = 0;
#pragma unroll 1
  for (int polls = 0;;) {
    int missing = -1;
#pragma unroll
    for (int s = 0; s < G; ++s) {
      words[s] = 0;
      if ((s == 0 || first + s < sources) &&
          !loadUnit<lines>(state.streams[first + s], place, words[s]))
        missing = first + s;
    }
    if (lines ? allOfWarp(missing < 0) : missing < 0)
      return true;
    relax();
    if (++polls < pollsBetweenLooks)
      continue;
    polls = 0;
    const Stream &from = state.streams[missing < 0 ? first : missing];
    began = look(began, awaited(flags, from.peer), from.flag, 0);
    if (!(lines ? allOfWarp(began != 0) : began != 0))
      return false;
  }
}

/// More sources are waited for in groups of so many.
constexpr int mostAtOnce = 8;

/// With flags in the data on some side: words of eight bytes, each when it is there. `sent`
/// elements of a slot get flags, for who takes all that a slot of a chunk has. At most G sources
/// are waited for at once. Whether all data came.
template <bool lines, int G>
__device__ __forceinline__ bool moveUnits(i64 n, i64 sent, int sources, int operands) {
  const i64 units = (sent * elementBytes + 7) / 8;
  // Lanes of ll128 go through a line together, 15 words and the flag, whole warps at a time.
  const i64 end = lines ? (i64(u64(units + 14) / 15) * 16 + 31) / 32 * 32 : units;
#pragma unroll 1
  for (i64 i = threadIndex(); i < end; i += threads) {
    Place place{i, 0, n, int(i % 16), i < units};
    bool inLine = true;
    if constexpr (lines) {
      // Lanes behind the last line do what those of the first one do, without effect.
      inLine = i / 16 * 15 < units;
      place.line = inLine ? i / 16 : 0;
      place.unit = place.line * 15 + place.lane;
      place.exists = inLine && place.unit < units && place.lane < 15;
    }
    u64 words[G];
    if (!awaitUnits<lines>(words, 0, sources, place))
      return false;
    if constexpr (combines<R> && G > 1)
      if (sources > 1) {
        Combination<u64> sum;
        sum.start(words[0]);
#pragma unroll 1
        for (int first = 0;;) {
#pragma unroll
          for (int s = 0; s < G; ++s)
            if ((s > 0 || first > 0) && first + s < sources)
              sum.add(words[s]);
          first += G;
          if (G < mostAtOnce || first >= sources)
            break;
          if (!awaitUnits<lines>(words, first, sources, place))
            return false;
        }
        words[0] = sum.result();
      }
    if (!inLine)
      continue;
    if constexpr ((wires & lamport) != 0)
#pragma unroll 1
      for (int s = 0; s < sources; ++s)
        if (state.streams[s].wire == lamport && place.exists)
          storeRelaxed(wordOf(state.streams[s], place.unit), unwritten);
#pragma unroll 1
    for (int d = sources; d < operands; ++d)
      if (sources > 1 || state.streams[d].data != state.streams[0].data)
        storeUnit<lines>(state.streams[d], place, words[0]);
  }
  return true;
}

/// The code for as many sources as there are.
template <bool lines, int... G>
__device__ __forceinline__ bool moveFlagged(i64 n, i64 sent, int sources, int operands) {
  const int group = smaller(sources, mostAtOnce);
  bool came = true;
  ((group == G && (came = moveUnits<lines, G>(n, sent, sources, operands), true)) || ...);
  return came;
}

} // namespace ccl::cuda
#endif
