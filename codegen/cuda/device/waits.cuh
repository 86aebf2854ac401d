//===- waits.cuh - Waits, and signals between ranks ---------------------------===//
#pragma once

#include "block.cuh"

namespace ccl::cuda {

/// Polls that are too many for a look at the clock each time.
constexpr int pollsBetweenLooks = 256;

/// What is waited for, in one number: registers are few where waits are. The low bits say which
/// kind it is, the others an end, or for the last two a peer; -1: nobody is waited for.
enum Awaited : int { filled = 0, freed = 1, flags = 2, barrier = 3 };
__device__ constexpr int awaited(Awaited kind, int endOrPeer) { return endOrPeer * 4 + kind; }

/// A call, or waits would need registers for it. `waited` is in units of 1 << 16 nanoseconds.
__device__ __noinline__ void addTimes(FailureReport &report, u32 waited) {
  const Launch &launch = *state.launch;
  report.waitedNs = i64(waited) << 16;
  report.timeoutNs = launch.timeoutNs;
  report.microBatches = launch.microBatches;
}

/// Every so many polls of a wait that `began` then, or 0 at first: when it did, or 0 if it is to
/// give up, as the time of the launch is over. The first to do so tells the host, and all that wait
/// on this communicator; then each rank says whom it waited for, and for how long, which tells
/// who is to blame.
__device__ __noinline__ u64 look(u64 began, int what, u64 expected, u64 found) {
  if (what >= 0)
    relaxLong();
  const Launch &launch = *state.launch;
  Control &control = *launch.control;
  const bool aborted = loadRelaxed(&control.abort) != 0;
  u32 waited;
  {
    const u64 now = nanoseconds();
    if (began == 0)
      began = now;
    if (!aborted && (launch.timeoutNs == 0 || i64(now - state.began) < launch.timeoutNs))
      return began;
    waited = u32((now - began) >> 16);
  }
  const int kind = what & 3;
  int peer = what >> 2, numSlots = kind == flags ? -1 : 0;
  if (kind == filled || kind == freed) {
    const ChannelEnd &end = endAt(peer);
    peer = end.peer;
    numSlots = end.numSlots;
  }
  FailureReport *const ofRanks = reinterpret_cast<FailureReport *>(&control + 1);
#pragma unroll 1
  for (int i = aborted; i < 2; ++i) {
    FailureReport &report = i == 0 ? control.failure : ofRanks[state.here.rank];
    if ((i == 1 && peer == state.here.rank) || exchangeHost(&report.claimed, 1) != 0)
      continue;
    static_cast<Where &>(report) = state.here;
    report.instruction = state.instruction;
    report.peer = peer;
    report.channelTo = kind == freed;
    report.numSlots = numSlots;
    report.expected = i64(expected);
    report.found = i64(found);
    addTimes(report, waited);
    fenceHost();
    storeRelaxed(&report.written, 1);
    if (i == 0)
      storeRelaxed(&control.abort, 1);
  }
  return 0;
}

/// By one thread: until *counter is `needed` or more; counters with credit begin below zero.
/// Whether that came.
__device__ __noinline__ bool waitFor(const u64 *counter, u64 needed, int what) {
  u64 began = 0, found;
#pragma unroll 1
  for (int polls = 0; i64(found = loadAcquire(counter)) < i64(needed);) {
    relax();
    if (++polls < pollsBetweenLooks)
      continue;
    polls = 0;
    began = look(began, what, needed, found);
    if (began == 0)
      return false;
  }
  return true;
}

/// By one thread: one operation more on end e, which the peer gets to know if `tells`.
__device__ __noinline__ void advance(int e, bool tells) {
  ChannelEnd &end = endAt(e);
  const u64 next = end.next + 1;
  const int slot = end.slot + 1 >= end.numSlots ? 0 : end.slot + 1;
  if (tells)
    storeRelease(end.depart, next);
  end.next = next;
  end.slot = slot;
  if constexpr (copied) {
    storeRelaxed(reinterpret_cast<u64 *>(&state.homes[e]->next), next);
    storeRelaxed(reinterpret_cast<u32 *>(&state.homes[e]->slot), u32(slot));
  }
}

/// By one thread: for a signal on end e. Whether it came.
__device__ __noinline__ bool waitOne(int e) {
  const ChannelEnd &end = endAt(e);
  const bool came = waitFor(end.arrive, end.next + 1, awaited(filled, e));
  advance(e, false);
  return came;
}

/// use(end) of each channel, by a thread for each of the first ones. All are different.
template <typename F, typename... C>
__device__ __forceinline__ void eachOf(F use, const C &...channels) {
  static_assert(lanes == 1 || sizeof...(C) <= lanes);
  if constexpr (lanes == 1) {
    (use(Channel(channels).end), ...);
  } else {
    syncWarp(); // they may have been named just now
    int mine = -1, i = 0;
    ((mine = threadIndex() == i++ ? Channel(channels).end : mine), ...);
    if (mine >= 0)
      use(mine);
  }
}

/// Each peer may rely on everything before.
template <typename... C>
__device__ __forceinline__ void signal(Block &b, int, const C &...channels) {
  if (b.failed)
    return;
  eachOf([](int e) { advance(e, true); }, channels...);
  syncWarp(); // another of its threads may use the channel next
}
/// For the signals of all of them.
template <typename... C>
__device__ __forceinline__ void wait(Block &b, int instruction, const C &...channels) {
  bool fails = b.failed;
  reportAs(instruction);
  if (!fails)
    eachOf([&](int e) { fails = !waitOne(e) || fails; }, channels...);
  b.failed = syncAny(fails);
}

/// The same of a loop's channels, `of(i)` for i = begin, begin + step, ...: all different. All
/// threads take part.
template <typename F>
__device__ __forceinline__ void signalEach(Block &b, int, int begin, int end, int step, F of) {
  syncBlock(); // those of the first warp may have used the channel
#pragma unroll 1
  for (int i = begin + step * threadIndex(); i < end && !b.failed; i += step * threads)
    advance(of(i).end, true);
  syncBlock();
}
template <typename F>
__device__ __forceinline__ void waitEach(Block &b, int instruction, int begin, int end, int step,
                                         F of) {
  reportAs(instruction);
  syncBlock();
  bool fails = b.failed;
#pragma unroll 1
  for (int i = begin + step * threadIndex(); i < end && !fails; i += step * threads)
    fails = !waitOne(of(i).end);
  b.failed = syncAny(fails);
}

} // namespace ccl::cuda
