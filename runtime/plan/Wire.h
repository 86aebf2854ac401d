//===- Wire.h - What a rank sends through channels, message by message ----------===//
//
// A channel with slots whose other end is on another host is served by a proxy: what the program
// has put into a slot goes out as RDMA writes. How much that is the program knows and the slot
// does not say, so the plan has it for every send of a rank: which message it is for.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <vector>

namespace ccl {

/// One transfer into a slot. Its bytes are those that the kernel writes: see Kernel in Plan.h.
struct WireMessage {
  static constexpr int32_t noRow = -1;
  int32_t family = 0; ///< index into KernelPlan::channels, one with slots, `to`
  int32_t peer = 0;
  int32_t count = 1;     ///< adjacent chunks, each at a stride of its own in the slot
  int32_t owner = noRow; ///< of the row that tells the length: a rank, or noRow: `stride`
  bool output = false;   ///< the row is one of `out`, not of `in`
  int64_t chunk = 0;     ///< the first one in that row
  /// Messages with equal numbers follow each other without a wait in between: nothing of another
  /// rank is needed from the first to the last.
  int32_t run = 0;
};

/// All of one rank in one micro-batch, in the order of the program of each agent: of one channel
/// they are in the order of its slots.
struct RankWire {
  std::vector<WireMessage> messages;
};

} // namespace ccl
