//===- Buffers.h - Data with red zones for tests of the runtime -------------===//
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ccl::test {

/// Elements between two red zones.
class Guarded {
public:
  explicit Guarded(int64_t count) : count(count), memory(size_t(count + 2 * zone), redZone) {}
  int32_t *data() { return memory.data() + zone; }
  int32_t &operator[](int64_t i) { return data()[i]; }
  bool isIntact() const {
    const auto isRed = [](int32_t v) { return v == redZone; };
    return std::all_of(memory.begin(), memory.begin() + zone, isRed) &&
           std::all_of(memory.begin() + zone + count, memory.end(), isRed);
  }

private:
  static constexpr int64_t zone = 64;
  static constexpr int32_t redZone = 0x5ced5ced;
  int64_t count;
  std::vector<int32_t> memory;
};

/// The input of `rank` at i, different for each launch.
inline int32_t inputOf(int64_t rank, int64_t i, int64_t launch) {
  return int32_t(uint32_t(rank + 1) * 1000003u + uint32_t(i) * 7919u + uint32_t(launch) * 31u);
}
inline int32_t sumOf(int64_t ranks, int64_t i, int64_t launch) {
  uint32_t sum = 0;
  for (int64_t r = 0; r < ranks; ++r)
    sum += uint32_t(inputOf(r, i, launch));
  return int32_t(sum);
}

} // namespace ccl::test
