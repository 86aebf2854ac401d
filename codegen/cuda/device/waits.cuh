//===- waits.cuh - Waits, and signals between ranks --------------------------===//
#pragma once

#include "block.cuh"

namespace ccl::cuda {

/// What a wait waits for, for reports.
struct Awaited {
  i64 instruction;
  int peer;
  bool to;
  int numSlots;
};

/// Polls that are too many for a look at the clock each time.
constexpr int pollsBetweenLooks = 256;

/// Tells the host, and all that wait on this communicator, unless somebody has.
__device__ __noinline__ void giveUp(const Awaited &what, u64 expected, u64 found) {
  Control &control = *state.launch->control;
  FailureReport &report = control.failure;
  if (exchangeHost(&report.claimed, 1) != 0)
    return;
  report.rank = int(state.me);
  report.peer = what.peer;
  report.agent = state.agent;
  report.plan = state.launch->plan;
  report.launch = state.epoch;
  report.instance = state.instance;
  report.instruction = what.instruction;
  report.microBatch = state.batch;
  report.channelTo = what.to;
  report.numSlots = what.numSlots;
  report.expected = i64(expected);
  report.found = i64(found);
  fenceHost();
  storeRelaxed(&report.written, 1);
  storeRelaxed(&control.abort, 1);
}

/// Every so many polls of a wait: whether it is to go on. `began` is 0 at first.
__device__ __noinline__ bool look(u64 &began, const Awaited &what, u64 expected, u64 found) {
  relaxLong();
  if (loadRelaxed(&state.launch->control->abort) != 0)
    return false;
  const u64 now = nanoseconds();
  if (began == 0)
    began = now;
  if (state.launch->timeoutNs == 0 || i64(now - began) < state.launch->timeoutNs)
    return true;
  giveUp(what, expected, found);
  return false;
}

/// By one thread: until *counter + credit >= needed. Whether that came.
__device__ __noinline__ bool waitFor(const u64 *counter, u64 needed, u64 credit,
                                     const Awaited &what) {
  u64 began = 0, found;
#pragma unroll 1
  for (int polls = 0; (found = loadAcquire(counter)) + credit < needed;) {
    relax();
    if (++polls == pollsBetweenLooks) {
      polls = 0;
      if (!look(began, what, needed - credit, found))
        return false;
    }
  }
  return true;
}

/// One operation more on an end; by the thread that did it.
__device__ __forceinline__ void advance(ChannelEnd &end, int index) {
  ++end.next;
  end.slot = end.slot + 1 >= end.numSlots ? 0 : end.slot + 1;
  if (index < sharedEnds)
    state.used[index] = 1;
}

/// Each peer may rely on everything before. Thread i does that for channel i.
template <int n>
__device__ __noinline__ void signalAll(const Channel (&channels)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i)
    if (threadIndex() == i % threads) {
      ChannelEnd &end = endAt(channels[i].end);
      storeRelease(end.depart, end.next + 1);
      advance(end, channels[i].end);
    }
  syncBlock(); // another thread may use the channel next
}
template <typename... C>
__device__ __forceinline__ void signal(Block &b, i64, const C &...channels) {
  if (!b.failed)
    signalAll({channels...});
}

/// The same of a loop's channels, `of(i)` for i = begin, begin + step, ...: all different.
template <typename F>
__device__ __forceinline__ void signalEach(Block &b, i64, int begin, int end, int step, F of) {
  if (b.failed)
    return;
#pragma unroll 1
  for (int i = begin + step * threadIndex(); i < end; i += step * threads) {
    const Channel channel = of(i);
    storeRelease(endAt(channel.end).depart, endAt(channel.end).next + 1);
    advance(endAt(channel.end), channel.end);
  }
  syncBlock();
}

template <int n>
__device__ __noinline__ bool waitAll(i64 instruction, const Channel (&channels)[n]) {
  bool fails = false;
#pragma unroll
  for (int i = 0; i < n; ++i)
    if (threadIndex() == i % threads) {
      ChannelEnd &end = endAt(channels[i].end);
      fails |= !waitFor(end.arrive, end.next + 1, 0, {instruction, end.peer, false, 0});
      advance(end, channels[i].end);
    }
  return syncAny(fails);
}
/// For the signals of all of them.
template <typename... C>
__device__ __forceinline__ void wait(Block &b, i64 instruction, const C &...channels) {
  if (!b.failed)
    b.failed = waitAll(instruction, {channels...});
}

template <typename F>
__device__ __forceinline__ void waitEach(Block &b, i64 instruction, int begin, int end, int step,
                                         F of) {
  if (b.failed)
    return;
  bool fails = false;
#pragma unroll 1
  for (int i = begin + step * threadIndex(); i < end; i += step * threads) {
    const Channel channel = of(i);
    ChannelEnd &from = endAt(channel.end);
    fails |= !waitFor(from.arrive, from.next + 1, 0, {instruction, from.peer, false, 0});
    advance(from, channel.end);
  }
  b.failed = syncAny(fails);
}

} // namespace ccl::cuda
