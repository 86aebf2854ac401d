//===- Programs.h - Random programs of several agents a rank -----------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"
#include "test/random/Algorithms.h"

namespace ccl::random {

struct ProgramOptions {
  /// What MSCCL XML can say: an agent sends to one rank and receives from one, on one
  /// channel; all data goes through slots; agents of one rank wait for each other.
  bool connections = false;
  /// Only what needs no slots: data is read from, or written into, a peer's memory.
  bool direct = false;
};

/// The moves of `algorithm`, shared out to agents at random; each move goes through slots, or
/// reads or writes a peer's memory. Agents wait for what they need and does not follow from
/// other waits. Gets on with one slot, because all agents keep to one order of the moves.
model::Program randomProgram(const Algorithm &algorithm, Dice &dice,
                             const ProgramOptions &options = {});

/// The same as what a file of another system holds, by the name of the algorithm.
interchange::Foreign randomForeign(const Algorithm &algorithm, Dice &dice,
                                   const ProgramOptions &options = {});

/// Changes something at random: leaves an instruction out, or a signal with its wait;
/// doubles, swaps or reverses instructions; changes a chunk or a count. It may still be
/// right afterwards.
void plantFault(model::Program &program, Dice &dice);

} // namespace ccl::random
