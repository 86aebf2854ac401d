//===- transfer.cuh - Transfers, of programs and of tables --------------------===//
#pragma once

#include "bulk.cuh"
#include "multimem.cuh"
#include "units.cuh"

namespace ccl::cuda {

/// Of n elements, by all threads of `team`: of the block unless all is memory. Whether all data
/// came.
__device__ __forceinline__ bool movePiece(const Team &team, i64 n, const Together &together,
                                          const Shape &shape) {
  if constexpr ((wires & ~simple) != 0)
    if (shape.kind & flagged) {
      const i64 sent = shape.kind & wholeSlots ? state.launch->stride : n;
      if constexpr ((wires & ll128) != 0)
        if (shape.kind & inLines)
          return moveFlagged<true, CCL_SOURCES>(n, sent, shape.sources, shape.operands);
      if constexpr ((wires & ~(simple | ll128)) != 0)
        return moveFlagged<false, CCL_SOURCES>(n, sent, shape.sources, shape.operands);
    }
#ifdef CCL_MULTIMEM
  if (shape.kind & (allSources | allDestinations)) {
    moveThroughSwitch(n, together.aligned, shape.kind, shape.sources, shape.operands);
    return true;
  }
#endif
  if (together.moves)
    moveMemory(team, n, together.aligned, shape.sources, shape.operands);
  return true;
}

/// Of so many rows of operands. Long ones are moved by the whole block, one after the other; of
/// short ones the time is that of one access, so that each gets some warps.
__device__ __forceinline__ int teamsFor(int rows) {
#ifdef CCL_TMA // whose stages belong to the block
  return 1;
#else
  constexpr int warps = threads / 32, vectorsEach = 4;
  const i64 length = state.streams[0].length;
  const i64 bytes = (length < 0 ? state.launch->stride : length) * elementBytes;
  return warps < 2 || bytes > threads * vectorsEach * 16 ? 1 : smaller(rows, warps);
#endif
}

/// Of the operands in `state`, by whose first threads they have been put there: of one transfer, or
/// of `rows` at once that have nothing to do with each other, all in memory. Whether it failed.
__device__ __noinline__ bool transferOperands(int count, int sources, int operands, int kind,
                                              int rows) {
  bool fails = false;
  syncWarp();
  int pieces = count;
#pragma unroll 1
  for (int j = 0; j < pieces; ++j) {
    eachOperand(sources, inRows ? rows * operands : operands,
                [&](int i, const Operand &operand, bool to) {
                  if (j == 0)
                    fails |= !awaitOperand(operand, to);
                  state.streams[i] = locate(operand, j);
                });
    if (syncAny(fails))
      return true;
    Team team = wholeBlock();
    int row = 0, teams = 1;
    if constexpr (inRows) {
      teams = teamsFor(rows);
      if (teams > 1) {
        team.size = threads / 32 / teams * 32;
        row = team.thread / team.size;
        team.thread %= team.size;
        row = row < teams ? row : rows;
        team.streams += row * operands;
      }
    }
#pragma unroll 1
    while (!inRows || row < rows) {
      const i64 stride = state.launch->stride;
      const Together together = lookAtAll(team.streams, sources, operands);
      i64 n = together.length;
      if (n < 0) {
        // Equal strides on all sides: adjacent chunks are one piece. With flags each has lines of
        // its own, as those that take it apart expect.
        n = kind & flagged ? stride : i64(count) * stride;
        pieces = kind & flagged ? count : 1;
      }
      fails = !movePiece(team, n, together, {sources, operands, kind});
      if constexpr (!inRows)
        break;
      row += teams;
      team.streams += teams * operands;
    }
    if (j + 1 < pieces)
      syncBlock();
  }
  if (syncAny(fails))
    return true;
  if (!inRows || rows == 1)
    eachOperand(sources, operands, [&](int, const Operand &operand, bool to) {
      if (operand.peer == -2)
        advance(operand.chunk, operand.buffer == simple || !to);
    });
  syncWarp(); // another of its threads may use the channel next
  return false;
}

/// By one thread. A call, or registers would be kept for the constants in operands.
__device__ __noinline__ void setOperand(int i, int peer, int buffer, int chunk) {
  state.operands[i] = {peer, buffer, chunk};
}
__device__ __forceinline__ void setOperand(int i, const Operand &operand, int piece = 0) {
  setOperand(i, operand.peer, operand.buffer, operand.chunk + piece);
}

/// Every destination becomes the combination of all sources, `count` adjacent chunks. Operands are
/// so many sources, then the destinations.
template <int sources, int kind = 0, typename... O>
__device__ __forceinline__ void transfer(Block &b, int instruction, int count,
                                         const O &...operands) {
  static_assert(sizeof...(O) <= CCL_OPERANDS);
  if (b.failed)
    return;
  reportAs(instruction);
  if (threadIndex() == 0) {
    int next = 0;
    (setOperand(next++, operands), ...);
  }
  b.failed = transferOperands(count, sources, int(sizeof...(O)), kind, 1);
}

/// Operands of one of several transfers: `first` and those behind it.
struct Row {
  int first, piece;

  template <typename... O>
  __device__ __forceinline__ void put(const O &...operands) const {
    int next = first;
    (setOperand(next++, operands, piece), ...);
  }
};

/// The same of a loop's transfers, for i = begin, begin + step, ..., all in memory and such that
/// none touches what another one writes: of(i, row) puts `perRow` operands.
template <int sources, int perRow, typename F>
__device__ __forceinline__ void transferEach(Block &b, int instruction, int count, int begin,
                                             int end, int step, F of) {
  constexpr int atOnce = CCL_OPERANDS / perRow;
  const int rows = ceilDiv(end - begin, step) * count;
#pragma unroll 1
  for (int first = 0; first < rows && !b.failed; first += atOnce) {
    const int some = smaller(rows - first, atOnce);
    reportAs(instruction);
    if (threadIndex() < lanes)
#pragma unroll 1
      for (int r = threadIndex(); r < some; r += lanes)
        of(begin + (first + r) / count * step, Row{r * perRow, (first + r) % count});
    b.failed = transferOperands(1, sources, perRow, 0, some);
  }
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Operands of tables name the wire of a channel as those of programs do.
__device__ __forceinline__ void
tableTransfer(Block &b, int number, const TableInstruction &instruction, const Shape &shape) {
  reportAs(number);
  eachOperand(shape.sources, shape.operands, [&](int i, Operand &operand, bool) {
    operand = state.launch->tables.operands[instruction.operands + i];
    if (operand.peer == -2)
      operand.chunk = state.launch->endOf[operand.chunk];
  });
  b.failed = transferOperands(instruction.count, shape.sources, shape.operands, shape.kind, 1);
}

/// A signal or a wait.
__device__ __forceinline__ void tableSignal(Block &b, int number,
                                            const TableInstruction &instruction) {
  const Operand &operand = state.launch->tables.operands[instruction.operands];
  const Channel channel{state.launch->endOf[operand.chunk]};
  if (instruction.pattern == -1)
    signal(b, number, channel);
  else
    wait(b, number, channel);
}

/// All instructions of this agent. What they are is looked up each time, so that no register is
/// kept for it.
__device__ __forceinline__ void runTable(Block &b, const Shape *shapes) {
#pragma unroll 1
  for (int number = 0; !b.failed; ++number) {
    const Tables &tables = state.launch->tables;
    const TableAgent agent = tables.agents[state.here.agent];
    if (number >= agent.end - agent.begin)
      break;
    const TableInstruction instruction = tables.instructions[agent.begin + number];
    if (instruction.pattern < 0)
      tableSignal(b, number, instruction);
    else
      tableTransfer(b, number, instruction, shapes[instruction.pattern]);
  }
}

} // namespace ccl::cuda
