//===- places.cuh - What a program names, as data ------------------------------===//
//
// Most channels and operands of a program differ in a constant or two from each other, so they are
// rows of tables that threads look up, each its own, at once: code for each would take most of the
// time of a compilation. An index is made of the rank and of two values of the program, x and y.
//===----------------------------------------------------------------------===//
#pragma once

#include "block.cuh"

namespace ccl::cuda {

/// A sum of multiples and a constant; if there is a modulus, what remains of it, which is less
/// than 1 << 31 / modulus and not negative.
struct Index {
  int ofMe, ofX, ofY, plus, modulus;
  u32 inverse; ///< 1 << 31 / modulus, rounded up

  __device__ constexpr Index(int plus) : Index(0, 0, 0, plus, 0) {}
  __device__ constexpr Index(int ofMe, int ofX, int ofY, int plus, int modulus)
      : ofMe(ofMe), ofX(ofX), ofY(ofY), plus(plus), modulus(modulus), inverse(inverseOf(modulus)) {}
  static __device__ constexpr u32 inverseOf(int n) {
    return n == 0 ? 0 : ((1u << 31) - 1) / u32(n) + 1;
  }
};
constexpr Index me{1, 0, 0, 0, 0}, x{0, 1, 0, 0, 0}, y{0, 0, 1, 0, 0};

__device__ constexpr Index operator*(const Index &a, int k) {
  return {a.ofMe * k, a.ofX * k, a.ofY * k, a.plus * k, 0};
}
__device__ constexpr Index operator+(const Index &a, const Index &b) {
  return {a.ofMe + b.ofMe, a.ofX + b.ofX, a.ofY + b.ofY, a.plus + b.plus, 0};
}
__device__ constexpr Index operator-(const Index &a, const Index &b) { return a + b * -1; }
__device__ constexpr Index mod(const Index &a, int m) { return {a.ofMe, a.ofX, a.ofY, a.plus, m}; }

/// a / n by its inverse.
__device__ __forceinline__ u32 quotient(u32 a, u32 inverse) { return u32(u64(a) * inverse >> 31); }
__device__ __forceinline__ int valueOf(const Index &index, int x, int y) {
  const int sum = index.ofMe * rank() + index.ofX * x + index.ofY * y + index.plus;
  return sum - int(quotient(u32(sum), index.inverse)) * index.modulus;
}

/// A channel of a family, or for some x several.
struct alignas(16) Channels {
  int family;
  Index peer;
};

/// An operand: see Operand, whose `peer` is `kind` unless that is 0.
struct alignas(16) Site {
  int kind, buffer;
  Index chunk, peer;
};
/// Of a side of a transfer: a slot of a channel that has been named, a chunk of this rank's buffer
/// `b`, of another rank's, or the same one of all ranks; or one that has been put.
__device__ constexpr Site slot(int number, Wire wire) { return {-2, wire, number, 0}; }
__device__ constexpr Site at(int b, const Index &chunk) { return {-1, b, chunk, 0}; }
__device__ constexpr Site at(int b, const Index &chunk, const Index &rank) {
  return {0, b, chunk, rank};
}
__device__ constexpr Site atAll(int b, const Index &chunk) { return {-3, b, chunk, 0}; }

__device__ __forceinline__ Operand operandOf(const Site &from, int x, int y) {
  const Site site = from; // at once
  Operand operand{site.kind, site.buffer, valueOf(site.chunk, x, y)};
  if (slots && operand.peer == -2)
    operand.chunk = state.named[operand.chunk];
  if constexpr (peers) {
    const int peer = valueOf(site.peer, x, y);
    operand.peer = operand.peer == 0 ? peer : operand.peer;
  }
  return operand;
}

} // namespace ccl::cuda
