//===- Tracer.h - Makes a Trace of a plan ---------------------------------===//
#pragma once

#include "frontend/mscclpp/Trace.h"

#include <set>

namespace ccl::mscclpp {

enum class CounterKind : uint8_t { Memory, Port, Semaphore, Barrier, Trigger, Done };
/// (kind, rank, and three numbers that tell counters of a kind apart)
using CounterKey = std::tuple<CounterKind, int32_t, int32_t, int32_t, int32_t>;

/// Which thread blocks of a rank meet at a barrier.
struct Meeting {
  std::vector<int32_t> blocks; ///< ids, ascending
  int32_t size = 0;
  interchange::TextPlace place;
};

/// TraceOps.cpp moves data, TraceSync.cpp signals and waits.
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
  void traceReduction(const Op &op);
  void traceFlush(int32_t channel);
  void resolveAfter();

  /// This block's part of it.
  model::Instruction makeTransfer(const Op &op, const std::vector<BufferUse> &from,
                                  const std::vector<BufferUse> &to) const;
  /// The part of a range that is this block's.
  std::pair<int64_t, int32_t> partOf(const Op &op, const BufferUse &use) const;
  void addOperands(const Op &op, const BufferUse &use, std::vector<model::Operand> &operands) const;
  /// Places in scratch, from operand `first` on.
  std::vector<PacketRange> packetsOf(const std::vector<model::Operand> &operands, size_t first,
                                     int32_t count) const;
  void checkBounds(const Op &op);

  int32_t counter(const CounterKey &key, int32_t from, int32_t to, auto &&makeName);
  int32_t channelCounter(ChannelType type, int32_t channel, bool outgoing);
  Item &add(int32_t agent, Item item);
  void addSync(int32_t agent, model::Instruction::Kind kind, int32_t counter, bool relaxed = false);
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

inline int32_t Tracer::counter(const CounterKey &key, int32_t from, int32_t to, auto &&makeName) {
  auto [it, isNew] = counterByKey.try_emplace(key, int32_t(trace.counters.size()));
  if (isNew) {
    Counter &c = trace.counters.emplace_back();
    c.from = from;
    c.to = to;
    c.name = makeName();
  }
  return it->second;
}

} // namespace ccl::mscclpp
