//===- Join.h - Several boxes on one network --------------------------------------===//
#pragma once

#include "frontend/topology/Machine.h"

namespace ccl::topology {

/// The network between boxes. All its switches only forward.
struct Network {
  enum class Kind : uint8_t {
    Rails,   ///< a switch for every NIC of a box: NIC i of all boxes is on switch i
    Planes,  ///< `planes` switches: NIC i of all boxes is on switch i mod planes
    FatTree, ///< leaves with `perLeaf` boxes each, and one core that never blocks
    Graph    ///< `graph`
  };
  Kind kind = Kind::Rails;
  int64_t planes = 1;
  int64_t perLeaf = 1;
  double oversubscription = 1; ///< a leaf's NICs together : its way up; at least 1
  /// Its "ranks" are the NICs of all boxes (box after box), or, if it has one for every box,
  /// the boxes; its links and switches are the network.
  model::Topology graph;
};

/// "rail", "switch" (one plane), "planes:2", "fat-tree:R" (R : 1 oversubscribed, one box
/// a leaf), "fat-tree:R/B" (B boxes a leaf). `error` says what is possible.
std::optional<Network> parseNetwork(std::string_view text, std::string &error);

/// `copies` boxes whose NICs the network joins. Axes: `node`, and those of the box. Every NIC
/// needs a bandwidth. Links to switches have the NIC's bandwidth and latency, up a fat tree
/// latency 0; links of a graph keep their own.
std::optional<model::Topology> joinNodes(const Box &box, int64_t copies, const Network &network,
                                         std::string &error);

} // namespace ccl::topology
