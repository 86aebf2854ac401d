//===- Prices.h - What tests ask of every bound that prices prove ---------===//
#pragma once

#include "Networks.h"

#include "dialect/bound/Bound.h"

#include <doctest/doctest.h>

#include <utility>

namespace networks {

using ccl::model::BandwidthBound;
using ccl::model::BoundOptions;
using ccl::model::Fabric;

/// all_reduce's or all_to_all's, checked.
inline BandwidthBound priceBound(const Topology &t, ccl::model::Collective collective,
                                 bool symmetric = true, double gap = 0) {
  Fabric fabric = makeFabric(t);
  ccl::model::Orbits orbits = symmetric ? findOrbits(fabric, t) : trivialOrbits(fabric);
  BoundOptions options;
  options.gap = gap;
  BandwidthBound bound = collective == ccl::model::Collective::AllReduce
                             ? allReduceBound(fabric, orbits, options)
                             : allToAllBound(fabric, orbits, options);
  CHECK(verify(fabric, bound) == "");
  CHECK(bound.attained <= bound.algbw);
  return bound;
}

inline void refused(const Fabric &fabric, const BandwidthBound &bound, const char *why) {
  std::string error = verify(fabric, bound);
  CAPTURE(error);
  CHECK(error != "");
  CHECK(error.find(why) != std::string::npos);
}

/// What is wrong with any bound of this kind. `good` has symmetries.
inline void refusedWherever(const Fabric &fabric, const BandwidthBound &good) {
  REQUIRE(verify(fabric, good) == "");
  REQUIRE(!good.symmetries.empty());
  BandwidthBound bad = good;
  bad.algbw *= 1 - 1e-6;
  refused(fabric, bad, "the prices prove");
  bad = good;
  bad.prices.pop_back();
  refused(fabric, bad, "prices for");
  bad = good;
  std::swap(bad.symmetries[0][0], bad.symmetries[0].back());
  refused(fabric, bad, "symmetry");
  bad = good;
  bad.symmetries[0].pop_back();
  refused(fabric, bad, "symmetry");
  // Another fabric's.
  Fabric faster = fabric;
  for (ccl::model::Arc &arc : faster.arcs)
    arc.capacity *= 2;
  CHECK(verify(faster, good) != "");
}

} // namespace networks
