//===- TraceOps.cpp - The ops of a plan as instructions of agents ---------===//
#include "frontend/mscclpp/Trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ccl::mscclpp {

using model::Instruction;
using model::Operand;

namespace {

enum class CounterKind : uint8_t { Memory, Port, Semaphore, Barrier, Trigger, Done };
/// (kind, rank, and three numbers that tell counters of a kind apart)
using CounterKey = std::tuple<CounterKind, int32_t, int32_t, int32_t, int32_t>;

/// Which thread blocks of a rank meet at a barrier.
struct Meeting {
  std::vector<int32_t> blocks; ///< ids, ascending
  int32_t size = 0;
  interchange::TextPlace place;
};

class Tracer {
public:
  Tracer(const Plan &plan, const Layout &layout, Log &log) : plan(plan), layout(layout), log(log) {}
  Trace run();

private:
  void traceRank(int32_t rank);
  void findMeetings();
  void traceBlock(const ThreadBlock &block);
  void traceOp(const Op &op);
  void traceSync(const Op &op);
  void traceChannels(const Op &op);
  void traceBarrier(const Op &op);
  void traceSemaphores(const Op &op);
  void tracePairs(const Op &op);
  void traceGet(const Op &op);
  void traceForward(const Op &op);
  void traceReduction(const Op &op);
  void dropSelfCopies(Instruction &transfer) const;
  void traceFlush(int32_t channel);
  void resolveAfter();

  Instruction makeTransfer(const Op &op) const;
  /// The part of a range that is this block's.
  std::pair<int64_t, int32_t> partOf(const Op &op, const BufferUse &use) const;
  void addOperands(const Op &op, const BufferUse &use, std::vector<Operand> &operands);
  PacketRange packetsOf(const Op &op, const BufferUse &use) const;
  void addWrites(const Op &op, size_t firstDestination, Item &item) const;
  void addReads(const Op &op, size_t firstSource, Item &item) const;
  void checkBounds(const Op &op);

  int32_t counter(const CounterKey &key, int32_t from, int32_t to, auto &&makeName);
  int32_t channelCounter(ChannelType type, int32_t channel, bool outgoing);
  Item &add(int32_t agent, Item item);
  void addSync(int32_t agent, Instruction::Kind kind, int32_t counter, bool relaxed = false);
  /// The proxy that puts on a port channel for the block at hand.
  int32_t proxyOf(int32_t channel);
  void trigger(int32_t proxy, std::vector<PacketRange> reads = {});
  int32_t locOf(interchange::TextPlace place);

  const Plan &plan;
  const Layout &layout;
  Log &log;
  Trace trace;
  std::map<CounterKey, int32_t> counterByKey;
  std::map<std::pair<int64_t, int64_t>, int32_t> loops; ///< by unit size and chunks

  // Of the rank at hand.
  const Gpu *gpu = nullptr;
  int32_t rank = 0;
  std::vector<int32_t> memoryOrdinals, portOrdinals; ///< the how-manieth to its peer
  std::map<int32_t, Meeting> meetings;
  std::vector<std::vector<int32_t>> opEnds; ///< by block and op: how many items it has then
  std::map<int32_t, int32_t> agentOfBlock;
  int32_t proxies = 0;
  struct After {
    Use reader;
    int32_t block, step;
    interchange::TextPlace place;
  };
  std::vector<After> afters;

  // Of the thread block at hand.
  int32_t agent = 0, blockId = 0, loop = 0, loc = -1;
  std::map<int32_t, int32_t> proxyByChannel;
  std::set<int32_t> channelsWithPuts;
};

std::vector<int32_t> ordinalsOf(const std::vector<Channel> &channels) {
  std::map<int32_t, int32_t> counts;
  std::vector<int32_t> ordinals;
  for (const Channel &channel : channels)
    ordinals.push_back(counts[channel.peer]++);
  return ordinals;
}

bool isPut(OpKind kind) {
  return kind == OpKind::Put || kind == OpKind::Pws || kind == OpKind::Pwsf ||
         kind == OpKind::Ppkt || kind == OpKind::Rppkt;
}

} // namespace

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

Item &Tracer::add(int32_t to, Item item) {
  item.loop = loop;
  item.instruction.loc = loc;
  return trace.agents[size_t(to)].items.emplace_back(std::move(item));
}

void Tracer::addSync(int32_t to, Instruction::Kind kind, int32_t number, bool relaxed) {
  Item item;
  item.instruction.kind = kind;
  item.counter = number;
  item.relaxed = relaxed;
  Counter &c = trace.counters[size_t(number)];
  std::vector<Use> &uses = kind == Instruction::Kind::Signal ? c.signals : c.waits;
  uses.push_back({to, int32_t(trace.agents[size_t(to)].items.size())});
  add(to, std::move(item));
}

int32_t Tracer::counter(const CounterKey &key, int32_t from, int32_t to, auto &&makeName) {
  auto [it, isNew] = counterByKey.try_emplace(key, int32_t(trace.counters.size()));
  if (isNew) {
    Counter &c = trace.counters.emplace_back();
    c.from = from;
    c.to = to;
    c.name = makeName();
  }
  return it->second;
}

int32_t Tracer::channelCounter(ChannelType type, int32_t channel, bool outgoing) {
  bool port = type == ChannelType::Port;
  int32_t peer = (port ? gpu->port : gpu->memory)[size_t(channel)].peer;
  int32_t ordinal = (port ? portOrdinals : memoryOrdinals)[size_t(channel)];
  int32_t from = outgoing ? rank : peer, to = outgoing ? peer : rank;
  return counter({port ? CounterKind::Port : CounterKind::Memory, from, to, ordinal, 0}, from, to,
                 [&] {
                   return fmt::format("{} channel {} from rank {} to rank {}", name(type), ordinal,
                                      from, to);
                 });
}

int32_t Tracer::locOf(interchange::TextPlace place) {
  trace.places.push_back(place);
  return int32_t(trace.places.size()) - 1;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

std::pair<int64_t, int32_t> Tracer::partOf(const Op &op, const BufferUse &use) const {
  int64_t all = use.size * layout.factor;
  int64_t begin = all * op.groupIndex / op.groupSize;
  int64_t end = all * (op.groupIndex + 1) / op.groupSize;
  return {use.index * layout.factor + begin, int32_t(end - begin)};
}

void Tracer::addOperands(const Op &op, const BufferUse &use, std::vector<Operand> &operands) {
  int64_t chunk = partOf(op, use).first;
  auto add = [&](int32_t owner, BufferType type) {
    Operand operand;
    operand.kind = owner == rank ? Operand::Kind::Local : Operand::Kind::Peer;
    operand.peer = owner == rank ? -1 : owner;
    operand.buffer = layout.buffer(type);
    operand.chunk = layout.position(type, owner, chunk);
    operands.push_back(operand);
  };
  if (use.kind == BufferUse::Kind::Switch) {
    const SwitchChannel &channel = gpu->switches[size_t(use.switchChannel)];
    for (int32_t member : channel.ranks)
      add(member, channel.type);
    return;
  }
  add(use.kind == BufferUse::Kind::Remote ? use.remote : rank, use.type);
}

void Tracer::checkBounds(const Op &op) {
  auto check = [&](const BufferUse &use, BufferType type, int32_t owner) {
    int64_t have = layout.chunks(plan, type, owner);
    if (use.index + use.size <= have || log.failed())
      return;
    log.malformed(use.place, fmt::format("chunks {} to {} of \"{}\" of rank {}, which has {}",
                                         use.index, use.index + use.size - 1, name(type), owner,
                                         have));
  };
  for (const std::vector<BufferUse> *side : {&op.src, &op.dst})
    for (const BufferUse &use : *side) {
      if (use.kind != BufferUse::Kind::Switch) {
        check(use, use.type, use.kind == BufferUse::Kind::Remote ? use.remote : rank);
        continue;
      }
      const SwitchChannel &channel = gpu->switches[size_t(use.switchChannel)];
      for (int32_t member : channel.ranks)
        check(use, channel.type, member);
    }
}

Instruction Tracer::makeTransfer(const Op &op) const {
  Instruction transfer;
  transfer.count = partOf(op, op.dst.front()).second;
  return transfer;
}

PacketRange Tracer::packetsOf(const Op &op, const BufferUse &use) const {
  auto [chunk, count] = partOf(op, use);
  return {use.kind == BufferUse::Kind::Remote ? use.remote : rank, chunk, count};
}

void Tracer::addWrites(const Op &op, size_t firstDestination, Item &item) const {
  for (size_t i = firstDestination; i < op.dst.size(); ++i) {
    if (op.dst[i].kind != BufferUse::Kind::Switch) {
      item.writes.push_back(packetsOf(op, op.dst[i]));
      continue;
    }
    for (int32_t member : gpu->switches[size_t(op.dst[i].switchChannel)].ranks) {
      item.writes.push_back(packetsOf(op, op.dst[i]));
      item.writes.back().rank = member;
    }
  }
}

void Tracer::addReads(const Op &op, size_t firstSource, Item &item) const {
  for (size_t i = firstSource; i < op.src.size(); ++i)
    item.reads.push_back(packetsOf(op, op.src[i]));
}

//===----------------------------------------------------------------------===//
// Synchronization
//===----------------------------------------------------------------------===//

int32_t Tracer::proxyOf(int32_t channel) {
  auto [it, isNew] = proxyByChannel.try_emplace(channel, int32_t(trace.agents.size()));
  if (isNew) {
    AgentTrace &proxy = trace.agents.emplace_back();
    proxy.rank = rank;
    proxy.proxy = true;
    proxy.id = proxies++;
  }
  return it->second;
}

void Tracer::trigger(int32_t proxy, std::vector<PacketRange> reads) {
  int32_t number = counter({CounterKind::Trigger, rank, agent, proxy, 0}, rank, rank,
                           [] { return std::string("a proxy's queue"); });
  addSync(agent, Instruction::Kind::Signal, number);
  trace.agents[size_t(agent)].items.back().reads = std::move(reads);
  addSync(proxy, Instruction::Kind::Wait, number);
}

void Tracer::traceFlush(int32_t channel) {
  if (!channelsWithPuts.count(channel))
    return;
  int32_t proxy = proxyOf(channel);
  int32_t number = counter({CounterKind::Done, rank, agent, proxy, 0}, rank, rank,
                           [] { return std::string("a proxy's completions"); });
  trigger(proxy);
  addSync(proxy, Instruction::Kind::Signal, number);
  addSync(agent, Instruction::Kind::Wait, number);
}

// Signals of a port channel follow the puts before them, which a proxy makes.
void Tracer::traceChannels(const Op &op) {
  bool relaxed = op.kind == OpKind::RlxSignal || op.kind == OpKind::RlxWait;
  bool signals = op.kind == OpKind::Signal || op.kind == OpKind::RlxSignal;
  for (int32_t channel : op.channels) {
    int32_t number = channelCounter(op.channelType, channel, signals);
    int32_t by = agent;
    if (signals && op.channelType == ChannelType::Port && channelsWithPuts.count(channel)) {
      by = proxyOf(channel);
      trigger(by);
    }
    addSync(by, signals ? Instruction::Kind::Signal : Instruction::Kind::Wait, number, relaxed);
  }
}

void Tracer::findMeetings() {
  meetings.clear();
  std::vector<const ThreadBlock *> blocks;
  for (const ThreadBlock &block : gpu->blocks)
    blocks.push_back(&block);
  std::sort(blocks.begin(), blocks.end(),
            [](const ThreadBlock *a, const ThreadBlock *b) { return a->id < b->id; });
  for (const ThreadBlock *block : blocks)
    forEachOp(block->ops, [&](const Op &op) {
      if (op.kind != OpKind::Barrier)
        return;
      Meeting &meeting = meetings[op.barrier];
      if (meeting.blocks.empty()) {
        meeting.size = op.barrierBlocks;
        meeting.place = op.place;
      } else if (meeting.size != op.barrierBlocks) {
        log.malformed(op.place, fmt::format("barrier {} is for {} thread blocks here and for {} "
                                            "elsewhere",
                                            op.barrier, op.barrierBlocks, meeting.size))
            .notes.push_back({meeting.place, -1, "elsewhere"});
      }
      if (meeting.blocks.empty() || meeting.blocks.back() != block->id)
        meeting.blocks.push_back(block->id);
    });
}

// All signal to the first, which signals back.
void Tracer::traceBarrier(const Op &op) {
  const Meeting &meeting = meetings[op.barrier];
  auto link = [&](int32_t from, int32_t to) {
    return counter({CounterKind::Barrier, rank, op.barrier, from, to}, rank, rank,
                   [&] { return fmt::format("barrier {} of rank {}", op.barrier, rank); });
  };
  constexpr auto signal = Instruction::Kind::Signal, wait = Instruction::Kind::Wait;
  if (meeting.blocks.size() > size_t(meeting.size)) {
    log.unsupported(op.place, fmt::format("barrier {} is for {} thread blocks, and {} come: which "
                                          "of them meet is not determined",
                                          op.barrier, meeting.size, meeting.blocks.size()));
    return;
  }
  if (meeting.blocks.size() < size_t(meeting.size)) {
    addSync(agent, wait, link(-1, blockId)); // some never come
    return;
  }
  int32_t first = meeting.blocks.front();
  if (blockId != first) {
    addSync(agent, signal, link(blockId, first));
    addSync(agent, wait, link(first, blockId));
    return;
  }
  for (int32_t other : meeting.blocks)
    if (other != first)
      addSync(agent, wait, link(other, first));
  for (int32_t other : meeting.blocks)
    if (other != first)
      addSync(agent, signal, link(first, other));
}

void Tracer::traceSemaphores(const Op &op) {
  for (int32_t semaphore : op.semaphores) {
    int32_t number = counter({CounterKind::Semaphore, rank, semaphore, 0, 0}, rank, rank, [&] {
      return fmt::format("semaphore {} of rank {}", semaphore, rank);
    });
    trace.counters[size_t(number)].initial = gpu->semaphores[size_t(semaphore)];
    addSync(agent,
            op.kind == OpKind::SemRelease ? Instruction::Kind::Signal : Instruction::Kind::Wait,
            number);
  }
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

// put, pws, pwsf, ppkt: each source goes to its destination.
void Tracer::tracePairs(const Op &op) {
  bool byPort = op.channelType == ChannelType::Port;
  for (size_t i = 0; i < op.dst.size(); ++i) {
    Item item;
    item.instruction = makeTransfer(op);
    item.instruction.count = partOf(op, op.dst[i]).second;
    addOperands(op, op.src[op.src.size() == 1 ? 0 : i], item.instruction.from);
    addOperands(op, op.dst[i], item.instruction.to);
    if (op.kind == OpKind::Ppkt)
      item.writes.push_back(packetsOf(op, op.dst[i]));
    int32_t by = agent;
    if (byPort) {
      by = proxyOf(op.channels[i]);
      trigger(by);
    }
    add(by, std::move(item));
    if (op.kind == OpKind::Pws || op.kind == OpKind::Pwsf)
      addSync(by, Instruction::Kind::Signal, channelCounter(op.channelType, op.channels[i], true));
    if (op.kind == OpKind::Pwsf && byPort)
      traceFlush(op.channels[i]);
  }
}

void Tracer::traceGet(const Op &op) {
  for (size_t i = 0; i < op.dst.size(); ++i) {
    Item item;
    item.instruction = makeTransfer(op);
    item.instruction.count = partOf(op, op.dst[i]).second;
    addOperands(op, op.src[op.src.size() == 1 ? 0 : i], item.instruction.from);
    addOperands(op, op.dst[i], item.instruction.to);
    add(agent, std::move(item));
  }
}

// By port, the block sees that the packets are there, and a proxy sends them.
void Tracer::traceForward(const Op &op) {
  if (op.channelType != ChannelType::Port)
    return traceReduction(op);
  for (size_t i = 0; i < op.dst.size(); ++i) {
    Item item;
    item.instruction = makeTransfer(op);
    addOperands(op, op.src[0], item.instruction.from);
    addOperands(op, op.dst[i], item.instruction.to);
    item.writes.push_back(packetsOf(op, op.dst[i]));
    int32_t by = proxyOf(op.channels[i]);
    trigger(by, {packetsOf(op, op.src[0])});
    add(by, std::move(item));
  }
}

// A group that has the sender stores a chunk where it already is, which nobody can tell.
void Tracer::dropSelfCopies(Instruction &transfer) const {
  if (transfer.reduce)
    return;
  const Operand &source = transfer.from.front();
  std::erase_if(transfer.to, [&](const Operand &operand) {
    return operand.kind == source.kind && operand.peer == source.peer &&
           operand.buffer == source.buffer && operand.chunk == source.chunk;
  });
}

// Everything that combines all sources and stores the result in all destinations.
void Tracer::traceReduction(const Op &op) {
  Item item;
  item.instruction = makeTransfer(op);
  for (const BufferUse &use : op.src)
    addOperands(op, use, item.instruction.from);
  for (const BufferUse &use : op.dst)
    addOperands(op, use, item.instruction.to);
  item.instruction.reduce = item.instruction.from.size() > 1;
  dropSelfCopies(item.instruction);
  switch (op.kind) {
  case OpKind::Cpkt: addWrites(op, 0, item); break;
  case OpKind::Gstorepkt:
    addWrites(op, 0, item);
    if (op.src[0].type == BufferType::Scratch)
      addReads(op, 0, item);
    break;
  case OpKind::Rppkt: addWrites(op, 0, item); [[fallthrough]];
  case OpKind::Upkt: addReads(op, 0, item); break;
  case OpKind::Respkt:
  case OpKind::Recpkt:
  case OpKind::Recspkt: addWrites(op, 1, item); [[fallthrough]];
  case OpKind::Repkt: addReads(op, 1, item); break;
  default: break;
  }
  item.isInstruction = !item.instruction.to.empty();
  add(agent, std::move(item));
}

void Tracer::traceSync(const Op &op) {
  switch (op.kind) {
  case OpKind::Nop:
    for (auto [block, step] : op.after)
      if (block != blockId) {
        Use reader{agent, int32_t(trace.agents[size_t(agent)].items.size())};
        add(agent, {}).isInstruction = false;
        afters.push_back({reader, block, step, op.place});
      }
    return;
  case OpKind::Barrier: return traceBarrier(op);
  case OpKind::SemAcquire:
  case OpKind::SemRelease: return traceSemaphores(op);
  case OpKind::Flush:
    if (op.channelType == ChannelType::Port)
      for (int32_t channel : op.channels)
        traceFlush(channel);
    return;
  case OpKind::Pipeline:
    loop = loops.try_emplace({op.unitSize, op.numChunks}, int32_t(loops.size()) + 1).first->second;
    for (const Op &inner : op.body)
      traceOp(inner);
    loop = 0;
    return;
  default: return traceChannels(op);
  }
}

void Tracer::traceOp(const Op &op) {
  loc = locOf(op.place);
  if (op.dst.empty())
    return traceSync(op);
  checkBounds(op);
  if (log.failed() || partOf(op, op.dst.front()).second == 0)
    return;
  switch (op.kind) {
  case OpKind::Put:
  case OpKind::Pws:
  case OpKind::Pwsf:
  case OpKind::Ppkt: return tracePairs(op);
  case OpKind::Get: return traceGet(op);
  case OpKind::Rppkt: return traceForward(op);
  default: return traceReduction(op);
  }
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

void Tracer::traceBlock(const ThreadBlock &block) {
  agent = agentOfBlock[block.id];
  blockId = block.id;
  proxyByChannel.clear();
  channelsWithPuts.clear();
  forEachOp(block.ops, [&](const Op &op) {
    if (op.channelType == ChannelType::Port && isPut(op.kind))
      channelsWithPuts.insert(op.channels.begin(), op.channels.end());
  });
  std::vector<int32_t> &ends = opEnds[size_t(block.id)];
  for (const Op &op : block.ops) {
    traceOp(op);
    ends.push_back(int32_t(trace.agents[size_t(agent)].items.size()));
  }
}

void Tracer::resolveAfter() {
  for (const After &after : afters) {
    if (size_t(after.block) >= opEnds.size() ||
        size_t(after.step) >= opEnds[size_t(after.block)].size()) {
      log.malformed(after.place, fmt::format("there is no step {} in a thread block {}", after.step,
                                             after.block));
      continue;
    }
    int32_t end = opEnds[size_t(after.block)][size_t(after.step)];
    if (end > 0)
      trace.dependences.push_back({after.reader, {agentOfBlock[after.block], end - 1}});
  }
  afters.clear();
}

void Tracer::traceRank(int32_t number) {
  rank = number;
  gpu = &plan.gpus[size_t(rank)];
  memoryOrdinals = ordinalsOf(gpu->memory);
  portOrdinals = ordinalsOf(gpu->port);
  proxies = 0;
  agentOfBlock.clear();
  opEnds.assign(gpu->blocks.size(), {});
  findMeetings();
  for (const ThreadBlock &block : gpu->blocks) {
    agentOfBlock[block.id] = int32_t(trace.agents.size());
    AgentTrace &added = trace.agents.emplace_back();
    added.rank = rank;
    added.id = block.id;
  }
  for (const ThreadBlock &block : gpu->blocks)
    if (!log.failed())
      traceBlock(block);
  if (!log.failed())
    resolveAfter();
}

Trace Tracer::run() {
  const Gpu &first = plan.gpus.front();
  trace.places = {first.inputPlace, first.outputPlace, first.scratchPlace};
  for (size_t number = 0; number < plan.gpus.size() && !log.failed(); ++number)
    traceRank(int32_t(number));
  return std::move(trace);
}

Trace traceOps(const Plan &plan, const Layout &layout, Log &log) {
  return Tracer(plan, layout, log).run();
}

} // namespace ccl::mscclpp
