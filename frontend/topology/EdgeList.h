//===- EdgeList.h - Topologies as lists of links ------------------------------===//
//
//     N V E             ranks, nodes (ranks are 0 to N-1, switches N to V-1), links
//     src dst capacity  E times: one direction, GB/s
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Topology.h"
#include "frontend/interchange/Diagnostic.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccl::topology {

/// Empty lines, and what follows a `#`, are skipped. The links keep their order.
std::optional<model::Topology> readEdgeList(std::string_view text,
                                            std::vector<interchange::Diagnostic> &diagnostics);

/// Links sorted by their ends. Axes, names, latencies and shared resources are not in the format.
std::string printEdgeList(const model::Topology &topology);
/// What of a topology, that limits or times depend on, is lost so: "latencies, shared resources",
/// or "".
std::string lostInEdgeList(const model::Topology &topology);

} // namespace ccl::topology
