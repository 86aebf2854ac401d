//===- GpuChannels.h - Channels between ranks on GPUs ------------------------------===//
//
// A channel has a part for each instance. Slots and the counter of filled ones lie at the
// receiver, the counter of freed ones at the sender: each polls memory of its own GPU. All of it
// is kept: its counters are absolute, so every program that names the same channel goes on where
// the last one stopped. The ends never move, so a graph and later launches see the same.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/RankHomes.h"
#include "runtime/plan/Plan.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>

namespace ccl::cuda {

struct ChannelKey {
  int32_t source, destination, tag, slots, protocol;
  friend auto operator<=>(const ChannelKey &, const ChannelKey &) = default;
};

/// Bytes from slot to slot where `slotBytes` of data fit into one.
int64_t slotPitch(int32_t protocol, int64_t slotBytes);

/// What a plan's channels are for one rank.
struct RankChannels {
  struct End {
    ChannelKey key;
    bool to;
  };
  std::vector<End> ends;
  std::vector<int> endOf; ///< LaunchHead::endOf
};
/// Of the ranks of `kernel`, the one at `indexInSet`. Fails if the plan is malformed.
llvm::Expected<RankChannels> findChannels(const KernelPlan &kernel, size_t indexInSet, int64_t rank,
                                          int64_t ranks);

class GpuChannels {
public:
  /// `homes` outlive it.
  GpuChannels(RankHomes &homes, int64_t slotBytes) : homes(homes), slotBytes(slotBytes) {}

  /// Makes what is missing of instances [0, instances) of the channels of one rank; then the
  /// addresses of its ends, in the order of LaunchHead::ends. Every process does that for all
  /// ranks, in the same order.
  llvm::Expected<std::vector<CUdeviceptr>> open(const RankChannels &channels, int64_t instances);

private:
  struct Instance {
    CUdeviceptr to, from; ///< a ChannelEnd at the source, at the destination
  };
  llvm::Error grow(const ChannelKey &key, std::vector<Instance> &have, int64_t instances);

  RankHomes &homes;
  const int64_t slotBytes;
  std::map<ChannelKey, std::vector<Instance>> channels;
};

} // namespace ccl::cuda
