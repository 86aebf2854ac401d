//===- ReadPlan.cpp - The top of a document, and what generations share ---===//
#include "frontend/mscclpp/ReadPlan.h"

#include "frontend/mscclpp/OwnKey.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace ccl::mscclpp {

using interchange::TextPlace;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

BufferType readBufferType(Log &log, JsonValue value) {
  std::string text = readString(log, value, "a buffer type");
  if (text == "o")
    return BufferType::Output;
  if (text == "s")
    return BufferType::Scratch;
  if (text != "i" && value.kind() == JsonValue::Kind::String)
    log.malformed(
        value.place(),
        fmt::format("\"{}\" is no buffer: there are \"i\", \"o\" and \"s\"", shortened(text)));
  return BufferType::Input;
}

ChannelType readConnectionType(Log &log, JsonValue value) {
  ChannelType type = readChannelType(log, value);
  if (type == ChannelType::None && value.string() == "none")
    log.malformed(value.place(), "a channel is of type \"memory\", \"port\" or \"switch\"");
  return type;
}

ChannelType readChannelType(Log &log, JsonValue value) {
  std::string text = readString(log, value, "a channel type");
  if (text == "memory" || text == "sm")
    return ChannelType::Memory;
  if (text == "port" || text == "proxy")
    return ChannelType::Port;
  if (text == "switch" || text == "nvls")
    return ChannelType::Switch;
  if (text != "none" && value.kind() == JsonValue::Kind::String)
    log.malformed(value.place(), fmt::format("\"{}\" is no channel type: there are \"memory\", "
                                             "\"port\", \"switch\" and \"none\"",
                                             shortened(text)));
  return ChannelType::None;
}

OpKind readOpKind(Log &log, JsonValue value, int generation) {
  static constexpr std::array<std::pair<std::string_view, OpKind>, 10> oldNames = {{
      {"rs", OpKind::Res},
      {"rrc", OpKind::Rre},
      {"rrcs", OpKind::Rres},
      {"rrs", OpKind::Rres},
      {"rspkt", OpKind::Respkt},
      {"rpkt", OpKind::Repkt},
      {"tpkt", OpKind::Cpkt},
      {"rsignal", OpKind::RlxSignal},
      {"rwait", OpKind::RlxWait},
      {"r", OpKind::Re},
  }};
  std::string text = readString(log, value, "the name of an op");
  if (generation == 1 && text == "cpkt")
    return OpKind::Upkt;
  if (std::optional<OpKind> kind = parseOpKind(text))
    return *kind;
  for (auto [old, kind] : oldNames)
    if (text == old) {
      if (generation != 1)
        log.draft(value.place(), old, name(kind));
      return kind;
    }
  if (value.kind() == JsonValue::Kind::String)
    log.unsupported(value.place(), fmt::format("there is no op \"{}\"", shortened(text)));
  return OpKind::Nop;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

void readGpuHead(const Fields &fields, int32_t rank, int generation, Gpu &gpu) {
  Log &log = fields.log;
  gpu.place = fields.place();
  size_t errors = log.numErrors();
  int64_t id = fields.number({"id"}, 0, maxRanks - 1);
  if (log.numErrors() == errors && id != rank)
    log.malformed(fields.find({"id"}).place(),
                  fmt::format("the GPU at position {} has the id {}", rank, id));
  auto chunks = [&](std::string_view key, std::string_view before, TextPlace &place) {
    auto read = [&](Names names) {
      JsonValue field = fields.find(names);
      place = field ? field.place() : fields.place();
      return fields.number(names, 0, maxChunkNumber);
    };
    return generation == 1 ? read({before}) : read({key, before});
  };
  gpu.inputChunks = chunks("input_chunks", "inputChunks", gpu.inputPlace);
  gpu.outputChunks = chunks("output_chunks", "outputChunks", gpu.outputPlace);
  gpu.scratchChunks = chunks("scratch_chunks", "scratchChunks", gpu.scratchPlace);
}

void checkBlockIds(Log &log, const std::vector<ThreadBlock> &blocks) {
  std::vector<const ThreadBlock *> byId(blocks.size());
  for (const ThreadBlock &block : blocks) {
    if (size_t(block.id) >= blocks.size()) {
      log.malformed(block.place, fmt::format("thread block {} of {}: ids count from 0", block.id,
                                             blocks.size()));
    } else if (const ThreadBlock *&other = byId[size_t(block.id)]; other) {
      log.malformed(block.place, fmt::format("a second thread block {}", block.id))
          .notes.push_back({other->place, -1, "the first one"});
    } else {
      other = &block;
    }
  }
}

SwitchChannel readRankGroup(Log &log, JsonValue group, BufferType type, int64_t ranks, int32_t me) {
  Fields fields(log, group, "a rank group");
  SwitchChannel channel;
  channel.type = type;
  channel.place = group.place();
  for (JsonValue rank : fields.elements({"ranks"}, true)) {
    int32_t value = int32_t(readNumber(log, rank, "a rank", 0, ranks - 1));
    channel.ranks.push_back(value);
  }
  std::vector<int32_t> sorted = channel.ranks;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    log.malformed(group.place(), "the group has a rank twice");
  else if (!std::binary_search(sorted.begin(), sorted.end(), me))
    log.malformed(group.place(), fmt::format("rank {} is not in its own group", me));
  return channel;
}

void readSemaphores(Log &log, const Fields &fields, Gpu &gpu) {
  for (JsonValue semaphore : fields.elements({"semaphores"}, false))
    gpu.semaphores.push_back(Fields(log, semaphore, "a semaphore")
                                 .number({"init_value"}, 0, std::numeric_limits<int32_t>::max()));
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

namespace {

constexpr int many = std::numeric_limits<int>::max();

/// How many local, remote and switch operands one side of an op has, in this order.
struct Side {
  int minLocal, maxLocal, minRemote, maxRemote;
  bool isSwitch = false;
};
constexpr Side nothing{0, 0, 0, 0}, oneLocal{1, 1, 0, 0}, locals{1, many, 0, 0};
constexpr Side remotes{0, 0, 1, many}, group{0, 0, 0, 0, true};

std::pair<Side, Side> sidesOf(OpKind kind) {
  switch (kind) {
  case OpKind::Put:
  case OpKind::Pws:
  case OpKind::Pwsf:
  case OpKind::Ppkt: return {locals, remotes};
  case OpKind::Rppkt: return {oneLocal, remotes};
  case OpKind::Get: return {remotes, locals};
  case OpKind::Copy:
  case OpKind::Cpkt:
  case OpKind::Upkt: return {oneLocal, oneLocal};
  case OpKind::Re:
  case OpKind::Repkt: return {locals, oneLocal};
  case OpKind::Recpkt: return {locals, {2, 2, 0, 0}};
  case OpKind::Res:
  case OpKind::Respkt: return {locals, {1, 1, 0, many}};
  case OpKind::Recspkt: return {locals, {2, 2, 0, many}};
  case OpKind::Rre: return {{1, 1, 0, many}, oneLocal};
  case OpKind::Rres: return {{1, 1, 0, many}, {1, 1, 0, many}};
  case OpKind::Glre: return {group, oneLocal};
  case OpKind::Glres: return {group, group};
  case OpKind::Gstore:
  case OpKind::Gstorepkt: return {oneLocal, group};
  default: return {nothing, nothing};
  }
}

bool fits(const Side &side, const std::vector<BufferUse> &uses) {
  int counts[3] = {0, 0, 0};
  for (const BufferUse &use : uses) {
    for (int later = int(use.kind) + 1; later < 3; ++later)
      if (counts[later] > 0)
        return false;
    ++counts[int(use.kind)];
  }
  return counts[0] >= side.minLocal && counts[0] <= side.maxLocal && counts[1] >= side.minRemote &&
         counts[1] <= side.maxRemote && counts[2] == int(side.isSwitch);
}

std::string str(const Side &side) {
  auto range = [](int min, int max, std::string_view what) {
    if (max == many)
      return fmt::format("{} or more {}", min, what);
    return fmt::format("{} {}", min, what);
  };
  if (side.isSwitch)
    return "one of a switch channel";
  std::string text;
  if (side.maxLocal > 0)
    text = range(side.minLocal, side.maxLocal, "local");
  if (side.maxRemote > 0)
    text += (text.empty() ? "" : ", then ") + range(side.minRemote, side.maxRemote, "remote");
  return text.empty() ? "none" : text;
}

} // namespace

/// One after the other, or all of equal length.
static void checkSizes(Log &log, const Op &op) {
  bool pairs = movesPairs(op.kind);
  if (pairs && op.src.size() != op.dst.size() && op.src.size() != 1) {
    log.malformed(op.place, fmt::format("{} has {} sources and {} destinations: they go in pairs",
                                        name(op.kind), op.src.size(), op.dst.size()));
    return;
  }
  auto expect = [&](const BufferUse &use, const BufferUse &other) {
    if (use.size != other.size)
      log.malformed(use.place, fmt::format("{} chunks, where the other side of {} has {}", use.size,
                                           name(op.kind), other.size))
          .notes.push_back({other.place, -1, "the other side"});
  };
  if (pairs) {
    for (size_t i = 0; i < op.dst.size(); ++i)
      expect(op.dst[i], op.src[op.src.size() == 1 ? 0 : i]);
    return;
  }
  for (const std::vector<BufferUse> *side : {&op.src, &op.dst})
    for (const BufferUse &use : *side)
      expect(use, op.src.empty() ? use : op.src[0]);
}

/// Packets are read from the rank's scratch and written to scratch.
static void checkPacketPlaces(Log &log, const Gpu &gpu, const Op &op) {
  auto inScratch = [&](const BufferUse &use) {
    BufferType type = typeOf(gpu, use);
    if (type != BufferType::Scratch)
      log.unsupported(use.place, fmt::format("the packets of {} are in \"{}\"; packets are kept "
                                             "in scratch only",
                                             name(op.kind), name(type)));
  };
  auto [firstSource, firstDestination] = packetOperands(op.kind);
  for (size_t i = firstSource; i < op.src.size(); ++i)
    inScratch(op.src[i]);
  for (size_t i = firstDestination; i < op.dst.size(); ++i)
    inScratch(op.dst[i]);
}

void checkOperands(Log &log, const Gpu &gpu, const Op &op) {
  auto [src, dst] = sidesOf(op.kind);
  if (!fits(src, op.src)) {
    log.malformed(op.place,
                  fmt::format("{} has other sources than it takes: {}", name(op.kind), str(src)));
    return;
  }
  if (!fits(dst, op.dst)) {
    log.malformed(op.place, fmt::format("{} has other destinations than it takes: {}",
                                        name(op.kind), str(dst)));
    return;
  }
  bool byPort = op.channelType == ChannelType::Port;
  if (needsChannels(op.kind) && !byPort && op.channelType != ChannelType::Memory) {
    log.malformed(op.place, fmt::format("{} is over memory or port channels, not \"{}\"",
                                        name(op.kind), name(op.channelType)));
    return;
  }
  bool named = isByPort(op) || op.kind == OpKind::Pws || op.kind == OpKind::Pwsf;
  if (named && op.channels.size() != op.dst.size()) {
    log.malformed(op.place, fmt::format("{} has {} destinations and {} channels to them",
                                        name(op.kind), op.dst.size(), op.channels.size()));
    return;
  }
  for (size_t i = 0; named && i < op.dst.size(); ++i) {
    int32_t peer = (byPort ? gpu.port : gpu.memory)[size_t(op.channels[i])].peer;
    if (peer != op.dst[i].remote)
      log.malformed(op.dst[i].place,
                    fmt::format("the buffer is of rank {}, and the channel goes to rank {}",
                                op.dst[i].remote, peer));
  }
  checkSizes(log, op);
  checkPacketPlaces(log, gpu, op);
}

//===----------------------------------------------------------------------===//
// The document
//===----------------------------------------------------------------------===//

/// Byte limits: what does not fit is no limit.
static std::optional<int64_t> readBytes(const Fields &top, std::string_view key) {
  JsonValue value = top.find({key});
  if (!value)
    return std::nullopt;
  if (value.kind() != JsonValue::Kind::Number)
    top.log.malformed(value.place(),
                      fmt::format("\"{}\" is a number, not {}", key, value.kindName()));
  return value.integer();
}

static int generationOf(const std::vector<JsonValue> &gpus) {
  JsonValue first = gpus.empty() ? JsonValue() : gpus.front();
  return first.find("inputChunks") ? 1 : first.find("input_buffer_size") ? 0 : 2;
}

static void readTop(const Fields &top, Plan &plan) {
  JsonValue planName = top.find({"name"});
  if (planName && planName.kind() == JsonValue::Kind::Null)
    top.log.warn(planName.place(), "the plan has no name; MSCCL++ refuses it");
  else
    plan.name = top.string({"name"}, "plan");
  if (JsonValue collective = top.require({"collective", "colletive"})) {
    plan.collective = readString(top.log, collective, "the collective");
    plan.collectivePlace = collective.place();
  }
  if (JsonValue value = top.find({"protocol"})) {
    std::string protocol = readString(top.log, value, "\"protocol\"");
    plan.packets = protocol == "LL";
    if (protocol != "LL" && protocol != "Simple" && value.kind() == JsonValue::Kind::String)
      top.log.malformed(value.place(),
                        fmt::format("\"{}\" is no protocol: there are \"Simple\" and \"LL\"",
                                    shortened(protocol)));
  }
  plan.inPlace = top.flag({"inplace"});
  plan.reuseResources = top.flag({"reuse_resources"}, false);
  top.flag({"use_double_scratch_buffer"}, false); // not used, but checked
  plan.threads = top.number({"num_threads_per_block"}, 1, 1024, 1024);
  plan.minBytes = readBytes(top, "min_message_size");
  plan.maxBytes = readBytes(top, "max_message_size");
  if (JsonValue maxBytes = top.find({"max_message_size"}))
    plan.maxBytesPlace = maxBytes.place();
}

Plan readDocument(Log &log, JsonValue root) {
  Plan plan;
  Fields top(log, root, "a plan");
  if (log.failed())
    return plan;
  std::vector<JsonValue> gpus = top.elements({"gpus"}, true);
  if (log.failed())
    return plan;
  if (gpus.empty() || gpus.size() > size_t(maxRanks)) {
    log.malformed(top.find({"gpus"}).place(),
                  fmt::format("a plan has 1 to {} GPUs, this one {}", maxRanks, gpus.size()));
    return plan;
  }
  plan.generation = generationOf(gpus);
  // Drafts are no news of generation 1: all of it is refused.
  log.tellDrafts = plan.generation == 2;
  if (plan.generation == 0) {
    log.unsupported(gpus.front().place(),
                    "this is a first draft of the format, which has no channels that ops could "
                    "use; write the plan again with a released MSCCL++");
    return plan;
  }
  readTop(top, plan);
  if (JsonValue own = top.find({ownKey}))
    plan.own = readOwnKey(log, own, int64_t(gpus.size()));
  if (plan.generation == 1)
    log.warn(gpus.front().place(), "this plan is of the generation before August 2025; MSCCL++ "
                                   "reads it no more");
  bool classical = plan.generation == 1 && !gpus.front().find("remoteBuffers");
  (classical ? readGpusOfGeneration1 : readGpus)(log, gpus, plan);
  return plan;
}

} // namespace ccl::mscclpp
