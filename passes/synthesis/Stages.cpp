//===- Stages.cpp ---------------------------------------------------------===//
#include "passes/synthesis/Stages.h"

using namespace mlir;

namespace ccl {

TopologyOp topologyOf(CollectiveOpInterface collective) {
  return SymbolTable::lookupNearestSymbolFrom<TopologyOp>(collective, collective.getTopologyAttr());
}

solver::AxisSet axesOf(CollectiveOpInterface collective, const model::Topology &topology) {
  solver::AxisSet axes;
  ArrayAttr named = collective.getAxesAttr();
  for (const model::Axis &axis : topology.axes)
    axes.push_back(!named || llvm::is_contained(named.getAsValueRange<StringAttr>(), axis.name));
  return axes;
}

bool isWhole(CollectiveOpInterface collective, const model::Topology &topology) {
  const solver::AxisSet axes = axesOf(collective, topology);
  for (size_t a = 0; a < axes.size(); ++a)
    if (!axes[a] && topology.axes[a].size > 1)
      return false;
  return true;
}

/// The stages of an algorithm in order, with what was before each.
static void
walkStages(AlgorithmOp algorithm,
           function_ref<void(ApplyOp, CollectiveOpInterface, const AxisStates &)> visit) {
  AxisStates axes = AxisStates::of(algorithm);
  algorithm.getBody().walk<WalkOrder::PreOrder>([&](ApplyOp apply) {
    auto stage = dyn_cast_or_null<CollectiveOpInterface>(
        SymbolTable::lookupNearestSymbolFrom(apply, apply.getCalleeAttr()));
    if (!stage)
      return;
    enterStage(stage, axes);
    visit(apply, stage, axes);
    leaveStage(stage, axes);
  });
}

std::vector<StageUse> usesOf(CollectiveOpInterface wanted) {
  std::vector<StageUse> uses;
  auto module = wanted->getParentOfType<ModuleOp>();
  for (auto algorithm : module.getOps<AlgorithmOp>())
    walkStages(algorithm, [&](ApplyOp apply, CollectiveOpInterface stage, const AxisStates &axes) {
      if (stage != wanted)
        return;
      StageUse &use = uses.emplace_back();
      use.apply = apply;
      use.only.assign(axes.sizes.size(), -1);
      for (size_t a = 0; a < axes.sizes.size(); ++a) {
        if (isAlong(stage, axes.names[a]))
          continue;
        if (axes.isScattered(a))
          use.share /= double(axes.sizes[a]);
        if (axes.data[a] == AxisStates::Data::AtRoot)
          use.only[a] = axes.roots[a];
      }
    });
  return uses;
}

OwningOpRef<ModuleOp> extract(AlgorithmOp algorithm) {
  auto from = algorithm->getParentOfType<ModuleOp>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(algorithm.getLoc());
  SmallVector<Operation *> work = {algorithm};
  llvm::StringSet<> taken = {algorithm.getSymName()};
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  while (!work.empty()) {
    Operation *next = work.pop_back_val();
    builder.clone(*next);
    const std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(next);
    for (const SymbolTable::SymbolUse &use : *uses) {
      StringRef name = use.getSymbolRef().getRootReference();
      if (taken.insert(name).second)
        work.push_back(from.lookupSymbol(name));
    }
  }
  return module;
}

PlanRequest makeRequest(ContractAttr contract, int64_t ranks, int64_t bytes,
                        const model::CostModel &model) {
  PlanRequest request;
  request.generator.collective = toModel(contract.getKind());
  request.generator.reduction = toModel(contract.getReduction());
  request.generator.ranks = ranks;
  request.generator.root = contract.getRoot();
  request.generator.targets.assign(contract.getTargets().begin(), contract.getTargets().end());
  request.bytes = {bytes};
  request.model = model;
  return request;
}

FailureOr<model::CostModel> readModel(ModuleOp module, StringRef pass, StringRef name) {
  if (std::optional<model::CostModel> model = model::parseCostModel(name.str()))
    return *model;
  return module.emitError() << pass << ": " << unknownModel(name);
}

std::string unknownModel(StringRef name) {
  return "there is no cost model '" + name.str() + "'; there are " + model::costModelNames();
}

} // namespace ccl
