//===- TraceSync.cpp - Signals, waits, barriers, semaphores, proxies ------===//
#include "frontend/mscclpp/Tracer.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::mscclpp {

using model::Instruction;

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

} // namespace ccl::mscclpp
