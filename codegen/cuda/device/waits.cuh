//===- waits.cuh - Waits, and signals between ranks ---------------------------===//
#pragma once

#include "places.cuh"

namespace ccl::cuda {

/// Polls that are too many for a look at the clock each time.
constexpr int pollsBetweenLooks = 256;

/// What is waited for, in one number: registers are few where waits are. The low bits say which
/// kind it is, the others an end, or for the last two a peer; -1: nobody is waited for.
enum Awaited : int { filled = 0, freed = 1, flags = 2, barrier = 3 };
__device__ constexpr int awaited(Awaited kind, int endOrPeer) { return endOrPeer * 4 + kind; }

/// A call, or waits would need registers for it. `waited` is in units of 1 << 16 nanoseconds.
__device__ __noinline__ void addTimes(FailureReport &report, u32 waited) {
  const Launch &launch = launched();
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
  const Launch &launch = launched();
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

enum Use : int { signals, waits, names };

/// Signals channels, waits for their signals, or gives them numbers in the program from
/// `instruction` on: `n` different ones, a thread each. Without a step they are a list; else one of
/// a loop, where x is what it is for the first one, and `step` more for each other. Whether it
/// failed.
__device__ __noinline__ int useChannels(int failed, Use use, int instruction,
                                        const Channels *channels, int n, int x, int y, int step) {
  if (use == waits)
    reportAs(instruction);
  const bool byWarp = n <= lanes;
  if (byWarp)
    syncWarp();
  else
    syncBlock(); // those of the first warp may have used the channel
#pragma unroll 1
  for (int i = threadIndex(); i < n && !failed; i += threads) {
    const Channels mine = channels[step == 0 ? i : 0];
    const int e = channel(mine.family, valueOf(mine.peer, x + i * step, y)).end;
    if (use == names)
      state.named[instruction + i] = e;
    else if (use == waits)
      failed = !waitOne(e);
    else
      advance(e, true);
  }
  if (use == waits || !byWarp)
    return syncAny(failed);
  syncWarp(); // another of its threads may use the channel next
  return failed;
}

/// Each peer may rely on everything before.
template <int n>
__device__ __forceinline__ void signal(Block &b, const Channels (&list)[n], int x = 0, int y = 0) {
  useChannels(b.failed, signals, 0, list, n, x, y, 0);
}
/// For the signals of all of them.
template <int n>
__device__ __forceinline__ void wait(Block &b, int instruction, const Channels (&list)[n],
                                     int x = 0, int y = 0) {
  b.failed = useChannels(b.failed, waits, instruction, list, n, x, y, 0);
}
/// The same of a loop's channels, for x = begin, begin + step, ...: all different.
__device__ __forceinline__ void signalEach(Block &b, int begin, int end, int step,
                                           const Channels &each, int y = 0) {
  useChannels(b.failed, signals, 0, &each, (end - begin + step - 1) / step, begin, y, step);
}
__device__ __forceinline__ void waitEach(Block &b, int instruction, int begin, int end, int step,
                                         const Channels &each, int y = 0) {
  b.failed = useChannels(b.failed, waits, instruction, &each, (end - begin + step - 1) / step,
                         begin, y, step);
}
/// The same of those that no table has: of(x).
template <typename F>
__device__ __forceinline__ void useEachOf(Block &b, Use use, int instruction, int begin, int end,
                                          int step, F of) {
  int failed = b.failed;
  if (use == waits)
    reportAs(instruction);
  syncBlock(); // those of the first warp may have used the channel
#pragma unroll 1
  for (int x = begin + step * threadIndex(); x < end && !failed; x += step * threads) {
    const int e = of(x).end;
    if (use == waits)
      failed = !waitOne(e);
    else
      advance(e, true);
  }
  b.failed = syncAny(failed);
}
template <typename F>
__device__ __forceinline__ void signalEachOf(Block &b, int begin, int end, int step, F of) {
  useEachOf(b, signals, 0, begin, end, step, of);
}
template <typename F>
__device__ __forceinline__ void waitEachOf(Block &b, int instruction, int begin, int end, int step,
                                           F of) {
  useEachOf(b, waits, instruction, begin, end, step, of);
}
/// Numbers channels from `first` on: what each is lies in shared memory, so that no register is
/// kept for it.
template <int n>
__device__ __forceinline__ void name(int first, const Channels (&list)[n], int x = 0, int y = 0) {
  useChannels(0, names, first, list, n, x, y, 0);
}

} // namespace ccl::cuda
