//===- WireOffer.h - What one side of a wire tells the other ----------------------===//
#pragma once

#include "runtime/Channels.h"
#include "runtime/rdma/Nic.h"

#include "llvm/ADT/StringRef.h"

namespace ccl::rdma {

struct OfferedChannel {
  ChannelKey key{};
  uint32_t number = 0;  ///< of who receives: in immediates
  uint64_t address = 0; ///< of who receives: slot 0; of who sends: the words for what is freed
};

struct Offer {
  int64_t from = 0, to = 0; ///< ranks
  int64_t slotBytes = 0;
  uint64_t home = 0;                ///< may be written, by `keys`
  std::vector<QueueAddress> queues; ///< by stripe; none if `to` has them already
  std::vector<uint32_t> keys;       ///< of the memory of these channels, by stripe
  std::vector<OfferedChannel> channels;
};

std::string encode(const Offer &offer);
/// Errors (Failure::Mismatch): another version, or these are not the bytes of an offer.
llvm::Expected<Offer> decodeOffer(llvm::StringRef bytes);

/// "channel 0 -> 1 (tag 3, 2 slots)", and which instance's it is if not that of the first.
std::string describeChannel(const ChannelKey &key);

} // namespace ccl::rdma
