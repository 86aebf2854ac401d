//===- Stuck.h - Whether programs wait for each other for ever ---------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {

/// Whether the programs of all ranks would get stuck with the slots that they have. Only tokens are
/// counted; on one rank, if all do the same, shifted. Of other large programs, and of those of some
/// ranks only, nothing is said: the proof that follows lowering decides.
bool getStuck(AlgorithmOp algorithm, const model::Contract &contract);

} // namespace ccl
