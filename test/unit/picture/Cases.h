// Topologies and simulations that pages are made of.
#pragma once

#include "dialect/simulate/Simulate.h"
#include "frontend/picture/Page.h"

namespace ccl::picture {

/// Nodes of GPUs below an NVSwitch. Every GPU has a NIC, with or without a PCIe switch for every
/// two between them; NICs of the same place in their nodes are on one rail.
model::Topology dgx(int64_t nodes, int64_t gpus, bool pcie = false);
model::Topology ring(int64_t ranks);
model::Topology torus(std::vector<int64_t> sizes);
model::Topology full(int64_t ranks);
model::Topology star(int64_t ranks);
/// Nodes of GPUs that are linked directly, each with each, and a link between nodes.
model::Topology meshes(int64_t nodes, int64_t gpus);

/// All-reduce in two levels, by two blocks that go round opposite ways: reduce-scatter among the
/// GPUs of a node, all-reduce among those of a rail, all-gather in the node.
model::Program hierarchical(int64_t nodes, int64_t gpus);
model::Contract hierarchicalContract(int64_t nodes, int64_t gpus);

/// A simulation with all that it needs.
struct Case {
  model::Topology topology;
  model::Program program;
  model::SimulateReport report;
  PageInput input() const;
};
Case hierarchicalCase(int64_t nodes, int64_t gpus, int64_t batches);
/// The ring all-reduce around a ring.
Case ringCase(int64_t ranks);
/// The same in two levels, on a ring whose links can be changed.
Case circuitsCase(int64_t nodes, int64_t gpus);

/// A report with links in use but without a timeline.
model::SimulateReport plainReport(const model::Topology &topology);

} // namespace ccl::picture
