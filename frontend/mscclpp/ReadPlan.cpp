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

constexpr std::array<std::string_view, 31> opNames = {
    "nop",  "barrier", "signal", "wait",      "rlxsignal", "rlxwait",     "put",        "pws",
    "pwsf", "get",     "flush",  "copy",      "re",        "res",         "rre",        "rres",
    "ppkt", "rppkt",   "cpkt",   "upkt",      "repkt",     "respkt",      "recpkt",     "recspkt",
    "glre", "glres",   "gstore", "gstorepkt", "pipeline",  "sem_acquire", "sem_release"};

std::string_view name(OpKind kind) { return opNames[size_t(kind)]; }

std::optional<OpKind> parseOpKind(std::string_view text) {
  auto it = std::find(opNames.begin(), opNames.end(), text);
  if (it == opNames.end())
    return std::nullopt;
  return OpKind(it - opNames.begin());
}

std::string_view name(ChannelType type) {
  switch (type) {
  case ChannelType::None: return "none";
  case ChannelType::Memory: return "memory";
  case ChannelType::Port: return "port";
  case ChannelType::Switch: return "switch";
  }
  return "none";
}

std::string_view name(BufferType type) {
  switch (type) {
  case BufferType::Input: return "i";
  case BufferType::Output: return "o";
  case BufferType::Scratch: return "s";
  }
  return "s";
}

BufferType readBufferType(Log &log, JsonValue value) {
  std::string text = readString(log, value, "a buffer type");
  if (text == "o")
    return BufferType::Output;
  if (text == "s")
    return BufferType::Scratch;
  if (text != "i" && value.kind() == JsonValue::Kind::String)
    log.malformed(value.place(),
                  fmt::format("\"{}\" is no buffer: there are \"i\", \"o\" and \"s\"", text));
  return BufferType::Input;
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
                                             text));
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
    log.unsupported(value.place(), fmt::format("there is no op \"{}\"", text));
  return OpKind::Nop;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

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
      return fmt::format("{}{} {}", min, min == 0 ? " or more" : " or more", what);
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
  bool pairs = op.kind == OpKind::Put || op.kind == OpKind::Pws || op.kind == OpKind::Pwsf ||
               op.kind == OpKind::Get || op.kind == OpKind::Ppkt;
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
    BufferType type = use.kind == BufferUse::Kind::Switch
                          ? gpu.switches[size_t(use.switchChannel)].type
                          : use.type;
    if (type != BufferType::Scratch)
      log.unsupported(use.place, fmt::format("the packets of {} are in \"{}\"; packets are kept "
                                             "in scratch only",
                                             name(op.kind), name(type)));
  };
  size_t firstSource = many, firstDestination = many;
  switch (op.kind) {
  case OpKind::Ppkt:
  case OpKind::Cpkt:
  case OpKind::Gstorepkt: firstDestination = 0; break;
  case OpKind::Rppkt: firstSource = firstDestination = 0; break;
  case OpKind::Upkt: firstSource = 0; break;
  case OpKind::Repkt: firstSource = 1; break;
  case OpKind::Respkt:
  case OpKind::Recpkt:
  case OpKind::Recspkt: firstSource = firstDestination = 1; break;
  default: return;
  }
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
  bool isPut = op.kind == OpKind::Put || op.kind == OpKind::Pws || op.kind == OpKind::Pwsf;
  bool byPort = op.channelType == ChannelType::Port &&
                (isPut || op.kind == OpKind::Ppkt || op.kind == OpKind::Rppkt);
  bool signals = op.kind == OpKind::Pws || op.kind == OpKind::Pwsf;
  if ((byPort || signals) && op.channels.size() != op.dst.size()) {
    log.malformed(op.place, fmt::format("{} has {} destinations and {} channels to them",
                                        name(op.kind), op.dst.size(), op.channels.size()));
    return;
  }
  for (size_t i = 0; (byPort || signals) && i < op.dst.size(); ++i) {
    const std::vector<Channel> &channels =
        op.channelType == ChannelType::Port ? gpu.port : gpu.memory;
    int32_t peer = channels[size_t(op.channels[i])].peer;
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
  std::string protocol = top.string({"protocol"}, "Simple");
  plan.packets = protocol == "LL";
  if (protocol != "LL" && protocol != "Simple" && top.find({"protocol"}))
    top.log.malformed(
        top.find({"protocol"}).place(),
        fmt::format("\"{}\" is no protocol: there are \"Simple\" and \"LL\"", protocol));
  plan.inPlace = top.flag({"inplace"});
  plan.reuseResources = top.flag({"reuse_resources"}, false);
  plan.doubleScratch = top.flag({"use_double_scratch_buffer"}, false);
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
