//===- Footprint.h - What a process holds --------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ccl::soak {

/// Taken before and after something that should leave nothing behind.
struct Footprint {
  int64_t descriptors = 0;
  int64_t mappings = 0, arenas = 0; ///< all; those of a communicator's memory
  int64_t threads = 0;
  int64_t privateBytes = 0, sharedBytes = 0; ///< resident

  static Footprint now();
  /// What there is more of than before, beyond what the C library keeps for later (stacks and
  /// heaps of threads that ended), or "".
  std::string growthSince(const Footprint &before) const;
};

/// Names in /dev/shm, sorted.
std::vector<std::string> sharedMemoryNames();
/// Those that were not there `before` and stay: programs of others make some for a moment.
std::vector<std::string> sharedMemoryLeftSince(const std::vector<std::string> &before);

} // namespace ccl::soak
