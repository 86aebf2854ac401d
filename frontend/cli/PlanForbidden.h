//===- PlanForbidden.h - Links that a plan must not use -------------------------===//
#pragma once

#include "dialect/model/Topology.h"

#include <string>
#include <vector>

namespace ccl::cli {

/// Takes out of `topology` what is named: `A-B`, all links between two nodes, in both directions,
/// or `A`, all links of a switch. Ranks are numbers. "", or what is wrong with a name.
std::string forbid(model::Topology &topology, const std::vector<std::string> &names);

} // namespace ccl::cli
