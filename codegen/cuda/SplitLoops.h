//===- SplitLoops.h - Loops over peers, by what they do -------------------------===//
#pragma once

#include "dialect/Ccl.h"
#include "runtime/plan/Plan.h"

namespace ccl::cuda {

/// Loops that wait for a peer, move something between memories and signal it become loops that do
/// one of these each: then threads of a block wait for all peers at once, and signal all at once,
/// instead of one round trip after the other. Waiting earlier and signalling later can make ranks
/// wait for each other for ever (a ring is such a loop): the programs stay as they were unless the
/// result is proved in the forms that `plan` names. `algorithm` has the programs of all ranks.
void splitLoops(AlgorithmOp algorithm, const Plan &plan);

} // namespace ccl::cuda
