//===- ccl.cuh - What generated kernels are made of ----------------------------===//
//
// One header for all kernels, compiled by NVRTC, or as C++ behind shim.h, where a block is one
// thread of the host. It includes nothing but the ABI in front of it. A generated source
// defines these before it:
//
//   CCL_BUFFERS   buffers of the program
//   CCL_CHUNKS    chunks of a shard
//   CCL_ELEMENT   type of an element, one of those below (F32, BF16, ...)
//   CCL_REDUCTION one of those below (Sum, Max, ...)
//   CCL_THREADS   threads of a block, a multiple of 32
//   CCL_BODY      __forceinline__ or __noinline__: whether what moves data is inlined
//
// All threads of a block call everything here together, with equal arguments. After a failure
// (time-out, abort) every call returns at once, and the program runs to its end without effect.
//===----------------------------------------------------------------------===//
#pragma once

namespace ccl::cuda {

using i64 = long long;
using u64 = unsigned long long;
using u32 = unsigned;
using u16 = unsigned short;
using u8 = unsigned char;

struct Launch : LaunchHead {
  BufferView buffers[CCL_BUFFERS > 0 ? CCL_BUFFERS : 1];
};

//===----------------------------------------------------------------------===//
// The machine
//===----------------------------------------------------------------------===//

#ifndef CCL_SHIM
__device__ __forceinline__ int threadIndex() { return int(threadIdx.x); }
__device__ __forceinline__ int blockIndex() { return int(blockIdx.x); }
__device__ __forceinline__ void syncBlock() { __syncthreads(); }

__device__ __forceinline__ u64 loadAcquire(const u64 *p) {
  u64 value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
  return value;
}
__device__ __forceinline__ void storeRelease(u64 *p, u64 value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
}
__device__ __forceinline__ u32 loadRelaxed(const u32 *p) {
  u32 value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
__device__ __forceinline__ void storeRelaxed(u32 *p, u32 value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}
__device__ __forceinline__ u32 addAcqRel(u32 *p, u32 value) {
  u32 old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(p), "r"(value)
               : "memory");
  return old;
}
__device__ __forceinline__ u32 exchangeHost(u32 *p, u32 value) {
  u32 old;
  asm volatile("atom.relaxed.sys.global.exch.b32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(p), "r"(value)
               : "memory");
  return old;
}
__device__ __forceinline__ void fenceHost() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
__device__ __forceinline__ u64 nanoseconds() {
  u64 value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
  return value;
}
__device__ __forceinline__ void relax() {}
__device__ __forceinline__ void relaxLong() { asm volatile("nanosleep.u32 200;"); }

// A line of `ll`: two halves of a word, each with the flag; written and read in one piece.
__device__ __forceinline__ void storeLine(char *p, u64 word, u32 flag) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(p), "r"(u32(word)),
               "r"(flag), "r"(u32(word >> 32))
               : "memory");
}
__device__ __forceinline__ bool loadLine(const char *p, u32 flag, u64 &word) {
  u32 low, high, first, second;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(low), "=r"(first), "=r"(high), "=r"(second)
               : "l"(p)
               : "memory");
  word = u64(high) << 32 | low;
  return first == flag && second == flag;
}
// A word of an `ll128` line: 16 neighbours of a warp write and read a line together.
__device__ __forceinline__ void storeWord(char *line, int lane, u64 word) {
  asm volatile("st.volatile.global.u64 [%0], %1;" ::"l"(line + 8 * lane), "l"(word) : "memory");
}
/// The line's word and whether its flag is there, told by the last lane of 16.
__device__ __forceinline__ bool loadWord(const char *line, int lane, u64 flag, u64 &word) {
  asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(word) : "l"(line + 8 * lane) : "memory");
  return __shfl_sync(0xffffffffu, word, 15, 16) == flag;
}
__device__ __forceinline__ bool allOfWarp(bool mine) { return __all_sync(0xffffffffu, mine); }
#define CCL_EXPORT(kernel)
#endif

constexpr int threads = CCL_THREADS;

//===----------------------------------------------------------------------===//
// Elements. 16- and 8-bit floats are combined in f32; results round to nearest even.
//===----------------------------------------------------------------------===//

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static __device__ __forceinline__ T widen(T x) { return x; }
  static __device__ __forceinline__ T narrow(T x) { return x; }
};
using I8 = Plain<signed char>;
using U8 = Plain<unsigned char>;
using I32 = Plain<int>;
using U32 = Plain<unsigned>;
using I64 = Plain<long long>;
using U64 = Plain<unsigned long long>;
using F32 = Plain<float>;
using F64 = Plain<double>;

__device__ __forceinline__ float bitsToFloat(u32 bits) { return __builtin_bit_cast(float, bits); }
__device__ __forceinline__ u32 floatToBits(float x) { return __builtin_bit_cast(u32, x); }

/// A float of a sign, `e` bits of exponent and `m` of mantissa, by integer arithmetic. Without
/// infinities the largest code is NaN.
template <typename S, int e, int m, bool infinite>
struct Small {
  using Stored = S;
  using Value = float;
  static constexpr u32 sign = 1u << (e + m), rebias = (128u - (1u << (e - 1))) << 23,
                       infinity = sign - (1u << m);

  static __device__ __forceinline__ float widen(S code) {
    const u32 magnitude = code & (sign - 1), shifted = magnitude << (23 - m);
    u32 bits = shifted + rebias;
    if (magnitude < (1u << m)) // the smallest normal exponent, less the implicit one
      bits = floatToBits(bitsToFloat(shifted + rebias + (1u << 23)) -
                         bitsToFloat(rebias + (1u << 23)));
    if (infinite ? magnitude >= infinity : magnitude == sign - 1)
      bits = infinite ? shifted | 0x7f800000u : 0x7fc00000u;
    return bitsToFloat(bits | (code & sign) << (31 - e - m));
  }
  static __device__ __forceinline__ S narrow(float x) {
    const u32 bits = floatToBits(x), magnitude = bits & 0x7fffffffu;
    constexpr int dropped = 23 - m;
    u32 code;
    if (magnitude < rebias + (1u << 23)) { // a power of two whose last place is the smallest code
      constexpr u32 power = rebias + ((dropped + 1u) << 23);
      code = floatToBits(bitsToFloat(magnitude) + bitsToFloat(power)) - power;
    } else {
      const u32 odd = magnitude >> dropped & 1;
      code = (magnitude + (1u << (dropped - 1)) - 1 - rebias + odd) >> dropped;
    }
    constexpr u32 largest = infinite ? infinity : sign - 1;
    code = code < largest ? code : largest;
    if (infinite && magnitude > 0x7f800000u)
      code = largest | 1u << (m - 1);
    return S(code | (bits >> (31 - e - m) & sign));
  }
};
using F8E4M3 = Small<u8, 4, 3, false>;
using F8E5M2 = Small<u8, 5, 2, true>;

#ifdef CCL_SHIM
using F16 = Small<u16, 5, 10, true>;
#else
struct F16 {
  using Stored = u16;
  using Value = float;
  static __device__ __forceinline__ float widen(u16 code) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(code));
    return x;
  }
  static __device__ __forceinline__ u16 narrow(float x) {
    u16 code;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(x));
    return code;
  }
};
#endif

struct BF16 {
  using Stored = u16;
  using Value = float;
  static __device__ __forceinline__ float widen(u16 code) { return bitsToFloat(u32(code) << 16); }
  static __device__ __forceinline__ u16 narrow(float x) {
    const u32 bits = floatToBits(x), upper = bits >> 16;
    if (x != x)
      return u16(upper | 0x40);
    return u16((bits + (upper & 1) + 0x7fff) >> 16);
  }
};

struct None {
  template <typename V>
  static __device__ __forceinline__ V combine(V a, V) {
    return a;
  }
};
template <typename V>
constexpr bool isSmallInteger = sizeof(V) == 1;
struct Sum {
  template <typename V>
  static __device__ __forceinline__ V combine(V a, V b) {
    if constexpr (V(0.5) == V(0)) // integers wrap around
      return V(u64(a) + u64(b));
    else
      return a + b;
  }
};
struct Prod {
  template <typename V>
  static __device__ __forceinline__ V combine(V a, V b) {
    if constexpr (V(0.5) == V(0))
      return V(u64(a) * u64(b));
    else
      return a * b;
  }
};
/// NaN if either is.
struct Min {
  template <typename V>
  static __device__ __forceinline__ V combine(V a, V b) {
    return a != a ? a : a < b ? a : b;
  }
};
struct Max {
  template <typename V>
  static __device__ __forceinline__ V combine(V a, V b) {
    return a != a ? a : a > b ? a : b;
  }
};
struct Band {
  template <typename V>
  static __device__ __forceinline__ V combine(V a, V b) {
    return V(a & b);
  }
};
struct Bor {
  template <typename V>
  static __device__ __forceinline__ V combine(V a, V b) {
    return V(a | b);
  }
};
struct Bxor {
  template <typename V>
  static __device__ __forceinline__ V combine(V a, V b) {
    return V(a ^ b);
  }
};

using E = CCL_ELEMENT;
using R = CCL_REDUCTION;
constexpr i64 elementBytes = sizeof(E::Stored);

//===----------------------------------------------------------------------===//
// A block and its waits
//===----------------------------------------------------------------------===//

/// Ends that a block keeps in shared memory while it runs; more stay where they are.
constexpr int sharedEnds = 64;

struct BlockState {
  ChannelEnd ends[sharedEnds];
  u8 used[sharedEnds];
  int failed;
};

enum class Wire { Memory, Simple, LL, LL128 };

struct Channel {
  ChannelEnd *end;
  int index;
};

/// An operand in memory: chunk `chunk` of a row of shards (in, out), or if `row` is negative of
/// a buffer of equal strides.
struct Place {
  static constexpr Wire wire = Wire::Memory;
  char *base;
  i64 chunk;
  int row;
  bool own;
};
template <Wire w>
struct Slot {
  static constexpr Wire wire = w;
  Channel channel;
  bool to;
};

struct Block {
  const Launch &launch;
  BlockState &state;
  const int instance, agent;
  const i64 me, epoch;
  ChannelEnd *ends = nullptr;
  i64 batch = 0;
  bool failed = false;

  __device__ Channel channel(int family, i64 peer) const {
    const int index = launch.endOf[i64(family) * launch.ranks + peer];
    return {ends + index, index};
  }
  /// A chunk of this rank's buffer `b`.
  __device__ Place in(int b, i64 chunk) const { return row(b, chunk, int(2 * me)); }
  __device__ Place out(int b, i64 chunk) const { return row(b, chunk, int(2 * me + 1)); }
  __device__ Place scratch(int b, i64 chunk) const {
    const BufferView &view = launch.buffers[b];
    return {view.own + instance * view.instancePitch, chunk, -1, true};
  }
  /// Of another's.
  __device__ Place peerIn(int b, i64 rank, i64 chunk) const {
    return {peerBase(b, rank), chunk, int(2 * rank), rank == me};
  }
  __device__ Place peerOut(int b, i64 rank, i64 chunk) const {
    return {peerBase(b, rank), chunk, int(2 * rank + 1), rank == me};
  }
  __device__ Place peerScratch(int b, i64 rank, i64 chunk) const {
    return {peerBase(b, rank) + instance * launch.buffers[b].instancePitch, chunk, -1, rank == me};
  }

private:
  __device__ Place row(int b, i64 chunk, int row) const {
    return {launch.buffers[b].own, chunk, row, true};
  }
  __device__ char *peerBase(int b, i64 rank) const {
    const BufferView &view = launch.buffers[b];
    return view.peers[rank] + view.offset;
  }
};

/// a mod m, never negative.
__device__ __forceinline__ i64 mod(i64 a, i64 m) {
  const i64 r = a % m;
  return r < 0 ? r + m : r;
}
__device__ __forceinline__ i64 floorDiv(i64 a, i64 b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
__device__ __forceinline__ i64 ceilDiv(i64 a, i64 b) { return -floorDiv(-a, b); }
__device__ __forceinline__ i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
__device__ __forceinline__ i64 larger(i64 a, i64 b) { return a > b ? a : b; }

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
__device__ __noinline__ void giveUp(const Block &b, const Awaited &what, u64 expected, u64 found) {
  Control &control = *b.launch.control;
  FailureReport &report = control.failure;
  if (exchangeHost(&report.claimed, 1) != 0)
    return;
  report.rank = int(b.me);
  report.peer = what.peer;
  report.agent = b.agent;
  report.instance = b.instance;
  report.instruction = what.instruction;
  report.microBatch = b.batch;
  report.channelTo = what.to;
  report.numSlots = what.numSlots;
  report.expected = i64(expected);
  report.found = i64(found);
  fenceHost();
  storeRelaxed(&report.written, 1);
  storeRelaxed(&control.abort, 1);
}

/// A clock and an abort word for one wait.
struct Patience {
  u64 begin = 0;
  int polls = 0;

  /// Whether the wait is to go on.
  __device__ __forceinline__ bool lasts(const Block &b, const Awaited &what, u64 expected,
                                        u64 found) {
    relax();
    if (++polls < pollsBetweenLooks)
      return true;
    return look(b, what, expected, found);
  }

private:
  __device__ __noinline__ bool look(const Block &b, const Awaited &what, u64 expected, u64 found) {
    polls = 0;
    relaxLong();
    if (loadRelaxed(&b.launch.control->abort) != 0) {
      b.state.failed = 1;
      return false;
    }
    const u64 now = nanoseconds();
    if (begin == 0)
      begin = now;
    if (b.launch.timeoutNs == 0 || i64(now - begin) < b.launch.timeoutNs)
      return true;
    giveUp(b, what, expected, found);
    b.state.failed = 1;
    return false;
  }
};

/// By one thread: until *counter >= needed, both seen as unsigned.
__device__ __forceinline__ void waitFor(const Block &b, const u64 *counter, u64 needed, u64 credit,
                                        const Awaited &what) {
  Patience patience;
  u64 found;
  while ((found = loadAcquire(counter)) + credit < needed)
    if (!patience.lasts(b, what, needed - credit, found))
      return;
}

/// Everything before is done by all threads, and all know whether something has failed.
__device__ __forceinline__ void meet(Block &b) {
  syncBlock();
  b.failed = b.state.failed != 0;
}

/// The thread that does what one thread does for a channel: always the same one.
__device__ __forceinline__ bool isMine(const Channel &c) {
  return threadIndex() == (c.index & (threads - 1));
}
static_assert((CCL_THREADS & (CCL_THREADS - 1)) == 0, "threads of a block: a power of two");

__device__ __forceinline__ void advance(Block &b, const Channel &c) {
  ++c.end->next;
  if (c.index < sharedEnds)
    b.state.used[c.index] = 1;
}

//===----------------------------------------------------------------------===//
// Signals
//===----------------------------------------------------------------------===//

__device__ __forceinline__ void signalOne(Block &b, const Channel &c) {
  if (!isMine(c))
    return;
  storeRelease(c.end->depart, c.end->next + 1);
  advance(b, c);
}

/// Each peer may rely on everything before.
template <typename... C>
__device__ __forceinline__ void signal(Block &b, i64, const C &...channels) {
  if (b.failed)
    return;
  (signalOne(b, channels), ...);
}

__device__ __forceinline__ void waitOne(Block &b, i64 instruction, const Channel &c) {
  if (!isMine(c))
    return;
  waitFor(b, c.end->arrive, c.end->next + 1, 0, {instruction, c.end->peer, false, 0});
  advance(b, c);
}

/// For the signals of all of them.
template <typename... C>
__device__ __forceinline__ void wait(Block &b, i64 instruction, const C &...channels) {
  if (b.failed)
    return;
  (waitOne(b, instruction, channels), ...);
  meet(b);
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

struct alignas(16) Vector {
  u64 words[2];
};

/// What one operand is while elements are moved.
struct Stream {
  char *data;
  u64 flag; ///< of ll and ll128
};

constexpr u32 flagOf(u64 next) { return u32(next + 1) * 2 + 1; } // never that of fresh memory

/// `bytes` of elements, combined from left to right. As many values as fit, in registers.
template <typename Bits, int S>
__device__ __forceinline__ Bits combineBits(const Bits (&from)[S]) {
  if constexpr (S == 1) {
    return from[0];
  } else {
    constexpr int n = sizeof(Bits) / sizeof(typename E::Stored);
    union Parts {
      Bits bits;
      typename E::Stored elements[n > 0 ? n : 1];
      __device__ Parts() {}
    };
    typename E::Value values[n > 0 ? n : 1];
    Parts parts;
    parts.bits = from[0];
#pragma unroll
    for (int i = 0; i < n; ++i)
      values[i] = E::widen(parts.elements[i]);
#pragma unroll
    for (int s = 1; s < S; ++s) {
      parts.bits = from[s];
#pragma unroll
      for (int i = 0; i < n; ++i)
        values[i] = R::combine(values[i], E::widen(parts.elements[i]));
    }
#pragma unroll
    for (int i = 0; i < n; ++i)
      parts.elements[i] = E::narrow(values[i]);
    return parts.bits;
  }
}

/// Vectors of every source that a thread holds at once.
constexpr int unrollOf(int sources) {
  return sources == 1 ? 8 : sources == 2 ? 4 : sources <= 4 ? 2 : 1;
}

template <int U, typename Bits, int S, int D>
__device__ __forceinline__ void moveStep(const Stream (&from)[S], const Stream (&to)[D],
                                         const bool (&skip)[D], i64 at) {
  Bits loaded[U][S];
#pragma unroll
  for (int u = 0; u < U; ++u)
#pragma unroll
    for (int s = 0; s < S; ++s)
      loaded[u][s] = reinterpret_cast<const Bits *>(from[s].data)[at + u * threads];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const Bits result = combineBits<Bits, S>(loaded[u]);
#pragma unroll
    for (int d = 0; d < D; ++d)
      if (!skip[d])
        reinterpret_cast<Bits *>(to[d].data)[at + u * threads] = result;
  }
}

/// In memory on both sides: 16 bytes at a time where all operands have the same offset in that,
/// elements at both ends, never a byte outside.
template <int S, int D>
__device__ CCL_BODY void moveMemory(Stream (&from)[S], Stream (&to)[D], i64 n) {
  using Stored = typename E::Stored;
  bool skip[D];
  bool nothing = S == 1;
#pragma unroll
  for (int d = 0; d < D; ++d) {
    skip[d] = S == 1 && to[d].data == from[0].data;
    nothing &= skip[d];
  }
  if (nothing)
    return;
  const u64 offset = u64(from[0].data) % 16;
  bool alike = true;
#pragma unroll
  for (int s = 1; s < S; ++s)
    alike &= u64(from[s].data) % 16 == offset;
#pragma unroll
  for (int d = 0; d < D; ++d)
    alike &= u64(to[d].data) % 16 == offset;
  const i64 head = alike ? smaller(i64((16 - offset) % 16) / elementBytes, n) : n;
  for (i64 i = threadIndex(); i < head; i += threads)
    moveStep<1, Stored>(from, to, skip, i);
  if (head == n)
    return;
#pragma unroll
  for (int s = 0; s < S; ++s)
    from[s].data += head * elementBytes;
#pragma unroll
  for (int d = 0; d < D; ++d)
    to[d].data += head * elementBytes;
  constexpr int U = unrollOf(S), perVector = 16 / elementBytes;
  const i64 vectors = (n - head) / perVector;
  i64 v = threadIndex();
  if constexpr (U > 1)
    for (; v + (U - 1) * threads < vectors; v += U * threads)
      moveStep<U, Vector>(from, to, skip, v);
  for (; v < vectors; v += threads)
    moveStep<1, Vector>(from, to, skip, v);
  for (i64 i = vectors * perVector + threadIndex(); i < n - head; i += threads)
    moveStep<1, Stored>(from, to, skip, i);
}

/// Eight bytes of a row of `n` elements, as many as there are.
__device__ __forceinline__ u64 loadElements(const char *data, i64 unit, i64 n) {
  using Stored = typename E::Stored;
  constexpr int perUnit = 8 / elementBytes;
  const char *p = data + 8 * unit;
  if (u64(p) % 8 == 0 && (unit + 1) * perUnit <= n)
    return *reinterpret_cast<const u64 *>(p);
  union {
    u64 word;
    Stored elements[perUnit];
  } parts;
  parts.word = 0;
#pragma unroll
  for (int i = 0; i < perUnit; ++i)
    if (unit * perUnit + i < n)
      parts.elements[i] = reinterpret_cast<const Stored *>(p)[i];
  return parts.word;
}
__device__ __forceinline__ void storeElements(char *data, i64 unit, i64 n, u64 word) {
  using Stored = typename E::Stored;
  constexpr int perUnit = 8 / elementBytes;
  char *p = data + 8 * unit;
  if (u64(p) % 8 == 0 && (unit + 1) * perUnit <= n) {
    *reinterpret_cast<u64 *>(p) = word;
    return;
  }
  union {
    u64 word;
    Stored elements[perUnit];
  } parts;
  parts.word = word;
#pragma unroll
  for (int i = 0; i < perUnit; ++i)
    if (unit * perUnit + i < n)
      reinterpret_cast<Stored *>(p)[i] = parts.elements[i];
}

/// One of a transfer's operands at unit `unit` (eight bytes), for lane `lane` of an ll128 line.
/// Whether it was there.
template <Wire w>
__device__ __forceinline__ bool loadUnit(const Stream &from, i64 unit, i64 n, bool exists, i64 line,
                                         int lane, u64 &word) {
  if constexpr (w == Wire::LL128) {
    return loadWord(from.data + 128 * line, lane, from.flag, word);
  } else {
    if (!exists)
      return true;
    if constexpr (w == Wire::LL)
      return loadLine(from.data + 16 * unit, u32(from.flag), word);
    word = loadElements(from.data, unit, n);
    return true;
  }
}
template <Wire w>
__device__ __forceinline__ void storeUnit(const Stream &to, i64 unit, i64 n, bool exists, i64 line,
                                          int lane, u64 word) {
  if constexpr (w == Wire::LL128) {
    storeWord(to.data + 128 * line, lane, lane == 15 ? to.flag : word);
  } else {
    if (!exists)
      return;
    if constexpr (w == Wire::LL)
      storeLine(to.data + 16 * unit, word, u32(to.flag));
    else
      storeElements(to.data, unit, n, word);
  }
}

template <Wire... w>
struct Wires {
  static constexpr int size = sizeof...(w);
  static constexpr bool any128 = ((w == Wire::LL128) || ... || false);
  static constexpr bool plain = ((w == Wire::Memory || w == Wire::Simple) && ... && true);
};

template <Wire... w, int S>
__device__ __forceinline__ bool loadUnits(Wires<w...>, const Stream (&from)[S], i64 unit, i64 n,
                                          bool exists, i64 line, int lane, u64 (&words)[S]) {
  int s = 0;
  bool there = true;
  ((there &= loadUnit<w>(from[s], unit, n, exists, line, lane, words[s]), ++s), ...);
  return there;
}
template <Wire... w, int D>
__device__ __forceinline__ void storeUnits(Wires<w...>, const Stream (&to)[D], const bool (&skip)[D],
                                           i64 unit, i64 n, bool exists, i64 line, int lane,
                                           u64 word) {
  int d = 0;
  ((skip[d] ? void() : storeUnit<w>(to[d], unit, n, exists, line, lane, word), ++d), ...);
}

/// With flags in the data on some side: words of eight bytes, each when it is there.
template <typename From, typename To>
__device__ CCL_BODY void moveUnits(const Block &b, const Awaited &what,
                                   Stream (&from)[From::size], Stream (&to)[To::size], i64 n) {
  constexpr int S = From::size, D = To::size;
  constexpr bool lines = From::any128 || To::any128;
  bool skip[D];
#pragma unroll
  for (int d = 0; d < D; ++d)
    skip[d] = S == 1 && to[d].data == from[0].data;
  const i64 units = (n * elementBytes + 7) / 8;
  // Lanes of ll128 go through a line together, 15 words and the flag, whole warps at a time.
  const i64 end = lines ? ((units + 14) / 15 * 16 + 31) / 32 * 32 : units;
  for (i64 i = threadIndex(); i < end; i += threads) {
    const i64 line = i / 16;
    const int lane = int(i % 16);
    const i64 unit = lines ? line * 15 + lane : i;
    const bool inLine = !lines || line * 15 < units;
    const bool exists = unit < units && (!lines || lane < 15);
    u64 words[S] = {};
    Patience patience;
    while (true) {
      bool there = !inLine || loadUnits(From(), from, unit, n, exists, line, lane, words);
      if constexpr (lines)
        there = allOfWarp(there);
      if (there)
        break;
      const bool goesOn = patience.lasts(b, what, from[0].flag, 0);
      if (!(lines ? allOfWarp(goesOn) : goesOn))
        return;
    }
    if (inLine)
      storeUnits(To(), to, skip, unit, n, exists, line, lane, combineBits<u64, S>(words));
  }
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

/// Slice of the micro-batch of chunk k of a row.
__device__ __forceinline__ Shard slice(const Block &b, i64 k, int row) {
  const Launch &launch = b.launch;
  constexpr i64 chunks = CCL_CHUNKS;
  const i64 shard = k / chunks, c = k % chunks;
  Shard whole{shard * launch.count, launch.count};
  if (launch.shards)
    whole = launch.shards[row][shard];
  const i64 begin = c * whole.length / chunks;
  const i64 length = (c + 1) * whole.length / chunks - begin;
  i64 from = b.batch * length, to = from + length;
  if (launch.batchShift >= 0) {
    from >>= launch.batchShift;
    to >>= launch.batchShift;
  } else {
    from /= launch.microBatches;
    to /= launch.microBatches;
  }
  return {whole.start + begin + from, to - from};
}

__device__ __forceinline__ void acquire(Block &, i64, const Place &) {}
template <Wire w>
__device__ __forceinline__ void acquire(Block &b, i64 instruction, const Slot<w> &slot) {
  const ChannelEnd &end = *slot.channel.end;
  if (!isMine(slot.channel) || (w != Wire::Simple && !slot.to)) // data itself tells
    return;
  waitFor(b, end.arrive, end.next + 1, slot.to ? u64(end.numSlots) : 0,
          {instruction, end.peer, slot.to, end.numSlots});
}

__device__ __forceinline__ void publish(Block &, const Place &) {}
template <Wire w>
__device__ __forceinline__ void publish(Block &b, const Slot<w> &slot) {
  if (!isMine(slot.channel))
    return;
  if (w == Wire::Simple || !slot.to)
    storeRelease(slot.channel.end->depart, slot.channel.end->next + 1);
  advance(b, slot.channel);
}

__device__ __forceinline__ void locate(const Block &b, const Place &place, i64 j, Stream &stream,
                                       i64 &length, bool &isOwn) {
  const i64 chunk = place.chunk + j;
  stream.flag = 0;
  if (place.row < 0) {
    stream.data = place.base + chunk * b.launch.stride * elementBytes;
    return;
  }
  const Shard part = slice(b, chunk, place.row);
  stream.data = place.base + part.start * elementBytes;
  // Of an uneven launch a peer's row may be longer: this rank's own come first.
  if (length < 0 || (!isOwn && place.own)) {
    length = part.length;
    isOwn = place.own;
  }
}
template <Wire w>
__device__ __forceinline__ void locate(const Block &b, const Slot<w> &slot, i64 j, Stream &stream,
                                       i64 &, bool &) {
  const ChannelEnd &end = *slot.channel.end;
  const i64 bytes = j * b.launch.stride * elementBytes; // a multiple of 8 where j is not 0
  stream.data = end.slots + i64(end.next % u64(end.numSlots)) * end.slotPitch +
                (w == Wire::LL ? 2 * bytes : w == Wire::LL128 ? (bytes + 119) / 120 * 128 : bytes);
  stream.flag = w == Wire::LL ? flagOf(end.next) : end.next + 1;
}

__device__ __forceinline__ bool hasRow(const Place &place) { return place.row >= 0; }
template <Wire w>
__device__ __forceinline__ bool hasRow(const Slot<w> &) {
  return false;
}
__device__ __forceinline__ Awaited awaited(i64 instruction, const Place &) {
  return {instruction, -1, false, 0};
}
template <Wire w>
__device__ __forceinline__ Awaited awaited(i64 instruction, const Slot<w> &slot) {
  return {instruction, slot.channel.end->peer, slot.to, slot.channel.end->numSlots};
}

template <typename... F>
struct From {
  template <typename... T>
  struct To {
    static __device__ __forceinline__ void chunks(Block &b, i64 instruction, i64 j, i64 elements,
                                                  const F &...from, const T &...to) {
      Stream sources[sizeof...(F)], destinations[sizeof...(T)];
      i64 length = -1;
      bool isOwn = false;
      int at = 0;
      (locate(b, from, j, sources[at++], length, isOwn), ...);
      at = 0;
      (locate(b, to, j, destinations[at++], length, isOwn), ...);
      const i64 n = length < 0 ? elements : length;
      using Sources = Wires<F::wire...>;
      using Destinations = Wires<T::wire...>;
      if constexpr (Sources::plain && Destinations::plain) {
        moveMemory(sources, destinations, n);
      } else {
        Awaited what{instruction, -1, false, 0};
        ((F::wire == Wire::LL || F::wire == Wire::LL128 ? void(what = awaited(instruction, from))
                                                        : void()),
         ...);
        moveUnits<Sources, Destinations>(b, what, sources, destinations, n);
      }
    }

    /// Every destination becomes the combination of all sources, `count` adjacent chunks.
    static __device__ __forceinline__ void transfer(Block &b, i64 instruction, i64 count,
                                                    const F &...from, const T &...to) {
      if (b.failed)
        return;
      constexpr bool waits = ((F::wire != Wire::Memory) || ...) || ((T::wire != Wire::Memory) || ...);
      if constexpr (waits) {
        (acquire(b, instruction, from), ...);
        (acquire(b, instruction, to), ...);
        meet(b);
        if (b.failed)
          return;
      }
      if ((hasRow(from) || ...) || (hasRow(to) || ...))
        for (i64 j = 0; j < count; ++j)
          chunks(b, instruction, j, 0, from..., to...);
      else // equal strides: one piece
        chunks(b, instruction, 0, count * b.launch.stride, from..., to...);
      meet(b);
      if constexpr (waits) {
        if (b.failed)
          return;
        (publish(b, from), ...);
        (publish(b, to), ...);
      }
    }
  };
};

//===----------------------------------------------------------------------===//
// Beginning and end
//===----------------------------------------------------------------------===//

__device__ __forceinline__ void tellPeers(const Block &b, u64 *const *words, u64 value) {
  for (int p = threadIndex(); p < b.launch.ranks; p += threads)
    if (p != b.me)
      storeRelease(words[p], value);
}
__device__ __forceinline__ void hearPeers(const Block &b, const u64 *words, u64 value,
                                          i64 barrier) {
  for (int p = threadIndex(); p < b.launch.ranks; p += threads)
    if (p != b.me)
      waitFor(b, words + 16 * i64(p), value, 0, {barrier, p, false, 0});
}

/// Ends of channels into shared memory; peers' buffers may be touched when it returns.
__device__ inline void begin(Block &b, int barriers) {
  const Launch &launch = b.launch;
  ChannelEnd *ends = launch.ends + i64(b.instance) * launch.numEnds;
  if (launch.numEnds <= sharedEnds) {
    for (int e = threadIndex(); e < launch.numEnds; e += threads) {
      b.state.ends[e] = ends[e];
      b.state.used[e] = 0;
    }
    b.ends = b.state.ends;
  } else {
    b.ends = ends;
  }
  if (threadIndex() == 0)
    b.state.failed = 0;
  syncBlock();
  if (barriers & entryBarrier) {
    if (b.instance == 0 && b.agent == 0)
      tellPeers(b, launch.sync->peersEntered, u64(b.epoch) + 1);
    hearPeers(b, launch.sync->entered, u64(b.epoch) + 1, -1);
  }
  meet(b);
}

/// Between micro-batches of an instance: its agents wait for each other, and where the proof asks
/// for it for those of all ranks.
__device__ inline void nextBatch(Block &b, int barriers) {
  const Launch &launch = b.launch;
  b.batch += launch.instances;
  const bool all = barriers & batchBarrier;
  if (b.batch >= launch.microBatches || (launch.agents == 1 && !all))
    return;
  meet(b);
  if (!b.failed && threadIndex() == 0) {
    RankSync &sync = *launch.sync;
    u64 *generation = sync.generation + 16 * b.instance;
    const u64 old = loadAcquire(generation);
    if (addAcqRel(sync.joined + 32 * b.instance, 1) + 1 == u32(launch.agents)) {
      if (all) {
        u64 *turn = sync.turn + 16 * b.instance;
        const u64 mine = ++*turn;
        for (int p = 0; p < launch.ranks; ++p)
          if (p != b.me)
            storeRelease(sync.peersTurns[i64(b.instance) * launch.ranks + p], mine);
        for (int p = 0; p < launch.ranks; ++p)
          if (p != b.me)
            waitFor(b, sync.turns + 16 * (i64(b.instance) * launch.ranks + p), mine, 0,
                    {-2, p, false, 0});
      }
      storeRelaxed(sync.joined + 32 * b.instance, 0);
      storeRelease(generation, old + 1);
    } else {
      waitFor(b, generation, old + 1, 0, {-2, int(b.me), false, 0});
    }
  }
  meet(b);
}

/// What has been done is there for the next launch. The last block of a rank waits for the peers
/// that may still touch its memory, if the proof asks for that.
__device__ inline void end(Block &b, int barriers) {
  const Launch &launch = b.launch;
  RankSync &sync = *launch.sync;
  syncBlock();
  if (b.ends == b.state.ends)
    for (int e = threadIndex(); e < launch.numEnds; e += threads)
      if (b.state.used[e])
        launch.ends[i64(b.instance) * launch.numEnds + e].next = b.state.ends[e].next;
  __shared__ int last;
  syncBlock();
  if (threadIndex() == 0)
    last = addAcqRel(&sync.blocksDone, 1) + 1 == u32(launch.instances * launch.agents);
  syncBlock();
  if (!last)
    return;
  b.failed = b.state.failed != 0;
  if ((barriers & exitBarrier) && !b.failed) {
    tellPeers(b, sync.peersExited, u64(b.epoch) + 1);
    hearPeers(b, sync.exited, u64(b.epoch) + 1, -3);
    syncBlock();
  }
  if (threadIndex() == 0) {
    sync.blocksDone = 0;
    storeRelease(&sync.launches, u64(b.epoch) + 1);
  }
}

} // namespace ccl::cuda
