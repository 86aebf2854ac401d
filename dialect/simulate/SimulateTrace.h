//===- SimulateTrace.h - A simulation as a Chrome trace -------------------===//
#pragma once

#include "dialect/simulate/Simulate.h"

namespace ccl::model {

/// A timeline in the JSON form of Chrome's trace events (chrome://tracing, Perfetto), times in
/// microseconds: a process for each rank, a thread for each agent; links are the threads of one
/// more process, whose id is the number of ranks. Waits are slices of their own; an arrow goes from
/// who sent something to who waited for it. Needs a timeline, else there are no slices.
/// `program` and `topology` are those of the simulation.
std::string chromeTrace(const SimulateReport &report, const Program &program,
                        const Topology &topology);

/// "copy from rank 1", "reduce, send to rank 2", "wait for rank 3", ...: what an instruction does.
std::string describe(const RankProgram &rank, const Instruction &instruction);

} // namespace ccl::model
