//===- Networks.h - Topologies that tests and benchmarks bound ------------===//
//
// Written as plainly as can be: tests compare with these.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Topology.h"

#include <random>
#include <string>
#include <vector>

namespace networks {

using ccl::model::Topology;

/// Ranks along axes named x0, x1, ..., no links.
Topology ranks(const std::vector<int64_t> &sizes);
/// Adds a switch; its node.
int32_t addSwitch(Topology &t, bool multicast = false, bool reduce = false);
void addLink(Topology &t, int64_t src, int64_t dst, double bandwidth, double latency = 1);
/// Both ways.
void join(Topology &t, int64_t a, int64_t b, double bandwidth, double latency = 1);

/// Unit links; a side of two has one link each way.
Topology torus(const std::vector<int64_t> &sizes);
Topology mesh(const std::vector<int64_t> &sizes);
Topology oneWayRing(int64_t ranks);
Topology full(int64_t ranks);
Topology star(int64_t ranks, double bandwidth = 1);

/// `boxes` of `gpus` with a switch of their own, and `planes` switches between boxes: that of GPU g
/// is g mod planes.
Topology boxes(int64_t boxes, int64_t gpus, double inBox, double nic, int64_t planes);
/// Boxes of eight joined by pairs, and GPUs of one number in all boxes joined by pairs: the
/// switches unwound.
Topology unwound(int64_t boxes, double inBox, double between);
/// The hybrid cube mesh of eight V100.
Topology dgx1();
/// `boxes` of those, each with a NIC for all eight.
Topology ndv2(int64_t boxes);

/// An edge list: "N V E", then "src dst capacity".
Topology readEdgeList(const std::string &path);

/// `count` links, chosen at random, fail, or fewer where ranks would not reach each other.
Topology withFailures(Topology t, int64_t count, std::mt19937_64 &random);

/// Up to `maxNodes` nodes, two ranks at least, connected. `balanced`: links have the same
/// bandwidth in both directions.
Topology randomNetwork(std::mt19937_64 &random, int64_t maxNodes, bool switches, bool balanced);

/// Where collections of other projects' data are, or "".
std::string corpus();
/// What stands between the commas of a table there, by row, without its head.
std::vector<std::vector<std::string>> readTable(const std::string &path);

} // namespace networks
