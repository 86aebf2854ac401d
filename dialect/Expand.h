//===- Expand.h - From IR to model/Moves and model/Program -----------------===//
//
// The only way from IR to the MLIR-free model. Loops are interpreted, never
// unrolled in the IR.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Ccl.h"
#include "dialect/model/Moves.h"
#include "dialect/model/Program.h"

namespace ccl {

/// Source locations by the index that the model carries (`loc` fields).
using LocationTable = std::vector<mlir::Location>;

/// The moves of a specialized algorithm without `apply` and `pipeline`, of all
/// ranks or of those that touch `rank`. An index outside the grids is left in the
/// move (rank or chunk -1): the checker reports it. Fails with a diagnostic if the
/// algorithm is not specialized or expands to more than `maxMoves`. `owners`, if not null, gets the
/// op of each move.
mlir::FailureOr<model::Moves> expand(AlgorithmOp algorithm, LocationTable &locations,
                                     std::optional<int64_t> rank = std::nullopt,
                                     uint64_t maxMoves = uint64_t(1) << 25,
                                     std::vector<mlir::Operation *> *owners = nullptr);

/// The programs of all ranks of `algorithm` in its module.
mlir::FailureOr<model::Program> expandPrograms(AlgorithmOp algorithm, LocationTable &locations);

/// One execution of a loop: it gave instructions [begin, end) of an agent.
struct LoopRun {
  mlir::affine::AffineForOp loop;
  int32_t agent, begin, end;
};
/// The program of one rank alone, which is rank 0 of the result. `loops`, if not null,
/// gets the loops that were executed, outer ones first.
mlir::FailureOr<model::Program> expandRank(ProgramOp program, int64_t rank,
                                           LocationTable &locations,
                                           std::vector<LoopRun> *loops = nullptr);

/// Calls `visit` for every instruction that `rank` executes, agents one after another
/// and each in order, until it returns false. Operands stand in the op's order; those of signals
/// and waits are the places that they guard: `from` what peers read, `to` what they have written.
mlir::LogicalResult
forEachInstruction(ProgramOp program, int64_t rank,
                   llvm::function_ref<bool(mlir::Operation *, const model::Instruction &)> visit);

} // namespace ccl
