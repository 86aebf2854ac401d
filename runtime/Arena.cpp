//===- Arena.cpp ------------------------------------------------------------===//
#include "runtime/Arena.h"

#include "runtime/Memory.h"

namespace ccl {

uint64_t Arena::extent(uint64_t bytes) {
  const uint64_t unit = bytes >= pageBytes ? pageBytes : cacheLine;
  return roundUp(bytes > 0 ? bytes : 1, unit);
}

std::optional<uint64_t> Arena::allocate(uint64_t bytes) {
  const uint64_t length = extent(bytes);
  const uint64_t alignment = bytes >= pageBytes ? pageBytes : cacheLine;
  for (auto it = free.begin(); it != free.end(); ++it) {
    const auto [begin, size] = *it;
    const uint64_t start = roundUp(begin, alignment), lost = start - begin;
    if (size < lost || size - lost < length)
      continue;
    free.erase(it);
    if (lost > 0)
      free[begin] = lost;
    if (size - lost > length)
      free[start + length] = size - lost - length;
    return start;
  }
  return std::nullopt;
}

void Arena::release(uint64_t offset, uint64_t bytes) {
  uint64_t length = extent(bytes);
  auto next = free.lower_bound(offset);
  if (next != free.end() && offset + length == next->first) {
    length += next->second;
    next = free.erase(next);
  }
  if (next != free.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += length;
      return;
    }
  }
  free[offset] = length;
}

} // namespace ccl
