//===- ReadGeneration1.cpp - Plans from before August 2025 ----------------===//
//
// Channels carry the buffers that they join: (source buffer, destination buffer, type). An
// op names channels of one such key by position and says at which chunk it accesses the
// peer's destination buffer. What comes out is the typed form of generation 2.
//===----------------------------------------------------------------------===//
#include "frontend/mscclpp/ReadPlan.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::mscclpp {

namespace {

/// Which channels an op means.
struct Key {
  BufferType src = BufferType::Input, dst = BufferType::Input;
  ChannelType type = ChannelType::None;
  friend bool operator==(const Key &, const Key &) = default;
};

/// The channels of one key: of a rank, or the part of them that a thread block uses.
struct KeyedChannels {
  Key key;
  std::vector<int32_t> ids; ///< indices into Gpu::memory, port or switches
};

class OldGpuReader {
public:
  OldGpuReader(Log &log, int64_t ranks, int32_t rank) : log(log), ranks(ranks), rank(rank) {}
  Gpu read(JsonValue value);

private:
  using Tables = std::vector<KeyedChannels>;
  /// Those of one key may come in several entries.
  static void add(Tables &tables, KeyedChannels entry);

  void readChannel(JsonValue value);
  ThreadBlock readBlock(JsonValue value);
  void readBlockChannels(JsonValue value, Tables &tables);
  Op readOp(JsonValue value, const Tables &tables);
  void readData(const Fields &fields, const Tables &tables, Op &op);
  void readReduction(const Fields &fields, const Tables &tables, Op &op);
  void readGroupSide(const Fields &fields, const Tables &tables, bool source,
                     std::vector<BufferUse> &uses);
  void readAfter(const Fields &fields, Op &op);

  ChannelType channelTypeOf(const Fields &op);
  Key keyOf(const Fields &op, std::string_view side, ChannelType type);
  /// The channels that "i_cids" or "o_cids" (`side` 'i', 'o') name, and where each accesses
  /// the peer.
  void readRemote(const Fields &op, const Tables &tables, char side, ChannelType type,
                  std::vector<int32_t> *channels, std::vector<BufferUse> *uses, int64_t count);
  /// The channel of a key that a number names; `owner` is "rank 0", for messages.
  std::optional<int32_t> readChannelId(const Tables &tables, const Key &key, JsonValue id,
                                       std::string_view owner);
  BufferUse local(JsonValue at, JsonValue buffer, JsonValue offset, int64_t count);
  void readLocals(const Fields &op, std::string_view list, std::vector<BufferUse> &uses,
                  int64_t count);
  bool readLocal(const Fields &op, std::string_view buffer, std::string_view offset,
                 std::vector<BufferUse> &uses, int64_t count);

  Log &log;
  int64_t ranks;
  int32_t rank;
  Gpu gpu;
  Tables channels;
};

} // namespace

Gpu OldGpuReader::read(JsonValue value) {
  Fields fields(log, value, "a GPU");
  readGpuHead(fields, rank, /*generation=*/1, gpu);
  for (JsonValue channel : fields.elements({"channels"}, true))
    readChannel(channel);
  for (JsonValue block : fields.elements({"threadblocks"}, true))
    gpu.blocks.push_back(readBlock(block));
  if (!log.failed())
    checkBlockIds(log, gpu.blocks);
  return std::move(gpu);
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

void OldGpuReader::readChannel(JsonValue value) {
  Fields fields(log, value, "a channel");
  KeyedChannels entry;
  if (JsonValue type = fields.require({"type"}))
    entry.key.type = readConnectionType(log, type);
  if (entry.key.type == ChannelType::None)
    return; // told
  if (JsonValue buffer = fields.find({"buff"}))
    entry.key.src = entry.key.dst = readBufferType(log, buffer);
  if (JsonValue buffer = fields.find({"srcbuff"}))
    entry.key.src = readBufferType(log, buffer);
  if (JsonValue buffer = fields.find({"dstbuff"}))
    entry.key.dst = readBufferType(log, buffer);
  if (entry.key.type == ChannelType::Switch) {
    for (JsonValue group : fields.elements({"rankGroups"}, true)) {
      entry.ids.push_back(int32_t(gpu.switches.size()));
      gpu.switches.push_back(readRankGroup(log, group, entry.key.dst, ranks, rank));
    }
  } else {
    std::vector<Channel> &all = entry.key.type == ChannelType::Port ? gpu.port : gpu.memory;
    for (JsonValue peer : fields.elements({"connectedTo"}, true)) {
      entry.ids.push_back(int32_t(all.size()));
      all.push_back({int32_t(readNumber(log, peer, "a peer", 0, ranks - 1)), peer.place()});
    }
  }
  add(channels, std::move(entry));
}

void OldGpuReader::add(Tables &tables, KeyedChannels entry) {
  for (KeyedChannels &known : tables)
    if (known.key == entry.key) {
      known.ids.insert(known.ids.end(), entry.ids.begin(), entry.ids.end());
      return;
    }
  tables.push_back(std::move(entry));
}

std::optional<int32_t> OldGpuReader::readChannelId(const Tables &tables, const Key &key,
                                                   JsonValue id, std::string_view owner) {
  auto known = std::find_if(tables.begin(), tables.end(),
                            [&](const KeyedChannels &entry) { return entry.key == key; });
  size_t size = known == tables.end() ? 0 : known->ids.size();
  std::optional<int32_t> position = readIndex(log, id, "a channel id", size, [&] {
    return fmt::format("{} has {} {} channels from \"{}\" to \"{}\"", owner, size, name(key.type),
                       name(key.src), name(key.dst));
  });
  if (!position)
    return std::nullopt;
  return known->ids[size_t(*position)];
}

void OldGpuReader::readBlockChannels(JsonValue value, Tables &tables) {
  Fields fields(log, value, "the channels of a thread block");
  KeyedChannels entry;
  if (JsonValue type = fields.require({"ctype"}))
    entry.key.type = readConnectionType(log, type);
  if (JsonValue buffer = fields.require({"src"}))
    entry.key.src = readBufferType(log, buffer);
  if (JsonValue buffer = fields.require({"dst"}))
    entry.key.dst = readBufferType(log, buffer);
  if (entry.key.type == ChannelType::None)
    return; // told
  for (JsonValue id : fields.elements({"cids", "cid"}, true))
    if (std::optional<int32_t> channel =
            readChannelId(channels, entry.key, id, fmt::format("rank {}", rank)))
      entry.ids.push_back(*channel);
  add(tables, std::move(entry));
}

ChannelType OldGpuReader::channelTypeOf(const Fields &op) {
  JsonValue field = op.find({"ctype"});
  ChannelType type = field ? readChannelType(log, field) : ChannelType::None;
  // Reductions over memory channels say "none".
  return type == ChannelType::None ? ChannelType::Memory : type;
}

Key OldGpuReader::keyOf(const Fields &op, std::string_view side, ChannelType type) {
  Key key;
  key.type = type;
  JsonValue src, dst;
  if (JsonValue pair = op.find({side})) {
    Fields fields(log, pair, "the buffers of a channel");
    src = fields.require({"src"});
    dst = fields.require({"dst"});
  } else {
    src = op.find({"srcbuff"});
    dst = op.find({"dstbuff"});
  }
  if (src)
    key.src = readBufferType(log, src);
  if (dst)
    key.dst = readBufferType(log, dst);
  return key;
}

void OldGpuReader::readRemote(const Fields &op, const Tables &tables, char side, ChannelType type,
                              std::vector<int32_t> *ids, std::vector<BufferUse> *uses,
                              int64_t count) {
  std::string_view list = side == 'i' ? "i_cids" : "o_cids";
  if (!op.find({list}))
    return;
  Key key = keyOf(op, side == 'i' ? "i_buff" : "o_buff", type);
  for (JsonValue item : op.elements({list}, true)) {
    Fields fields(log, item, "a channel of an op");
    JsonValue id = fields.require({"id"});
    std::optional<int32_t> channel =
        id ? readChannelId(tables, key, id, "the thread block") : std::nullopt;
    if (!channel)
      return; // told
    if (ids)
      ids->push_back(*channel);
    if (!uses)
      continue;
    BufferUse &use = uses->emplace_back();
    use.place = item.place();
    use.size = count;
    use.type = key.dst;
    use.index = fields.number({"off"}, 0, maxChunkNumber, 0);
    if (key.type == ChannelType::Switch) {
      use.kind = BufferUse::Kind::Switch;
      use.switchChannel = *channel;
    } else {
      use.kind = BufferUse::Kind::Remote;
      use.remote = (key.type == ChannelType::Port ? gpu.port : gpu.memory)[size_t(*channel)].peer;
    }
  }
}

//===----------------------------------------------------------------------===//
// Local operands
//===----------------------------------------------------------------------===//

BufferUse OldGpuReader::local(JsonValue at, JsonValue buffer, JsonValue offset, int64_t count) {
  BufferUse use;
  use.place = at.place();
  use.type = readBufferType(log, buffer);
  use.index = readNumber(log, offset, "an offset", 0, maxChunkNumber);
  use.size = count;
  return use;
}

bool OldGpuReader::readLocal(const Fields &op, std::string_view buffer, std::string_view offset,
                             std::vector<BufferUse> &uses, int64_t count) {
  JsonValue type = op.find({buffer}), index = op.find({offset});
  if (!type || !index)
    return false;
  uses.push_back(local(type, type, index, count));
  return true;
}

void OldGpuReader::readLocals(const Fields &op, std::string_view list, std::vector<BufferUse> &uses,
                              int64_t count) {
  for (JsonValue item : op.elements({list}, false)) {
    Fields fields(log, item, "a buffer");
    JsonValue buffer = fields.require({"buff"}), offset = fields.require({"off"});
    if (buffer && offset)
      uses.push_back(local(item, buffer, offset, count));
  }
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

ThreadBlock OldGpuReader::readBlock(JsonValue value) {
  Fields fields(log, value, "a thread block");
  ThreadBlock block;
  block.place = value.place();
  block.id = int32_t(fields.number({"id"}, 0, maxChunkNumber));
  Tables tables;
  size_t errors = log.numErrors();
  for (JsonValue entry : fields.elements({"channels"}, false))
    readBlockChannels(entry, tables);
  if (log.numErrors() > errors)
    return block;
  for (JsonValue op : fields.elements({"ops"}, true))
    block.ops.push_back(readOp(op, tables));
  return block;
}

void OldGpuReader::readAfter(const Fields &fields, Op &op) {
  for (JsonValue item : fields.elements({"deps"}, false)) {
    Fields dependence(log, item, "a dependence");
    int64_t block = dependence.number({"tb"}, 0, maxChunkNumber);
    int64_t step = dependence.number({"step"}, 0, maxChunkNumber);
    op.after.push_back({int32_t(block), int32_t(step)});
  }
}

// Switch ops do not say `off`, but where in a buffer of their own.
void OldGpuReader::readGroupSide(const Fields &fields, const Tables &tables, bool source,
                                 std::vector<BufferUse> &uses) {
  JsonValue buffer = fields.require({source ? "srcbuff" : "dstbuff"});
  std::vector<JsonValue> ids;
  if (JsonValue id = fields.find({source ? "gi_cid" : "go_cid"}))
    ids.push_back(id);
  else
    for (JsonValue item : fields.elements({source ? "i_cids" : "o_cids"}, true))
      ids.push_back(Fields(log, item, "a channel of an op").require({"id"}));
  for (JsonValue id : ids) {
    if (!id || !buffer)
      return; // told
    BufferUse &use = uses.emplace_back();
    use.kind = BufferUse::Kind::Switch;
    use.place = id.place();
    use.type = readBufferType(log, buffer);
    use.index = fields.number({source ? "srcoff" : "dstoff"}, 0, maxChunkNumber);
    use.size = fields.number({"cnt"}, 1, maxChunkNumber, 1);
    Key key{use.type, use.type, ChannelType::Switch};
    use.switchChannel = readChannelId(tables, key, id, "the thread block").value_or(-1);
  }
}

// The destination is a source, unless another one is named.
void OldGpuReader::readReduction(const Fields &fields, const Tables &tables, Op &op) {
  int64_t count = fields.number({"cnt"}, 1, maxChunkNumber, 1);
  readLocal(fields, "dstbuff", "dstoff", op.dst, count);
  if (!readLocal(fields, "srcbuff", "srcoff", op.src, count) && !op.dst.empty())
    op.src.push_back(op.dst.front());
  readLocals(fields, "srcs", op.src, count);
  readRemote(fields, tables, 'i', op.channelType, nullptr, &op.src, count);
  readRemote(fields, tables, 'o', op.channelType, nullptr, &op.dst, count);
}

void OldGpuReader::readData(const Fields &fields, const Tables &tables, Op &op) {
  int64_t count = fields.number({"cnt"}, 1, maxChunkNumber, 1);
  if (op.kind == OpKind::Get) {
    readRemote(fields, tables, 'i', op.channelType, &op.channels, &op.src, count);
    readLocals(fields, "dsts", op.dst, count);
    if (op.dst.empty())
      readLocal(fields, "dstbuff", "dstoff", op.dst, count);
    return;
  }
  readLocals(fields, "srcs", op.src, count);
  if (op.src.empty())
    readLocal(fields, "srcbuff", "srcoff", op.src, count);
  readRemote(fields, tables, 'o', op.channelType, &op.channels, &op.dst, count);
  if (op.dst.empty())
    readLocal(fields, "dstbuff", "dstoff", op.dst, count);
}

Op OldGpuReader::readOp(JsonValue value, const Tables &tables) {
  Fields fields(log, value, "an op");
  Op op;
  size_t errors = log.numErrors();
  op.place = value.place();
  JsonValue nameField = fields.require({"name"});
  if (!nameField)
    return op;
  op.kind = readOpKind(log, nameField, /*generation=*/1);
  op.channelType = channelTypeOf(fields);
  switch (op.kind) {
  case OpKind::Nop: readAfter(fields, op); return op;
  case OpKind::Barrier:
    op.barrier = int32_t(fields.number({"barrier_id"}, 0, maxChunkNumber));
    op.barrierBlocks =
        int32_t(fields.number({"nthread_blocks", "num_threadblocks"}, 1, maxChunkNumber));
    return op;
  case OpKind::Signal:
  case OpKind::RlxSignal:
  case OpKind::Flush:
    readRemote(fields, tables, 'o', op.channelType, &op.channels, nullptr, 1);
    break;
  case OpKind::Wait:
  case OpKind::RlxWait:
    readRemote(fields, tables, 'i', op.channelType, &op.channels, nullptr, 1);
    break;
  case OpKind::Re:
  case OpKind::Res:
  case OpKind::Rre:
  case OpKind::Rres:
  case OpKind::Repkt:
  case OpKind::Respkt: readReduction(fields, tables, op); break;
  case OpKind::Glres:
    readGroupSide(fields, tables, /*source=*/true, op.src);
    readGroupSide(fields, tables, /*source=*/false, op.dst);
    break;
  case OpKind::Put:
  case OpKind::Pws:
  case OpKind::Pwsf:
  case OpKind::Get:
  case OpKind::Copy:
  case OpKind::Ppkt:
  case OpKind::Cpkt:
  case OpKind::Upkt: readData(fields, tables, op); break;
  default:
    log.unsupported(nameField.place(), fmt::format("this generation of plans has no op {}",
                                                   shortened(nameField.source())));
    return op;
  }
  if (log.numErrors() == errors)
    checkOperands(log, gpu, op);
  return op;
}

void readGpusOfGeneration1(Log &log, const std::vector<JsonValue> &gpus, Plan &plan) {
  for (size_t rank = 0; rank < gpus.size(); ++rank)
    plan.gpus.push_back(OldGpuReader(log, int64_t(gpus.size()), int32_t(rank)).read(gpus[rank]));
}

} // namespace ccl::mscclpp
