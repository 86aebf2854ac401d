//===- Channels.cpp ---------------------------------------------------------===//
#include "runtime/Channels.h"

#include <cstring>

namespace ccl {
namespace {

template <typename... T>
llvm::Error malformed(fmt::format_string<T...> format, T &&...values) {
  return makeFailure(Failure::BadArgument, "malformed plan: {}",
                     fmt::format(format, std::forward<T>(values)...));
}

std::string_view nameOf(const KernelPlan &kernel) {
  return kernel.symbol.empty() ? "a table" : std::string_view(kernel.symbol);
}

} // namespace

void ChannelSet::takeBlocks(std::vector<Block> &large, std::vector<Block> &tables) {
  large.insert(large.end(), blocks.begin(), blocks.end());
  tables.insert(tables.end(), directories.begin(), directories.end());
  blocks.clear();
  directories.clear();
}

/// Calls visit(family, index of the family, peer) for every channel end of the kernel whose peer
/// is near.
llvm::Error ChannelSet::forEachEnd(const KernelPlan &kernel, size_t indexInSet, Visit visit) const {
  if (kernel.peers.size() < kernel.channels.size())
    return malformed("{} has {} channel families, but peers of {}", nameOf(kernel),
                     kernel.channels.size(), kernel.peers.size());
  for (size_t f = 0; f < kernel.channels.size(); ++f) {
    const ChannelFamily &family = kernel.channels[f];
    if (indexInSet >= kernel.peers[f].size())
      return malformed("{} names no peers of rank {} for channel family {}", nameOf(kernel), rank,
                       f);
    for (int32_t peer : kernel.peers[f][indexInSet]) {
      if (peer < 0 || peer >= ranks || family.slots < 0)
        return malformed("{} gives rank {} a channel to rank {} of {} with {} slots",
                         nameOf(kernel), rank, peer, ranks, family.slots);
      if (isNear(peer))
        if (llvm::Error e = visit(family, f, peer))
          return e;
    }
  }
  return llvm::Error::success();
}

llvm::Error ChannelSet::open(const KernelPlan &kernel, size_t indexInSet) {
  return forEachEnd(kernel, indexInSet,
                    [&](const ChannelFamily &family, size_t, int32_t peer) -> llvm::Error {
                      const ChannelKey key{peer, int32_t(rank), family.tag, family.slots};
                      if (family.to || incoming.count(key))
                        return llvm::Error::success();
                      return make(key);
                    });
}

llvm::Error ChannelSet::make(const ChannelKey &key) {
  const size_t bytes = sizeof(Channel) + size_t(key.slots) * size_t(slotBytes);
  llvm::Expected<Block> block = world.allocate(bytes);
  if (!block)
    return makeFailure(Failure::Machine,
                       "no memory for {} slots of {} bytes from rank {} to rank {}: {}", key.slots,
                       slotBytes, key.source, key.destination, llvm::toString(block.takeError()));
  blocks.push_back(*block);
  auto *channel = new (block->data) Channel;
  if (llvm::Error e = append({key, world.share(channel)}))
    return e;
  incoming[key] = channel;
  return llvm::Error::success();
}

/// Others may be reading the directory that they saw at an earlier entry: entries are only
/// added behind its end, and a full one is left as it is.
llvm::Error ChannelSet::append(const DirectoryEntry &entry) {
  const size_t capacity = directory.bytes / sizeof(DirectoryEntry);
  if (entries == capacity) {
    llvm::Expected<Block> larger =
        world.allocate(std::max<size_t>(16, 2 * capacity) * sizeof(DirectoryEntry));
    if (!larger)
      return larger.takeError();
    directories.push_back(*larger);
    if (entries > 0)
      std::memcpy(larger->data, directory.data, entries * sizeof(DirectoryEntry));
    directory = *larger;
  }
  std::memcpy(directory.data + entries * sizeof(DirectoryEntry), &entry, sizeof entry);
  ++entries;
  return llvm::Error::success();
}

ChannelEnd *ChannelSet::keepEnd(const ChannelKey &key, Channel *channel, bool to) {
  std::unique_ptr<ChannelEnd> &place = ends[{key, to}];
  if (place)
    return place.get();
  place = std::make_unique<ChannelEnd>();
  place->slots = key.slots > 0 ? channel->slots() : nullptr;
  place->slotBytes = key.slots > 0 ? slotBytes : 0;
  place->numSlots = key.slots;
  place->tag = key.tag;
  place->arrive = to ? &channel->freed : &channel->filled;
  place->depart = to ? &channel->filled : &channel->freed;
  place->peer = to ? key.destination : key.source;
  place->to = to;
  return place.get();
}

llvm::Expected<std::vector<ChannelEnd *>> ChannelSet::resolveWith(const KernelPlan &kernel,
                                                                  size_t indexInSet, Look look) {
  std::vector<ChannelEnd *> table(kernel.channels.size() * size_t(ranks), nullptr);
  auto visit = [&](const ChannelFamily &family, size_t f, int32_t peer) -> llvm::Error {
    const auto me = int32_t(rank);
    const ChannelKey key{family.to ? me : peer, family.to ? peer : me, family.tag, family.slots};
    ChannelEnd *&end = table[f * size_t(ranks) + size_t(peer)];
    if (!family.to) {
      end = keepEnd(key, incoming.at(key), false);
      return llvm::Error::success();
    }
    if (auto known = ends.find({key, true}); known != ends.end()) {
      end = known->second.get();
      return llvm::Error::success();
    }
    const Directory there = look(peer);
    for (uint64_t i = 0; i < there.size; ++i) {
      if (there.begin[i].key != key)
        continue;
      auto *channel = static_cast<Channel *>(world.reach(there.worldRank, there.begin[i].channel));
      end = keepEnd(key, channel, true);
      return llvm::Error::success();
    }
    return malformed("rank {} sends to rank {} through tag {} with {} slots, where rank {} does "
                     "not receive",
                     rank, peer, family.tag, family.slots, peer);
  };
  if (llvm::Error e = forEachEnd(kernel, indexInSet, visit))
    return e;
  return table;
}

} // namespace ccl
