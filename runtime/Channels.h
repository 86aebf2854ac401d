//===- Channels.h - Counters and slots between pairs of ranks ---------------===//
//
// A channel joins a `to` end of one rank with the `from` end of another. It is
// made when a program first names it and kept: its counters are absolute, so
// every program that names the same (source, destination, tag, slots) goes on
// where the last one stopped.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Memory.h"
#include "runtime/plan/Plan.h"

#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace ccl {

struct ChannelKey {
  int32_t source, destination, tag, slots;
  friend auto operator<=>(const ChannelKey &, const ChannelKey &) = default;
};

/// Each counter has one writer, and each end one user: all on lines of their own.
struct Channel {
  alignas(cacheLine) uint64_t filled = 0; ///< written by the source
  alignas(cacheLine) uint64_t freed = 0;  ///< written by the destination
  alignas(cacheLine) ChannelEnd sender;
  alignas(cacheLine) ChannelEnd receiver;
  AlignedBuffer slots;
};

class ChannelSet {
public:
  explicit ChannelSet(int64_t slotBytes) : slotBytes(slotBytes) {}

  /// This rank's ends of what `kernel` uses, in the order of the ABI: entry
  /// family * ranks + peer, null where unused. `indexInSet` is the rank's index
  /// among the ranks of the kernel. Fails if the plan is malformed or memory is out.
  llvm::Expected<std::vector<ChannelEnd *>> resolve(const KernelPlan &kernel, int64_t rank,
                                                    size_t indexInSet, int64_t ranks);

private:
  Channel *find(const ChannelKey &key); ///< null: out of memory

  const int64_t slotBytes;
  std::mutex mutex;
  std::map<ChannelKey, std::unique_ptr<Channel>> channels;
};

} // namespace ccl
