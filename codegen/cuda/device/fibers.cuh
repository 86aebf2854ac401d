//===- fibers.cuh - Threads of a block, on one thread of the host ----------------===//
//
// With CCL_SHIM_THREADS a block has so many threads, as on a GPU: fibers that run until they wait
// for each other, or for another block. Who is next is drawn by chance, so that what relies on an
// order that no barrier makes goes wrong; ThreadSanitizer sees a thread in each, and knows of no
// order but that of barriers. Threads that meet at different barriers end the process.
//===----------------------------------------------------------------------===//
#pragma once

#ifdef CCL_SHIM_THREADS
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_THREAD__)
#define CCL_FIBERS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CCL_FIBERS_TSAN 1
#endif
#endif
#ifdef CCL_FIBERS_TSAN
#include <sanitizer/tsan_interface.h>
/// Of code that makes the order that is told by hand.
#define CCL_UNSEEN __attribute__((noinline, no_sanitize("thread")))
#else
#define CCL_UNSEEN __attribute__((noinline))
#endif

namespace ccl::cuda::fibers {

constexpr int most = CCL_SHIM_THREADS, warp = 32;
static_assert(most % warp == 0, "whole warps");

enum class State : char { Ready, InBlock, InWarp, Done };

struct Fiber {
  ucontext_t context;
  void *seen; ///< by ThreadSanitizer
  State state;
  bool value;      ///< that it brings to a barrier
  unsigned stored; ///< words of `ll128` lines
};

/// Those of a block. A barrier's result stays until all have taken it: before, none can complete
/// the next one.
struct Block {
  Fiber fibers[most];
  ucontext_t host;
  void *seen;
  void (*body)(void *);
  void *argument;
  int count, current;
  unsigned random, yields;
  bool any, all[most / warp];
};
static thread_local Block *block;

inline void order(void *with, bool before) {
#ifdef CCL_FIBERS_TSAN
  before ? __tsan_release(with) : __tsan_acquire(with);
#else
  (void)with, (void)before;
#endif
}

CCL_UNSEEN inline int index() { return block->current; }
CCL_UNSEEN inline int count() { return block->count; }

CCL_UNSEEN inline void toHost() {
  Block &b = *block;
  Fiber &me = b.fibers[b.current];
#ifdef CCL_FIBERS_TSAN
  __tsan_switch_to_fiber(b.seen, __tsan_switch_to_fiber_no_sync);
#endif
  swapcontext(&me.context, &b.host);
}
CCL_UNSEEN inline void toFiber(int next) {
  Block &b = *block;
  b.current = next;
#ifdef CCL_FIBERS_TSAN
  __tsan_switch_to_fiber(b.fibers[next].seen, __tsan_switch_to_fiber_no_sync);
#endif
  swapcontext(&b.host, &b.fibers[next].context);
}

/// Others may go on; now and then those of other blocks.
CCL_UNSEEN inline void yield() {
  if (++block->yields % unsigned(2 * block->count) == 0)
    sched_yield();
  toHost();
}

/// At a barrier of the block: whether `value` holds for any.
CCL_UNSEEN inline bool meetBlock(bool value) {
  Block &b = *block;
  Fiber &me = b.fibers[b.current];
  me.value = value;
  me.state = State::InBlock;
  order(&b.any, true);
  toHost();
  order(&b.any, false);
  return block->any;
}
/// At one of the warp: whether it holds for all.
CCL_UNSEEN inline bool meetWarp(bool value) {
  Block &b = *block;
  Fiber &me = b.fibers[b.current];
  bool &all = b.all[b.current / warp];
  me.value = value;
  me.state = State::InWarp;
  order(&all, true);
  toHost();
  order(&all, false);
  return all;
}

/// Before the last word of a line: until the 15 others have written theirs, as a warp writes a
/// line in one piece.
CCL_UNSEEN inline void storedWord(bool isLast) {
  Block &b = *block;
  const int me = b.current, first = me / 16 * 16;
  for (int i = first; isLast && i < first + 15;)
    if (b.fibers[i].stored > b.fibers[me].stored)
      ++i;
    else
      yield();
  ++b.fibers[me].stored;
}

CCL_UNSEEN inline void begin() {
  order(block, false);
  block->body(block->argument);
  order(&block->host, true);
  block->fibers[block->current].state = State::Done;
  while (true)
    toHost();
}

/// Those in [begin, end) that are not done are all at such a barrier: they go on. Whether they do.
CCL_UNSEEN inline bool release(int begin, int end, State at) {
  Block &b = *block;
  bool any = false, all = true, some = false;
  for (int i = begin; i < end; ++i) {
    const Fiber &fiber = b.fibers[i];
    if (fiber.state == State::Done)
      continue;
    if (fiber.state != at)
      return false;
    some = true;
    any |= fiber.value;
    all &= fiber.value;
  }
  if (!some)
    return false;
  (at == State::InBlock ? b.any : b.all[begin / warp]) = at == State::InBlock ? any : all;
  for (int i = begin; i < end; ++i)
    if (b.fibers[i].state == at)
      b.fibers[i].state = State::Ready;
  return true;
}

/// One that can go on, by chance; -1: none can.
CCL_UNSEEN inline int draw() {
  Block &b = *block;
  b.random = b.random * 1664525u + 1013904223u;
  const int first = int((b.random >> 8) % unsigned(b.count));
  for (int i = 0; i < b.count; ++i)
    if (const int next = (first + i) % b.count; b.fibers[next].state == State::Ready)
      return next;
  return -1;
}

CCL_UNSEEN inline void schedule() {
  Block &b = *block;
  for (int left = b.count; left > 0;) {
    const int next = draw();
    if (next < 0) {
      fprintf(stderr, "threads of a block wait at different barriers\n");
      abort();
    }
    toFiber(next);
    const State state = b.fibers[next].state;
    left -= state == State::Done;
    const int first = next / warp * warp, end = first + warp < b.count ? first + warp : b.count;
    if (state == State::InWarp || state == State::Done)
      release(first, end, State::InWarp);
    if (state == State::InBlock || state == State::Done)
      release(0, b.count, State::InBlock);
  }
}

/// body(argument) by `count` threads of block number `number`.
CCL_UNSEEN inline void run(void (*body)(void *), void *argument, int count, unsigned number) {
  constexpr size_t stackBytes = 1 << 17;
  static thread_local unsigned launches;
  auto *b = static_cast<Block *>(calloc(1, sizeof(Block)));
  void *stacks = mmap(nullptr, size_t(count) * stackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!b || stacks == MAP_FAILED)
    abort();
  block = b;
  b->body = body;
  b->argument = argument;
  b->count = count;
  b->random = number * 2654435761u + ++launches;
  for (int i = 0; i < count; ++i) {
    Fiber &fiber = b->fibers[i];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = static_cast<char *>(stacks) + size_t(i) * stackBytes;
    fiber.context.uc_stack.ss_size = stackBytes;
    makecontext(&fiber.context, begin, 0);
#ifdef CCL_FIBERS_TSAN
    fiber.seen = __tsan_create_fiber(0);
#endif
  }
#ifdef CCL_FIBERS_TSAN
  b->seen = __tsan_get_current_fiber();
#endif
  order(b, true);
  schedule();
  order(&b->host, false);
#ifdef CCL_FIBERS_TSAN
  for (int i = 0; i < count; ++i)
    __tsan_destroy_fiber(b->fibers[i].seen);
#endif
  munmap(stacks, size_t(count) * stackBytes);
  free(b);
  block = nullptr;
}

} // namespace ccl::cuda::fibers
#endif
