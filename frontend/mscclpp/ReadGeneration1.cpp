//===- ReadGeneration1.cpp - Plans from before August 2025 ----------------===//
//
// Channels carry the buffers that they join: (source buffer, destination buffer, type). An
// op names channels of one such key by position and says at which chunk it accesses the
// peer's destination buffer. What comes out is the typed form of generation 2.
//===----------------------------------------------------------------------===//
#include "frontend/mscclpp/ReadPlan.h"

#include <fmt/format.h>

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

  void readChannel(JsonValue value);
  ThreadBlock readBlock(JsonValue value);
  void readBlockChannels(JsonValue value, Tables &tables);
  Op readOp(JsonValue value, const Tables &tables);
  void readData(const Fields &fields, const Tables &tables, Op &op);
  void readReduction(const Fields &fields, const Tables &tables, Op &op);
  void readGroup(const Fields &fields, const Tables &tables, Op &op);
  void readAfter(const Fields &fields, Op &op);

  Key keyOf(const Fields &op, std::string_view side);
  /// The channels that "i_cids" or "o_cids" name, and where each accesses the peer.
  void readRemote(const Fields &op, const Tables &tables, std::string_view list,
                  std::string_view side, std::vector<int32_t> *channels,
                  std::vector<BufferUse> *uses, int64_t count);
  const KeyedChannels *find(const Tables &tables, const Key &key) const;
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
  gpu.place = value.place();
  int64_t id = fields.number({"id"}, 0, maxRanks - 1);
  if (!log.failed() && id != rank)
    log.malformed(fields.find({"id"}).place(),
                  fmt::format("the GPU at position {} has the id {}", rank, id));
  auto chunks = [&](std::string_view name, interchange::TextPlace &place) {
    JsonValue field = fields.find({name});
    place = field ? field.place() : value.place();
    return fields.number({name}, 0, maxChunkNumber);
  };
  gpu.inputChunks = chunks("inputChunks", gpu.inputPlace);
  gpu.outputChunks = chunks("outputChunks", gpu.outputPlace);
  gpu.scratchChunks = chunks("scratchChunks", gpu.scratchPlace);
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
    entry.key.type = readChannelType(log, type);
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
  // Channels of one key may come in several entries.
  for (KeyedChannels &known : channels)
    if (known.key == entry.key) {
      known.ids.insert(known.ids.end(), entry.ids.begin(), entry.ids.end());
      return;
    }
  channels.push_back(std::move(entry));
}

const KeyedChannels *OldGpuReader::find(const Tables &tables, const Key &key) const {
  for (const KeyedChannels &entry : tables)
    if (entry.key == key)
      return &entry;
  return nullptr;
}

void OldGpuReader::readBlockChannels(JsonValue value, Tables &tables) {
  Fields fields(log, value, "the channels of a thread block");
  KeyedChannels entry;
  if (JsonValue type = fields.require({"ctype"}))
    entry.key.type = readChannelType(log, type);
  if (JsonValue buffer = fields.require({"src"}))
    entry.key.src = readBufferType(log, buffer);
  if (JsonValue buffer = fields.require({"dst"}))
    entry.key.dst = readBufferType(log, buffer);
  const KeyedChannels *known = find(channels, entry.key);
  size_t size = known ? known->ids.size() : 0;
  for (JsonValue id : fields.elements({"cids", "cid"}, true)) {
    int64_t number = readNumber(log, id, "a channel id", 0, maxChunkNumber);
    if (size_t(number) >= size)
      log.malformed(id.place(),
                    fmt::format("rank {} has {} {} channels from \"{}\" to \"{}\", there is no "
                                "number {}",
                                rank, size, name(entry.key.type), name(entry.key.src),
                                name(entry.key.dst), number));
    else
      entry.ids.push_back(known->ids[size_t(number)]);
  }
  tables.push_back(std::move(entry));
}

Key OldGpuReader::keyOf(const Fields &op, std::string_view side) {
  Key key;
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
  key.type = ChannelType::Memory;
  if (JsonValue type = op.find({"ctype"})) {
    ChannelType stated = readChannelType(log, type);
    if (stated != ChannelType::None) // reductions over memory channels say "none"
      key.type = stated;
  }
  return key;
}

void OldGpuReader::readRemote(const Fields &op, const Tables &tables, std::string_view list,
                              std::string_view side, std::vector<int32_t> *ids,
                              std::vector<BufferUse> *uses, int64_t count) {
  if (!op.find({list}))
    return;
  Key key = keyOf(op, side);
  const KeyedChannels *known = find(tables, key);
  for (JsonValue item : op.elements({list}, true)) {
    Fields fields(log, item, "a channel of an op");
    int64_t position = fields.number({"id"}, 0, maxChunkNumber);
    if (log.failed())
      return;
    if (!known || size_t(position) >= known->ids.size()) {
      log.malformed(item.place(),
                    fmt::format("the thread block has {} {} channels from \"{}\" to \"{}\", "
                                "there is no number {}",
                                known ? known->ids.size() : 0, name(key.type), name(key.src),
                                name(key.dst), position));
      return;
    }
    int32_t channel = known->ids[size_t(position)];
    if (ids)
      ids->push_back(channel);
    if (!uses)
      continue;
    BufferUse &use = uses->emplace_back();
    use.place = item.place();
    use.size = count;
    use.type = key.dst;
    use.index = fields.number({"off"}, 0, maxChunkNumber, 0);
    if (key.type == ChannelType::Switch) {
      use.kind = BufferUse::Kind::Switch;
      use.switchChannel = channel;
    } else {
      use.kind = BufferUse::Kind::Remote;
      use.remote = (key.type == ChannelType::Port ? gpu.port : gpu.memory)[size_t(channel)].peer;
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
  for (const KeyedChannels &entry : tables)
    (entry.key.type == ChannelType::Port ? block.portChannels : block.memoryChannels) +=
        int32_t(entry.ids.size());
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

void OldGpuReader::readGroup(const Fields &fields, const Tables &tables, Op &op) {
  int64_t count = fields.number({"cnt"}, 1, maxChunkNumber, 1);
  auto readSide = [&](std::string_view list, std::string_view single, std::string_view offset,
                      std::string_view buffer, std::vector<BufferUse> &uses) {
    JsonValue id = fields.find({single});
    if (!id)
      for (JsonValue item : fields.elements({list}, true))
        id = Fields(log, item, "a channel of an op").require({"id"});
    if (!id)
      return;
    BufferUse &use = uses.emplace_back();
    use.kind = BufferUse::Kind::Switch;
    use.place = id.place();
    use.size = count;
    use.index = fields.number({offset}, 0, maxChunkNumber);
    if (JsonValue type = fields.require({buffer}))
      use.type = readBufferType(log, type);
    int64_t position = readNumber(log, id, "a channel id", 0, maxChunkNumber);
    std::vector<int32_t> known;
    for (const KeyedChannels &entry : tables)
      if (entry.key.type == ChannelType::Switch)
        known.insert(known.end(), entry.ids.begin(), entry.ids.end());
    if (size_t(position) >= known.size())
      log.malformed(id.place(),
                    fmt::format("the thread block has {} switch channels, there is no number {}",
                                known.size(), position));
    else
      use.switchChannel = known[size_t(position)];
  };
  readSide("i_cids", "gi_cid", "srcoff", "srcbuff", op.src);
  readSide("o_cids", "go_cid", "dstoff", "dstbuff", op.dst);
}

// The destination is a source, unless another one is named.
void OldGpuReader::readReduction(const Fields &fields, const Tables &tables, Op &op) {
  int64_t count = fields.number({"cnt"}, 1, maxChunkNumber, 1);
  readLocal(fields, "dstbuff", "dstoff", op.dst, count);
  if (!readLocal(fields, "srcbuff", "srcoff", op.src, count) && !op.dst.empty())
    op.src.push_back(op.dst.front());
  readLocals(fields, "srcs", op.src, count);
  readRemote(fields, tables, "i_cids", "i_buff", nullptr, &op.src, count);
  readRemote(fields, tables, "o_cids", "o_buff", nullptr, &op.dst, count);
}

void OldGpuReader::readData(const Fields &fields, const Tables &tables, Op &op) {
  int64_t count = fields.number({"cnt"}, 1, maxChunkNumber, 1);
  if (op.kind == OpKind::Get) {
    readRemote(fields, tables, "i_cids", "i_buff", &op.channels, &op.src, count);
    readLocals(fields, "dsts", op.dst, count);
    if (op.dst.empty())
      readLocal(fields, "dstbuff", "dstoff", op.dst, count);
    return;
  }
  readLocals(fields, "srcs", op.src, count);
  if (op.src.empty())
    readLocal(fields, "srcbuff", "srcoff", op.src, count);
  readRemote(fields, tables, "o_cids", "o_buff", &op.channels, &op.dst, count);
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
  op.channelType = keyOf(fields, "o_buff").type;
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
    readRemote(fields, tables, "o_cids", "o_buff", &op.channels, nullptr, 1);
    return op;
  case OpKind::Wait:
  case OpKind::RlxWait:
    readRemote(fields, tables, "i_cids", "i_buff", &op.channels, nullptr, 1);
    return op;
  case OpKind::Re:
  case OpKind::Res:
  case OpKind::Rre:
  case OpKind::Rres:
  case OpKind::Repkt:
  case OpKind::Respkt: readReduction(fields, tables, op); break;
  case OpKind::Glres:
  case OpKind::Glre: readGroup(fields, tables, op); break;
  case OpKind::Put:
  case OpKind::Pws:
  case OpKind::Pwsf:
  case OpKind::Get:
  case OpKind::Copy:
  case OpKind::Ppkt:
  case OpKind::Cpkt:
  case OpKind::Upkt: readData(fields, tables, op); break;
  default:
    log.unsupported(nameField.place(),
                    fmt::format("this generation of plans has no op {}", nameField.source()));
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
