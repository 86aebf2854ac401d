//===- elements.cuh - Types of elements and what combines them ---------------===//
//
// 16- and 8-bit floats are combined in f32; results round to nearest even.
//===----------------------------------------------------------------------===//
#pragma once

#include "machine.cuh"

namespace ccl::cuda {

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

} // namespace ccl::cuda
