//===- Presets.h - Topologies by name ---------------------------------------------===//
//
// Two lists. *Presets* are machines: every number has a source, in docs/topologies.md. *Specs*
// are plain graphs with the names and numbers that published comparisons of synthesizers use;
// they have no latencies, PCI Express or NICs of their own.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/topology/Machine.h"

namespace ccl::topology {

struct Named {
  model::Topology topology;
  std::vector<std::string> notes; ///< what is not published, what is assumed
  bool hasBothRates = false;      ///< else the topology is the same for either
};

/// "dgx-h100:64", "tpu-v4:4x4x4", "unwb:64", "dgx1". Nothing, and no error, if no name of either
/// list stands before the colon; an error if what follows is not a size of it.
std::optional<Named> namedTopology(std::string_view name, Rates rates, std::string &error);
/// Whether a name of either list stands before the colon.
bool isTopologyName(std::string_view name);

/// A row of `ccl topo`'s list, and of the documentation.
struct TopologyName {
  std::string_view name, size, what;
};
std::vector<TopologyName> presetNames();
std::vector<TopologyName> specNames();

/// "8" or "4x4x4": positive numbers whose product is at most `most`.
std::optional<std::vector<int64_t>> parseSize(std::string_view text, size_t dimensions,
                                              int64_t most, std::string &error);

// The parts.
std::optional<model::Topology> makeSpec(std::string_view name, std::string_view size,
                                        std::string &error);
std::optional<Named> makePreset(std::string_view name, std::string_view size, Rates rates,
                                std::string &error);

} // namespace ccl::topology
