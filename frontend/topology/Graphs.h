//===- Graphs.h - Regular graphs that specs and presets are made of ----------------===//
#pragma once

#include "dialect/model/Topology.h"

namespace ccl::topology {

/// Both directions.
void join(model::Topology &topology, int64_t a, int64_t b, double bandwidth, double latency = 0);

/// Rank x + X * (y + Y * z): the first dimension is the fastest. Axes are named z, y, x (or
/// d3, d2, ... beyond three), slowest first. In a torus a dimension of 2 has one link each way.
model::Topology grid(const std::vector<int64_t> &dimensions, bool wraps, double bandwidth);

/// Pairs of the 8 GPUs of a DGX-1 with a Volta's NVLinks, and how many links each has.
struct Bond {
  int32_t a, b, links;
};
const std::vector<Bond> &hybridMesh();
/// The same of 16 dies (GCDs) of 8 MI250.
const std::vector<Bond> &mi250Mesh();

} // namespace ccl::topology
