//===- Channels.cpp ---------------------------------------------------------===//
#include "runtime/Channels.h"

#include "runtime/Communicator.h"

#include <fmt/format.h>

namespace ccl {

Channel *ChannelSet::find(const ChannelKey &key) {
  std::lock_guard lock(mutex);
  std::unique_ptr<Channel> &place = channels[key];
  if (place)
    return place.get();
  auto channel = std::make_unique<Channel>();
  if (key.slots > 0 && !channel->slots.reserve(size_t(key.slots) * size_t(slotBytes)))
    return nullptr;
  ChannelEnd end;
  end.slots = key.slots > 0 ? channel->slots.data() : nullptr;
  end.slotBytes = key.slots > 0 ? slotBytes : 0;
  end.numSlots = key.slots;
  end.tag = key.tag;

  channel->sender = end;
  channel->sender.arrive = &channel->freed;
  channel->sender.depart = &channel->filled;
  channel->sender.peer = key.destination;
  channel->sender.to = 1;

  channel->receiver = end;
  channel->receiver.arrive = &channel->filled;
  channel->receiver.depart = &channel->freed;
  channel->receiver.peer = key.source;
  place = std::move(channel);
  return place.get();
}

llvm::Expected<std::vector<ChannelEnd *>>
ChannelSet::resolve(const KernelPlan &kernel, int64_t rank, size_t indexInSet, int64_t ranks) {
  std::vector<ChannelEnd *> ends(kernel.channels.size() * size_t(ranks), nullptr);
  if (kernel.peers.size() < kernel.channels.size())
    return llvm::make_error<RuntimeError>(
        Failure::BadArgument,
        fmt::format("malformed plan: {} has {} channel families, but "
                    "peers of {}",
                    kernel.symbol, kernel.channels.size(), kernel.peers.size()));
  for (size_t f = 0; f < kernel.channels.size(); ++f) {
    const ChannelFamily &family = kernel.channels[f];
    if (indexInSet >= kernel.peers[f].size())
      return llvm::make_error<RuntimeError>(
          Failure::BadArgument,
          fmt::format("malformed plan: {} names no peers of rank {} for channel family {}",
                      kernel.symbol, rank, f));
    for (int32_t peer : kernel.peers[f][indexInSet]) {
      if (peer < 0 || peer >= ranks || family.slots < 0)
        return llvm::make_error<RuntimeError>(
            Failure::BadArgument,
            fmt::format("malformed plan: {} gives rank {} a channel to rank {} of {} with {} "
                        "slots",
                        kernel.symbol, rank, peer, ranks, family.slots));
      int32_t me = int32_t(rank);
      ChannelKey key{family.to ? me : peer, family.to ? peer : me, family.tag, family.slots};
      Channel *channel = find(key);
      if (!channel)
        return llvm::make_error<RuntimeError>(
            Failure::Machine, fmt::format("no memory for {} slots of {} bytes from rank {} to "
                                          "rank {}",
                                          key.slots, slotBytes, key.source, key.destination));
      ends[f * size_t(ranks) + size_t(peer)] = family.to ? &channel->sender : &channel->receiver;
    }
  }
  return ends;
}

} // namespace ccl
