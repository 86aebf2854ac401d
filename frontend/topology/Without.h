//===- Without.h - A machine of which some is not to be used ------------------------===//
#pragma once

#include "dialect/model/Topology.h"

#include <string>
#include <vector>

namespace ccl::topology {

/// Takes out of `topology` what is named: `A-B`, all links between two nodes, in both directions;
/// `A`, a switch's links, or a rank, which then neither takes part nor forwards. Ranks are numbers,
/// those of the whole machine whatever else is taken out; the ones that are left are numbered
/// anew, in order. Axes stay where whole slices of them are left, else the ranks are one axis.
/// "", or what is wrong with a name; what is left may be apart (Topology::check).
std::string takeOut(model::Topology &topology, const std::vector<std::string> &names);

} // namespace ccl::topology
