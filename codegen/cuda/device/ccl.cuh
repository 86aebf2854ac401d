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
//   CCL_ROLES     of each buffer a letter: "ios" for an input, an output, scratch
//   CCL_OPERANDS  most operands of a transfer
//   CCL_AGENTS    most agents of a rank
//   CCL_BARRIERS  Barriers that the proof asks for
//
// All threads of a block call everything here together, with equal arguments. After a failure
// (time-out, abort) every call returns at once, and the program runs to its end without effect.
//
// Code is small on purpose: a kernel compiles in a tenth of a second. What moves data is one
// function for every kind of transfer; what the operands of one need (waits, addresses) is done
// by one thread each, at once.
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
__device__ __forceinline__ int blockCount() { return int(gridDim.x); }
__device__ __forceinline__ void syncBlock() { __syncthreads(); }
/// The same; whether `mine` holds for any thread.
__device__ __forceinline__ bool syncAny(bool mine) { return __syncthreads_or(mine) != 0; }

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
struct Simple {
  using Stored = T;
  using Value = T;
  static __device__ __forceinline__ T widen(T x) { return x; }
  static __device__ __forceinline__ T narrow(T x) { return x; }
};
using I8 = Simple<signed char>;
using U8 = Simple<unsigned char>;
using I32 = Simple<int>;
using U32 = Simple<unsigned>;
using I64 = Simple<long long>;
using U64 = Simple<unsigned long long>;
using F32 = Simple<float>;
using F64 = Simple<double>;

#ifdef CCL_SHIM
inline float bitsToFloat(u32 bits) { return __builtin_bit_cast(float, bits); }
inline u32 floatToBits(float x) { return __builtin_bit_cast(u32, x); }
#else
__device__ __forceinline__ float bitsToFloat(u32 bits) { return __uint_as_float(bits); }
__device__ __forceinline__ u32 floatToBits(float x) { return __float_as_uint(x); }
#endif

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

/// What an element is as a number of its size.
template <i64 bytes>
struct BitsOf {
  using Type = u64;
};
template <>
struct BitsOf<1> {
  using Type = u8;
};
template <>
struct BitsOf<2> {
  using Type = u16;
};
template <>
struct BitsOf<4> {
  using Type = u32;
};
template <i64 bytes>
using Bits = typename BitsOf<bytes>::Type;

//===----------------------------------------------------------------------===//
// What a block knows
//===----------------------------------------------------------------------===//

/// How an operand's data lie, and how one sees that they are there.
enum Wire { memory, simple, ll, ll128 };

/// Ends that a block keeps in shared memory while it runs; more stay where they are.
constexpr int sharedEnds = 64;

/// What one operand is while elements are moved.
struct Stream {
  char *data;
  u64 flag;   ///< of ll and ll128
  i64 length; ///< elements, if a row of shards tells, else -1
  bool own;   ///< row of this rank
  int peer;   ///< of a channel
};

/// The same for all threads.
struct BlockState {
  const Launch *launch;
  bool copied; ///< the ends are in `copies`
  i64 me, batch, epoch;
  int instance, agent;
  Stream streams[CCL_OPERANDS > 0 ? CCL_OPERANDS : 1];
  ChannelEnd copies[sharedEnds];
  u8 used[sharedEnds];
  int last;
};
__shared__ BlockState state;

/// What a thread keeps of its own: equal in all threads of the block.
struct Block {
  bool failed;
};

struct Channel {
  int end; ///< see endAt
};

/// End e of this instance.
__device__ __forceinline__ ChannelEnd *const &sharedEnd(int e) {
  return state.launch->ends[i64(state.instance) * state.launch->numEnds + e];
}
__device__ __forceinline__ ChannelEnd &endAt(int e) {
  return state.copied ? state.copies[e] : *sharedEnd(e);
}

__device__ __forceinline__ Channel channel(int family, i64 peer) {
  return {state.launch->endOf[i64(family) * state.launch->ranks + peer]};
}
/// A slot of it.
__device__ __forceinline__ Operand slot(Channel c) { return {-2, 0, c.end}; }
/// A chunk of this rank's buffer `b`, and of another rank's.
__device__ __forceinline__ Operand at(int b, i64 chunk) { return {-1, b, chunk}; }
__device__ __forceinline__ Operand at(int b, i64 chunk, i64 rank) { return {int(rank), b, chunk}; }

/// a mod m, never negative; quotients rounded down and up. m and b are positive.
__device__ __forceinline__ int mod(int a, int m) {
  const int r = a % m;
  return r < 0 ? r + m : r;
}
__device__ __forceinline__ int floorDiv(int a, int b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
__device__ __forceinline__ int ceilDiv(int a, int b) { return -floorDiv(-a, b); }
__device__ __forceinline__ int smaller(int a, int b) { return a < b ? a : b; }
__device__ __forceinline__ int larger(int a, int b) { return a > b ? a : b; }
__device__ __forceinline__ i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

//===----------------------------------------------------------------------===//
// Waits
//===----------------------------------------------------------------------===//

/// What a wait waits for, for reports.
struct Awaited {
  i64 instruction;
  int peer;
  bool to;
  int numSlots;
};

/// Polls that are too many for a look at the clock each time.
constexpr int pollsBetweenLooks = 256;

/// Whether this is what `report` tells the host now: nobody has filled it before.
__device__ __noinline__ bool tellHost(FailureReport &report, const Awaited &what, u64 expected,
                                      u64 found) {
  if (exchangeHost(&report.claimed, 1) != 0)
    return false;
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
  return true;
}

/// Every so many polls of a wait: whether it is to go on. `began` is 0 at first.
__device__ __noinline__ bool look(u64 &began, const Awaited &what, u64 expected, u64 found) {
  relaxLong();
  Control &control = *state.launch->control;
  if (loadRelaxed(&control.abort) == 0) {
    const u64 now = nanoseconds();
    if (began == 0)
      began = now;
    if (state.launch->timeoutNs == 0 || i64(now - began) < state.launch->timeoutNs)
      return true;
    if (tellHost(control.failure, what, expected, found))
      storeRelaxed(&control.abort, 1);
  }
  // Whom other ranks wait for tells who is to blame.
  if (what.peer != state.me)
    tellHost(reinterpret_cast<FailureReport *>(&control + 1)[state.me], what, expected, found);
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

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Slice of the micro-batch of chunk k of a row.
__device__ __noinline__ Shard slice(i64 k, int row) {
  const Launch &launch = *state.launch;
  constexpr unsigned chunks = CCL_CHUNKS;
  const int shard = int(unsigned(k) / chunks), c = int(unsigned(k) % chunks);
  Shard whole{shard * launch.count, launch.count};
  if (launch.shards)
    whole = launch.shards[row][shard];
  const i64 begin = i64(u64(c * whole.length) / chunks);
  const i64 length = i64(u64((c + 1) * whole.length) / chunks) - begin;
  const i64 from = state.batch * length >> launch.batchShift;
  const i64 to = (state.batch + 1) * length >> launch.batchShift;
  return {whole.start + begin + from, to - from};
}

/// What never is in fresh memory, and differs between uses of a slot.
__device__ constexpr u32 flagOf(u64 next) { return u32(next + 1) * 2 + 1; }

/// Where chunk j of an operand lies.
__device__ __noinline__ Stream locate(Wire wire, Operand operand, i64 j) {
  const Launch &launch = *state.launch;
  const i64 bytes = launch.stride * elementBytes;
  if (operand.peer == -2) {
    const ChannelEnd &end = endAt(int(operand.chunk));
    const i64 start = wire == simple ? j * bytes
                      : wire == ll   ? (j * bytes + 7) / 8 * 16
                                     : (j * bytes + 119) / 120 * 128;
    return {end.slots + end.slot * end.slotPitch + start,
            wire == ll ? flagOf(end.next) : end.next + 1, -1, false, end.peer};
  }
  const BufferView &view = launch.buffers[operand.buffer];
  const i64 chunk = operand.chunk + j;
  const i64 rank = operand.peer < 0 ? state.me : operand.peer;
  char *base = operand.peer < 0 ? view.own : view.peers[rank] + view.offset;
  const char role = CCL_ROLES[operand.buffer];
  if (role == 's')
    return {base + state.instance * view.instancePitch + chunk * bytes, 0, -1, false, -1};
  const Shard part = slice(chunk, int(2 * rank + (role == 'o')));
  return {base + part.start * elementBytes, 0, part.length, rank == state.me, -1};
}

/// Operand i, by thread i: waits until it may be used, and finds it. Whether that failed.
__device__ __noinline__ bool prepare(i64 instruction, int i, Wire wire, bool to,
                                     Operand operand) {
  bool fails = false;
  // Data with flags tell by themselves that they are there.
  if (operand.peer == -2 && (wire == simple || to)) {
    const ChannelEnd &end = endAt(int(operand.chunk));
    fails = !waitFor(end.arrive, end.next + 1, to ? u64(end.numSlots) : 0,
                     {instruction, end.peer, to, end.numSlots});
  }
  state.streams[i] = locate(wire, operand, 0);
  return fails;
}
/// After it: the peer may go on.
__device__ __noinline__ void publish(Wire wire, bool to, Operand operand) {
  if (operand.peer != -2)
    return;
  ChannelEnd &end = endAt(int(operand.chunk));
  if (wire == simple || !to)
    storeRelease(end.depart, end.next + 1);
  advance(end, int(operand.chunk));
}

/// Elements of the transfer at hand: of a row of this rank if there is one (in an uneven launch
/// a peer's may be longer), else of a peer's, else `strided`.
__device__ __forceinline__ i64 lengthOf(int operands, i64 strided) {
  i64 length = -1;
#pragma unroll 1
  for (int i = 0; i < operands; ++i) {
    const Stream &stream = state.streams[i];
    if (stream.length < 0)
      continue;
    if (stream.own)
      return stream.length;
    if (length < 0)
      length = stream.length;
  }
  return length < 0 ? strided : length;
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

struct alignas(16) Vector {
  u64 words[2];
};

/// Elements of several sources, combined from left to right. As many as fit, in registers.
template <typename Bits, int S>
__device__ __forceinline__ Bits combineBits(const Bits (&from)[S]) {
  if constexpr (S == 1) {
    return from[0];
  } else {
    constexpr int n = sizeof(Bits) / sizeof(typename E::Stored);
    union Parts {
      Bits bits;
      typename E::Stored elements[n];
      __device__ Parts() {}
    };
    typename E::Value values[n];
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

/// Sources of a transfer that are held in registers; of more, one after the other is added.
constexpr int mostHeld = 8;

/// Vectors of every source that a thread holds at once.
__device__ constexpr int unrollOf(int sources) {
  return sources == 1 ? 4 : sources <= 3 ? 2 : 1;
}

/// Where the operands of a transfer lie, in registers.
template <int S, int D>
struct Places {
  const char *from[S];
  char *to[D]; ///< null: there is none, or it is the only source
};

/// The combination of many sources, at element or vector `at` behind `skipped` bytes.
template <typename Bits, int S>
__device__ __forceinline__ Bits combineMany(i64 skipped, i64 at) {
  auto load = [&](int s) {
    return reinterpret_cast<const Bits *>(state.streams[s].data + skipped)[at];
  };
  constexpr int n = sizeof(Bits) / sizeof(typename E::Stored);
  union Parts {
    Bits bits;
    typename E::Stored elements[n];
    __device__ Parts() {}
  };
  typename E::Value values[n];
  Parts parts;
  parts.bits = load(0);
#pragma unroll
  for (int i = 0; i < n; ++i)
    values[i] = E::widen(parts.elements[i]);
#pragma unroll 4
  for (int s = 1; s < S; ++s) {
    parts.bits = load(s);
#pragma unroll
    for (int i = 0; i < n; ++i)
      values[i] = R::combine(values[i], E::widen(parts.elements[i]));
  }
#pragma unroll
  for (int i = 0; i < n; ++i)
    parts.elements[i] = E::narrow(values[i]);
  return parts.bits;
}

template <typename Bits, int S>
__device__ __forceinline__ void moveOneOfMany(int destinations, i64 skipped, i64 at) {
  const Bits result = combineMany<Bits, S>(skipped, at);
#pragma unroll 1
  for (int d = S; d < S + destinations; ++d)
    if (S > 1 || state.streams[d].data != state.streams[0].data)
      reinterpret_cast<Bits *>(state.streams[d].data + skipped)[at] = result;
}

/// In memory on both sides, many operands.
template <int S>
__device__ __forceinline__ void moveMany(i64 n, int destinations) {
  using Stored = typename E::Stored;
  const u64 first = u64(state.streams[0].data);
  u64 differs = 0;
#pragma unroll 1
  for (int o = 1; o < S + destinations; ++o)
    differs |= u64(state.streams[o].data) ^ first;
  constexpr i64 perVector = 16 / elementBytes;
  const i64 head = differs % 16 == 0 ? smaller(i64(-first % 16) / elementBytes, n) : n;
  const i64 vectors = (n - head) / perVector, tail = n - vectors * perVector;
#pragma unroll 1
  for (i64 i = threadIndex(); i < tail; i += threads) // both ends
    moveOneOfMany<Stored, S>(destinations, 0, i < head ? i : i + vectors * perVector);
#pragma unroll 1
  for (i64 v = threadIndex(); v < vectors; v += threads)
    moveOneOfMany<Vector, S>(destinations, head * elementBytes, v);
}

template <int U, typename Bits, int S, int D>
__device__ __forceinline__ void moveSome(const Places<S, D> &places, i64 first, i64 end) {
  Bits loaded[U][S];
#pragma unroll
  for (int u = 0; u < U; ++u)
    if (first + u * threads < end)
#pragma unroll
      for (int s = 0; s < S; ++s)
        loaded[u][s] = reinterpret_cast<const Bits *>(places.from[s])[first + u * threads];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (first + u * threads >= end)
      return;
    const Bits result = combineBits<Bits, S>(loaded[u]);
#pragma unroll
    for (int d = 0; d < D; ++d)
      if (places.to[d])
        reinterpret_cast<Bits *>(places.to[d])[first + u * threads] = result;
  }
}

/// In memory on both sides: 16 bytes at a time where all operands have the same offset in that,
/// elements at both ends, never a byte outside.
template <int S, int D>
__device__ __forceinline__ void moveMemory(i64 n, int destinations) {
  using Stored = typename E::Stored;
  Places<S, D> places;
  u64 differs = 0;
  bool nothing = true;
#pragma unroll
  for (int s = 0; s < S; ++s) {
    places.from[s] = state.streams[s].data;
    differs |= u64(places.from[s]) ^ u64(places.from[0]);
  }
#pragma unroll
  for (int d = 0; d < D; ++d) {
    places.to[d] = d < destinations ? state.streams[S + d].data : nullptr;
    if (S == 1 && places.to[d] == places.from[0])
      places.to[d] = nullptr;
    if (!places.to[d])
      continue;
    nothing = false;
    differs |= u64(places.to[d]) ^ u64(places.from[0]);
  }
  if (nothing)
    return;
  const bool alike = differs % 16 == 0;
  constexpr i64 perVector = 16 / elementBytes;
  const i64 head =
      alike ? smaller(i64(-u64(places.from[0]) % 16) / elementBytes, n) : n;
  const i64 vectors = (n - head) / perVector, tail = n - vectors * perVector;
#pragma unroll 1
  for (i64 i = threadIndex(); i < tail; i += threads) { // both ends
    const i64 at = i < head ? i : i + vectors * perVector;
    moveSome<1, Stored>(places, at, at + 1);
  }
#pragma unroll
  for (int s = 0; s < S; ++s)
    places.from[s] += head * elementBytes;
#pragma unroll
  for (int d = 0; d < D; ++d)
    if (places.to[d])
      places.to[d] += head * elementBytes;
  constexpr int U = unrollOf(S);
#pragma unroll 1
  for (i64 v = threadIndex(); v < vectors; v += U * threads)
    moveSome<U, Vector>(places, v, vectors);
}

/// Eight bytes of a row of `n` elements, as many as there are.
__device__ __forceinline__ u64 loadElements(const char *data, i64 unit, i64 n) {
  constexpr int perUnit = 8 / elementBytes;
  const char *p = data + 8 * unit;
  if (u64(p) % 8 == 0 && (unit + 1) * perUnit <= n)
    return *reinterpret_cast<const u64 *>(p);
  u64 word = 0;
#pragma unroll 1
  for (int i = 0; i < perUnit && unit * perUnit + i < n; ++i)
    word |= u64(reinterpret_cast<const Bits<elementBytes> *>(p)[i]) << (8 * elementBytes * i);
  return word;
}
__device__ __forceinline__ void storeElements(char *data, i64 unit, i64 n, u64 word) {
  constexpr int perUnit = 8 / elementBytes;
  char *p = data + 8 * unit;
  if (u64(p) % 8 == 0 && (unit + 1) * perUnit <= n) {
    *reinterpret_cast<u64 *>(p) = word;
    return;
  }
#pragma unroll 1
  for (int i = 0; i < perUnit && unit * perUnit + i < n; ++i)
    reinterpret_cast<Bits<elementBytes> *>(p)[i] = Bits<elementBytes>(word >> (8 * elementBytes * i));
}

/// Unit `unit` (eight bytes) of operand s, for lane `lane` of an ll128 line. Whether it was there.
__device__ __forceinline__ bool loadUnit(Wire wire, const Stream &from, i64 unit, i64 n,
                                         bool exists, i64 line, int lane, u64 &word) {
  if (wire == ll128)
    return loadWord(from.data + 128 * line, lane, from.flag, word);
  if (!exists)
    return true;
  if (wire == ll)
    return loadLine(from.data + 16 * unit, u32(from.flag), word);
  word = loadElements(from.data, unit, n);
  return true;
}
__device__ __forceinline__ void storeUnit(Wire wire, const Stream &to, i64 unit, i64 n, bool exists,
                                          i64 line, int lane, u64 word) {
  if (wire == ll128)
    storeWord(to.data + 128 * line, lane, lane == 15 ? to.flag : word);
  else if (!exists)
    return;
  else if (wire == ll)
    storeLine(to.data + 16 * unit, word, u32(to.flag));
  else
    storeElements(to.data, unit, n, word);
}

template <Wire... w>
struct Wires {
  static constexpr int size = sizeof...(w);
  static __device__ __forceinline__ constexpr Wire at(int i) {
    const Wire all[] = {w...};
    return all[i];
  }
  static constexpr bool any128 = ((w == ll128) || ...);
  static constexpr bool flagged = ((w == ll || w == ll128) || ...);
};

/// With flags in the data on some side: words of eight bytes, each when it is there. `sent`
/// elements of a slot get flags, for who takes all that a slot of a chunk has. Whether some data
/// never came.
template <typename Sources, typename Destinations>
__device__ __forceinline__ bool moveUnits(i64 instruction, i64 n, i64 sent) {
  constexpr int S = Sources::size, D = Destinations::size;
  constexpr bool lines = Sources::any128 || Destinations::any128;
  const i64 units = (sent * elementBytes + 7) / 8;
  // Lanes of ll128 go through a line together, 15 words and the flag, whole warps at a time.
  const i64 end = lines ? ((units + 14) / 15 * 16 + 31) / 32 * 32 : units;
#pragma unroll 1
  for (i64 i = threadIndex(); i < end; i += threads) {
    const int lane = int(i % 16);
    const bool inLine = !lines || i / 16 * 15 < units;
    // Lanes behind the last line do what those of the first one do, without effect.
    const i64 line = inLine ? i / 16 : 0, unit = lines ? line * 15 + lane : i;
    const bool exists = unit < units && (!lines || lane < 15);
    u64 words[S], began = 0;
#pragma unroll 1
    for (int polls = 0;;) {
      bool there = true;
#pragma unroll
      for (int s = 0; s < S; ++s) {
        words[s] = 0;
        there &= loadUnit(Sources::at(s), state.streams[s], unit, n, exists, line, lane, words[s]);
      }
      if (lines ? allOfWarp(there) : there)
        break;
      relax();
      if (++polls < pollsBetweenLooks)
        continue;
      polls = 0;
      int awaited = 0;
#pragma unroll
      for (int s = 1; s < S; ++s)
        if (Sources::at(s) == ll || Sources::at(s) == ll128)
          awaited = s;
      const bool goesOn = look(began, {instruction, state.streams[awaited].peer, false, -1},
                               state.streams[awaited].flag, 0);
      if (!(lines ? allOfWarp(goesOn) : goesOn))
        return true;
    }
    if (!inLine)
      continue;
    const u64 result = combineBits<u64, S>(words);
#pragma unroll
    for (int d = 0; d < D; ++d)
      if (S > 1 || state.streams[S + d].data != state.streams[0].data)
        storeUnit(Destinations::at(d), state.streams[S + d], unit, n, exists, line, lane, result);
  }
  return false;
}

/// The operands of a transfer that a thread takes care of: thread i has operand i.
#ifndef CCL_SHIM
struct Share {
  Wire wire = memory;
  Operand operand;

  template <typename F>
  __device__ __forceinline__ void each(int operands, F use) const {
    if (threadIndex() < operands)
      use(threadIndex(), wire, operand);
  }
  __device__ __forceinline__ void take(int i, Wire w, const Operand &o) {
    if (threadIndex() == i) {
      wire = w;
      operand = o;
    }
  }
};
#else
struct Share { // the only thread has all
  Wire wires[CCL_OPERANDS];
  Operand all[CCL_OPERANDS];

  template <typename F>
  void each(int operands, F use) const {
    for (int i = 0; i < operands; ++i)
      use(i, wires[i], all[i]);
  }
  void take(int i, Wire w, const Operand &o) {
    wires[i] = w;
    all[i] = o;
  }
};
#endif

/// Whether the transfer failed.
template <typename Sources, typename Destinations>
__device__ __noinline__ bool transferAs(i64 instruction, i64 count, int operands, Share share) {
  constexpr int S = Sources::size, D = Destinations::size;
  bool fails = false;
  share.each(operands, [&](int i, Wire wire, const Operand &operand) {
    fails |= prepare(instruction, i, wire, i >= S, operand);
  });
  if (syncAny(fails))
    return true;
  // Equal strides on all sides: adjacent chunks are one piece. With flags each has lines of its
  // own, as those that take it apart expect.
  constexpr bool flagged = Sources::flagged || Destinations::flagged;
  const i64 stride = state.launch->stride;
  i64 n = lengthOf(operands, -1);
  const bool rows = n >= 0;
  const i64 pieces = rows || flagged ? count : 1;
  if (!rows)
    n = flagged ? stride : count * stride;
#pragma unroll 1
  for (i64 j = 0;;) {
    if constexpr (flagged) {
      fails = moveUnits<Sources, Destinations>(instruction, n, Destinations::flagged ? stride : n);
    } else {
      if constexpr (S > mostHeld || D > mostHeld)
        moveMany<S>(n, operands - S);
      else
        moveMemory<S, D>(n, operands - S);
    }
    if (syncAny(fails))
      return true;
    if (++j == pieces)
      break;
    share.each(operands, [&](int i, Wire wire, const Operand &operand) {
      state.streams[i] = locate(wire, operand, j);
    });
    syncBlock();
    if (rows)
      n = lengthOf(operands, 0);
  }
  share.each(operands, [&](int i, Wire wire, const Operand &operand) {
    publish(wire, i >= S, operand);
  });
  syncBlock(); // another thread may use the channel next
  return false;
}

/// Sides without flags differ by the number of their operands only, and destinations may be
/// fewer than their code has: one function does for many.
template <int n>
struct Unflagged {
  static constexpr int size = n;
  static constexpr bool any128 = false, flagged = false;
};
__device__ constexpr int roundedUp(int n) { return n <= 2 ? 2 : n <= mostHeld ? mostHeld : 0x7fff; }
template <typename Sources, typename Destinations>
__device__ __forceinline__ bool transferOf(i64 instruction, i64 count, const Share &share) {
  constexpr int S = Sources::size, D = Destinations::size;
  static_assert(S + D <= CCL_OPERANDS);
  if constexpr (Sources::flagged || Destinations::flagged)
    return transferAs<Sources, Destinations>(instruction, count, S + D, share);
  else
    return transferAs<Unflagged<S>, Unflagged<roundedUp(D)>>(instruction, count, S + D, share);
}

/// Every destination becomes the combination of all sources, `count` adjacent chunks.
template <typename Sources, typename Destinations>
__device__ __forceinline__ void transfer(Block &b, i64 instruction, i64 count,
                                         const Operand (&from)[Sources::size],
                                         const Operand (&to)[Destinations::size]) {
  if (b.failed)
    return;
  constexpr int S = Sources::size, D = Destinations::size;
  Share share;
#pragma unroll
  for (int i = 0; i < S + D; ++i)
    share.take(i, i < S ? Sources::at(i) : Destinations::at(i - S), i < S ? from[i] : to[i - S]);
  b.failed = transferOf<Sources, Destinations>(instruction, count, share);
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

template <typename Sources, typename Destinations>
__device__ __forceinline__ void tableTransfer(Block &b, i64 number,
                                              const TableInstruction &instruction) {
  constexpr int S = Sources::size, D = Destinations::size;
  Share share;
#pragma unroll 1
  for (int i = threadIndex(); i < S + D; i += threads) {
    Operand operand = state.launch->tables.operands[instruction.operands + i];
    if (operand.peer == -2)
      operand.chunk = state.launch->endOf[operand.chunk];
    share.take(i, i < S ? Sources::at(i) : Destinations::at(i - S), operand);
  }
  b.failed = transferOf<Sources, Destinations>(number, instruction.count, share);
}

/// A signal or a wait.
__device__ __forceinline__ void tableSignal(Block &b, i64 number,
                                            const TableInstruction &instruction) {
  const Operand &operand = state.launch->tables.operands[instruction.operands];
  const Channel channel{state.launch->endOf[operand.chunk]};
  if (instruction.pattern == -1)
    signal(b, number, channel);
  else
    wait(b, number, channel);
}

//===----------------------------------------------------------------------===//
// Average
//===----------------------------------------------------------------------===//

/// to[i] = from[i] / ranks, for n elements; integers are truncated.
__device__ __forceinline__ void divideAll(void *to, const void *from, i64 n, i64 ranks) {
  using Stored = typename E::Stored;
  using Value = typename E::Value;
#pragma unroll 1
  for (i64 i = i64(blockIndex()) * threads + threadIndex(); i < n; i += i64(blockCount()) * threads) {
    const Value x = E::widen(static_cast<const Stored *>(from)[i]);
    Value result;
    if constexpr (Value(0.5) != Value(0))
      result = x / Value(ranks);
    else if constexpr (Value(-1) < Value(0))
      result = Value(i64(x) / ranks);
    else
      result = Value(u64(x) / u64(ranks));
    static_cast<Stored *>(to)[i] = E::narrow(result);
  }
}

//===----------------------------------------------------------------------===//
// Beginning and end
//===----------------------------------------------------------------------===//

/// The k-th meeting of all ranks at a barrier: `words` are this rank's at the others.
__device__ __noinline__ void tellPeers(u64 *const *words, u64 k) {
  const Launch &launch = *state.launch;
#pragma unroll 1
  for (int p = threadIndex(); p < launch.ranks; p += threads)
    if (p != state.me)
      storeRelease(words[p], k);
}
__device__ __noinline__ bool hearPeers(const u64 *words, u64 k, i64 barrier) {
  const Launch &launch = *state.launch;
  bool fails = false;
#pragma unroll 1
  for (int p = threadIndex(); p < launch.ranks; p += threads)
    if (p != state.me)
      fails |= !waitFor(words + 16 * i64(p), k, 0, {barrier, p, false, 0});
  return syncAny(fails);
}

/// Whether this block has something to do. Peers' buffers may be touched when it returns. A grid
/// is that of `one` rank, or that of `all`.
__device__ __noinline__ bool begin(Block &b, const Launch &one, const Launch *all,
                                   int blocksPerRank) {
  int block = blockIndex();
  if (all) {
    all += block / blocksPerRank;
    block %= blocksPerRank;
  }
  const Launch &launch = all ? *all : one;
  if (block >= launch.instances * launch.agents)
    return false;
  if (threadIndex() == 0) {
    state.launch = &launch;
    state.me = launch.me;
    state.instance = block / launch.agents;
    state.agent = block % launch.agents;
    state.batch = state.instance;
    state.epoch = i64(loadAcquire(&launch.sync->launches));
  }
  syncBlock();
  const bool copied = launch.numEnds <= sharedEnds;
  if (copied)
#pragma unroll 1
    for (int e = threadIndex(); e < launch.numEnds; e += threads) {
      state.copies[e] = *sharedEnd(e);
      state.used[e] = 0;
    }
  if (threadIndex() == 0)
    state.copied = copied;
  b.failed = false;
  if constexpr ((CCL_BARRIERS & entryBarrier) != 0) {
    if (block == 0)
      tellPeers(launch.sync->peersEntered, u64(state.epoch) + 1);
    b.failed = hearPeers(launch.sync->entered, u64(state.epoch) + 1, -1);
  }
  syncBlock();
  return true;
}

/// By one thread: all agents of an instance have come; if `all`, those of every rank.
__device__ __noinline__ bool meetAgents(bool all) {
  const Launch &launch = *state.launch;
  RankSync &sync = *launch.sync;
  u64 *generation = sync.generation + 16 * state.instance;
  const u64 old = loadAcquire(generation);
  if (addAcqRel(sync.joined + 32 * state.instance, 1) + 1 != u32(launch.agents))
    return waitFor(generation, old + 1, 0, {-2, int(state.me), false, 0});
  if (all) {
    const u64 turn = ++sync.turn[16 * state.instance];
    const i64 row = i64(state.instance) * launch.ranks;
#pragma unroll 1
    for (int p = 0; p < launch.ranks; ++p)
      if (p != state.me)
        storeRelease(sync.peersTurns[row + p], turn);
#pragma unroll 1
    for (int p = 0; p < launch.ranks; ++p)
      if (p != state.me &&
          !waitFor(sync.turns + 16 * (row + p), turn, 0, {-2, p, false, 0}))
        return false;
  }
  storeRelaxed(sync.joined + 32 * state.instance, 0);
  storeRelease(generation, old + 1);
  return true;
}

/// Whether there is a micro-batch more for this instance. Its agents wait for each other first,
/// and where the proof asks for it for those of all ranks.
__device__ __noinline__ bool nextBatch(Block &b) {
  const Launch &launch = *state.launch;
  constexpr bool all = CCL_BARRIERS & batchBarrier;
  const bool more = state.batch + launch.instances < launch.microBatches && !b.failed;
  syncBlock();
  if (threadIndex() == 0)
    state.batch += launch.instances;
  if constexpr (all || CCL_AGENTS > 1) {
    bool fails = false;
    if (more && threadIndex() == 0)
      fails = !meetAgents(all);
    b.failed |= syncAny(fails);
  } else {
    syncBlock();
  }
  return more && !b.failed;
}

/// What has been done is there for the next launch. The last block of a rank waits for the peers
/// that may still touch its memory, if the proof asks for that.
__device__ __noinline__ void end(Block &b) {
  const Launch &launch = *state.launch;
  RankSync &sync = *launch.sync;
  syncBlock();
  if (state.copied)
#pragma unroll 1
    for (int e = threadIndex(); e < launch.numEnds; e += threads)
      if (state.used[e]) {
        ChannelEnd &end = *sharedEnd(e);
        end.next = state.copies[e].next;
        end.slot = state.copies[e].slot;
      }
  syncBlock();
  if (threadIndex() == 0)
    state.last = addAcqRel(&sync.blocksDone, 1) + 1 == u32(launch.instances * launch.agents);
  syncBlock();
  if (!state.last)
    return;
  if constexpr ((CCL_BARRIERS & exitBarrier) != 0)
    if (!b.failed) {
      tellPeers(sync.peersExited, u64(state.epoch) + 1);
      hearPeers(sync.exited, u64(state.epoch) + 1, -3);
    }
  if (threadIndex() == 0) {
    storeRelaxed(&sync.blocksDone, 0);
    storeRelease(&sync.launches, u64(state.epoch) + 1);
  }
}

} // namespace ccl::cuda
