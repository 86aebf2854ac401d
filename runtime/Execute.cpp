//===- Execute.cpp - What a rank does between the entry of a launch and its end ---===//
#include "runtime/Faults.h"
#include "runtime/RankMember.h"

namespace ccl {

/// A rank that waits passes a place where it can be made to fail: then it has.
static bool failsInWait(Group &group) {
  if (!CCL_FAULT(MidSlot, group.worldRank(group.rank)))
    return false;
  llvm::consumeError(group.fail(faults::injected("in a wait for a slot")));
  return true;
}

std::string RankMember::describeWait(int64_t agent, int64_t instruction, const ChannelEnd &end,
                                     uint64_t value) {
  return fmt::format("launch {} of {} (hash {}, {} {}): agent {}, micro-batch {}, instruction {} "
                     "waits for rank {} "
                     "({}, tag {}{}): expected counter {}, found {}{}",
                     launches, plan->program, plan->hash, plan->contract.str(), name(plan->type),
                     agentName(agent), group.self().kernel.microBatch, instruction, end.peer,
                     end.to ? "channel to it" : "channel from it", end.tag,
                     end.numSlots > 0 ? fmt::format(", {} slots", end.numSlots) : "",
                     int64_t(value), __atomic_load_n(end.arrive, __ATOMIC_ACQUIRE),
                     group.describeOthers());
}

int32_t RankMember::waitForAgents(Agents &agents) {
  if (failsInWait(group))
    return 1;
  // A peer that several agents wait for is there once, with the first of them. Agents of this rank
  // that wait for each other say nothing about who is to blame, unless there is nobody else.
  auto peers = [&]() -> llvm::ArrayRef<Group::Awaited> {
    awaited.clear();
    for (const Agents::Wait &wait : agents.waits())
      if (wait.end->peer != group.rank && !llvm::any_of(awaited, [&](const Group::Awaited &other) {
            return other.peer == wait.end->peer;
          }))
        awaited.push_back({wait.end->peer, wait.agent->number(), wait.instruction});
    if (awaited.empty())
      awaited.push_back({int32_t(group.rank), agents.waits().front().agent->number(),
                         agents.waits().front().instruction});
    return awaited;
  };
  auto describe = [&] {
    const Agents::Wait *chosen = &agents.waits().front();
    for (const Agents::Wait &wait : llvm::reverse(agents.waits()))
      if (wait.end->peer == group.waitedFor())
        chosen = &wait;
    return describeWait(chosen->agent->number(), chosen->instruction, *chosen->end, chosen->value);
  };
  auto ready = [&] {
    far.progress();
    return agents.canGoOn();
  };
  return int32_t(group.waitUntil(peers, ready, describe));
}

int32_t RankMember::waitInKernel(KernelArgs *args, ChannelEnd *end, uint64_t value) {
  RankMember &self = *static_cast<RankMember *>(args->context);
  if (failsInWait(self.group))
    return 1;
  auto found = [&] { return __atomic_load_n(end->arrive, __ATOMIC_ACQUIRE); };
  return int32_t(self.group.waitUntil(
      end->peer,
      [&] {
        self.far.progress();
        // By difference: with k slots the first k sends ask for a value below zero.
        return int64_t(found() - value) >= 0;
      },
      [&] { return self.describeWait(args->agent, args->instruction, *end, value); }));
}

int32_t RankMember::readInKernel(KernelArgs *args, int64_t rank, const void *address, void *to,
                                 int64_t bytes) {
  RankMember &self = *static_cast<RankMember *>(args->context);
  std::string why = self.group.world().read(self.group.worldRank(rank), address, to, size_t(bytes));
  if (why.empty())
    return 0;
  // Most likely it has just died. The monitor says so in a moment, and more about it.
  constexpr std::chrono::milliseconds patience{300};
  const Clock::time_point end = Clock::now() + patience;
  for (Backoff backoff; !self.group.hasFailed() && Clock::now() < end;)
    backoff.pause();
  self.group.fail(
      Failure::Machine,
      fmt::format("rank {} cannot read {} bytes of rank {}: {}", self.group.rank, bytes, rank, why),
      rank);
  return 1;
}

/// Runs the program, in one go unless micro-batches must not meet.
llvm::Error RankMember::executeBatches(const Prepared &prepared, KernelArgs &args) {
  const int64_t step = plan->batchBarrier ? 1 : args.microBatches;
  for (args.firstBatch = 0; args.firstBatch < args.microBatches; args.firstBatch += step) {
    args.endBatch = args.firstBatch + step;
    if (args.firstBatch > 0)
      if (llvm::Error e = group.meet(Operation::MicroBatch, [&] {
            return fmt::format("the barrier before micro-batch {} of launch {} of {} (hash {})",
                               args.firstBatch, launches, plan->program, plan->hash);
          }))
        return e;
    int32_t code = 0;
    if (prepared.agents)
      code = prepared.agents->run(args, [&] { return waitForAgents(*prepared.agents); });
    else if (prepared.kernel)
      code = prepared.kernel(&args);
    if (code)
      return makeFailure(Failure::Machine, "rank {}: the kernel of {} (hash {}) returned {}",
                         group.rank, plan->program, plan->hash, code);
  }
  if (!plan->exitBarrier)
    return llvm::Error::success();
  return group.meet(Operation::Exit, [&] {
    return fmt::format("the barrier at the end of launch {} of {} (hash {})", launches,
                       plan->program, plan->hash);
  });
}

llvm::Error RankMember::execute(const Prepared &prepared, const LaunchShape &shape) {
  if (!prepared.kernel && !prepared.agents && !plan->exitBarrier && !plan->batchBarrier)
    return llvm::Error::success();
  if (plan->direct)
    reachPeers();
  if (plan->bounceSources > 0 &&
      !bounce.reserve(size_t(plan->bounceSources) * size_t(KernelArgs::bouncePiece)))
    return makeFailure(Failure::Machine, "no memory to read other processes through");
  // In shared memory, so that others can tell how far this rank got.
  KernelArgs &args = group.self().kernel;
  args.me = group.rank;
  args.ranks = group.ranks;
  args.count = shape.runCount;
  args.microBatches = shape.cut.microBatches;
  args.stride = shape.cut.stride;
  args.buffers = pointers.data();
  args.peers = peerTable.data();
  args.channels = prepared.channels.data();
  args.wait = &waitInKernel;
  args.read = &readInKernel;
  args.bounce = bounce.data();
  args.bounceBytes = int64_t(bounce.size());
  args.shards = shape.packed ? shape.uneven->tables() : nullptr;
  args.context = this;
  const int kernel = prepared.facts.kernel;
  __atomic_store_n(&args.agent, kernel >= 0 ? plan->kernels[size_t(kernel)].agent : 0,
                   __ATOMIC_RELAXED);
  __atomic_store_n(&args.instruction, int64_t(0), __ATOMIC_RELAXED);
  __atomic_store_n(&args.microBatch, int64_t(0), __ATOMIC_RELAXED);
  far.begin(prepared.far, *plan, args);
  if (llvm::Error e = executeBatches(prepared, args)) {
    far.abandon();
    return e;
  }
  return far.end([this] { return describeLaunch(); });
}

} // namespace ccl
