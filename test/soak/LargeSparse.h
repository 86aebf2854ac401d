//===- LargeSparse.h - A buffer that is larger than 32 bits ------------------------------===//
//
// The larger rows of a broadcast or an all_gather in place have this many bytes. Inputs are zero
// but for some marks, so that they take no memory; results take theirs, which is once for both
// ranks together.
//===----------------------------------------------------------------------===//
#pragma once

#include "test/soak/Batch.h"

namespace ccl::soak {

/// Two ranks, bytes as elements. What is wrong is said in a line.
void runSparse(const Unit &unit, Kind kind, int64_t bytes, Milliseconds timeout, Tally &tally);
/// The same on the stand-in for GPUs, where both rows take their memory.
void runSparseOnShim(const Unit &unit, int64_t bytes, Milliseconds timeout, Tally &tally);

} // namespace ccl::soak
