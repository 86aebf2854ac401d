//===- Chain.h - Messages as lists of work requests ------------------------------===//
//
// A message is some pieces of a slot; it becomes RDMA writes, of which the last one carries an
// immediate: when that has arrived, so has everything before it on its queue pair, and a
// completion there tells so. Messages of one run for one peer make one list, of which the last
// work request alone is signalled (and one in so many, so that the queue gets free again).
// Plain data: the transport fills in addresses and posts it, `ccl compile --emit wr` prints it.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <vector>

namespace ccl::rdma {

/// What of a slot goes out: bytes [offset, offset + bytes).
struct Piece {
  int64_t offset = 0, bytes = 0;
};

struct ChainLimits {
  int64_t mostBytes = int64_t(1) << 30; ///< of one work request
  int64_t inlineBytes = 64;             ///< up to so many travel in the work request
  int stripes = 1;                      ///< queue pairs that a message is cut over
  int64_t leastStripe = 256 << 10;      ///< bytes; shorter messages are not cut
  int signalEvery = 64;                 ///< work requests of a queue pair
};

/// One ibv_send_wr, less its addresses.
struct WorkRequest {
  int64_t offset = 0, bytes = 0; ///< from the start of the slot, on both sides
  int32_t stripe = 0;            ///< which queue pair
  bool immediate = false;        ///< RDMA_WRITE_WITH_IMM: the message is complete on this stripe
  bool inlined = false;
  bool signaled = false;
};

/// Appends the work requests of one message, in the order of posting on each stripe; every stripe
/// ends with an immediate, be it of a write of 0 bytes. `isLast`: of its list. `posted` counts the
/// work requests of each stripe, over all messages: signals are placed by it.
void appendMessage(const std::vector<Piece> &pieces, const ChainLimits &limits, bool isLast,
                   std::vector<int64_t> &posted, std::vector<WorkRequest> &chain);

/// An immediate: channel of the receiver (24 bits) and how many messages of it are complete, less
/// one (8 bits).
constexpr uint32_t encodeImmediate(uint32_t channel, uint32_t messages) {
  return channel << 8 | (messages - 1);
}
constexpr uint32_t channelOf(uint32_t immediate) { return immediate >> 8; }
constexpr uint32_t messagesOf(uint32_t immediate) { return (immediate & 0xff) + 1; }

} // namespace ccl::rdma
