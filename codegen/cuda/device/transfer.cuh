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
#ifdef CCL_FLAGS
  if (shape.kind & flagged) {
    const i64 sent = shape.kind & wholeSlots ? launched().stride : n;
    if constexpr ((wires & ll128) != 0)
      if (shape.kind & inLines)
        return moveFlagged<true, CCL_SOURCES>(n, sent, shape.sources, shape.operands);
    if constexpr ((wires & ~(simple | ll128)) != 0)
      return moveFlagged<false, CCL_SOURCES>(n, sent, shape.sources, shape.operands);
  }
#endif
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

template <int operands>
__device__ constexpr Rows rowsOf(int begin, int end, int step, int count) {
  constexpr int atOnce = CCL_OPERANDS / operands, all = threads < 64 ? 1 : threads / 32;
  const int n = (end - begin + step - 1) / step * count, some = n < atOnce ? n : atOnce;
#ifdef CCL_TMA // whose stages belong to the block
  const int teams = 1;
#else
  const int teams = some < 1 ? 1 : some < all ? some : all;
#endif
  return {step,
          n,
          count,
          Index::inverseOf(count),
          Index::inverseOf(operands),
          atOnce,
          (n + atOnce - 1) / atOnce,
          teams,
          all / teams,
          Index::inverseOf(all / teams)};
}

/// How many rows are moved at once: one for some warps each up to so many bytes.
__device__ __forceinline__ int teamsNow() {
  constexpr int vectorsEach = 4;
  const u64 length = state.streams[0].length;
  const u64 elements = length == untold ? u64(launched().stride) : length & ~ofPeer;
  return threads >= 64 && elements <= threads * vectorsEach * 16 / elementBytes
             ? state.moved.rows.teams
             : 1;
}

/// How many rows there are in a turn.
__device__ __forceinline__ int rowsAt(int turn) {
  const Rows &rows = state.moved.rows;
  if constexpr (!inRows)
    return 1;
  else if constexpr (!severalTurns)
    return rows.n;
  else
    return rows.n == 1 ? 1 : smaller(rows.n - turn * rows.atOnce, rows.atOnce);
}

/// By the first threads, for piece or batch `turn` of what is moved: operands are found, awaited
/// and located. Whether that failed.
__device__ __noinline__ int placeOperands(int turn) {
  int fails = 0;
  const Moved &moved = state.moved;
  const bool isOne = !inRows || moved.rows.n == 1;
  const int first = isOne ? 0 : turn * moved.rows.atOnce, rows = rowsAt(turn);
#pragma unroll 1
  for (u32 i = threadIndex(), n = rows * moved.operands; i < n; i += lanes) {
    Operand operand;
    if (!moved.sites) {
      operand = state.operands[i];
    } else {
      u32 site = i;
      int x = moved.x, piece = 0;
      if constexpr (inRows) {
        const u32 row = quotient(i, moved.rows.ofOperands), all = u32(first) + row,
                  iteration = quotient(all, moved.rows.ofIteration);
        site = i - row * u32(moved.operands);
        x += int(iteration) * moved.rows.step;
        if constexpr (severalTurns)
          piece = int(all) - int(iteration) * moved.rows.perIteration;
      }
      operand = operandOf(moved.sites[site], x, moved.y);
      operand.chunk += piece;
      if constexpr (slots)
        state.operands[i] = operand;
    }
    if constexpr (slots)
      if (turn == 0)
        fails |= !awaitOperand(operand, int(i) >= moved.sources);
    locate(state.streams[i], operand, isOne ? turn : 0);
  }
  return fails;
}

/// What `state.moved` tells: from `turn` on, only this one of rows that no table has. Whether it
/// failed. What is looked up there is so before the last
/// meeting of the block: the first thread may then go on to the next transfer.
__device__ __forceinline__ int moveAll(int turn) {
  const Moved &moved = state.moved;
  int fails = 0;
  bool goesOn;
#pragma unroll 1
  do {
    if (threadIndex() < lanes)
      fails = placeOperands(turn);
    if (syncAny(fails))
      return 1;
    Team team = wholeBlock();
    int row = 0, turns = 1;
    if constexpr (inRows) {
      turns = moved.rows.batches;
      if (teamsNow() > 1) {
        row = int(quotient(u32(team.thread) / 32, moved.rows.ofWarps));
        team.size = 32 * moved.rows.warps;
        team.thread -= row * team.size;
        if (row >= moved.rows.teams)
          row = moved.rows.n;
      }
    }
#pragma unroll 1
    for (; row < rowsAt(turn); row += inRows ? teamsNow() : 1) { // no register is kept for it
      if constexpr (inRows)
        team.first = row * moved.operands;
      const Together together = lookAtAll(team, moved.sources, moved.operands);
      i64 n = together.length;
      // Equal strides on all sides: adjacent chunks are one piece. With flags each has lines of
      // its own, as those that take it apart expect.
      const bool apart = n >= 0 || (flaggedWires && (moved.kind & flagged) != 0);
      if (n < 0)
        n = launched().stride;
      if constexpr (severalTurns) {
        if (apart)
          turns = larger(turns, moved.count);
        else
          n *= moved.count;
      }
      fails =
          !movePiece(team, n, together, {moved.sources, moved.operands, kinds ? moved.kind : 0});
      if constexpr (!inRows)
        break;
    }
    goesOn = severalTurns && ++turn < turns && (!inRows || moved.rows.n == 1 || moved.sites);
    if (syncAny(fails))
      return 1;
  } while (goesOn);
  if constexpr (slots)
    if (threadIndex() < lanes && (!inRows || moved.rows.n == 1))
#pragma unroll 1
      for (int i = threadIndex(); i < moved.operands; i += lanes)
        if (const Operand &operand = state.operands[i]; operand.peer == -2)
          advance(operand.chunk, operand.buffer == simple || i < moved.sources);
  syncWarp(); // another of its threads may use the channel next
  return 0;
}

__device__ __noinline__ int runTransfer(int failed, int instruction, int sources, int operands,
                                        int kind, int count, const Site *sites, int x, int y,
                                        const Rows *rows) {
  if (failed)
    return 1;
  reportAs(instruction);
  if (threadIndex() == 0) {
    state.moved.sources = sources;
    state.moved.operands = operands;
    if constexpr (kinds)
      state.moved.kind = kind;
    if constexpr (severalTurns)
      state.moved.count = count;
    state.moved.sites = sites;
    state.moved.x = x;
    state.moved.y = y;
    if constexpr (inRows)
      state.moved.rows = *rows;
  }
  syncWarp();
  return moveAll(sites ? 0 : x);
}

/// Every destination becomes the combination of all sources, `count` adjacent chunks. Operands are
/// so many sources, then the destinations.
template <int n>
static __device__ const Rows single = rowsOf<n>(0, 1, 1, 1);
template <int sources, int kind = 0, int n>
__device__ __forceinline__ void transfer(Block &b, int instruction, int count,
                                         const Site (&sites)[n], int x = 0, int y = 0) {
  b.failed = runTransfer(b.failed, instruction, sources, n, kind, count, sites, x, y, &single<n>);
}
/// The same of operands that no table has.
template <int sources, int kind = 0, typename... S>
__device__ __forceinline__ void transferOf(Block &b, int instruction, int count,
                                           const S &...sites) {
  if (threadIndex() == 0) {
    int next = 0;
    ((state.operands[next++] = operandOf(sites, 0, 0)), ...);
  }
  b.failed = runTransfer(b.failed, instruction, sources, sizeof...(S), kind, count, nullptr, 0, 0,
                         &single<sizeof...(S)>);
}
/// Those of a loop, in memory, for x = begin, ...: none touches what another one writes.
template <int sources, int n>
__device__ __forceinline__ void transferEach(Block &b, int instruction, int begin, const Rows &rows,
                                             const Site (&sites)[n], int y = 0) {
  b.failed = runTransfer(b.failed, instruction, sources, n, 0, 1, sites, begin, y, &rows);
}

/// Operands of one of several transfers: `first` and those behind it.
struct Row {
  int first, piece;

  template <typename... S>
  __device__ __forceinline__ void put(const S &...sites) const {
    int next = first;
    (put(next++, operandOf(sites, 0, 0)), ...);
  }

private:
  __device__ __forceinline__ void put(int i, Operand operand) const {
    operand.chunk += piece;
    state.operands[i] = operand;
  }
};
/// The same of operands that no table has: of(x, row) puts them.
template <int sources, int n, typename F>
__device__ __forceinline__ void transferEachOf(Block &b, int instruction, int begin,
                                               const Rows &rows, F of) {
#pragma unroll 1
  for (int batch = 0; batch < rows.batches && !b.failed; ++batch) {
    const int first = batch * rows.atOnce, some = smaller(rows.n - first, rows.atOnce);
    if (threadIndex() < lanes)
#pragma unroll 1
      for (int r = threadIndex(); r < some; r += lanes) {
        const int iteration = (first + r) / rows.perIteration;
        of(begin + iteration * rows.step, Row{r * n, first + r - iteration * rows.perIteration});
      }
    b.failed = runTransfer(b.failed, instruction, sources, n, 0, 1, nullptr, batch, 0, &rows);
  }
}

#ifdef CCL_TABLES
//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Operands of tables name the wire of a channel as those of programs do.
__device__ __forceinline__ void
tableTransfer(Block &b, int number, const TableInstruction &instruction, const Shape &shape) {
  reportAs(number);
  if (threadIndex() < lanes)
#pragma unroll 1
    for (int i = threadIndex(); i < shape.operands; i += lanes) {
      Operand &operand = state.operands[i];
      operand = launched().tables.operands[instruction.operands + i];
      if (operand.peer == -2)
        operand.chunk = launched().endOf[operand.chunk];
    }
  if (threadIndex() == 0)
    state.moved = {shape.sources, shape.operands, shape.kind, instruction.count, nullptr, 0, 0, {}};
  syncWarp();
  b.failed = moveAll(0);
}

/// A signal or a wait.
__device__ __forceinline__ void tableSignal(Block &b, int number,
                                            const TableInstruction &instruction) {
  const Operand &operand = launched().tables.operands[instruction.operands];
  const Channel channel{launched().endOf[operand.chunk]};
  bool fails = false;
  reportAs(number);
  if (threadIndex() == 0) {
    if (instruction.pattern == -1)
      advance(channel.end, true);
    else
      fails = !waitOne(channel.end);
  }
  if (instruction.pattern == -1)
    syncWarp(); // another of its threads may use the channel next
  else
    b.failed = syncAny(fails);
}

/// All instructions of this agent. What they are is looked up each time, so that no register is
/// kept for it.
__device__ __forceinline__ void runTable(Block &b, const Shape *shapes) {
#pragma unroll 1
  for (int number = 0; !b.failed; ++number) {
    const Tables &tables = launched().tables;
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
#endif

} // namespace ccl::cuda
