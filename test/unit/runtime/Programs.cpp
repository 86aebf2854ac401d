//===- Programs.cpp ---------------------------------------------------------===//
#include "test/unit/runtime/Programs.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace ccl::test {
namespace {

using model::Collective;
using model::Reduction;
using model::Role;

//===----------------------------------------------------------------------===//
// What the emitter inlines: the counter protocol of Plan.h
//===----------------------------------------------------------------------===//

uint64_t arrived(const ChannelEnd &end) { return __atomic_load_n(end.arrive, __ATOMIC_ACQUIRE); }
void depart(ChannelEnd &end) { __atomic_store_n(end.depart, ++end.next, __ATOMIC_RELEASE); }

int32_t *slot(const ChannelEnd &end) {
  return reinterpret_cast<int32_t *>(end.slots +
                                     end.next % uint64_t(end.numSlots) * uint64_t(end.slotBytes));
}
int32_t awaitFilled(KernelArgs *a, ChannelEnd &from) {
  return arrived(from) >= from.next + 1 ? 0 : a->wait(a, &from, from.next + 1);
}
int32_t awaitFree(KernelArgs *a, ChannelEnd &to) {
  const auto slots = uint64_t(to.numSlots);
  return arrived(to) + slots >= to.next + 1 ? 0 : a->wait(a, &to, to.next + 1 - slots);
}
int32_t awaitSignal(KernelArgs *a, ChannelEnd &from) {
  ++from.next;
  return arrived(from) >= from.next ? 0 : a->wait(a, &from, from.next);
}

struct Slice {
  int64_t start, length;
};
/// The slice of linear chunk k that the running micro-batch moves.
Slice sliceOf(const KernelArgs &a, int64_t k, int64_t chunks) {
  const int64_t start = model::linearStart(k, a.count, chunks);
  const int64_t length = model::chunkStart(k % chunks + 1, a.count, chunks) -
                         model::chunkStart(k % chunks, a.count, chunks);
  const int64_t i = a.microBatch, m = a.microBatches;
  return {start + i * length / m, (i + 1) * length / m - i * length / m};
}

int32_t *buffer(const KernelArgs &a, int b) { return static_cast<int32_t *>(a.buffers[b]); }
ChannelEnd &channel(const KernelArgs &a, int64_t family, int64_t peer) {
  return *a.channels[family * a.ranks + peer];
}

//===----------------------------------------------------------------------===//
// Ring
//===----------------------------------------------------------------------===//

/// out[k] and the slot of `to` (either may be absent) become [from +] in[k].
int32_t ringStep(KernelArgs *a, ChannelEnd *from, const int32_t *add, int32_t *out, ChannelEnd *to,
                 int64_t chunk) {
  const Slice slice = sliceOf(*a, chunk, a->ranks);
  if (from)
    if (int32_t code = awaitFilled(a, *from))
      return code;
  if (to)
    if (int32_t code = awaitFree(a, *to))
      return code;
  const int32_t *received = from ? slot(*from) : nullptr;
  int32_t *sent = to ? slot(*to) : nullptr;
  for (int64_t i = 0; i < slice.length; ++i) {
    // Sums wrap around, as those of generated code do.
    const auto value = int32_t((received ? uint32_t(received[i]) : 0) +
                               (add ? uint32_t(add[slice.start + i]) : 0));
    if (out)
      out[slice.start + i] = value;
    if (sent)
      sent[i] = value;
  }
  if (from)
    depart(*from);
  if (to)
    depart(*to);
  ++a->instruction;
  return 0;
}

int32_t ringMicroBatch(KernelArgs *a) {
  const int64_t n = a->ranks, me = a->me;
  int32_t *in = buffer(*a, 0), *out = buffer(*a, 1);
  if (n == 1)
    return ringStep(a, nullptr, in, out, nullptr, 0);
  ChannelEnd *next = &channel(*a, 0, (me + 1) % n), *prev = &channel(*a, 1, (me + n - 1) % n);
  if (int32_t code = ringStep(a, nullptr, in, nullptr, next, me))
    return code;
  for (int64_t s = 1; s < n; ++s)
    if (int32_t code = ringStep(a, prev, in, s == n - 1 ? out : nullptr, next, (me - s + n) % n))
      return code;
  for (int64_t s = 1; s < n; ++s)
    if (int32_t code =
            ringStep(a, prev, nullptr, out, s == n - 1 ? nullptr : next, (me + 1 - s + n) % n))
      return code;
  return 0;
}

int32_t ringKernel(KernelArgs *a) {
  ringSaw.count = a->count;
  ringSaw.microBatches = a->microBatches;
  ringSaw.stride = a->stride;
  for (int64_t batch = 0; batch < a->microBatches; ++batch) {
    __atomic_store_n(&a->microBatch, batch, __ATOMIC_RELAXED);
    a->instruction = 0;
    if (int32_t code = ringMicroBatch(a))
      return code;
  }
  return 0;
}

//===----------------------------------------------------------------------===//
// Direct all-gather, star, and the odd ones
//===----------------------------------------------------------------------===//

int32_t directAllGatherKernel(KernelArgs *a) {
  for (int64_t batch = 0; batch < a->microBatches; ++batch) {
    __atomic_store_n(&a->microBatch, batch, __ATOMIC_RELAXED);
    for (int64_t p = 0; p < a->ranks; ++p)
      if (p != a->me)
        depart(channel(*a, 0, p));
    for (int64_t step = 0; step < a->ranks; ++step) {
      const int64_t p = (a->me + step) % a->ranks;
      if (p != a->me)
        if (int32_t code = awaitSignal(a, channel(*a, 1, p)))
          return code;
      const Slice from = sliceOf(*a, 0, 1), to = sliceOf(*a, p, 1);
      const auto *in = static_cast<const int32_t *>(p == a->me ? a->buffers[0] : a->peers[p][0]);
      // In place, one's own shard is there already.
      if (in + from.start != buffer(*a, 1) + to.start)
        std::memcpy(buffer(*a, 1) + to.start, in + from.start, size_t(from.length) * 4);
      if (p != a->me)
        depart(channel(*a, 2, p));
    }
    for (int64_t p = 0; p < a->ranks; ++p)
      if (p != a->me)
        if (int32_t code = awaitSignal(a, channel(*a, 3, p)))
          return code;
  }
  return 0;
}

template <int64_t root>
int32_t starGatherKernel(KernelArgs *a) {
  for (int64_t batch = 0; batch < a->microBatches; ++batch) {
    __atomic_store_n(&a->microBatch, batch, __ATOMIC_RELAXED);
    const Slice from = sliceOf(*a, 0, 1), mine = sliceOf(*a, a->me, 1);
    const size_t bytes = size_t(from.length) * 4;
    if (buffer(*a, 1) + mine.start != buffer(*a, 0) + from.start)
      std::memcpy(buffer(*a, 1) + mine.start, buffer(*a, 0) + from.start, bytes);
    if (a->me != root) {
      ChannelEnd &to = channel(*a, 0, root);
      if (int32_t code = awaitFree(a, to))
        return code;
      std::memcpy(slot(to), buffer(*a, 1) + mine.start, bytes);
      depart(to);
      continue;
    }
    for (int64_t p = 0; p < a->ranks; ++p) {
      if (p == root)
        continue;
      ChannelEnd &end = channel(*a, 0, p);
      if (int32_t code = awaitFilled(a, end))
        return code;
      const Slice to = sliceOf(*a, p, 1);
      std::memcpy(buffer(*a, 1) + to.start, slot(end), size_t(to.length) * 4);
      depart(end);
    }
  }
  return 0;
}

int32_t stuckKernel(KernelArgs *a) {
  a->instruction = 5;
  return a->me == 0 ? awaitSignal(a, channel(*a, 0, 1)) : 0;
}

/// Two ranks in turns.
int32_t turnsKernel(KernelArgs *a) {
  for (int64_t batch = 0; batch < a->microBatches; ++batch) {
    __atomic_store_n(&a->microBatch, batch, __ATOMIC_RELAXED);
    if (a->me == 0) {
      depart(channel(*a, 0, 1));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (int32_t code = awaitSignal(a, channel(*a, 1, 1 - a->me)))
      return code;
    if (a->me == 1)
      depart(channel(*a, 0, 0));
  }
  return 0;
}

int32_t circleKernel(KernelArgs *a) { return awaitSignal(a, channel(*a, 1, 1 - a->me)); }

int32_t barrierKernel(KernelArgs *) {
  ++barrierRuns;
  return 0;
}

Plan basicPlan(std::string name, int64_t ranks, Collective collective, Reduction reduction,
               int64_t chunks) {
  Plan plan;
  plan.program = std::move(name);
  plan.hash = plan.program + std::to_string(ranks);
  plan.contract.collective = collective;
  plan.contract.reduction = reduction;
  plan.contract.ranks = ranks;
  plan.contract.chunks = chunks;
  plan.type = ElementType::I32;
  plan.buffers = {{"in", Role::In, plan.contract.inChunks()},
                  {"out", Role::Out, plan.contract.outChunks()}};
  plan.inPlaceProved = true;
  plan.kernels.emplace_back();
  plan.kernels[0].ranks = {{0, ranks}};
  plan.kernels[0].symbol = plan.program;
  return plan;
}

/// A family whose peers are, for each rank, those that `connects` says.
template <typename Connects>
void addFamily(Plan &plan, ChannelFamily family, Connects connects) {
  KernelPlan &kernel = plan.kernels[0];
  kernel.channels.push_back(family);
  kernel.peers.emplace_back(size_t(plan.ranks()));
  for (int64_t r = 0; r < plan.ranks(); ++r)
    for (int64_t p = 0; p < plan.ranks(); ++p)
      if (connects(r, p))
        kernel.peers.back()[size_t(r)].push_back(int32_t(p));
}

} // namespace

Seen ringSaw;
std::atomic<int64_t> barrierRuns{0};

Plan ringAllReducePlan(int64_t n, int32_t slots) {
  Plan plan = basicPlan("ring", n, Collective::AllReduce, Reduction::Sum, n);
  if (n > 1) {
    addFamily(plan, {true, 0, slots}, [n](int64_t r, int64_t p) { return p == (r + 1) % n; });
    addFamily(plan, {false, 0, slots}, [n](int64_t r, int64_t p) { return r == (p + 1) % n; });
  }
  return plan;
}
std::shared_ptr<LoadedProgram> ringAllReduce(Plan plan) {
  return std::make_shared<HandWritten>(std::move(plan), &ringKernel);
}
std::shared_ptr<LoadedProgram> ringAllReduce(int64_t ranks, int32_t slots) {
  return ringAllReduce(ringAllReducePlan(ranks, slots));
}

Plan directAllGatherPlan(int64_t n) {
  Plan plan = basicPlan("direct", n, Collective::AllGather, Reduction::None, 1);
  plan.direct = true;
  const auto others = [](int64_t r, int64_t p) { return r != p; };
  for (int32_t tag = 0; tag < 2; ++tag) {
    addFamily(plan, {true, tag, 0}, others);
    addFamily(plan, {false, tag, 0}, others);
  }
  return plan;
}
std::shared_ptr<LoadedProgram> directAllGather(int64_t ranks) {
  return std::make_shared<HandWritten>(directAllGatherPlan(ranks), &directAllGatherKernel);
}

Plan starGatherPlan(int64_t n, int64_t root) {
  Plan plan = basicPlan("star", n, Collective::Gather, Reduction::None, 1);
  plan.contract.root = root;
  // One kernel for the root and one for the others, each with one family.
  plan.kernels[0].ranks = {{0, root}, {root + 1, n}};
  plan.kernels[0].channels = {{true, 0, 1}};
  plan.kernels[0].peers = {std::vector<std::vector<int32_t>>(size_t(n - 1), {int32_t(root)})};
  KernelPlan collect;
  collect.ranks = {{root, root + 1}};
  collect.symbol = "collect";
  collect.channels = {{false, 0, 1}};
  collect.peers = {{{}}};
  for (int64_t p = 0; p < n; ++p)
    if (p != root)
      collect.peers[0][0].push_back(int32_t(p));
  plan.kernels.push_back(collect);
  return plan;
}
std::shared_ptr<LoadedProgram> starGather(int64_t ranks, int64_t root) {
  return std::make_shared<HandWritten>(starGatherPlan(ranks, root),
                                       root == 0 ? &starGatherKernel<0> : &starGatherKernel<1>);
}

std::shared_ptr<LoadedProgram> stuck(int64_t ranks) {
  Plan plan = basicPlan("stuck", ranks, Collective::AllReduce, Reduction::Sum, 1);
  addFamily(plan, {false, 7, 0}, [](int64_t r, int64_t p) { return r == 0 && p == 1; });
  return std::make_shared<HandWritten>(std::move(plan), &stuckKernel);
}

static std::shared_ptr<LoadedProgram> signalBothWays(std::string name, Kernel kernel) {
  Plan plan = basicPlan(std::move(name), 2, Collective::AllReduce, Reduction::Sum, 1);
  for (bool to : {true, false})
    addFamily(plan, {to, 7, 0}, [](int64_t r, int64_t p) { return r != p; });
  return std::make_shared<HandWritten>(std::move(plan), kernel);
}
std::shared_ptr<LoadedProgram> inTurns() { return signalBothWays("turns", &turnsKernel); }
std::shared_ptr<LoadedProgram> inACircle() { return signalBothWays("circle", &circleKernel); }

std::shared_ptr<LoadedProgram> countingBarrier(int64_t ranks) {
  return std::make_shared<HandWritten>(
      basicPlan("barrier", ranks, Collective::Barrier, Reduction::None, 1), &barrierKernel);
}

} // namespace ccl::test
