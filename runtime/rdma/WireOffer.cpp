//===- WireOffer.cpp ----------------------------------------------------------===//
#include "runtime/rdma/WireOffer.h"

#include <cstring>

namespace ccl::rdma {
namespace {

constexpr uint32_t magic = 0x57434343; // CCCW
constexpr uint32_t version = 2;

struct Head {
  uint32_t mark, version;
  int64_t from, to, slotBytes;
  uint64_t home;
  uint32_t queues, keys, channels, reserved;
};
static_assert(sizeof(Head) == 56 && sizeof(QueueAddress) == 28 && sizeof(OfferedChannel) == 32,
              "they travel as bytes, without gaps");

template <typename T>
void append(std::string &bytes, const T *values, size_t number) {
  if (number > 0)
    bytes.append(reinterpret_cast<const char *>(values), number * sizeof(T));
}

template <typename T>
void take(llvm::StringRef &bytes, T *values, size_t number) {
  if (number > 0)
    std::memcpy(values, bytes.data(), number * sizeof(T));
  bytes = bytes.drop_front(number * sizeof(T));
}

} // namespace

std::string encode(const Offer &offer) {
  Head head{magic,
            version,
            offer.from,
            offer.to,
            offer.slotBytes,
            offer.home,
            uint32_t(offer.queues.size()),
            uint32_t(offer.keys.size()),
            uint32_t(offer.channels.size()),
            0};
  std::string bytes;
  append(bytes, &head, 1);
  append(bytes, offer.queues.data(), offer.queues.size());
  append(bytes, offer.keys.data(), offer.keys.size());
  append(bytes, offer.channels.data(), offer.channels.size());
  return bytes;
}

llvm::Expected<Offer> decodeOffer(llvm::StringRef bytes) {
  Head head;
  if (bytes.size() < sizeof head)
    return makeFailure(Failure::Mismatch, "an offer of {} bytes is cut short", bytes.size());
  const size_t size = bytes.size();
  take(bytes, &head, 1);
  if (head.mark != magic)
    return makeFailure(Failure::Mismatch, "{} bytes are no offer of channels", size);
  if (head.version != version)
    return makeFailure(Failure::Mismatch, "an offer of version {}, here it is {}", head.version,
                       version);
  // Numbers of 32 bits: no sum of these products overflows.
  if (bytes.size() != head.queues * sizeof(QueueAddress) + head.keys * sizeof(uint32_t) +
                          head.channels * sizeof(OfferedChannel))
    return makeFailure(Failure::Mismatch,
                       "an offer of {} channels, {} queue pairs and {} keys has {} bytes",
                       head.channels, head.queues, head.keys, size);
  Offer offer;
  offer.from = head.from;
  offer.to = head.to;
  offer.slotBytes = head.slotBytes;
  offer.home = head.home;
  offer.queues.resize(head.queues);
  offer.keys.resize(head.keys);
  offer.channels.resize(head.channels);
  take(bytes, offer.queues.data(), offer.queues.size());
  take(bytes, offer.keys.data(), offer.keys.size());
  take(bytes, offer.channels.data(), offer.channels.size());
  return offer;
}

std::string describeChannel(const ChannelKey &key) {
  return fmt::format("channel {} -> {} (tag {}, {} slots{})", key.source, key.destination, key.tag,
                     key.slots, key.instance > 0 ? fmt::format(", instance {}", key.instance) : "");
}

} // namespace ccl::rdma
