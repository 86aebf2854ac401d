//===- Chain.h - Messages as lists of work requests ------------------------------===//
//
// A message is some pieces of a slot; it becomes RDMA writes, of which the last one carries an
// immediate: when that has arrived, so has everything before it on its queue pair, and a
// completion there tells so. Messages of one run for one peer make one list, of which the last
// work request of each queue pair alone is signalled (and one in so many, so that the queue gets
// free again). A long message is cut over several queue pairs: it is complete when an immediate
// has come on each of them. A short one goes over the first alone.
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
  /// Of one work request. Soft-RoCE gives up on long ones where packets are lost; hardware does as
  /// well with these.
  int64_t mostBytes = 256 << 10;
  int64_t inlineBytes = 64;        ///< up to so many travel in the work request
  int stripes = 1;                 ///< queue pairs that a message is cut over
  int64_t leastStripe = 256 << 10; ///< bytes; a message is cut if parts are so long
  int signalEvery = 64;            ///< work requests of a queue pair
};

/// One ibv_send_wr, less its addresses.
struct WorkRequest {
  int64_t offset = 0, bytes = 0; ///< from the start of the slot, on both sides
  int32_t stripe = 0;            ///< which queue pair
  bool immediate = false;        ///< RDMA_WRITE_WITH_IMM: the message is complete on this stripe
  bool part = false;             ///< of a message that is cut: so is every stripe's immediate
  bool inlined = false;
  bool signaled = false;
};

/// Where part `stripe` of a message of `bytes` that is cut over `stripes` begins, in bytes: on a
/// cache line. That of `stripes` is its end.
constexpr int64_t stripeBegin(int64_t bytes, int stripes, int stripe) {
  return stripe == stripes ? bytes : bytes * stripe / stripes / 64 * 64;
}

/// Appends the work requests of one message, stripe by stripe, in the order of posting on each.
/// Adjacent pieces are one. Every stripe that the message uses ends with an immediate, be it of a
/// write of 0 bytes. `isLast`: of the list that `chain` holds: the last request of each stripe in
/// it is signalled. `posted` counts the work requests of each stripe, over all messages: signals
/// are placed by it; it grows to `limits.stripes`.
void appendMessage(const std::vector<Piece> &pieces, const ChainLimits &limits, bool isLast,
                   std::vector<int64_t> &posted, std::vector<WorkRequest> &chain);

/// An immediate: channel of the receiver (23 bits), whether the message has more parts than this
/// one, and how many messages of the channel are complete, less one (8 bits; of parts: one).
constexpr uint32_t mostChannels = 1u << 23;
constexpr uint32_t mostMessages = 256;
constexpr uint32_t encodeImmediate(uint32_t channel, uint32_t messages, bool part = false) {
  return channel << 9 | uint32_t(part) << 8 | (messages - 1);
}
constexpr uint32_t channelOf(uint32_t immediate) { return immediate >> 9; }
constexpr bool isPart(uint32_t immediate) { return (immediate >> 8 & 1) != 0; }
constexpr uint32_t messagesOf(uint32_t immediate) { return (immediate & 0xff) + 1; }

} // namespace ccl::rdma
