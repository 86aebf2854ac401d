//===- CudaHeads.cpp - What kernels are started with ------------------------------===//
#include "runtime/cuda/CudaGroup.h"

#include <cstring>

namespace ccl::cuda {

template <typename T>
static llvm::StringRef bytesOf(const std::vector<T> &content) {
  return {reinterpret_cast<const char *>(content.data()), content.size() * sizeof(T)};
}

/// A graph uses it whenever it is replayed, others only in their turn.
llvm::Expected<CUdeviceptr> CudaGroup::upload(const Launching &launching, size_t d,
                                              llvm::StringRef content) {
  const Part &part = parts[d];
  return launching.capturing ? part.device->upload(content)
                             : part.uploads->upload(launching.streams[d], content);
}

llvm::Expected<CUdeviceptr> CudaGroup::uploadShards(const Launching &launching, size_t d) {
  static_assert(sizeof(Shard) == sizeof(ShardRange));
  std::vector<ShardRange> ranges;
  std::vector<size_t> begins;
  for (int64_t r = 0; r < theRanks; ++r)
    for (const bool out : {false, true}) {
      const RankFacts &facts = launching.prepared.ranks[size_t(r)].facts;
      const ShardRange *row = launching.shards->tables()[2 * r + out];
      begins.push_back(ranges.size());
      if (row)
        ranges.insert(ranges.end(), row, row + (out ? facts.outWidth : facts.inWidth));
    }
  llvm::Expected<CUdeviceptr> base = upload(launching, d, bytesOf(ranges));
  if (!base)
    return base;
  std::vector<CUdeviceptr> rows;
  for (size_t begin : begins)
    rows.push_back(*base + begin * sizeof(ShardRange));
  return upload(launching, d, bytesOf(rows));
}

LaunchHead CudaGroup::makeHead(const Launching &launching, int64_t rank, CUdeviceptr shards) {
  RankProgram &program = launching.prepared.ranks[size_t(rank)];
  const LaunchShape &shape = launching.shapes[size_t(rank)];
  LaunchHead head;
  head.me = rank;
  head.count = shape.runCount;
  head.microBatches = shape.cut.microBatches;
  head.stride = shape.cut.stride;
  head.timeoutNs = std::chrono::nanoseconds(launching.options.timeout).count();
  head.ends = pointerTo<ChannelEnd *const>(program.ends[shape.instances]);
  head.endOf = pointerTo<const int>(program.endOf);
  head.shards = shape.packed ? pointerTo<const Shard *const>(shards) : nullptr;
  head.sync = pointerTo<RankSync>(rankParts[size_t(rank)].sync);
  head.control = control();
  head.tables = program.tables;
  head.ranks = int(theRanks);
  head.numEnds = int(program.channels.ends.size());
  head.instances = int(shape.instances);
  head.agents = int(program.agents.size());
  head.blocks = int(program.blocks);
  head.program = program.facts.kernel;
  head.batchShift = launching.batchShift;
  head.plan = launching.prepared.number;
  return head;
}

/// A kernel's Launch of each rank: a head and buffers, which are not anywhere yet.
llvm::Error CudaGroup::makeHeads(Launching &launching, size_t d) {
  const Plan &plan = launching.prepared.program->plan();
  const size_t buffers = std::max<size_t>(plan.buffers.size(), 1);
  CUdeviceptr shards = 0;
  if (launching.shapes.front().packed) {
    llvm::Expected<CUdeviceptr> table = uploadShards(launching, d);
    if (!table)
      return table.takeError();
    shards = *table;
  }
  Heads &heads = launching.heads[d];
  heads.peers.resize(buffers);
  auto append = [&](const auto &part) {
    const char *bytes = reinterpret_cast<const char *>(&part);
    heads.bytes.insert(heads.bytes.end(), bytes, bytes + sizeof part);
  };
  for (int64_t r : parts[d].ranks) {
    append(makeHead(launching, r, shards));
    for (size_t b = 0; b < buffers; ++b) {
      BufferView view;
      if (b < plan.buffers.size() && plan.buffers[b].role == model::Role::Scratch)
        view.instancePitch = memoryOf(plan, r).scratchPitch();
      append(view);
    }
  }
  return llvm::Error::success();
}

/// Where buffers are in this launch; nothing is uploaded that the GPU has.
llvm::Error CudaGroup::fillBuffers(Launching &launching, size_t d) {
  const Plan &plan = launching.prepared.program->plan();
  const std::vector<int64_t> &ranks = parts[d].ranks;
  Heads &heads = launching.heads[d];
  const size_t launchBytes = heads.bytes.size() / ranks.size();
  // Bytes are what kernels read, so views are copied from and to them.
  auto edit = [&](size_t rank, size_t buffer, auto &&change) {
    char *at =
        heads.bytes.data() + rank * launchBytes + sizeof(LaunchHead) + buffer * sizeof(BufferView);
    BufferView view;
    std::memcpy(&view, at, sizeof view);
    if (!change(view))
      return false;
    std::memcpy(at, &view, sizeof view);
    return true;
  };
  bool changed = heads.table == 0;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].peersRead || plan.buffers[b].peersWrite) {
      std::vector<CUdeviceptr> &known = heads.peers[b];
      bool moved = known.empty();
      known.resize(size_t(theRanks));
      for (size_t r = 0; r < known.size(); ++r) {
        const CUdeviceptr address = addressOf(launching.pointers[r][b]);
        moved |= std::exchange(known[r], address) != address;
      }
      if (moved) {
        llvm::Expected<CUdeviceptr> table = upload(launching, d, bytesOf(known));
        if (!table)
          return table.takeError();
        for (size_t i = 0; i < ranks.size(); ++i)
          changed |= edit(i, b, [&](BufferView &view) {
            auto *peers = pointerTo<char *const>(*table);
            return std::exchange(view.peers, peers) != peers;
          });
      }
    }
    for (size_t i = 0; i < ranks.size(); ++i)
      changed |= edit(i, b, [&](BufferView &view) {
        auto *own = static_cast<char *>(launching.pointers[size_t(ranks[i])][b]);
        return std::exchange(view.own, own) != own;
      });
  }
  if (!changed || ranks.size() == 1)
    return llvm::Error::success();
  llvm::Expected<CUdeviceptr> table =
      upload(launching, d, {heads.bytes.data(), heads.bytes.size()});
  if (!table)
    return table.takeError();
  heads.table = *table;
  return llvm::Error::success();
}

} // namespace ccl::cuda
