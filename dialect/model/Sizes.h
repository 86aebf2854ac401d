//===- Sizes.h - Numbers of bytes or elements: usual ones, as people type them ---===//
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ccl::model {

/// Launches do not cut a chunk into more micro-batches than slices of so many bytes, whatever the
/// algorithm has in mind, unless they are told to: below, messages cost more than they carry.
constexpr int64_t leastSliceBytes = 64 << 10;
/// A slot of a staged channel, unless a launch says otherwise: no slice that goes through is
/// longer.
constexpr int64_t usualSlotBytes = 128 << 10;
/// Micro-batches that a launch takes at least, for slices of chunks of so many bytes to fit.
constexpr int64_t leastBatches(int64_t chunkBytes, int64_t slotBytes = usualSlotBytes) {
  return chunkBytes <= slotBytes ? 1 : (chunkBytes - 1) / slotBytes + 1;
}

/// Of nccl-tests' size, at most what is planned for.
constexpr int64_t mostPlannedBytes = int64_t(1) << 50;

/// "64M": suffixes K, M, G, T are binary, a trailing B or iB is allowed. Returns what is wrong
/// with `text`, or "" and sets `size`.
std::string parseSize(std::string_view text, int64_t &size);

} // namespace ccl::model
