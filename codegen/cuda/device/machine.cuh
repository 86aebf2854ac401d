//===- machine.cuh - Threads, memory and time of a GPU -----------------------===//
//
// shim.h has the same for a processor.
//===----------------------------------------------------------------------===//
#pragma once

namespace ccl::cuda {

using i64 = long long;
using u64 = unsigned long long;
using u32 = unsigned;
using u16 = unsigned short;
using u8 = unsigned char;

template <bool first, typename A, typename B>
struct Choice {
  using Type = A;
};
template <typename A, typename B>
struct Choice<false, A, B> {
  using Type = B;
};

struct alignas(16) Vector {
  u64 words[2];
};

#ifndef CCL_SHIM
__device__ __forceinline__ int threadIndex() { return int(threadIdx.x); }
__device__ __forceinline__ int threadCount() { return int(blockDim.x); }
__device__ __forceinline__ int blockIndex() { return int(blockIdx.x); }
__device__ __forceinline__ int blockCount() { return int(gridDim.x); }
__device__ __forceinline__ void syncBlock() { __syncthreads(); }
/// The same; whether `mine` holds for any thread.
__device__ __forceinline__ bool syncAny(bool mine) { return __syncthreads_or(mine) != 0; }

/// Of the threads of a warp that get here.
__device__ __forceinline__ void syncWarp() { __syncwarp(); }

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

// What operands are is not known to be in global memory from how it is found. The first `there` of
// some vectors that are `apart` bytes apart, one or more; zeros instead of others. What is asked
// for is no branch, and one instruction for the compiler, or it would take a tenth more of its
// time.
template <int apart>
__device__ __forceinline__ void loadSome(Vector (&x)[4], const char *p, int there) {
  asm volatile("{\n.reg .pred q, r, s;\n"
               "setp.gt.s32 q, %10, 1;\nsetp.gt.s32 r, %10, 2;\nsetp.gt.s32 s, %10, 3;\n"
               "mov.u64 %2, 0;\nmov.u64 %3, 0;\nmov.u64 %4, 0;\nmov.u64 %5, 0;\n"
               "mov.u64 %6, 0;\nmov.u64 %7, 0;\n"
               "ld.global.v2.u64 {%0, %1}, [%8];\n"
               "@q ld.global.v2.u64 {%2, %3}, [%8 + %9];\n"
               "@r ld.global.v2.u64 {%4, %5}, [%8 + 2 * %9];\n"
               "@s ld.global.v2.u64 {%6, %7}, [%8 + 3 * %9];\n}"
               : "=&l"(x[0].words[0]), "=&l"(x[0].words[1]), "=&l"(x[1].words[0]),
                 "=&l"(x[1].words[1]), "=&l"(x[2].words[0]), "=&l"(x[2].words[1]),
                 "=&l"(x[3].words[0]), "=&l"(x[3].words[1])
               : "l"(p), "n"(apart), "r"(there)
               : "memory");
}
template <int apart>
__device__ __forceinline__ void storeSome(char *p, const Vector (&x)[4], int there) {
  asm volatile("{\n.reg .pred q, r, s;\n"
               "setp.gt.s32 q, %10, 1;\nsetp.gt.s32 r, %10, 2;\nsetp.gt.s32 s, %10, 3;\n"
               "st.global.v2.u64 [%8], {%0, %1};\n"
               "@q st.global.v2.u64 [%8 + %9], {%2, %3};\n"
               "@r st.global.v2.u64 [%8 + 2 * %9], {%4, %5};\n"
               "@s st.global.v2.u64 [%8 + 3 * %9], {%6, %7};\n}" ::"l"(x[0].words[0]),
               "l"(x[0].words[1]), "l"(x[1].words[0]), "l"(x[1].words[1]), "l"(x[2].words[0]),
               "l"(x[2].words[1]), "l"(x[3].words[0]), "l"(x[3].words[1]), "l"(p), "n"(apart),
               "r"(there)
               : "memory");
}
template <int apart, int n>
__device__ __forceinline__ void loadSome(Vector (&x)[n], const char *p, int there) {
#pragma unroll
  for (int i = 0; i < n; ++i)
    asm volatile("{\n.reg .pred p;\n"
                 "setp.lt.s32 p, %4, %3;\n"
                 "mov.u64 %0, 0;\nmov.u64 %1, 0;\n"
                 "@p ld.global.v2.u64 {%0, %1}, [%2];\n}"
                 : "=&l"(x[i].words[0]), "=&l"(x[i].words[1])
                 : "l"(p + i * apart), "r"(there), "r"(i)
                 : "memory");
}
template <int apart, int n>
__device__ __forceinline__ void storeSome(char *p, const Vector (&x)[n], int there) {
#pragma unroll
  for (int i = 0; i < n; ++i)
    asm volatile("{\n.reg .pred p;\n"
                 "setp.lt.s32 p, %4, %3;\n"
                 "@p st.global.v2.u64 [%2], {%0, %1};\n}" ::"l"(x[i].words[0]),
                 "l"(x[i].words[1]), "l"(p + i * apart), "r"(there), "r"(i)
                 : "memory");
}

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
// A word of `lamport`, whose data themselves tell that they are there.
__device__ __forceinline__ u64 loadRelaxed(const u64 *p) {
  u64 value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
  return value;
}
__device__ __forceinline__ void storeRelaxed(u64 *p, u64 value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
}
__device__ __forceinline__ bool allOfWarp(bool mine) { return __all_sync(0xffffffffu, mine); }
#define CCL_EXPORT(kernel)
#else
template <int apart, int n>
inline void loadSome(Vector (&x)[n], const char *p, int there) {
  for (int i = 0; i < n; ++i)
    x[i] = i < there ? *reinterpret_cast<const Vector *>(p + i * apart) : Vector{};
}
template <int apart, int n>
inline void storeSome(char *p, const Vector (&x)[n], int there) {
  for (int i = 0; i < n && i < there; ++i)
    *reinterpret_cast<Vector *>(p + i * apart) = x[i];
}
#endif

constexpr int threads = CCL_THREADS;

} // namespace ccl::cuda
