//===- Pairwise.h - A sample that has every pair -------------------------------===//
#pragma once

#include "test/soak/Units.h"

namespace ccl::soak {

struct Sample {
  std::vector<Unit> units;
  int64_t pairs = 0, covered = 0; ///< that can be had at all; that are in `units`
};

/// At most `size` units (0: as many as it takes), among which as many pairs of values of
/// (algorithm, type, reduction, ranks, way of the data, slot size, protocol, devices) occur as a
/// greedy search finds room for. The same for the same seed.
Sample samplePairwise(int64_t size, uint64_t seed, const UnitFilter &filter);

} // namespace ccl::soak
