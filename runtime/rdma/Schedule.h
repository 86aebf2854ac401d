//===- Schedule.h - What a rank sends to other hosts, as work requests ------------===//
//
// The same pieces and lists that the transport posts (Wire.h), of a whole launch and without it:
// to be looked at and counted.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/rdma/Chain.h"

#include <map>

namespace ccl::rdma {

/// How chunks are cut: as in KernelArgs.
struct MessageCut {
  int64_t count = 0, microBatches = 1, stride = 0;
  const ShardRange *const *shards = nullptr;
};

/// What the kernel writes to a slot for `message` in micro-batch `batch` of a program with `chunks`
/// chunks a shard; chunks that fill their strides are one piece, empty ones none.
void appendPieces(const WireMessage &message, int64_t chunks, int64_t elementBytes,
                  const MessageCut &cut, int64_t batch, std::vector<Piece> &pieces);

struct ScheduledRequest {
  WorkRequest request;
  int32_t tag = 0;
  int64_t slot = 0; ///< of the channel
};
/// One ibv_post_send for each queue pair (stripe) that occurs in it: of messages that need nothing
/// of another rank in between.
struct ScheduledList {
  int32_t peer = 0, run = 0;
  std::vector<ScheduledRequest> requests;
};
/// Of one micro-batch, or of all.
struct ScheduleTotals {
  int64_t messages = 0, requests = 0, completions = 0, bytes = 0;
  std::vector<int64_t> nicBytes; ///< by NIC of the rank's host
  void add(const ScheduledList &list, const std::vector<int32_t> &nicOfStripe);
};

struct ScheduleOptions {
  MessageCut cut;
  ChainLimits limits;
  int nics = 1; ///< of each host: stripe s of rank r goes through number (r + s) mod nics
};

/// Work requests posted so far to each peer, by stripe: signals are placed by it.
using PostedCounts = std::map<int32_t, std::vector<int64_t>>;

/// What `rank` of plan.hosts sends to ranks of other hosts in a micro-batch, after what `posted`
/// counts of the ones before. plan.hasWires.
std::vector<ScheduledList> scheduleBatch(const Plan &plan, int64_t rank,
                                         const ScheduleOptions &options, int64_t batch,
                                         PostedCounts &posted);
/// In all micro-batches.
ScheduleTotals totalsOf(const Plan &plan, int64_t rank, const ScheduleOptions &options);
/// Which NIC each stripe of a rank takes.
std::vector<int32_t> nicsOf(int64_t rank, const ScheduleOptions &options);

} // namespace ccl::rdma
