//===- Channels.h - Counters and slots between pairs of ranks ---------------===//
//
// A channel joins a `to` end of one rank with the `from` end of another. It lies in the
// memory of the rank that receives, which makes it when a program first names it and
// lists it in its directory: others find it there. It is kept: its counters are absolute,
// so every program that names the same (source, destination, tag, slots) goes on where the
// last one stopped.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/World.h"

#include <functional>
#include <map>
#include <memory>

namespace ccl {

struct ChannelKey {
  int32_t source, destination, tag, slots;
  int32_t instance = 0; ///< of programs of GPUs, which have channels for each
  friend auto operator<=>(const ChannelKey &, const ChannelKey &) = default;
};

/// Each counter has one writer; slots follow on a line of their own.
struct Channel {
  alignas(cacheLine) uint64_t filled = 0; ///< written by the source
  alignas(cacheLine) uint64_t freed = 0;  ///< written by the destination
  char *slots() { return reinterpret_cast<char *>(this + 1); }
};

struct DirectoryEntry {
  ChannelKey key;
  uint64_t channel; ///< World::share of it
};

/// The channels of one rank of one communicator.
class ChannelSet {
public:
  /// Of ranks that are `near`; channels to others are none of its business.
  ChannelSet(World &world, int64_t slotBytes, int64_t rank, int64_t ranks,
             std::function<bool(int64_t)> isNear)
      : world(world), slotBytes(slotBytes), rank(rank), ranks(ranks), isNear(std::move(isNear)) {}
  /// Hands over all memory: that of channels, and directories.
  void takeBlocks(std::vector<Block> &large, std::vector<Block> &tables);

  /// Before the entry of a launch: makes the channels that `kernel` receives through.
  /// `indexInSet` is this rank's index among those of the kernel. Fails if the plan is
  /// malformed or memory is out.
  llvm::Error open(const KernelPlan &kernel, size_t indexInSet);
  /// For the announcement: where the directory lies and how long it is.
  uint64_t directoryAddress() const { return directory ? world.share(directory.data) : 0; }
  uint64_t directoryEntries() const { return entries; }

  /// After the entry: this rank's ends of what `kernel` uses, in the order of the ABI: entry
  /// family * ranks + peer, null where unused and where the peer is not near. `announcement(r)` is
  /// what rank r announced, `worldRank(r)` its rank in the world.
  template <typename Announced, typename WorldRank>
  llvm::Expected<std::vector<ChannelEnd *>> resolve(const KernelPlan &kernel, size_t indexInSet,
                                                    Announced announcement, WorldRank worldRank) {
    return resolveWith(kernel, indexInSet, [&](int64_t r) {
      const Announcement &a = announcement(r);
      return Directory{
          a.directory ? static_cast<const DirectoryEntry *>(world.reach(worldRank(r), a.directory))
                      : nullptr,
          a.entries, worldRank(r)};
    });
  }

private:
  struct Directory {
    const DirectoryEntry *begin;
    uint64_t size;
    int64_t worldRank;
  };
  using Look = llvm::function_ref<Directory(int64_t)>;
  using Visit = llvm::function_ref<llvm::Error(const ChannelFamily &, size_t, int32_t)>;

  llvm::Error forEachEnd(const KernelPlan &kernel, size_t indexInSet, Visit visit) const;
  llvm::Error make(const ChannelKey &key);
  llvm::Error append(const DirectoryEntry &entry);
  llvm::Expected<std::vector<ChannelEnd *>> resolveWith(const KernelPlan &kernel, size_t indexInSet,
                                                        Look look);
  ChannelEnd *keepEnd(const ChannelKey &key, Channel *channel, bool to);

  World &world;
  const int64_t slotBytes, rank, ranks;
  const std::function<bool(int64_t)> isNear;
  std::vector<Block> blocks, directories; ///< old directories, too
  Block directory;
  uint64_t entries = 0;
  std::map<ChannelKey, Channel *> incoming;
  std::map<std::pair<ChannelKey, bool>, std::unique_ptr<ChannelEnd>> ends;
};

} // namespace ccl
