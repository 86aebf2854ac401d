//===- ExpandApply.cpp - Inlines ccl.apply and ccl.pipeline -------------------===//
//
// What is applied becomes maps of places (StageMaps.h for collectives), and these moves
// (ApplyInliner.h).
//===----------------------------------------------------------------------===//

#include "dialect/Indexing.h"
#include "passes/Passes.h"
#include "passes/lowering/ApplyInliner.h"
#include "passes/lowering/Specialize.h"
#include "passes/lowering/StageAgents.h"
#include "passes/lowering/StageMaps.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLEXPANDAPPLY
#include "passes/Passes.h.inc"

namespace {

std::optional<SmallVector<int64_t>> constants(AffineMap map, ValueRange operands) {
  SmallVector<Value> values(operands.begin(), operands.end());
  simplifyIndex(map, values);
  SmallVector<int64_t> list;
  for (AffineExpr e : map.getResults()) {
    auto c = dyn_cast<AffineConstantExpr>(e);
    if (!c)
      return std::nullopt;
    list.push_back(c.getValue());
  }
  return list;
}

struct ExpandApply : impl::CclExpandApplyBase<ExpandApply> {
  using CclExpandApplyBase::CclExpandApplyBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const llvm::StringSet<> applied = appliedSymbols(module);
    for (auto algorithm : llvm::to_vector(module.getOps<AlgorithmOp>()))
      if (!applied.contains(algorithm.getSymName()) && failed(expandAll(algorithm)))
        return signalPassFailure();
    // What only served as a callee is done with; then, what only these applied.
    for (bool erased = true; erased;) {
      erased = false;
      for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
        if (isa<AlgorithmOp, CollectiveOpInterface>(op) &&
            applied.contains(SymbolTable::getSymbolName(&op).getValue()) &&
            SymbolTable::symbolKnownUseEmpty(&op, module)) {
          op.erase();
          erased = true;
        }
    }
  }

  LogicalResult expandAll(AlgorithmOp algorithm) {
    AxisStates axes = AxisStates::of(algorithm);
    bool any = false;
    SmallVector<PipelineOp> pipelines;
    auto expand = [&](ApplyOp apply) {
      any = true;
      return expandOne(algorithm, apply, axes);
    };
    for (Operation &op : llvm::make_early_inc_range(algorithm.getBlock())) {
      if (auto apply = dyn_cast<ApplyOp>(op)) {
        if (failed(expand(apply)))
          return failure();
      } else if (auto pipeline = dyn_cast<PipelineOp>(op)) {
        pipelines.push_back(pipeline);
        for (Region &stage : pipeline.getStages())
          for (ApplyOp apply : llvm::to_vector(stage.front().getOps<ApplyOp>()))
            if (failed(expand(apply)))
              return failure();
      }
    }
    for (PipelineOp pipeline : pipelines)
      if (failed(flatten(algorithm, pipeline, pipelines.size() == 1)))
        return failure();
    return any ? foldConstants(algorithm) : success();
  }

  /// Each stage gets agents of its own: they work on different micro-batches at the same time.
  LogicalResult flatten(AlgorithmOp algorithm, PipelineOp pipeline, bool isAlone) {
    OpBuilder b(pipeline);
    int64_t stages = pipeline.getStages().size();
    if (auto known = algorithm->getAttrOfType<IntegerAttr>(stagesAttr))
      stages = std::max(stages, known.getInt());
    algorithm->setAttr(stagesAttr, b.getI64IntegerAttr(stages));
    SmallVector<int64_t> first = {0};
    for (Region &stage : pipeline.getStages()) {
      const int64_t next = first.back() + countAgents(stage);
      if (next > maxAgent + 1)
        return pipeline.emitOpError()
               << "has stages with " << next << " agents together; there are " << maxAgent + 1;
      shiftAgents(stage, first.back());
      first.push_back(next);
      for (Operation &op : llvm::make_early_inc_range(stage.front()))
        op.moveBefore(pipeline);
    }
    if (isAlone)
      algorithm->setAttr(stageAgentsAttr, b.getDenseI64ArrayAttr(first));
    pipeline.erase();
    return success();
  }

  /// Turns `along` into groups and a map per buffer.
  LogicalResult expandAlong(ApplyOp apply, AlgorithmOp callee, AxisStates &axes,
                            SmallVectorImpl<int64_t> &groups, AffineMap &map) {
    finishParts(axes);
    unsigned axis = llvm::find(axes.names, apply.getAlong()->str()) - axes.names.begin();
    auto buffer = apply.getBuffers().front().getDefiningOp<BufferOp>();
    auto ranks = *buffer.getRankShape(), chunks = *buffer.getChunkShape();
    if (ranks != axes.sizes)
      return apply.emitOpError("'along' needs the buffer's rank grid to be the topology's axes");
    if (chunks.size() != axes.sizes.size())
      return apply.emitOpError() << "'along' needs a chunk grid with one dimension per axis ("
                                 << axes.sizes.size() << "), got " << chunks.size();
    CollectiveKind kind = callee.getContract().getKind();
    bool gathers = kind == CollectiveKind::AllGather || kind == CollectiveKind::Gather;
    if (gathers != axes.isScattered(axis))
      return apply.emitOpError() << "axis \"" << *apply.getAlong() << "\" is "
                                 << (gathers ? "not scattered: there is nothing to gather"
                                             : "scattered: gather along it first");
    MLIRContext *context = apply.getContext();
    auto dim = [&](unsigned i) { return getAffineDimExpr(i, context); };
    // Inputs: callee rank (0), callee chunk (1), then the groups.
    unsigned next = 2;
    SmallVector<AffineExpr> rank(ranks.size()), chunk(ranks.size());
    for (unsigned a = 0; a < ranks.size(); ++a) {
      if (a == axis) {
        rank[a] = dim(0);
        continue;
      }
      rank[a] = dim(next++);
      groups.push_back(ranks[a]);
    }
    for (unsigned a = 0; a < ranks.size(); ++a) {
      if (a == axis) {
        chunk[a] = dim(1);
      } else if (axes.isScattered(a)) {
        chunk[a] = rank[a]; // the rank's own
      } else {
        chunk[a] = dim(next++);
        groups.push_back(chunks[a]);
      }
    }
    SmallVector<AffineExpr> results(rank);
    results.append(chunk);
    map = AffineMap::get(next, 0, results, context);
    completeAxis(kind, callee.getContract().getRoot(), axis, axes);
    for (auto theirs : callee.getBody().getOps<BufferOp>()) {
      if (theirs.getRole() == BufferRole::Scratch)
        continue;
      if (theirs.getNumRankAxes() != 1 || theirs.getNumChunkAxes() != 1)
        return apply.emitOpError("'along' takes algorithms with one rank and one chunk axis");
      if (product(*theirs.getRankShape()) != ranks[axis] ||
          product(*theirs.getChunkShape()) != chunks[axis])
        return apply.emitOpError()
               << "axis \"" << *apply.getAlong() << "\" has " << ranks[axis] << " ranks and "
               << chunks[axis] << " chunks, the applied algorithm "
               << product(*theirs.getRankShape()) << " and " << product(*theirs.getChunkShape());
    }
    return success();
  }

  std::string freeName(StringRef base) {
    std::string name;
    do
      name = (base + ".applied" + Twine(copies++)).str();
    while (getOperation().lookupSymbol(name));
    return name;
  }

  LogicalResult expandOne(AlgorithmOp algorithm, ApplyOp apply, AxisStates &axes) {
    auto sizes = constants(apply.getSizes(), apply.getSizeOperands());
    auto groups = constants(apply.getGroups(), apply.getGroupOperands());
    if (!sizes || !groups)
      return apply.emitOpError("has sizes that are not constant: bind size parameters first "
                               "(ccl-specialize)");
    for (int64_t size : llvm::concat<int64_t>(*sizes, *groups))
      if (size < 1)
        return apply.emitOpError() << "size " << size << " is below 1";
    for (Value v : apply.getBuffers())
      if (auto b = v.getDefiningOp<BufferOp>(); !b.getRankShape() || !b.getChunkShape())
        return b.emitOpError("has extents that are not constant");
    Operation *named = SymbolTable::lookupNearestSymbolFrom(apply, apply.getCalleeAttr());
    auto stage = dyn_cast<CollectiveOpInterface>(named);
    AlgorithmOp source = stage ? implementationOf(apply, stage) : cast<AlgorithmOp>(named);
    if (!source || (stage && failed(bindRanks(apply, stage, source, *sizes))))
      return failure();
    ReductionKind mine = algorithm.getContract().getReduction();
    ReductionKind theirs = source.getContract().getReduction();
    if (theirs != ReductionKind::None && theirs != mine)
      return apply.emitOpError() << apply.getCalleeAttr() << " reduces with "
                                 << stringifyReductionKind(theirs) << ", @"
                                 << algorithm.getSymName() << " with "
                                 << stringifyReductionKind(mine);
    // A private copy, bound to these sizes.
    OpBuilder b(algorithm);
    auto callee = cast<AlgorithmOp>(b.clone(*source));
    // Nested applies look their callees up by name: the copy must not hide one.
    callee.setSymName(freeName(source.getSymName()));
    for (unsigned i = sizes->size(); i-- > 0;)
      bindParameter(callee, i, (*sizes)[i]);
    LogicalResult result = foldConstants(callee);
    if (succeeded(result))
      result = expandAll(callee);
    // What one of them asks for, all get.
    raiseSlots(algorithm, getSlots(callee));
    if (Attribute copies = callee->getAttr(multicastAttr))
      algorithm->setAttr(multicastAttr, copies);
    if (succeeded(result))
      result = stage ? inlineStage(apply, stage, callee, axes)
                     : inlineOnce(apply, callee, axes, *groups);
    // Algorithms that apply each other twice grow exponentially.
    callee.getBody().walk([&](Operation *) { ++inlined; });
    if (succeeded(result) && inlined > maxInlined)
      result = apply.emitOpError()
               << "makes the program larger than " << maxInlined << " operations";
    callee.erase();
    if (succeeded(result))
      apply.erase();
    return result;
  }

  AlgorithmOp implementationOf(ApplyOp apply, CollectiveOpInterface stage) {
    if (FlatSymbolRefAttr name = stage.getAlgorithmAttr())
      if (auto found = SymbolTable::lookupNearestSymbolFrom<AlgorithmOp>(stage, name)) {
        if (!found.getLowered())
          return found;
        apply.emitOpError() << name << " is lowered: it has no moves to apply";
        return AlgorithmOp();
      }
    InFlightDiagnostic d = apply.emitOpError()
                           << apply.getCalleeAttr() << " has no algorithm: give it one "
                           << "('algorithm = @a', or ccl-synthesize)";
    d.attachNote(stage.getLoc()) << "the stage is here";
    return AlgorithmOp();
  }

  /// The one parameter of what implements a stage is the number of ranks of its groups.
  LogicalResult bindRanks(ApplyOp apply, CollectiveOpInterface stage, AlgorithmOp source,
                          SmallVectorImpl<int64_t> &sizes) {
    if (source.getNumArguments() == 0)
      return success();
    if (source.getNumArguments() > 1)
      return apply.emitOpError() << "@" << source.getSymName() << " has "
                                 << source.getNumArguments()
                                 << " size parameters; what implements a stage has one at most, "
                                    "which is the number of ranks";
    auto topology =
        SymbolTable::lookupNearestSymbolFrom<TopologyOp>(stage, stage.getTopologyAttr());
    int64_t ranks = 1;
    for (auto [axis, size] :
         llvm::zip_equal(topology.getAxes().getAsValueRange<StringAttr>(), topology.getSizes()))
      if (isAlong(stage, axis))
        ranks *= size;
    sizes.push_back(ranks);
    return success();
  }

  LogicalResult inlineStage(ApplyOp apply, CollectiveOpInterface stage, AlgorithmOp callee,
                            AxisStates &axes) {
    FailureOr<SmallVector<StageBinding>> bindings = bindStage(apply, stage, callee, axes);
    if (failed(bindings))
      return failure();
    for (const StageBinding &binding : *bindings) {
      SmallVector<ApplyBinding> bound;
      for (AffineMap map : binding.maps)
        bound.push_back({apply.getBuffers().front(), map});
      if (failed(inlineApply(apply, callee, binding.groups, bound)))
        return failure();
    }
    return success();
  }

  LogicalResult inlineOnce(ApplyOp apply, AlgorithmOp callee, AxisStates &axes,
                           SmallVector<int64_t> &groups) {
    SmallVector<ApplyBinding> bound;
    if (apply.getAlong()) {
      AffineMap map;
      if (failed(expandAlong(apply, callee, axes, groups, map)))
        return failure();
      for (Value v : apply.getBuffers())
        bound.push_back({v, map});
    } else {
      for (auto [v, map] :
           llvm::zip_equal(apply.getBuffers(), apply.getMaps()->getAsRange<AffineMapAttr>()))
        bound.push_back({v, map.getValue()});
    }
    return inlineApply(apply, callee, groups, bound);
  }

  static constexpr uint64_t maxInlined = 100000;
  uint64_t inlined = 0, copies = 0;
};

} // namespace
} // namespace ccl
