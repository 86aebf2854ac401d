//===- TraceOps.cpp - The ops of a plan as instructions of agents ---------===//
#include "frontend/mscclpp/Tracer.h"

#include <fmt/format.h>

namespace ccl::mscclpp {

using model::Instruction;
using model::Operand;

static std::vector<int32_t> ordinalsOf(const std::vector<Channel> &channels) {
  std::map<int32_t, int32_t> counts;
  std::vector<int32_t> ordinals;
  for (const Channel &channel : channels)
    ordinals.push_back(counts[channel.peer]++);
  return ordinals;
}

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

int32_t Tracer::channelCounter(ChannelType type, int32_t channel, bool outgoing) {
  bool port = type == ChannelType::Port;
  int32_t peer = (port ? gpu->port : gpu->memory)[size_t(channel)].peer;
  int32_t ordinal = (port ? portOrdinals : memoryOrdinals)[size_t(channel)];
  int32_t from = outgoing ? rank : peer, to = outgoing ? peer : rank;
  return counter(
      {port ? CounterKind::Port : CounterKind::Memory, from, to, ordinal, 0}, from, to, [&] {
        return fmt::format("{} channel {} from rank {} to rank {}", name(type), ordinal, from, to);
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

void Tracer::addOperands(const Op &op, const BufferUse &use, std::vector<Operand> &operands) const {
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
    log.malformed(use.place,
                  fmt::format("chunks {} to {} of \"{}\" of rank {}, which has {}", use.index,
                              use.index + use.size - 1, name(type), owner, have));
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

Instruction Tracer::makeTransfer(const Op &op, const std::vector<BufferUse> &from,
                                 const std::vector<BufferUse> &to) const {
  Instruction transfer;
  transfer.count = partOf(op, to.front()).second;
  for (const BufferUse &use : from)
    addOperands(op, use, transfer.from);
  for (const BufferUse &use : to)
    addOperands(op, use, transfer.to);
  return transfer;
}

std::vector<PacketRange> Tracer::packetsOf(const std::vector<Operand> &operands, size_t first,
                                           int32_t count) const {
  std::vector<PacketRange> ranges;
  for (size_t i = first; i < operands.size(); ++i) {
    const Operand &operand = operands[i];
    ranges.push_back(
        {operand.kind == Operand::Kind::Peer ? operand.peer : rank, operand.chunk, count});
  }
  return ranges;
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

// Each source goes to its destination. By port, the block sees that packets are there, and a
// proxy sends them.
void Tracer::tracePairs(const Op &op) {
  auto [firstSource, firstDestination] = packetOperands(op.kind);
  for (size_t i = 0; i < op.dst.size(); ++i) {
    Item item;
    Instruction &transfer = item.instruction;
    transfer = makeTransfer(op, {op.src[op.src.size() == 1 ? 0 : i]}, {op.dst[i]});
    item.writes = packetsOf(transfer.to, firstDestination, transfer.count);
    int32_t by = agent;
    if (isByPort(op)) {
      by = proxyOf(op.channels[i]);
      trigger(by, packetsOf(transfer.from, firstSource, transfer.count));
    }
    add(by, std::move(item));
    if (op.kind == OpKind::Pws || op.kind == OpKind::Pwsf)
      addSync(by, Instruction::Kind::Signal, channelCounter(op.channelType, op.channels[i], true));
    if (op.kind == OpKind::Pwsf && isByPort(op))
      traceFlush(op.channels[i]);
  }
}

// A group that has the sender stores a chunk where it already is: nobody can tell, and it makes
// no second packet. That such a chunk is read stays true. A copy of a chunk to its own place is
// no such thing: it writes, and may undo what others write.
static void dropSelfCopies(Instruction &transfer) {
  const Operand &source = transfer.from.front();
  auto isSource = [&](const Operand &operand) {
    return operand.kind == source.kind && operand.peer == source.peer &&
           operand.buffer == source.buffer && operand.chunk == source.chunk;
  };
  if (transfer.to.size() > 1)
    std::erase_if(transfer.to, isSource);
}

// Everything that combines all sources and stores the result in all destinations.
void Tracer::traceReduction(const Op &op) {
  Item item;
  Instruction &transfer = item.instruction;
  transfer = makeTransfer(op, op.src, op.dst);
  transfer.reduce = transfer.from.size() > 1;
  auto [firstSource, firstDestination] = packetOperands(op.kind);
  if (op.kind == OpKind::Gstorepkt && op.src[0].type == BufferType::Scratch)
    firstSource = 0;
  if (op.kind == OpKind::Gstore || op.kind == OpKind::Gstorepkt)
    dropSelfCopies(transfer);
  item.reads = packetsOf(transfer.from, firstSource, transfer.count);
  item.writes = packetsOf(transfer.to, firstDestination, transfer.count);
  add(agent, std::move(item));
}

void Tracer::traceOp(const Op &op) {
  loc = locOf(op.place);
  if (op.dst.empty())
    return traceSync(op);
  checkBounds(op);
  if (log.failed())
    return;
  if (movesPairs(op.kind) || isByPort(op))
    tracePairs(op);
  else
    traceReduction(op);
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
    if (isByPort(op))
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
