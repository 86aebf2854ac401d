//===- GpuChannels.cpp ------------------------------------------------------===//
#include "runtime/cuda/GpuChannels.h"

#include "runtime/Memory.h"

namespace ccl::cuda {
namespace {

/// Counters are so far apart, and slots are multiples of it.
constexpr int64_t line = 128;
/// Of a ChannelEnd in an array of them.
constexpr int64_t endBytes = roundUp(int64_t(sizeof(ChannelEnd)), int64_t(64));

/// What each half of a word of such a slot holds that nobody has written yet.
constexpr int32_t lamport = 3;
constexpr uint32_t unwritten = 0x80000000;

template <typename... T>
llvm::Error malformed(fmt::format_string<T...> format, T &&...values) {
  return makeFailure(Failure::BadArgument, "malformed plan: {}",
                     fmt::format(format, std::forward<T>(values)...));
}

} // namespace

int64_t slotPitch(int32_t protocol, int64_t slotBytes) {
  switch (protocol) {
  case 1: return roundUp(2 * slotBytes, line);   // a flag for each half of a word
  case 2: return (slotBytes + 119) / 120 * line; // 120 bytes and a flag in a line
  default: return roundUp(slotBytes, line);
  }
}

llvm::Expected<RankChannels> findChannels(const KernelPlan &kernel, size_t indexInSet, int64_t rank,
                                          int64_t ranks) {
  const size_t families = kernel.channels.size();
  RankChannels found;
  found.endOf.assign(families * size_t(ranks), -1);
  if (kernel.peers.size() < families)
    return malformed("{} channel families, but peers of {}", families, kernel.peers.size());
  std::map<std::pair<ChannelKey, bool>, int> known;
  for (size_t f = 0; f < families; ++f) {
    const ChannelFamily &family = kernel.channels[f];
    if (indexInSet >= kernel.peers[f].size())
      return malformed("no peers of rank {} for channel family {}", rank, f);
    if (family.protocol < 0 || family.protocol > 3)
      return malformed("channel family {} has protocol {}", f, family.protocol);
    for (int32_t peer : kernel.peers[f][indexInSet]) {
      if (peer < 0 || peer >= ranks || family.slots < 0)
        return malformed("rank {} has a channel to rank {} of {} with {} slots", rank, peer, ranks,
                         family.slots);
      const auto me = int32_t(rank);
      const ChannelKey key{family.to ? me : peer, family.to ? peer : me, family.tag, family.slots,
                           family.protocol};
      auto [place, isNew] = known.try_emplace({key, family.to}, int(found.ends.size()));
      if (isNew)
        found.ends.push_back({key, family.to});
      found.endOf[f * size_t(ranks) + size_t(peer)] = place->second;
    }
  }
  return found;
}

llvm::Error GpuChannels::grow(const ChannelKey &key, std::vector<Instance> &have,
                              int64_t instances) {
  const int64_t first = int64_t(have.size()), count = instances - first;
  const int64_t pitch = slotPitch(key.protocol, slotBytes), part = line + key.slots * pitch;
  auto noMemory = [&](llvm::Error e) {
    return makeFailure(
        Failure::Machine,
        "no memory for {} times {} slots of {} bytes (CCL_SLOT_BYTES) from rank {} to rank {}: {}",
        count, key.slots, pitch, key.source, key.destination, llvm::toString(std::move(e)));
  };
  // At the sender: counters, then ends. At the receiver: counters and slots, then ends.
  llvm::Expected<CUdeviceptr> there = homes.take(key.source, size_t(count * (line + endBytes)));
  if (!there)
    return noMemory(there.takeError());
  llvm::Expected<CUdeviceptr> here = homes.take(key.destination, size_t(count * (part + endBytes)));
  if (!here)
    return noMemory(here.takeError());
  if (key.protocol == lamport) {
    for (int64_t i = 0; i < count && homes.isLocal(key.destination); ++i)
      if (llvm::Error e =
              homes.device(key.destination)
                  .fill(*here + CUdeviceptr(i * part + line), unwritten, size_t(key.slots * pitch)))
        return e;
    // A sender in another process must not come before that.
    if (llvm::Error e = homes.meet())
      return e;
  }
  std::vector<char> to(size_t(count * endBytes)), from(to.size());
  std::vector<Instance> made;
  for (int64_t i = 0; i < count; ++i) {
    auto *freed = pointerTo<unsigned long long>(*there + CUdeviceptr(i * line));
    auto *filled = pointerTo<unsigned long long>(*here + CUdeviceptr(i * part));
    ChannelEnd end{};
    end.slots = key.slots > 0 ? reinterpret_cast<char *>(filled) + line : nullptr;
    end.slotPitch = pitch;
    end.numSlots = key.slots;
    end.peer = key.destination;
    end.arrive = freed;
    end.depart = filled;
    std::memcpy(to.data() + i * endBytes, &end, sizeof end);
    end.peer = key.source;
    std::swap(end.arrive, end.depart);
    std::memcpy(from.data() + i * endBytes, &end, sizeof end);
    made.push_back({*there + CUdeviceptr(count * line + i * endBytes),
                    *here + CUdeviceptr(count * part + i * endBytes)});
  }
  // Each process writes what its own ranks use: addresses in it are those of that process.
  if (homes.isLocal(key.source))
    if (llvm::Error e = homes.device(key.source).write(made.front().to, to.data(), to.size()))
      return e;
  if (homes.isLocal(key.destination))
    if (llvm::Error e =
            homes.device(key.destination).write(made.front().from, from.data(), from.size()))
      return e;
  have.insert(have.end(), made.begin(), made.end());
  return llvm::Error::success();
}

llvm::Expected<std::vector<CUdeviceptr>> GpuChannels::open(const RankChannels &wanted,
                                                           int64_t instances) {
  std::vector<CUdeviceptr> addresses(wanted.ends.size() * size_t(instances));
  for (size_t e = 0; e < wanted.ends.size(); ++e) {
    std::vector<Instance> &have = channels[wanted.ends[e].key];
    if (int64_t(have.size()) < instances)
      if (llvm::Error error = grow(wanted.ends[e].key, have, instances))
        return error;
    for (int64_t i = 0; i < instances; ++i) {
      const Instance &instance = have[size_t(i)];
      addresses[size_t(i) * wanted.ends.size() + e] =
          wanted.ends[e].to ? instance.to : instance.from;
    }
  }
  return addresses;
}

} // namespace ccl::cuda
