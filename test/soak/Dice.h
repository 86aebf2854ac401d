//===- Dice.h - Random numbers that are the same everywhere ------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ccl::soak {

/// SplitMix64 (Steele, Lea and Flood 2014). Ranks that start alike go on alike; the standard
/// library's distributions would differ between libraries.
class Dice {
public:
  explicit Dice(uint64_t seed) : state(seed) {}
  /// Independent of `seed` alone: for a part of something that has dice of its own.
  Dice(uint64_t seed, uint64_t part) : state(seed) { state = next() ^ part * 0x9e3779b97f4a7c15u; }

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, n); n is at least 1.
  int64_t below(int64_t n) { return int64_t((__uint128_t(next()) * uint64_t(n)) >> 64); }
  bool chance(int64_t percent) { return below(100) < percent; }

  template <typename T>
  const T &pick(const std::vector<T> &from) {
    return from[size_t(below(int64_t(from.size())))];
  }
  template <typename T>
  void shuffle(std::vector<T> &values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[size_t(below(int64_t(i)))]);
  }

private:
  uint64_t state;
};

} // namespace ccl::soak
