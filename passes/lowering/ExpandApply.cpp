//===- ExpandApply.cpp - Inlines ccl.apply and ccl.pipeline -------------------===//
//
// Places of the callee are rewritten through the binding's map; everything stays
// affine, so loops stay loops. A rank loop of the callee gets the groups as further
// dimensions: groups are independent by construction.
//===----------------------------------------------------------------------===//

#include "dialect/Indexing.h"
#include "passes/Passes.h"
#include "passes/lowering/Specialize.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLEXPANDAPPLY
#include "passes/Passes.h.inc"

namespace {

/// Which axes are scattered at this point of an algorithm, for `along`.
struct AxisState {
  SmallVector<std::string> names;
  SmallVector<int64_t> sizes;
  llvm::SmallBitVector scattered;
};

/// A callee buffer as seen by the caller.
struct Binding {
  Value buffer;
  AffineMap map; ///< (callee ranks, callee chunks, groups) -> (ranks, chunks)
};

class Inliner {
public:
  Inliner(ApplyOp apply, AlgorithmOp callee, ArrayRef<int64_t> groups)
      : apply(apply), callee(callee), groups(groups), context(apply.getContext()), builder(apply) {}

  LogicalResult run(ArrayRef<Binding> bound) {
    auto next = bound.begin();
    for (auto buffer : callee.getBody().getOps<BufferOp>()) {
      if (buffer.getRole() != BufferRole::Scratch) {
        bindings[buffer.getResult()] = *next++;
        continue;
      }
      if (failed(createScratch(buffer, bound.front())))
        return failure();
    }
    return inlineBlock(callee.getBlock(), builder, {});
  }

private:
  /// Scratch of the caller: a chunk axis per group that does not follow from the rank.
  LogicalResult createScratch(BufferOp buffer, const Binding &like) {
    auto mine = like.buffer.getDefiningOp<BufferOp>();
    unsigned rankAxes = mine.getNumRankAxes();
    unsigned calleeRanks = buffer.getNumRankAxes(), calleeChunks = buffer.getNumChunkAxes();
    unsigned likeChunks = like.map.getNumDims() - calleeRanks - groups.size();
    SmallVector<AffineExpr> results, extents;
    llvm::SmallBitVector inRank(groups.size());
    auto dim = [&](unsigned i) { return getAffineDimExpr(i, context); };
    // The map's rank results, over (callee ranks, this scratch's chunks, groups).
    DenseMap<AffineExpr, AffineExpr> renumber;
    for (unsigned g = 0; g < groups.size(); ++g)
      renumber[dim(calleeRanks + likeChunks + g)] = dim(calleeRanks + calleeChunks + g);
    for (unsigned a = 0; a < rankAxes; ++a) {
      AffineExpr e = like.map.getResult(a);
      bool usesChunk = false;
      e.walk([&](AffineExpr x) {
        auto d = dyn_cast<AffineDimExpr>(x);
        if (!d || d.getPosition() < calleeRanks)
          return;
        if (d.getPosition() < calleeRanks + likeChunks)
          usesChunk = true;
        else
          inRank.set(d.getPosition() - calleeRanks - likeChunks);
      });
      if (usesChunk)
        return apply.emitOpError() << "the map of the first buffer makes the rank depend on the "
                                      "chunk, which gives the callee's scratch no owner";
      results.push_back(e.replace(renumber));
    }
    for (unsigned g = 0; g < groups.size(); ++g)
      if (!inRank.test(g)) {
        results.push_back(dim(calleeRanks + calleeChunks + g));
        extents.push_back(getAffineConstantExpr(groups[g], context));
      }
    SmallVector<int64_t> chunkShape = *buffer.getChunkShape();
    for (auto [i, extent] : llvm::enumerate(chunkShape)) {
      results.push_back(dim(calleeRanks + i));
      extents.push_back(getAffineConstantExpr(extent, context));
    }
    OpBuilder top(context);
    auto parent = apply->getParentOfType<AlgorithmOp>();
    Operation *last = nullptr;
    for (auto b : parent.getBody().getOps<BufferOp>())
      last = b;
    top.setInsertionPointAfter(last);
    SmallVector<AffineExpr> ranks;
    SmallVector<int64_t> rankShape = *mine.getRankShape();
    for (int64_t extent : rankShape)
      ranks.push_back(getAffineConstantExpr(extent, context));
    Value created = top.create<BufferOp>(
        apply.getLoc(), BufferType::get(context), BufferRole::Scratch,
        AffineMapAttr::get(AffineMap::get(0, 0, ranks, context)),
        AffineMap::get(0, 0, extents, context), ValueRange(), ValueRange(), buffer.getNameAttr());
    unsigned inputs = calleeRanks + calleeChunks + groups.size();
    bindings[buffer.getResult()] = {created, AffineMap::get(inputs, 0, results, context)};
    return success();
  }

  /// `groupIvs`: the group variables, once inside a parallel loop.
  LogicalResult inlineBlock(Block &block, OpBuilder &b, ValueRange groupIvs) {
    for (Operation &op : block)
      if (failed(inlineOp(op, b, groupIvs)))
        return failure();
    return success();
  }

  LogicalResult inlineOp(Operation &op, OpBuilder &b, ValueRange groupIvs) {
    if (isa<BufferOp, affine::AffineYieldOp>(op))
      return success();
    if (isa<arith::ConstantOp>(op)) {
      b.clone(op, values);
      return success();
    }
    if (auto loop = dyn_cast<affine::AffineForOp>(op)) {
      auto created = cast<affine::AffineForOp>(b.cloneWithoutRegions(op, values));
      Block *body =
          b.createBlock(&created.getRegion(), {}, loop.getInductionVar().getType(), op.getLoc());
      values.map(loop.getInductionVar(), body->getArgument(0));
      OpBuilder inner = OpBuilder::atBlockEnd(body);
      if (failed(inlineBlock(*loop.getBody(), inner, groupIvs)))
        return failure();
      inner.create<affine::AffineYieldOp>(op.getLoc());
      b.setInsertionPointAfter(created);
      return success();
    }
    if (auto parallel = dyn_cast<affine::AffineParallelOp>(op))
      return inlineParallel(parallel, b, groupIvs);
    if (isa<CopyOp, ReduceOp>(op)) {
      if (groupIvs.empty() && !groups.empty())
        return inParallel(op.getLoc(), b,
                          [&](OpBuilder &in, ValueRange ivs) { return inlineMove(op, in, ivs); });
      return inlineMove(op, b, groupIvs);
    }
    if (auto schedule = dyn_cast<ScheduleOp>(op))
      return inlineSchedule(schedule, b);
    return op.emitOpError("cannot be applied to groups");
  }

  LogicalResult inParallel(Location loc, OpBuilder &b,
                           function_ref<LogicalResult(OpBuilder &, ValueRange)> body) {
    auto created = b.create<affine::AffineParallelOp>(loc, TypeRange(),
                                                      ArrayRef<arith::AtomicRMWKind>(), groups);
    OpBuilder inner = OpBuilder::atBlockTerminator(created.getBody());
    return body(inner, created.getIVs());
  }

  LogicalResult inlineParallel(affine::AffineParallelOp op, OpBuilder &b, ValueRange groupIvs) {
    // Groups come first, unless an outer loop has them.
    unsigned extra = groupIvs.empty() ? groups.size() : 0;
    SmallVector<AffineMap> lower, upper;
    SmallVector<Value> lowerOperands, upperOperands;
    for (Value v : op.getLowerBoundsOperands())
      lowerOperands.push_back(values.lookupOrDefault(v));
    for (Value v : op.getUpperBoundsOperands())
      upperOperands.push_back(values.lookupOrDefault(v));
    auto constantMap = [&](int64_t value, AffineMap like) {
      return AffineMap::get(like.getNumDims(), like.getNumSymbols(),
                            getAffineConstantExpr(value, context));
    };
    SmallVector<int64_t> steps(extra, 1);
    for (unsigned g = 0; g < extra; ++g) {
      lower.push_back(constantMap(0, op.getLowerBoundsMap()));
      upper.push_back(constantMap(groups[g], op.getUpperBoundsMap()));
    }
    for (unsigned i = 0; i < op.getNumDims(); ++i) {
      lower.push_back(op.getLowerBoundMap(i));
      upper.push_back(op.getUpperBoundMap(i));
      steps.push_back(op.getSteps()[i]);
    }
    auto created = b.create<affine::AffineParallelOp>(op.getLoc(), TypeRange(),
                                                      ArrayRef<arith::AtomicRMWKind>(), lower,
                                                      lowerOperands, upper, upperOperands, steps);
    SmallVector<Value> ivs(created.getIVs());
    for (auto [i, iv] : llvm::enumerate(op.getIVs()))
      values.map(iv, ivs[extra + i]);
    OpBuilder inner = OpBuilder::atBlockTerminator(created.getBody());
    ValueRange inside = extra ? ValueRange(ArrayRef<Value>(ivs).take_front(extra)) : groupIvs;
    SmallVector<Value> keep(inside.begin(), inside.end());
    return inlineBlock(*op.getBody(), inner, keep);
  }

  /// The caller's place for a callee place whose last chunk index is moved by `offset`.
  PlaceRef mapPlace(const PlaceRef &place, int64_t offset, ValueRange groupIvs) {
    const Binding &binding = bindings.find(place.base)->second;
    IndexSpace space;
    DenseMap<Value, AffineExpr> replacement;
    for (Value v : place.operands)
      if (Value mapped = values.lookupOrNull(v))
        replacement[v] = getAffineDimExpr(space.dim(mapped), context);
    SmallVector<AffineExpr> inputs = space.rebase(place.map, place.operands, &replacement);
    inputs.back() = normalizeIndex(inputs.back() + offset);
    for (Value g : groupIvs)
      inputs.push_back(getAffineDimExpr(space.dim(g), context));
    SmallVector<AffineExpr> results;
    for (AffineExpr e : binding.map.getResults())
      results.push_back(normalizeIndex(e.replaceDimsAndSymbols(inputs, {})));
    PlaceRef mapped{binding.buffer, {}, {}};
    mapped.map = makeMap(results, space.values(), mapped.operands, context);
    return mapped;
  }

  /// Whether chunks that are adjacent in the callee are adjacent in the caller.
  bool keepsAdjacent(const PlaceRef &place) {
    const Binding &binding = bindings.find(place.base)->second;
    auto mine = binding.buffer.getDefiningOp<BufferOp>();
    auto theirs = place.base.getDefiningOp<BufferOp>();
    unsigned rankAxes = mine.getNumRankAxes();
    AffineExpr chunk =
        linearize(binding.map.getResults().drop_front(rankAxes), *mine.getChunkShape());
    AffineExpr last =
        getAffineDimExpr(theirs.getNumRankAxes() + theirs.getNumChunkAxes() - 1, context);
    DenseMap<AffineExpr, AffineExpr> shift;
    shift[last] = last + 1;
    return theirs.getNumChunkAxes() == 1 &&
           normalizeIndex(chunk.replace(shift) - chunk) == getAffineConstantExpr(1, context) &&
           llvm::all_of(binding.map.getResults().take_front(rankAxes), [&](AffineExpr e) {
             return normalizeIndex(e.replace(shift)) == normalizeIndex(e);
           });
  }

  LogicalResult inlineMove(Operation &op, OpBuilder &b, ValueRange groupIvs) {
    MoveRef move = *getMove(&op);
    bool whole = move.count == 1 || (keepsAdjacent(move.src) && keepsAdjacent(move.dst));
    auto oneAxis = [](const PlaceRef &p) {
      return p.base.getDefiningOp<BufferOp>().getNumChunkAxes() == 1;
    };
    if (!whole && !(oneAxis(move.src) && oneAxis(move.dst) && move.count <= 64)) {
      InFlightDiagnostic d = op.emitOpError() << "moves " << move.count
                                              << " chunks that are not adjacent for the caller";
      d.attachNote(apply.getLoc()) << "applied here";
      return d;
    }
    for (int64_t i = 0; i < (whole ? 1 : move.count); ++i) {
      PlaceRef src = mapPlace(move.src, i, groupIvs), dst = mapPlace(move.dst, i, groupIvs);
      int64_t count = whole ? move.count : 1;
      auto create = [&](auto tag) {
        using Op = decltype(tag);
        b.create<Op>(op.getLoc(), src.base, src.map, src.operands, dst.base, dst.map, dst.operands,
                     count, op.getAttrOfType<ViaAttr>("via"), /*tag=*/0,
                     op.getAttrOfType<DenseI64ArrayAttr>("agents"));
      };
      if (move.reduce)
        create(ReduceOp());
      else
        create(CopyOp());
    }
    return success();
  }

  /// Every row once per group; the rows of a step stay in one step.
  LogicalResult inlineSchedule(ScheduleOp op, OpBuilder &b) {
    SmallVector<Value> buffers;
    SmallVector<const Binding *> bound;
    for (Value v : op.getBuffers()) {
      bound.push_back(&bindings.find(v)->second);
      buffers.push_back(bound.back()->buffer);
    }
    int64_t groupCount = product(groups);
    const int64_t columns = op.getAgents() ? op.getAgents()->getShapedType().getDimSize(1) : 0;
    std::vector<int64_t> rows, agents;
    ArrayRef<int64_t> in = op.getRows();
    for (size_t i = 0; i < in.size(); i += ScheduleOp::rowSize) {
      ArrayRef<int64_t> row = in.slice(i, ScheduleOp::rowSize);
      auto bad = [&] {
        InFlightDiagnostic d = op.emitOpError() << "row " << i / ScheduleOp::rowSize << ": ";
        d.attachNote(apply.getLoc()) << "applied here";
        return d;
      };
      for (int64_t g = 0; g < groupCount; ++g) {
        SmallVector<int64_t> out(row.begin(), row.end());
        for (unsigned side : {2u, 5u}) {
          auto theirs = op.getBuffers()[row[side + 1]].getDefiningOp<BufferOp>();
          const Binding &binding = *bound[row[side + 1]];
          auto mine = binding.buffer.getDefiningOp<BufferOp>();
          SmallVector<int64_t> inputs, rankShape = *theirs.getRankShape(),
                                       chunkShape = *theirs.getChunkShape();
          if (row[side] < 0 || row[side] >= product(rankShape))
            return bad() << "rank " << row[side] << " is outside [0, " << product(rankShape) << ")";
          if (row[side + 2] < 0 || row[side + 2] + row[8] > product(chunkShape))
            return bad() << "chunks " << row[side + 2] << " to " << row[side + 2] + row[8] - 1
                         << " are not all inside [0, " << product(chunkShape) << ")";
          if (row[8] > 1 && !keepsAdjacent({op.getBuffers()[row[side + 1]], {}, {}}))
            return bad() << "moves " << row[8] << " chunks that are not adjacent for the caller";
          appendCoordinates(row[side], rankShape, inputs);
          appendCoordinates(row[side + 2], chunkShape, inputs);
          appendCoordinates(g, groups, inputs);
          SmallVector<int64_t> results;
          for (AffineExpr e : binding.map.getResults())
            results.push_back(evaluateIndex(e, inputs, inputs.size()));
          ArrayRef<int64_t> all(results);
          out[side] = linearize(all.take_front(mine.getNumRankAxes()), *mine.getRankShape());
          out[side + 2] = linearize(all.drop_front(mine.getNumRankAxes()), *mine.getChunkShape());
          if (out[side] < 0 || out[side + 2] < 0)
            return bad() << "the map leads out of the caller's ranks or chunks";
        }
        rows.insert(rows.end(), out.begin(), out.end());
        if (op.getAgents()) {
          SmallVector<int64_t, 4> mine = op.getAgentsOf(i / ScheduleOp::rowSize);
          mine.resize(columns, -1);
          llvm::append_range(agents, mine);
        }
      }
    }
    const int64_t count = int64_t(rows.size()) / ScheduleOp::rowSize;
    auto table = [&](ArrayRef<int64_t> numbers, int64_t columns) {
      auto type = RankedTensorType::get({count, columns}, b.getI64Type());
      return ElementsAttr(DenseElementsAttr::get(type, numbers));
    };
    b.create<ScheduleOp>(op.getLoc(), buffers, table(rows, ScheduleOp::rowSize), op.getViaAttr(),
                         /*tag=*/0, agents.empty() ? ElementsAttr() : table(agents, columns));
    return success();
  }

  static void appendCoordinates(int64_t linear, ArrayRef<int64_t> shape,
                                SmallVectorImpl<int64_t> &out) {
    size_t start = out.size();
    out.resize(start + shape.size());
    for (size_t i = shape.size(); i-- > 0; linear /= shape[i])
      out[start + i] = linear % shape[i];
  }

  ApplyOp apply;
  AlgorithmOp callee;
  ArrayRef<int64_t> groups;
  MLIRContext *context;
  OpBuilder builder;
  IRMapping values;
  DenseMap<Value, Binding> bindings;
};

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
    llvm::StringSet<> applied;
    module.walk([&](ApplyOp apply) { applied.insert(apply.getCallee()); });
    for (auto algorithm : llvm::to_vector(module.getOps<AlgorithmOp>()))
      if (!applied.contains(algorithm.getSymName()) && failed(expandAll(algorithm)))
        return signalPassFailure();
    // What only served as a callee is done with; then, what only these applied.
    for (bool erased = true; erased;) {
      erased = false;
      for (auto algorithm : llvm::to_vector(module.getOps<AlgorithmOp>()))
        if (applied.contains(algorithm.getSymName()) &&
            SymbolTable::symbolKnownUseEmpty(algorithm, module)) {
          algorithm.erase();
          erased = true;
        }
    }
  }

  LogicalResult expandAll(AlgorithmOp algorithm) {
    SmallVector<PipelineOp> pipelines(algorithm.getBody().getOps<PipelineOp>());
    for (PipelineOp pipeline : pipelines)
      flatten(algorithm, pipeline);
    SmallVector<ApplyOp> applies(algorithm.getBody().getOps<ApplyOp>());
    if (applies.empty())
      return success();
    AxisState axes = axesOf(algorithm);
    for (ApplyOp apply : applies)
      if (failed(expandOne(algorithm, apply, axes)))
        return failure();
    return foldConstants(algorithm);
  }

  void flatten(AlgorithmOp algorithm, PipelineOp pipeline) {
    int64_t stages = pipeline.getStages().size();
    if (auto known = algorithm->getAttrOfType<IntegerAttr>("ccl.stages"))
      stages = std::max(stages, known.getInt());
    algorithm->setAttr("ccl.stages", OpBuilder(pipeline).getI64IntegerAttr(stages));
    for (Region &stage : pipeline.getStages())
      for (Operation &op : llvm::make_early_inc_range(stage.front()))
        op.moveBefore(pipeline);
    pipeline.erase();
  }

  AxisState axesOf(AlgorithmOp algorithm) {
    AxisState state;
    auto topology = algorithm.getTopologyAttr() ? SymbolTable::lookupNearestSymbolFrom<TopologyOp>(
                                                      algorithm, algorithm.getTopologyAttr())
                                                : TopologyOp();
    if (!topology)
      return state;
    for (auto [name, size] :
         llvm::zip_equal(topology.getAxes().getAsValueRange<StringAttr>(), topology.getSizes())) {
      state.names.push_back(name.str());
      state.sizes.push_back(size);
    }
    // A gather starts from scattered data.
    bool scattered = algorithm.getContract().getKind() == CollectiveKind::AllGather ||
                     algorithm.getContract().getKind() == CollectiveKind::Gather;
    state.scattered.resize(state.names.size(), scattered);
    return state;
  }

  /// Turns `along` into groups and a map per buffer.
  LogicalResult expandAlong(ApplyOp apply, AlgorithmOp callee, AxisState &axes,
                            SmallVectorImpl<int64_t> &groups, AffineMap &map) {
    unsigned axis = llvm::find(axes.names, apply.getAlong()->str()) - axes.names.begin();
    auto buffer = apply.getBuffers().front().getDefiningOp<BufferOp>();
    auto ranks = *buffer.getRankShape(), chunks = *buffer.getChunkShape();
    if (ranks != axes.sizes)
      return apply.emitOpError("'along' needs the buffer's rank grid to be the topology's axes");
    if (chunks.size() != axes.sizes.size())
      return apply.emitOpError() << "'along' needs a chunk grid with one dimension per axis ("
                                 << axes.sizes.size() << "), got " << chunks.size();
    CollectiveKind kind = callee.getContract().getKind();
    bool scatters = kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::Scatter;
    bool gathers = kind == CollectiveKind::AllGather || kind == CollectiveKind::Gather;
    if (gathers != axes.scattered.test(axis))
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
      } else if (axes.scattered.test(a)) {
        chunk[a] = rank[a]; // the rank's own
      } else {
        chunk[a] = dim(next++);
        groups.push_back(chunks[a]);
      }
    }
    SmallVector<AffineExpr> results(rank);
    results.append(chunk);
    map = AffineMap::get(next, 0, results, context);
    if (scatters)
      axes.scattered.set(axis);
    if (gathers)
      axes.scattered.reset(axis);
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

  LogicalResult expandOne(AlgorithmOp algorithm, ApplyOp apply, AxisState &axes) {
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
    auto source = SymbolTable::lookupNearestSymbolFrom<AlgorithmOp>(apply, apply.getCalleeAttr());
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
    SmallVector<Binding> bound;
    if (succeeded(result) && apply.getAlong()) {
      AffineMap map;
      result = expandAlong(apply, callee, axes, *groups, map);
      for (Value v : apply.getBuffers())
        bound.push_back({v, map});
    } else if (succeeded(result)) {
      for (auto [v, map] :
           llvm::zip_equal(apply.getBuffers(), apply.getMaps()->getAsRange<AffineMapAttr>()))
        bound.push_back({v, map.getValue()});
    }
    if (succeeded(result))
      result = Inliner(apply, callee, *groups).run(bound);
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

  static constexpr uint64_t maxInlined = 100000;
  uint64_t inlined = 0, copies = 0;
};

} // namespace
} // namespace ccl
