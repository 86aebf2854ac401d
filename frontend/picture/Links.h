//===- Links.h - How busy links were, and which were alike ----------------===//
#pragma once

#include "dialect/simulate/Simulate.h"

#include <string>
#include <vector>

namespace ccl::picture {

/// Part of the time in which each link was at work, 0 to 1; 0 where the report says nothing.
std::vector<double> linkShares(const model::Topology &topology,
                               const model::SimulateReport &report);

/// Links that carried as many bytes for as long, between ends of the same kinds and equally wide.
struct LinkClass {
  int32_t link = 0; ///< one of them: the first for which there are services, else the first
  int64_t size = 1;
  model::LinkUse use;
};
/// The busiest first.
std::vector<LinkClass> linkClasses(const model::Topology &topology,
                                   const model::SimulateReport &report);

/// "rank 3 → nvswitch0".
std::string linkName(const model::Topology &topology, int32_t link);

} // namespace ccl::picture
