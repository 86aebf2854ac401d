//===- transfer.cuh - Transfers, of programs and of tables -------------------===//
#pragma once

#include "units.cuh"

namespace ccl::cuda {

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
  share.each(operands,
             [&](int i, Wire wire, const Operand &operand) { publish(wire, i >= S, operand); });
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

} // namespace ccl::cuda
