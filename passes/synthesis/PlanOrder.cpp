//===- PlanOrder.cpp ------------------------------------------------------===//
#include "passes/synthesis/PlanOrder.h"

namespace ccl {

/// Epochs are as long as the fastest link needs for the longest chunk (simulate/Cost.h).
static double epochUs(const solver::Network &network, double megabytes) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int32_t rank = 0; rank < network.representatives(); ++rank)
    for (const solver::Way &way : network.out(rank))
      for (const solver::Use &use : network.uses(way))
        fastest = std::min(fastest, use.weight / use.share);
  return fastest * megabytes;
}

static solver::MessageCost costOf(const model::CostModel &model, const solver::Network &network,
                                  double megabytes) {
  solver::MessageCost cost;
  cost.overheadUs = model.overheadUs, cost.syncUs = model.syncUs;
  cost.alphaOccupies = model.alphaOccupies, cost.storesAndForwards = model.storesAndForwards;
  cost.efficiency = model.efficiency;
  if (model.epochs)
    cost.epochUs = model.epochUs > 0 ? model.epochUs : epochUs(network, megabytes);
  return cost;
}

PlanOrder::PlanOrder(const solver::Network &network, const Packing &packing, const PlanShape &shape,
                     const PlanRequest &request, int64_t bytes, int64_t work) {
  problem.lanes = shape.agents;
  problem.slots = shape.slots;
  problem.megabytes = double(bytes) / 1e6 / packing.allChunks / shape.pieces;
  problem.cost = costOf(request.model, network, problem.megabytes);
  const size_t up = packing.upTrees();
  const bool both = up > 0 && up < packing.forest.trees.size();
  for (size_t t = 0; t < packing.forest.trees.size(); ++t)
    for (int32_t piece = 0; piece < shape.pieces; ++piece) {
      const size_t chunk = (t < up ? t : t - up) * size_t(shape.pieces) + size_t(piece);
      chunks.push_back(int32_t(chunk));
      problem.piece.push_back(piece);
      problem.after.push_back(both && t >= up ? int32_t(chunk) : -1);
      forest.trees.push_back(packing.forest.trees[t]);
    }
  if (work > 0) {
    const int64_t hops = int64_t(forest.trees.size()) * network.ranks();
    problem.passes = int32_t(std::clamp<int64_t>(work / hops, 1, problem.passes));
  }
  hops = solver::order(network, forest, problem);
}

} // namespace ccl
