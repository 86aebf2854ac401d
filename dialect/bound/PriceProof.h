//===- PriceProof.h - What prices of arcs prove ---------------------------===//
//
// Both all_to_all and all_reduce are bounded by a solution of the dual of a linear program. The
// solver's numbers are rounded to integers and then taken as they are: any integers prove a bound,
// and these sums are exact. See BandwidthBound for what is proved of what.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Bound.h"

#include <span>

namespace ccl::model {

/// The orbits of the group that `generators` make; each is checked to be an automorphism. "" or
/// what is wrong.
std::string orbitsOf(const Fabric &fabric, const std::vector<std::vector<int32_t>> &generators,
                     Orbits &orbits);

/// Whether a pair of trees may meet at `node`: at a rank, or at a switch that reduces and
/// multicasts, which may have the sum before any rank does.
bool canBeRoot(const Fabric &fabric, int32_t node);

/// `weights`, which are not negative, times a factor and rounded: exactly proportional where they
/// are (within a millionth) small fractions of the largest, else or if `fine` with 40 digits of
/// two. What is small may be a fraction by chance only: compare what both prove.
std::vector<double> integersLike(std::span<const double> weights, bool fine = false);

/// The least algbw that `prices` (integers, by arc) prove of all_to_all, with capacities as they
/// are: without Fabric::unit. Infinity if they prove nothing. `flows` counts shortest ways.
double allToAllLimit(const Fabric &fabric, const Orbits &orbits, std::span<const double> prices,
                     int64_t *flows = nullptr);

/// The same for all_reduce, from `bound`'s cuts and potentials; `prices` becomes what follows from
/// these, by arc. `error` says what is wrong with them.
double allReduceLimit(const Fabric &fabric, const Orbits &orbits, const BandwidthBound &bound,
                      std::vector<double> &prices, std::string &error);

/// Writes what is proved, and attained in the fabric, to `bound`: both with capacities as they are.
void settle(const Fabric &fabric, double limit, double attained, BandwidthBound &bound);

/// `verify` for all_reduce and all_to_all.
std::string verifyPrices(const Fabric &fabric, const BandwidthBound &bound);

} // namespace ccl::model
