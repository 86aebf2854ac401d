//===- shim.h - Kernels as C++ of this machine's processor -----------------------===//
//
// In front of ccl.cuh and a generated source, which compile unchanged: a block is one thread of
// the host, shared memory is that thread's, memory of a GPU is memory. A block has one thread of
// CUDA, or as many as CCL_SHIM_THREADS says (fibers.cuh). For a kernel NAME there is, to be called
// by whoever plays the driver,
//
//   int NAME_shim(int what, void **params, unsigned block, unsigned blocks, size_t *sizes)
//
//   what = 0: returns the number of parameters; sizes, if not null, gets their bytes
//   what = 1: runs block `block` of `blocks`; params[i] points to parameter i; sizes, if not
//             null, to how many threads the launch gives a block. Returns 0
//
// All blocks of a launch must run at once, each on a thread of its own: they wait for each other.
// No ordering is stronger than on a GPU, so that ThreadSanitizer sees what a GPU may do.
//===----------------------------------------------------------------------===//
#pragma once

#include "fibers.cuh"

#define CCL_SHIM 1
#undef CCL_THREADS
#ifdef CCL_SHIM_THREADS
#define CCL_THREADS CCL_SHIM_THREADS
#else
#define CCL_THREADS 1
#endif

// Before the macros, which would change what these say.
#include <sched.h>
#include <stddef.h>
#include <time.h>

#define __device__
#define __global__
#define __shared__ static thread_local
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

#if defined(__SANITIZE_THREAD__)
#define CCL_SHIM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CCL_SHIM_TSAN 1
#endif
#endif

namespace ccl::cuda {

//===----------------------------------------------------------------------===//
// The machine, as in ccl.cuh
//===----------------------------------------------------------------------===//

static thread_local unsigned currentBlock, currentBlocks;

inline int blockIndex() { return int(currentBlock); }
inline int blockCount() { return int(currentBlocks); }
#ifdef CCL_SHIM_THREADS
inline int threadIndex() { return fibers::index(); }
inline int threadCount() { return fibers::count(); }
inline void syncBlock() { fibers::meetBlock(false); }
inline bool syncAny(bool mine) { return fibers::meetBlock(mine); }
inline void syncWarp() { fibers::meetWarp(true); }
inline bool allOfWarp(bool mine) { return fibers::meetWarp(mine); }
#else
inline int threadIndex() { return 0; }
inline int threadCount() { return 1; }
inline void syncBlock() {}
inline bool syncAny(bool mine) { return mine; }
inline void syncWarp() {}
inline bool allOfWarp(bool mine) { return mine; }
#endif

inline unsigned long long loadAcquire(const unsigned long long *p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
inline void storeRelease(unsigned long long *p, unsigned long long value) {
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
}
inline unsigned loadRelaxed(const unsigned *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
inline void storeRelaxed(unsigned *p, unsigned value) {
#ifdef CCL_SHIM_TSAN // it does not know the fence in front of this
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
#else
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
#endif
}
inline unsigned long long loadRelaxed(const unsigned long long *p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
inline void storeRelaxed(unsigned long long *p, unsigned long long value) {
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
}
inline unsigned addAcqRel(unsigned *p, unsigned value) {
  return __atomic_fetch_add(p, value, __ATOMIC_ACQ_REL);
}
inline unsigned exchangeHost(unsigned *p, unsigned value) {
  return __atomic_exchange_n(p, value, __ATOMIC_RELAXED);
}
inline void fenceHost() {
#ifndef CCL_SHIM_TSAN
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}
inline unsigned long long nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}

/// There may be more blocks than processors: who waits lets the others go on.
inline void relax() {
#ifdef CCL_SHIM_THREADS
  fibers::yield();
#else
  static thread_local unsigned polls;
  if (++polls % 8 == 0)
    sched_yield();
#endif
}
inline void relaxLong() {
  const timespec pause{0, 20000};
  nanosleep(&pause, nullptr);
}

// `ll`: each half of a word is written and read in one piece with its flag.
inline void storeLine(char *p, unsigned long long word, unsigned flag) {
  auto *halves = reinterpret_cast<unsigned long long *>(p);
  const unsigned long long high = (unsigned long long)flag << 32;
  __atomic_store_n(halves, (word & 0xffffffffu) | high, __ATOMIC_RELAXED);
  __atomic_store_n(halves + 1, word >> 32 | high, __ATOMIC_RELAXED);
}
inline bool loadLine(const char *p, unsigned flag, unsigned long long &word) {
  auto *halves = reinterpret_cast<const unsigned long long *>(p);
  const unsigned long long low = __atomic_load_n(halves, __ATOMIC_RELAXED),
                           high = __atomic_load_n(halves + 1, __ATOMIC_RELAXED);
  word = (low & 0xffffffffu) | high << 32;
  return unsigned(low >> 32) == flag && unsigned(high >> 32) == flag;
}
// `ll128`: a warp writes a line in one piece; here the flag, which comes last, tells of the words
// before it. Every lane asks for it, since lanes come one after the other.
inline void storeWord(char *line, int lane, unsigned long long word) {
#ifdef CCL_SHIM_THREADS
  fibers::storedWord(lane == 15);
#endif
  __atomic_store_n(reinterpret_cast<unsigned long long *>(line) + lane, word,
                   lane == 15 ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
}
inline bool loadWord(const char *line, int lane, unsigned long long flag,
                     unsigned long long &word) {
  auto *words = reinterpret_cast<const unsigned long long *>(line);
  const unsigned long long found = __atomic_load_n(words + 15, __ATOMIC_ACQUIRE);
  word = lane == 15 ? found : __atomic_load_n(words + lane, __ATOMIC_RELAXED);
  return found == flag;
}

//===----------------------------------------------------------------------===//
// Kernels, from outside
//===----------------------------------------------------------------------===//

namespace shim {

/// Parameters in a row: arguments in braces are evaluated in order.
template <typename... P>
struct Call {
  Call(void (*kernel)(P...), P &...params) { kernel(params...); }
};

template <typename... P>
int enter(void (*kernel)(P...), int what, void **params, unsigned block, unsigned blocks,
          size_t *sizes) {
  int i = 0;
  if (what == 0) {
    if (sizes)
      ((sizes[i++] = sizeof(P)), ...);
    return int(sizeof...(P));
  }
  if (what != 1)
    return -1;
  currentBlock = block;
  currentBlocks = blocks;
#ifdef CCL_SHIM_THREADS
  struct Launch {
    void (*kernel)(P...);
    void **params;
    static void run(void *launch) {
      auto &[kernel, params] = *static_cast<Launch *>(launch);
      int i = 0;
      Call<P...>{kernel, *static_cast<P *>(params[i++])...};
    }
  } launch{kernel, params};
  const size_t threads = sizes ? *sizes : 1;
  fibers::run(&Launch::run, &launch, threads < CCL_THREADS ? int(threads) : CCL_THREADS, block);
#else
  Call<P...>{kernel, *static_cast<P *>(params[i++])...};
#endif
  return 0;
}

} // namespace shim
} // namespace ccl::cuda

#define CCL_EXPORT(kernel)                                                                         \
  extern "C" __attribute__((visibility("default"))) int kernel##_shim(                             \
      int what, void **params, unsigned block, unsigned blocks, size_t *sizes) {                   \
    return ccl::cuda::shim::enter(&kernel, what, params, block, blocks, sizes);                    \
  }
