//===- Hierarchical.cpp - One level inside the other ---------------------------===//
#include "passes/synthesis/generators/Families.h"

using namespace mlir;

namespace ccl {

SmallVector<int64_t> squarestGrid(int64_t ranks) {
  int64_t outer = 1;
  for (int64_t d = 2; d * d <= ranks; ++d)
    if (ranks % d == 0)
      outer = d;
  return {outer, ranks / outer};
}

static TopologyOp createGrid(ModuleOp module, ArrayRef<int64_t> grid) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto op =
      builder.create<TopologyOp>(module.getLoc(), freeName(module, "grid"),
                                 builder.getStrArrayAttr({"outer", "inner"}), grid, FloatAttr());
  op.getBody().emplaceBlock();
  return op;
}

AlgorithmOp hierarchicalAllReduce(ModuleOp module, const GeneratorRequest &request) {
  SmallVector<int64_t> grid = request.grid.empty() ? squarestGrid(request.ranks) : request.grid;
  auto part = [&](model::Collective collective, int64_t ranks) {
    return GeneratorRequest{collective, request.reduction, ranks, 0, {}};
  };
  TopologyOp topology = createGrid(module, grid);
  AlgorithmOp scatter =
      ringReduceScatterInPlace(module, part(model::Collective::ReduceScatter, grid[1]));
  AlgorithmOp across = ringAllReduce(module, part(model::Collective::AllReduce, grid[0]));
  AlgorithmOp gather = ringAllGatherInPlace(module, part(model::Collective::AllGather, grid[1]));

  AlgorithmBuilder a(module, "hierarchical_all_reduce", request, grid, topology);
  Buffer x = a.inout("x", grid);
  a.applyAlong(scatter, "inner", x);
  a.applyAlong(across, "outer", x);
  a.applyAlong(gather, "inner", x);
  return a.getAlgorithm();
}

} // namespace ccl
