//===- CopySpeed.cpp - What a core copies -------------------------------------===//
#include "frontend/topology/Detect.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace ccl::topology {

double measureCopySpeed() {
  constexpr size_t bytes = size_t(32) << 20;
  std::vector<char> from(bytes, 1), to(bytes);
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    auto begin = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    from[size_t(repeat)] = char(to[bytes - 1] + repeat); // so that no copy can be left out
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (took.count() > 0)
      best = std::max(best, double(bytes) / took.count() / 1e9);
  }
  return best > 0 ? best : 1;
}

} // namespace ccl::topology
