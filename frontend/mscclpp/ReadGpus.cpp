//===- ReadGpus.cpp - The GPUs of a plan of generation 2 ------------------===//
//
// Keys of drafts are taken as well; MSCCL++ refuses them.
//===----------------------------------------------------------------------===//
#include "frontend/mscclpp/ReadPlan.h"

#include <fmt/format.h>

#include <limits>

namespace ccl::mscclpp {

namespace {

/// A remote buffer of a rank, and the channels that may access it.
struct RemoteBuffer {
  int32_t rank = 0;
  BufferType type = BufferType::Input;
  bool memory = false, port = false;
};

/// What the ops of a thread block name by position.
struct Tables {
  std::vector<int32_t> memory, port, switches;     ///< indices into the rank's channels
  std::vector<int32_t> memoryBuffers, portBuffers; ///< indices into the rank's remote buffers

  std::vector<int32_t> &channels(ChannelType type) {
    return type == ChannelType::Port ? port : type == ChannelType::Switch ? switches : memory;
  }
  const std::vector<int32_t> &channels(ChannelType type) const {
    return const_cast<Tables *>(this)->channels(type);
  }
};

class GpuReader {
public:
  GpuReader(Log &log, const Plan &plan, int64_t ranks, int32_t rank)
      : log(log), plan(plan), ranks(ranks), rank(rank) {}

  Gpu read(JsonValue value);

private:
  void readChannel(JsonValue value);
  void readRemoteBuffer(JsonValue value);
  ThreadBlock readBlock(JsonValue value);
  void readBlockChannels(JsonValue value, Tables &tables);
  void readBufferRefs(const Fields &block, Tables &tables);
  Op readOp(JsonValue value, const Tables &tables, bool inPipeline);
  ChannelType channelTypeOf(const Fields &op, OpKind kind, const Tables &tables);
  void readOpChannels(const Fields &fields, const Tables &tables, Op &op);
  BufferUse readBuffer(JsonValue value, const Tables &tables, const Op &op);
  void readPipeline(const Fields &fields, const Tables &tables, Op &op);

  Log &log;
  const Plan &plan;
  int64_t ranks;
  int32_t rank;
  Gpu gpu;
  std::vector<RemoteBuffer> remotes;
};

} // namespace

Gpu GpuReader::read(JsonValue value) {
  Fields fields(log, value, "a GPU");
  readGpuHead(fields, rank, plan.generation, gpu);
  for (JsonValue channel : fields.elements({"channels"}, true))
    readChannel(channel);
  for (JsonValue remote : fields.elements({"remote_buffers", "remoteBuffers"}, false))
    readRemoteBuffer(remote);
  readSemaphores(log, fields, gpu);
  for (JsonValue block : fields.elements({"threadblocks"}, true))
    gpu.blocks.push_back(readBlock(block));
  if (!log.failed())
    checkBlockIds(log, gpu.blocks);
  return std::move(gpu);
}

void GpuReader::readChannel(JsonValue value) {
  Fields fields(log, value, "a channel");
  JsonValue typeField = fields.require({"channel_type", "type"});
  if (!typeField)
    return;
  ChannelType type = readConnectionType(log, typeField);
  if (type == ChannelType::Switch) {
    JsonValue bufferField = fields.require({"buffer_type", "buff"});
    BufferType buffer = bufferField ? readBufferType(log, bufferField) : BufferType::Input;
    for (JsonValue group : fields.elements({"rank_groups", "rankGroups"}, true))
      gpu.switches.push_back(readRankGroup(log, group, buffer, ranks, rank));
    return;
  }
  if (type == ChannelType::None)
    return; // told
  for (JsonValue peer : fields.elements({"connected_to", "connectedTo"}, true))
    (type == ChannelType::Memory ? gpu.memory : gpu.port)
        .push_back({int32_t(readNumber(log, peer, "a peer", 0, ranks - 1)), peer.place()});
}

void GpuReader::readRemoteBuffer(JsonValue value) {
  Fields fields(log, value, "a remote buffer");
  RemoteBuffer remote;
  remote.rank = int32_t(fields.number({"rank"}, 0, ranks - 1));
  if (JsonValue type = fields.require({"type"}))
    remote.type = readBufferType(log, type);
  JsonValue access = fields.require(
      {"access_channel_types", "channel_access", "accessChannels", "accessChannelTypes"});
  auto add = [&](JsonValue type) {
    (readConnectionType(log, type) == ChannelType::Port ? remote.port : remote.memory) = true;
  };
  if (access.kind() == JsonValue::Kind::String)
    add(access);
  else if (access)
    for (JsonValue type : readElements(log, access, "\"access_channel_types\""))
      add(type);
  remotes.push_back(remote);
}

//===----------------------------------------------------------------------===//
// Thread blocks
//===----------------------------------------------------------------------===//

ThreadBlock GpuReader::readBlock(JsonValue value) {
  Fields fields(log, value, "a thread block");
  ThreadBlock block;
  block.place = value.place();
  block.id = int32_t(fields.number({"id"}, 0, maxChunkNumber));
  Tables tables;
  size_t errors = log.numErrors();
  for (JsonValue channels : fields.elements({"channels"}, false))
    readBlockChannels(channels, tables);
  readBufferRefs(fields, tables);
  block.memoryChannels = int32_t(tables.memory.size());
  block.portChannels = int32_t(tables.port.size());
  block.memoryBuffers = int32_t(tables.memoryBuffers.size());
  block.portBuffers = int32_t(tables.portBuffers.size());
  if (log.numErrors() > errors)
    return block; // its ops would only repeat what is wrong with the tables
  for (JsonValue op : fields.elements({"ops"}, true))
    block.ops.push_back(readOp(op, tables, /*inPipeline=*/false));
  return block;
}

void GpuReader::readBlockChannels(JsonValue value, Tables &tables) {
  Fields fields(log, value, "the channels of a thread block");
  JsonValue typeField = fields.require({"channel_type", "ctype"});
  if (!typeField)
    return;
  ChannelType type = readConnectionType(log, typeField);
  if (type == ChannelType::None)
    return; // told
  size_t known = type == ChannelType::Port     ? gpu.port.size()
                 : type == ChannelType::Switch ? gpu.switches.size()
                                               : gpu.memory.size();
  for (JsonValue id : fields.elements({"channel_ids", "cids"}, true))
    if (std::optional<int32_t> number = readIndex(log, id, "a channel id", known, [&] {
          return fmt::format("rank {} has {} {} channels", rank, known, name(type));
        }))
      tables.channels(type).push_back(*number);
}

void GpuReader::readBufferRefs(const Fields &block, Tables &tables) {
  auto add = [&](JsonValue id, bool memory, bool port) {
    std::optional<int32_t> number = readIndex(log, id, "a remote buffer id", remotes.size(), [&] {
      return fmt::format("rank {} has {} remote buffers", rank, remotes.size());
    });
    if (!number)
      return;
    const RemoteBuffer &remote = remotes[size_t(*number)];
    if (port && !memory && !remote.port)
      log.malformed(id.place(),
                    fmt::format("remote buffer {} is not accessed by port channels", *number));
    if (memory && !port && !remote.memory)
      log.malformed(id.place(),
                    fmt::format("remote buffer {} is not accessed by memory channels", *number));
    if (memory)
      tables.memoryBuffers.push_back(*number);
    if (port)
      tables.portBuffers.push_back(*number);
  };
  for (JsonValue ref : block.elements({"remote_buffer_refs", "remote_buffer_ids", "remoteBufferIds",
                                       "remoteBuffersIds", "remoteBuffersRefs"},
                                      false)) {
    if (ref.kind() == JsonValue::Kind::Number) {
      add(ref, true, true);
      continue;
    }
    Fields fields(log, ref, "a reference to remote buffers");
    JsonValue typeField =
        fields.require({"access_channel_type", "access_channel_types", "accessChannelType"});
    bool port = typeField && readChannelType(log, typeField) == ChannelType::Port;
    for (JsonValue id :
         fields.elements({"remote_buffer_ids", "remoteBufferIds", "remoteBuffersIds", "ids"}, true))
      add(id, !port, port);
  }
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

// Some drafts leave the type out where a block has channels of one type only.
ChannelType GpuReader::channelTypeOf(const Fields &op, OpKind kind, const Tables &tables) {
  if (JsonValue type = op.find({"channel_type", "ctype"}))
    return readChannelType(log, type);
  if (kind == OpKind::Glre || kind == OpKind::Glres || kind == OpKind::Gstore ||
      kind == OpKind::Gstorepkt)
    return ChannelType::Switch;
  return tables.memory.empty() && !tables.port.empty() ? ChannelType::Port : ChannelType::Memory;
}

void GpuReader::readOpChannels(const Fields &fields, const Tables &tables, Op &op) {
  bool used = op.channelType == ChannelType::Port || op.channelType == ChannelType::Memory;
  if (!used || !(needsChannels(op.kind) || isByPort(op)))
    return; // others list channels that nobody looks at
  const std::vector<int32_t> &table = tables.channels(op.channelType);
  for (JsonValue id : fields.elements({"channel_ids", "cids", "output_channel_ids"}, false)) {
    JsonValue number = id;
    if (id.kind() == JsonValue::Kind::Object)
      number = Fields(log, id, "a channel id").require({"id"});
    if (!number)
      continue; // told
    std::optional<int32_t> position = readIndex(log, number, "a channel id", table.size(), [&] {
      return fmt::format("the thread block has {} {} channels", table.size(), name(op.channelType));
    });
    if (position)
      op.channels.push_back(table[size_t(*position)]);
  }
}

BufferUse GpuReader::readBuffer(JsonValue value, const Tables &tables, const Op &op) {
  Fields fields(log, value, "a buffer");
  BufferUse use;
  use.place = value.place();
  if (value.find("index") && value.find("offset"))
    log.unsupported(value.place(), "both an index and an offset: a template of a plan, whose "
                                   "sizes are filled in when it runs");
  use.index = fields.number({"index", "offset"}, 0, maxChunkNumber);
  use.size = fields.number({"size"}, 1, maxChunkNumber);
  if (JsonValue id = fields.find({"switch_channel_id"})) {
    use.kind = BufferUse::Kind::Switch;
    size_t known = tables.switches.size();
    if (std::optional<int32_t> position = readIndex(log, id, "a switch channel id", known, [&] {
          return fmt::format("the thread block has {} switch channels", known);
        }))
      use.switchChannel = tables.switches[size_t(*position)];
    return use;
  }
  if (JsonValue id = fields.find({"buffer_id", "buff_id"})) {
    use.kind = BufferUse::Kind::Remote;
    const std::vector<int32_t> &table =
        op.channelType == ChannelType::Port ? tables.portBuffers : tables.memoryBuffers;
    std::optional<int32_t> position = readIndex(log, id, "a buffer id", table.size(), [&] {
      return fmt::format("the thread block refers to {} remote buffers by {} channels",
                         table.size(), name(op.channelType));
    });
    if (!position)
      return use;
    const RemoteBuffer &remote = remotes[size_t(table[size_t(*position)])];
    use.type = remote.type;
    use.remote = remote.rank;
    return use;
  }
  if (JsonValue type = fields.require({"type"}))
    use.type = readBufferType(log, type);
  if (JsonValue owner = fields.find({"rank"});
      owner && readNumber(log, owner, "\"rank\"", 0, ranks - 1) != rank)
    log.malformed(owner.place(),
                  fmt::format("a local buffer of rank {} on rank {}", owner.source(), rank));
  return use;
}

void GpuReader::readPipeline(const Fields &fields, const Tables &tables, Op &op) {
  Fields context(log, fields.require({"iter_context"}), "the context of a pipeline");
  op.unitSize = context.number({"unit_size"}, 1, std::numeric_limits<uint32_t>::max());
  op.numChunks = context.number({"num_chunks"}, 1, maxChunkNumber);
  for (JsonValue inner : fields.elements({"ops"}, true))
    op.body.push_back(readOp(inner, tables, /*inPipeline=*/true));
}

Op GpuReader::readOp(JsonValue value, const Tables &tables, bool inPipeline) {
  Fields fields(log, value, "an op");
  Op op;
  size_t errors = log.numErrors();
  op.place = value.place();
  JsonValue nameField = fields.require({"name"});
  if (!nameField)
    return op;
  op.kind = readOpKind(log, nameField, plan.generation);
  op.channelType = channelTypeOf(fields, op.kind, tables);
  switch (op.kind) {
  case OpKind::Nop: return op;
  case OpKind::Barrier:
    op.barrier = int32_t(fields.number({"barrier_id"}, 0, maxChunkNumber));
    op.barrierBlocks = int32_t(fields.number(
        {"num_threadblocks", "num_thread_blocks", "nthread_blocks"}, 1, maxChunkNumber));
    return op;
  case OpKind::SemAcquire:
  case OpKind::SemRelease:
    for (JsonValue id : fields.elements({"semaphore_ids"}, true))
      if (std::optional<int32_t> number =
              readIndex(log, id, "a semaphore id", gpu.semaphores.size(), [&] {
                return fmt::format("rank {} has {} semaphores", rank, gpu.semaphores.size());
              }))
        op.semaphores.push_back(*number);
    return op;
  case OpKind::Pipeline:
    if (inPipeline)
      log.unsupported(value.place(), "a pipeline in a pipeline");
    else
      readPipeline(fields, tables, op);
    return op;
  default: break;
  }
  readOpChannels(fields, tables, op);
  for (JsonValue buffer : fields.elements({"src_buff"}, false))
    op.src.push_back(readBuffer(buffer, tables, op));
  for (JsonValue buffer : fields.elements({"dst_buff"}, false))
    op.dst.push_back(readBuffer(buffer, tables, op));
  op.reduction = fields.string({"reduce_op"}, "");
  if (JsonValue info = fields.find({"tbg_info"})) {
    Fields group(log, info, "\"tbg_info\"");
    op.groupSize = int32_t(group.number({"tbg_size"}, 1, maxGroupSize));
    op.groupIndex = int32_t(group.number({"tb_id"}, 0, op.groupSize - 1));
  }
  if (log.numErrors() == errors)
    checkOperands(log, gpu, op);
  return op;
}

void readGpus(Log &log, const std::vector<JsonValue> &gpus, Plan &plan) {
  for (size_t rank = 0; rank < gpus.size(); ++rank)
    plan.gpus.push_back(GpuReader(log, plan, int64_t(gpus.size()), int32_t(rank)).read(gpus[rank]));
}

} // namespace ccl::mscclpp
