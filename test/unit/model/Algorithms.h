// Algorithms and programs that the tests of dialect/model start from.
#pragma once

#include "dialect/model/Check.h"
#include "dialect/model/Symmetry.h"

#include <ostream>

namespace ccl::model {

Contract makeContract(Collective collective, int64_t ranks, int64_t chunks,
                      Reduction reduction = Reduction::None, int64_t root = 0);

/// A parallel step of moves starts with `step()`.
struct MovesBuilder {
  Moves moves;
  int32_t current = -1;

  /// A buffer's `loc` is 1000 + its number, a move's loc is its number.
  int32_t buffer(std::string name, Role role, int64_t chunks);
  void step() { ++current; }
  void copy(Place src, Place dst, int32_t count = 1) { add(MoveKind::Copy, src, dst, count); }
  void reduce(Place src, Place dst, int32_t count = 1) { add(MoveKind::Reduce, src, dst, count); }
  void add(MoveKind kind, Place src, Place dst, int32_t count);
};

/// All-reduce in one `inout` buffer of `ranks` chunks: 2 (ranks - 1) steps.
Moves ringAllReduce(int64_t ranks);
/// All-reduce in one chunk: a binomial tree to rank 0, and back.
Moves treeAllReduce(int64_t ranks);
/// All-reduce from `in` to `out`: every rank reads every other's input.
Moves oneShotAllReduce(int64_t ranks);
/// All-gather from `in` to `out` around the ring; `own`: with the copy of the own chunk.
Moves ringAllGather(int64_t ranks, bool own);

/// The ring all-reduce of all ranks as programs, `slots` slots a channel: one agent a
/// rank; fused (receive, reduce, send in one) or not.
Program ringProgram(int64_t ranks, int32_t slots, bool fused);

/// The programs of all ranks, written out.
Program unfold(const Program &rankZero, const Symmetry &symmetry);

Operand local(int32_t buffer, int64_t chunk);
Operand peer(int32_t rank, int32_t buffer, int64_t chunk);
Operand channel(int32_t index);
Instruction transfer(std::vector<Operand> from, std::vector<Operand> to, bool reduce = false,
                     int32_t count = 1);
Instruction signal(int32_t channel);
Instruction wait(int32_t channel);

inline std::ostream &operator<<(std::ostream &os, FaultKind kind) { return os << name(kind); }

} // namespace ccl::model
