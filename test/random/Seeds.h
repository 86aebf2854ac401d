//===- Seeds.h - Which seeds a test takes -------------------------------------------===//
#pragma once

#include <cstdint>
#include <cstdlib>
#include <ranges>

namespace ccl::random {

/// `count` seeds, or what CCL_TEST_SEEDS="first:count" says.
inline auto seeds(uint64_t count) {
  uint64_t first = 0;
  if (const char *text = std::getenv("CCL_TEST_SEEDS")) {
    char *rest = nullptr;
    first = std::strtoull(text, &rest, 10);
    count = *rest == ':' ? std::strtoull(rest + 1, nullptr, 10) : 1;
  }
  return std::views::iota(first, first + count);
}

} // namespace ccl::random
