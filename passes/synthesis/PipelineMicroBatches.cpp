//===- PipelineMicroBatches.cpp - Stages become a pipeline ------------------------===//
#include "passes/Passes.h"
#include "passes/synthesis/MicroBatches.h"
#include "passes/synthesis/Stages.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLPIPELINEMICROBATCHES
#include "passes/Passes.h.inc"

namespace {

struct PipelineMicroBatches : impl::CclPipelineMicroBatchesBase<PipelineMicroBatches> {
  using CclPipelineMicroBatchesBase::CclPipelineMicroBatchesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<model::CostModel> cost = readModel(module, getArgument(), model);
    if (failed(cost))
      return signalPassFailure();
    if (most < 1 || most > mostMicroBatches) {
      module.emitError() << getArgument() << ": max is 1 to " << mostMicroBatches << ", not "
                         << int64_t(most);
      return signalPassFailure();
    }
    costModel = *cost;
    const llvm::StringSet<> applied = appliedSymbols(module);
    for (auto algorithm : llvm::to_vector(module.getOps<AlgorithmOp>()))
      if (!applied.contains(algorithm.getSymName()) && failed(pipeline(algorithm)))
        signalPassFailure();
  }

private:
  /// The applies of a body of nothing but buffers and applies, those of one stage together; empty:
  /// it has another form.
  static SmallVector<SmallVector<ApplyOp>> stagesOf(AlgorithmOp algorithm) {
    SmallVector<SmallVector<ApplyOp>> stages;
    CollectiveOpInterface before;
    for (Operation &op : algorithm.getBlock()) {
      if (isa<BufferOp, arith::ConstantOp>(op))
        continue;
      auto apply = dyn_cast<ApplyOp>(op);
      if (!apply)
        return {};
      auto stage = dyn_cast<CollectiveOpInterface>(
          SymbolTable::lookupNearestSymbolFrom(apply, apply.getCalleeAttr()));
      if (!stage || !before || !isSameStage(before, stage))
        stages.emplace_back();
      stages.back().push_back(apply);
      before = stage;
    }
    return stages;
  }

  LogicalResult pipeline(AlgorithmOp algorithm) {
    auto topologyOp = algorithm.getTopologyAttr()
                          ? SymbolTable::lookupNearestSymbolFrom<TopologyOp>(
                                algorithm, algorithm.getTopologyAttr())
                          : TopologyOp();
    if (!topologyOp || algorithm.getNumArguments() || stagesOf(algorithm).size() < 2)
      return success();
    const model::Topology topology = getModelTopology(topologyOp);
    if (std::string wrong = topology.check(); !wrong.empty())
      return algorithm.emitOpError() << "cannot be simulated: " << wrong;
    const PlanRequest request =
        makeRequest(algorithm.getContract(), topology.ranks(), bytes, costModel);
    std::string why;
    std::optional<PlanProgram> plain =
        PlanProgram::wrap(extract(algorithm), request.slots, /*isWhole=*/true, why);
    if (!plain)
      return algorithm.emitOpError() << "cannot be simulated: " << why;
    const model::SimulateReport before = plain->simulate(topology, request, bytes);
    if (!before.ok())
      return algorithm.emitOpError() << "cannot be simulated: " << before.faults.front().message;

    OwningOpRef<ModuleOp> trial = extract(algorithm);
    wrapStages(trial->lookupSymbol<AlgorithmOp>(algorithm.getSymName()));
    std::optional<MicroBatches> batches =
        MicroBatches::make(std::move(trial), topology, request, why);
    if (!batches)
      return algorithm.emitOpError() << "cannot be simulated as a pipeline: " << why;
    if (plain->isStaged()) // as it was simulated
      raiseSlots(algorithm, request.slots);
    decide(algorithm, *batches, before.us);
    return success();
  }

  void decide(AlgorithmOp algorithm, MicroBatches &batches, double plainUs) {
    const MicroBatches::Choice choice = batches.choose(most);
    InFlightDiagnostic d = algorithm.emitRemark();
    d << (choice.us < plainUs ? "pipeline of " : "no pipeline: of ") << batches.stages()
      << " stages, " << choice.batches << " micro-batches, "
      << fmt::format("{:.2f} us; one after the other {:.2f} us", choice.us, plainUs);
    if (remark)
      for (auto [count, us] : choice.estimated)
        d.attachNote() << fmt::format("{} micro-batches: {:.2f} us by formula, {:.2f} us simulated",
                                      count, us, batches.simulate(count));
    if (choice.us >= plainUs)
      return;
    wrapStages(algorithm);
    algorithm->setAttr(microBatchesAttr, OpBuilder(algorithm).getI64IntegerAttr(choice.batches));
  }

  static void wrapStages(AlgorithmOp algorithm) {
    const SmallVector<SmallVector<ApplyOp>> stages = stagesOf(algorithm);
    OpBuilder b = OpBuilder::atBlockEnd(&algorithm.getBlock());
    auto pipeline = b.create<PipelineOp>(algorithm.getLoc(), unsigned(stages.size()));
    for (auto [region, applies] : llvm::zip_equal(pipeline.getStages(), stages)) {
      Block &block = region.emplaceBlock();
      for (ApplyOp apply : applies)
        apply->moveBefore(&block, block.end());
    }
  }

  model::CostModel costModel;
};

} // namespace
} // namespace ccl
