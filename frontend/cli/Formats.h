//===- Formats.h - Element types as C++ that computes -----------------------===//
//
// How the reference of `ccl run` computes with an element type and stores it. Nothing here
// is shared with the code generator, which it judges.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace ccl::cli {

/// A type that C++ has.
template <typename T>
struct Native {
  using Stored = T;
  using Number = T;
  static constexpr int digits = std::numeric_limits<T>::digits; ///< of exact integers
  static constexpr bool isInteger = std::numeric_limits<T>::is_integer;
  static T store(T number) { return number; }
};

/// A float of 16 or 8 bits, computed in f32. Without infinities the code that only has ones
/// is NaN, and the largest exponent is an ordinary one (E4M3FN).
template <typename Bits, int exponentBits, int mantissaBits, bool hasInfinity>
struct SmallFloat {
  using Stored = Bits;
  using Number = float;
  static constexpr int digits = mantissaBits + 1;
  static constexpr bool isInteger = false;

  /// Rounds to nearest even. Too large: infinity, or NaN where there is none.
  static Bits store(float number) {
    constexpr int bias = (1 << (exponentBits - 1)) - 1;
    constexpr uint32_t ones = (uint32_t(1) << (exponentBits + mantissaBits)) - 1;
    constexpr uint32_t infinity = ones - ((1u << mantissaBits) - 1);
    const uint32_t bits = std::bit_cast<uint32_t>(number), magnitude = bits & 0x7fffffff;
    uint32_t code = ones; // NaN
    if (magnitude <= 0x7f800000) {
      int exponent = int(magnitude >> 23) - 127;
      uint32_t significand = magnitude & 0x7fffff;
      if (exponent == -127)
        exponent = -126;
      else
        significand |= 0x800000;
      // The number is significand * 2^(exponent - 23), in units of the last place there are
      // significand / 2^shift of them.
      const int base = std::max(exponent, 1 - bias);
      const int shift = std::min(23 - mantissaBits + base - exponent, 31);
      uint32_t units = significand >> shift;
      const uint32_t rest = significand & ((uint32_t(1) << shift) - 1), tie = 1u << (shift - 1);
      units += rest > tie || (rest == tie && (units & 1));
      code = (uint32_t(base + bias - 1) << mantissaBits) + units;
      code = std::min(code, hasInfinity ? infinity : ones);
    }
    return Bits(code | (bits >> 31) << (exponentBits + mantissaBits));
  }
};

/// Calls body(format) with the format of a type. What is only copied (`reduces` is false) may
/// be any bits.
template <typename Body>
void withFormat(ElementType type, bool reduces, Body body) {
  switch (type) {
  case ElementType::I8: return body(Native<int8_t>());
  case ElementType::U8: return body(Native<uint8_t>());
  case ElementType::I32: return body(Native<int32_t>());
  case ElementType::U32: return body(Native<uint32_t>());
  case ElementType::I64: return body(Native<int64_t>());
  case ElementType::U64: return body(Native<uint64_t>());
  case ElementType::F32: return body(Native<float>());
  case ElementType::F64: return body(Native<double>());
  case ElementType::F16:
    return reduces ? body(SmallFloat<uint16_t, 5, 10, true>()) : body(Native<uint16_t>());
  case ElementType::BF16:
    return reduces ? body(SmallFloat<uint16_t, 8, 7, true>()) : body(Native<uint16_t>());
  case ElementType::F8E4M3:
    return reduces ? body(SmallFloat<uint8_t, 4, 3, false>()) : body(Native<uint8_t>());
  case ElementType::F8E5M2:
    return reduces ? body(SmallFloat<uint8_t, 5, 2, true>()) : body(Native<uint8_t>());
  }
}

} // namespace ccl::cli
