//===- Schedule.cpp -----------------------------------------------------------===//
#include "runtime/rdma/Schedule.h"

namespace ccl::rdma {
namespace {

/// Elements of slice `batch` of chunk `k` of the row.
int64_t sliceLength(const WireMessage &message, int64_t k, int64_t chunks, const MessageCut &cut,
                    int64_t batch) {
  const int64_t shard = k / chunks, c = k % chunks;
  const int64_t whole =
      cut.shards ? cut.shards[2 * message.owner + message.output][shard].length : cut.count;
  const auto chunk = [&](int64_t i) { return int64_t(__int128(i) * whole / chunks); };
  const int64_t length = chunk(c + 1) - chunk(c);
  const auto slice = [&](int64_t i) { return int64_t(__int128(i) * length / cut.microBatches); };
  return slice(batch + 1) - slice(batch);
}

/// Where a rank is in a plan; null if it has no program.
struct Placed {
  const KernelPlan *kernel = nullptr;
  size_t index = 0;
};
Placed find(const Plan &plan, int64_t rank) {
  for (const KernelPlan &kernel : plan.kernels) {
    size_t index = 0;
    for (auto [begin, end] : kernel.ranks) {
      if (rank >= begin && rank < end)
        return {&kernel, index + size_t(rank - begin)};
      index += size_t(end - begin);
    }
  }
  return {};
}

int32_t hostOf(const Plan &plan, int64_t rank) {
  return size_t(rank) < plan.hosts.size() ? plan.hosts[size_t(rank)] : 0;
}

} // namespace

void appendPieces(const WireMessage &message, int64_t chunks, int64_t elementBytes,
                  const MessageCut &cut, int64_t batch, std::vector<Piece> &pieces) {
  const int64_t pitch = cut.stride * elementBytes;
  if (message.owner == WireMessage::noRow) {
    pieces.push_back({0, message.count * pitch});
    return;
  }
  for (int64_t j = 0; j < message.count; ++j) {
    const int64_t bytes =
        sliceLength(message, message.chunk + j, chunks, cut, batch) * elementBytes;
    if (bytes == 0)
      continue;
    if (!pieces.empty() && pieces.back().offset + pieces.back().bytes == j * pitch)
      pieces.back().bytes += bytes;
    else
      pieces.push_back({j * pitch, bytes});
  }
}

std::vector<int32_t> nicsOf(int64_t rank, const ScheduleOptions &options) {
  std::vector<int32_t> nics;
  for (int s = 0; s < std::max(options.limits.stripes, 1); ++s)
    nics.push_back(int32_t((rank + s) % options.nics));
  return nics;
}

std::vector<ScheduledList> scheduleBatch(const Plan &plan, int64_t rank,
                                         const ScheduleOptions &options, int64_t batch,
                                         PostedCounts &posted) {
  std::vector<ScheduledList> lists;
  const Placed placed = find(plan, rank);
  if (!placed.kernel || placed.index >= placed.kernel->wires.size())
    return lists;
  // Of a run, what goes to one peer is one list: its messages, and where each one's slot is.
  struct Entry {
    const WireMessage *message;
    int64_t slot;
  };
  std::map<std::pair<int32_t, int32_t>, std::vector<Entry>> runs;
  std::map<std::pair<int32_t, int32_t>, int64_t> sent; // by family and peer
  for (const WireMessage &message : placed.kernel->wires[placed.index].messages)
    if (hostOf(plan, message.peer) != hostOf(plan, rank)) {
      const ChannelFamily &family = placed.kernel->channels[size_t(message.family)];
      const int64_t number = sent[{message.family, message.peer}]++;
      runs[{message.run, message.peer}].push_back({&message, number % family.slots});
    }
  const int64_t bytes = sizeOf(plan.type);
  for (const auto &[key, entries] : runs) {
    ScheduledList list{key.second, key.first, {}};
    std::vector<WorkRequest> chain;
    for (size_t i = 0; i < entries.size(); ++i) {
      const size_t first = chain.size();
      std::vector<Piece> pieces;
      appendPieces(*entries[i].message, plan.contract.chunks, bytes, options.cut, batch, pieces);
      appendMessage(pieces, options.limits, i + 1 == entries.size(), posted[key.second], chain);
      const ChannelFamily &family = placed.kernel->channels[size_t(entries[i].message->family)];
      for (size_t r = first; r < chain.size(); ++r)
        list.requests.push_back({{}, family.tag, entries[i].slot});
    }
    for (size_t r = 0; r < chain.size(); ++r)
      list.requests[r].request = chain[r];
    lists.push_back(std::move(list));
  }
  return lists;
}

void ScheduleTotals::add(const ScheduledList &list, const std::vector<int32_t> &nicOfStripe) {
  for (const ScheduledRequest &one : list.requests) {
    const auto nic = size_t(nicOfStripe[size_t(one.request.stripe)]);
    nicBytes.resize(std::max(nicBytes.size(), nic + 1), 0);
    nicBytes[nic] += one.request.bytes;
    bytes += one.request.bytes;
    ++requests;
    // Of a message in parts each stripe has an immediate; the first one stands for it.
    messages += one.request.immediate && one.request.stripe == 0;
    completions += one.request.signaled;
  }
}

ScheduleTotals totalsOf(const Plan &plan, int64_t rank, const ScheduleOptions &options) {
  ScheduleTotals totals;
  totals.nicBytes.assign(size_t(options.nics), 0);
  const std::vector<int32_t> nics = nicsOf(rank, options);
  PostedCounts posted;
  for (int64_t batch = 0; batch < options.cut.microBatches; ++batch)
    for (const ScheduledList &list : scheduleBatch(plan, rank, options, batch, posted))
      totals.add(list, nics);
  return totals;
}

} // namespace ccl::rdma
