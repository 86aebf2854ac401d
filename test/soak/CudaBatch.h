//===- CudaBatch.h - Many launches on the stand-in for GPUs ----------------------===//
#pragma once

#include "test/soak/Batch.h"

namespace ccl::soak {

/// Compiles units for the same ranks, slots and devices and runs each with 1, 2 and 4 instances,
/// all counts, uneven ones where they exist, in place and not; micro-batches and graphs take
/// turns, from `number` on. All ranks of a communicator are in one process, apart from this one.
/// What is wrong is said in a line; after an error the rest of that program is left out.
void runCudaUnits(const std::vector<Unit> &units, int64_t number, Milliseconds timeout,
                  Tally &tally);

} // namespace ccl::soak
