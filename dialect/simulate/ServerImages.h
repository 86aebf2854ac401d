//===- ServerImages.h - Where shifts of ranks take links -------------------===//
#pragma once

#include "dialect/simulate/Routes.h"

#include <optional>

namespace ccl::model {

/// What messages take turns at: wires and, numbered behind them, shared resources. For each
/// permutation of the ranks in `ranks`, where an automorphism of the topology that permutes them so
/// takes every server; it keeps bandwidths, latencies, what links share, and switches that copy or
/// combine. Nothing: one of them extends to none, or to none that is found.
std::optional<std::vector<std::vector<int32_t>>>
serverImages(const Topology &topology, const Routes &routes,
             const std::vector<std::vector<int32_t>> &ranks);

} // namespace ccl::model
