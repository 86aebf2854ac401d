//===- Bound.cpp - Bounds of each collective ------------------------------===//

#include "dialect/bound/Bound.h"

#include "dialect/bound/CutBound.h"
#include "dialect/bound/PriceProof.h"

namespace ccl::model {

std::optional<BandwidthBound> bandwidthBound(const Topology &topology, Collective collective,
                                             const BoundOptions &options) {
  bool cuts = hasCutBound(collective),
       prices = collective == Collective::AllReduce || collective == Collective::AllToAll;
  if (!cuts && !prices)
    return std::nullopt;
  if (hasRoot(collective) && (options.root < 0 || options.root >= topology.ranks()))
    return std::nullopt;
  Fabric fabric = makeFabric(topology);
  bool isOneFlow = collective == Collective::Scatter || collective == Collective::Gather;
  Orbits orbits = isOneFlow ? trivialOrbits(fabric) : findOrbits(fabric, topology);
  if (cuts)
    return cutBound(fabric, orbits, collective, options.root);
  if (collective == Collective::AllReduce)
    return allReduceBound(fabric, orbits, options);
  return allToAllBound(fabric, orbits, options);
}

std::string verify(const Fabric &fabric, const BandwidthBound &bound) {
  if (hasCutBound(bound.collective))
    return verifyCut(fabric, bound);
  return verifyPrices(fabric, bound);
}

} // namespace ccl::model
