//===- Arena.h - Hands out parts of one large stretch of memory ---------------===//
//
// Offsets only; what lies there is somebody else's business. First fit, neighbours are
// joined. Everything is a multiple of a cache line; from a page on, of pages, so that pages
// can be given back.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace ccl {

class Arena {
public:
  static constexpr uint64_t pageBytes = 4096;

  /// [begin, end) is free.
  Arena(uint64_t begin, uint64_t end) { free[begin] = end - begin; }

  /// What a request of `bytes` takes.
  static uint64_t extent(uint64_t bytes);
  /// An offset, or nothing if no gap is large enough.
  std::optional<uint64_t> allocate(uint64_t bytes);
  /// Gives back what allocate(bytes) gave.
  void release(uint64_t offset, uint64_t bytes);

private:
  std::map<uint64_t, uint64_t> free; ///< offset to length, no two adjacent
};

} // namespace ccl
