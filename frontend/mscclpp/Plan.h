//===- Plan.h - An MSCCL++ execution plan as data -------------------------===//
//
// The document of generation 2 (what the executor reads since August 2025), typed, with
// the place of everything; plans of generation 1 are translated to it. Ids are resolved as
// far as one rank goes: what an op lists by position in its thread block's tables is here
// the rank's own channel or the remote buffer itself.
//
// Numbers were checked against the limits below, ids against the tables that they index.
// Chunk indices were not checked against the buffers: a program that leaves its buffers is
// disproved later, with its place.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccl::mscclpp {

/// What a reader takes. Far beyond what runs, near enough that a hostile number costs nothing.
constexpr int64_t maxRanks = 65536;
constexpr int64_t maxChunkNumber = int64_t(1) << 30; ///< a chunk index, a count, an id
constexpr int64_t maxGroupSize = 4096;               ///< thread blocks of a group
/// Chunks of a shard; interchange::mostChunks says how many there may be in all.
constexpr int64_t maxChunksOfShard = int64_t(1) << 24;

/// Channels of an op that MSCCL++'s executor has room for.
constexpr size_t maxChannelsOfOp = 8;

enum class BufferType : uint8_t { Input, Output, Scratch };
enum class ChannelType : uint8_t { None, Memory, Port, Switch };

/// Named as in the files; `Glre` and `Gstorepkt` are written by the DSL, but not executed.
enum class OpKind : uint8_t {
  Nop,
  Barrier,
  Signal,
  Wait,
  RlxSignal,
  RlxWait,
  Put,
  Pws,
  Pwsf,
  Get,
  Flush,
  Copy,
  Re,
  Res,
  Rre,
  Rres,
  Ppkt,
  Rppkt,
  Cpkt,
  Upkt,
  Repkt,
  Respkt,
  Recpkt,
  Recspkt,
  Glre,
  Glres,
  Gstore,
  Gstorepkt,
  Pipeline,
  SemAcquire,
  SemRelease
};
/// "rres".
std::string_view name(OpKind kind);
std::string_view name(ChannelType type);
std::optional<OpKind> parseOpKind(std::string_view text);
/// "i", "o", "s".
std::string_view name(BufferType type);

/// Each source goes to its destination, or a single one to all; other ops combine.
bool movesPairs(OpKind kind);
/// Signals, waits and flushes, puts with a signal: they are nothing without a channel.
bool needsChannels(OpKind kind);

/// From which one on the sources and destinations of an op are packets.
struct PacketOperands {
  static constexpr size_t none = SIZE_MAX;
  size_t firstSource = none, firstDestination = none;
};
PacketOperands packetOperands(OpKind kind);
bool usesPackets(OpKind kind);

/// A range of chunks that an op reads or writes.
struct BufferUse {
  enum class Kind : uint8_t { Local, Remote, Switch };
  Kind kind = Kind::Local;
  BufferType type = BufferType::Input;
  int32_t remote = -1;        ///< Remote: whose
  int32_t switchChannel = -1; ///< Switch: index into Gpu::switches
  int64_t index = 0, size = 0;
  interchange::TextPlace place;
};

struct Op {
  OpKind kind = OpKind::Nop;
  ChannelType channelType = ChannelType::None;
  std::vector<int32_t> channels; ///< indices into Gpu::memory or Gpu::port
  std::vector<BufferUse> src, dst;
  int32_t groupIndex = 0, groupSize = 1; ///< this block's part of the op's chunks
  int32_t barrier = -1, barrierBlocks = 0;
  std::vector<int32_t> semaphores; ///< indices into Gpu::semaphores
  std::string reduction;           ///< "" or as written
  int64_t unitSize = 0, numChunks = 0;
  std::vector<Op> body; ///< Pipeline
  /// Generation 1, Nop: the (thread block, step) that have to be over.
  std::vector<std::pair<int32_t, int32_t>> after;
  interchange::TextPlace place;
};
/// A put by a port channel: a proxy makes it.
bool isByPort(const Op &op);

/// One end of a connection; the k-th to a peer pairs with the k-th of the peer, per type.
struct Channel {
  int32_t peer = 0;
  interchange::TextPlace place;
};

struct SwitchChannel {
  BufferType type = BufferType::Input;
  std::vector<int32_t> ranks;
  interchange::TextPlace place;
};

struct ThreadBlock {
  int32_t id = 0;
  std::vector<Op> ops;
  /// Sizes of its tables: memory channels, port channels, remote buffers by either.
  int32_t memoryChannels = 0, portChannels = 0, memoryBuffers = 0, portBuffers = 0;
  interchange::TextPlace place;
};

struct Gpu {
  int64_t inputChunks = 0, outputChunks = 0, scratchChunks = 0;
  std::vector<Channel> memory, port;
  std::vector<SwitchChannel> switches;
  std::vector<int64_t> semaphores; ///< initial values
  std::vector<ThreadBlock> blocks;
  interchange::TextPlace place;
  interchange::TextPlace inputPlace, outputPlace, scratchPlace;
};

/// Whichever a use is in, of whatever ranks.
inline BufferType typeOf(const Gpu &gpu, const BufferUse &use) {
  return use.kind == BufferUse::Kind::Switch ? gpu.switches[size_t(use.switchChannel)].type
                                             : use.type;
}

struct Plan {
  std::string name = "plan", collective;
  interchange::TextPlace collectivePlace;
  bool packets = false; ///< protocol "LL"
  bool inPlace = false;
  bool reuseResources = false;
  int64_t threads = 1024;
  std::optional<int64_t> minBytes, maxBytes;
  interchange::TextPlace maxBytesPlace;
  int generation = 2;
  std::vector<Gpu> gpus;

  /// What this project's own key says, for what the format has no field for.
  struct Own {
    model::Contract contract;
    bool disjoint = true, inPlace = false;
  };
  std::optional<Own> own;
};

/// Calls `f(op)` for each op of a block, those of pipelines after the pipeline itself.
template <typename F>
void forEachOp(const std::vector<Op> &ops, const F &f) {
  for (const Op &op : ops) {
    f(op);
    forEachOp(op.body, f);
  }
}

/// Calls `f(gpu, op)` for each op of a plan.
template <typename F>
void forEachOp(const Plan &plan, const F &f) {
  for (const Gpu &gpu : plan.gpus)
    for (const ThreadBlock &block : gpu.blocks)
      forEachOp(block.ops, [&](const Op &op) { f(gpu, op); });
}

/// The key of the top object that holds Plan::Own. Other readers ignore it.
constexpr std::string_view ownKey = "ccl";

} // namespace ccl::mscclpp
