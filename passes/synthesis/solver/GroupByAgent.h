//===- GroupByAgent.h - Each agent's hops in one piece ---------------------------------===//
#pragma once

#include "passes/synthesis/solver/Order.h"

namespace ccl::solver {

/// The same hops: each agent has its own in the same order, and each comes after what it needs.
/// Apart from that those of one agent down trees follow each other as long as they can, so that
/// what is regular in them stands together. Those up trees keep their order: agents receive in it,
/// too.
std::vector<Hop> groupByAgent(const Network &network, const Forest &forest,
                              const OrderProblem &problem, std::span<const Hop> hops);

} // namespace ccl::solver
