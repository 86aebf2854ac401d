//===- ThreadOrder.cpp - Threads of a block that overtake each other ------===//
//
// MSCCL++ runs an op with all threads of a block, each on its own elements, and goes on
// without waiting; only `nop` and `barrier` bring the threads together. Signals, waits and
// semaphores are the business of the first few. Here an op is over before the next begins,
// so a plan without such a `nop` is right here and may be wrong there.
//
// Only what is sure is told: two data ops on the very same range may give every element to
// the same thread, and packets carry their own flags.
//===----------------------------------------------------------------------===//
#include "frontend/mscclpp/Trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace ccl::mscclpp {

namespace {

struct Access {
  const Op *op;
  bool writes;
  BufferUse::Kind kind;
  BufferType type;
  int32_t owner;
  int64_t begin, end;
};

class ThreadOrder {
public:
  explicit ThreadOrder(Log &log) : log(log) {}
  void follow(const std::vector<Op> &ops);

private:
  void together();
  void followSignal(const Op &op, std::string_view what);
  void followData(const Op &op);
  bool conflict(const Access &a, const Access &b) const;
  void addAccesses(const Op &op, std::vector<Access> &accesses) const;

  Log &log;
  const Op *waiting = nullptr;  ///< since then not all threads may go on
  const Op *lastData = nullptr; ///< not all threads may have done it
  std::deque<Access> recent;
  static constexpr size_t maxRecent = 64;
};

} // namespace

void ThreadOrder::together() {
  waiting = lastData = nullptr;
  recent.clear();
}

void ThreadOrder::addAccesses(const Op &op, std::vector<Access> &accesses) const {
  for (const std::vector<BufferUse> *side : {&op.src, &op.dst})
    for (const BufferUse &use : *side) {
      if (use.kind == BufferUse::Kind::Switch)
        continue; // other ranks' memory for the most part
      int64_t begin = use.size * op.groupIndex / op.groupSize;
      int64_t end = (use.size * (op.groupIndex + 1) + op.groupSize - 1) / op.groupSize;
      accesses.push_back({&op, side == &op.dst, use.kind, use.type,
                          use.kind == BufferUse::Kind::Remote ? use.remote : -1, use.index + begin,
                          use.index + end});
    }
}

bool ThreadOrder::conflict(const Access &a, const Access &b) const {
  bool same = a.begin == b.begin && a.end == b.end && a.op->groupSize == b.op->groupSize;
  return (a.writes || b.writes) && a.type == b.type && a.owner == b.owner && a.begin < b.end &&
         b.begin < a.end && !same;
}

void ThreadOrder::followSignal(const Op &op, std::string_view what) {
  if (!lastData)
    return;
  log.warn(op.place, fmt::format("no nop between {} and {}: in MSCCL++ other threads of the block "
                                 "may still be at it when the {} is sent",
                                 name(lastData->kind), name(op.kind), what))
      .notes.push_back({lastData->place, -1, "the op before"});
  lastData = nullptr; // told
}

void ThreadOrder::followData(const Op &op) {
  bool packets = usesPackets(op.kind);
  bool byPort = isByPort(op);
  if (waiting && !packets && !byPort) {
    log.warn(op.place, fmt::format("no nop between {} and {}: in MSCCL++ only the threads that "
                                   "wait do, others go on",
                                   name(waiting->kind), name(op.kind)))
        .notes.push_back({waiting->place, -1, "the wait"});
    waiting = nullptr; // told
  }
  std::vector<Access> accesses;
  if (!packets)
    addAccesses(op, accesses);
  for (const Access &access : accesses) {
    auto before = std::find_if(recent.begin(), recent.end(),
                               [&](const Access &other) { return conflict(other, access); });
    if (before == recent.end() || before->op == &op)
      continue;
    log.warn(op.place, fmt::format("no nop between {} and {}, which touch the same chunks: in "
                                   "MSCCL++ threads of the block overtake each other",
                                   name(before->op->kind), name(op.kind)))
        .notes.push_back({before->op->place, -1, "the op before"});
    recent.clear();
    break;
  }
  for (const Access &access : accesses)
    recent.push_back(access);
  while (recent.size() > maxRecent)
    recent.pop_front();
  if (!packets && !byPort)
    lastData = &op;
}

void ThreadOrder::follow(const std::vector<Op> &ops) {
  for (const Op &op : ops)
    switch (op.kind) {
    case OpKind::Nop:
    case OpKind::Barrier: together(); break;
    case OpKind::Signal:
    case OpKind::RlxSignal: followSignal(op, "signal"); break;
    case OpKind::SemRelease: followSignal(op, "release"); break;
    case OpKind::Wait:
    case OpKind::RlxWait:
    case OpKind::SemAcquire: waiting = &op; break;
    case OpKind::Flush: break;
    case OpKind::Pipeline: follow(op.body); break;
    default: followData(op);
    }
}

void tellThreadOrder(const Plan &plan, Log &log) {
  for (const Gpu &gpu : plan.gpus)
    for (const ThreadBlock &block : gpu.blocks)
      if (plan.threads > 1)
        ThreadOrder(log).follow(block.ops);
}

} // namespace ccl::mscclpp
