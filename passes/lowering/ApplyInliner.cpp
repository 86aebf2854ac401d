//===- ApplyInliner.cpp - The callee's moves as the caller's ------------------------===//
//
// Places of the callee are rewritten through the binding's map; everything stays
// affine, so loops stay loops. A rank loop of the callee gets the groups as further
// dimensions: groups are independent by construction.
//===----------------------------------------------------------------------===//
#include "passes/lowering/ApplyInliner.h"

#include "dialect/Indexing.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

namespace ccl {

namespace {

using Binding = ApplyBinding;

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
      eraseIfEmpty(created, *body);
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
    if (failed(body(inner, created.getIVs())))
      return failure();
    eraseIfEmpty(created, *created.getBody());
    return success();
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
    if (failed(inlineBlock(*op.getBody(), inner, keep)))
      return failure();
    eraseIfEmpty(created, *created.getBody());
    return success();
  }

  /// Moves from a place to itself are left out.
  static void eraseIfEmpty(Operation *loop, Block &body) {
    if (body.without_terminator().empty())
      loop->erase();
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
    return normalizeIndex(chunk.replace(shift) - chunk) == getAffineConstantExpr(1, context) &&
           llvm::all_of(binding.map.getResults().take_front(rankAxes), [&](AffineExpr e) {
             return normalizeIndex(e.replace(shift)) == normalizeIndex(e);
           });
  }

  /// Whether `count` chunks from a linear one on lie along the callee's last chunk axis.
  static bool isInRow(Value buffer, int64_t chunk, int64_t count) {
    const int64_t last = buffer.getDefiningOp<BufferOp>().getChunkShape()->back();
    return chunk % last + count <= last;
  }
  static bool isInRow(const PlaceRef &place, int64_t count) {
    auto theirs = place.base.getDefiningOp<BufferOp>();
    if (theirs.getNumChunkAxes() == 1)
      return true;
    auto last = dyn_cast<AffineConstantExpr>(place.map.getResults().back());
    return last && isInRow(place.base, last.getValue(), count);
  }

  LogicalResult inlineMove(Operation &op, OpBuilder &b, ValueRange groupIvs) {
    MoveRef move = *getMove(&op);
    const bool inRow = isInRow(move.src, move.count) && isInRow(move.dst, move.count);
    bool whole = move.count == 1 || (inRow && keepsAdjacent(move.src) && keepsAdjacent(move.dst));
    if (!whole && !(inRow && move.count <= 64)) {
      InFlightDiagnostic d = op.emitOpError() << "moves " << move.count
                                              << " chunks that are not adjacent for the caller";
      d.attachNote(apply.getLoc()) << "applied here";
      return d;
    }
    for (int64_t i = 0; i < (whole ? 1 : move.count); ++i) {
      PlaceRef src = mapPlace(move.src, i, groupIvs), dst = mapPlace(move.dst, i, groupIvs);
      int64_t count = whole ? move.count : 1;
      // Input and output of the callee are one place here.
      if (!move.reduce && src.base == dst.base && src.map == dst.map &&
          src.operands == dst.operands)
        continue;
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

  /// The caller's rank and chunk of one side of a row. Emits what is wrong.
  LogicalResult mapRowSide(ScheduleOp op, size_t number, MutableArrayRef<int64_t> row,
                           unsigned side, int64_t group) {
    auto theirs = op.getBuffers()[row[side + 1]].getDefiningOp<BufferOp>();
    const Binding &binding = bindings.find(theirs.getResult())->second;
    auto mine = binding.buffer.getDefiningOp<BufferOp>();
    SmallVector<int64_t> inputs, rankShape = *theirs.getRankShape(),
                                 chunkShape = *theirs.getChunkShape();
    if (row[side] < 0 || row[side] >= product(rankShape))
      return badRow(op, number) << "rank " << row[side] << " is outside [0, " << product(rankShape)
                                << ")";
    if (row[side + 2] < 0 || row[side + 2] + row[8] > product(chunkShape))
      return badRow(op, number) << "chunks " << row[side + 2] << " to "
                                << row[side + 2] + row[8] - 1 << " are not all inside [0, "
                                << product(chunkShape) << ")";
    inputs.append(delinearize(row[side], rankShape));
    inputs.append(delinearize(row[side + 2], chunkShape));
    inputs.append(delinearize(group, groups));
    SmallVector<int64_t> results;
    for (AffineExpr e : binding.map.getResults())
      results.push_back(evaluateIndex(e, inputs, inputs.size()));
    ArrayRef<int64_t> all(results);
    row[side] = linearize(all.take_front(mine.getNumRankAxes()), *mine.getRankShape());
    row[side + 2] = linearize(all.drop_front(mine.getNumRankAxes()), *mine.getChunkShape());
    if (row[side] < 0 || row[side + 2] < 0)
      return badRow(op, number) << "the map leads out of the caller's ranks or chunks";
    return success();
  }

  InFlightDiagnostic badRow(ScheduleOp op, size_t number) {
    InFlightDiagnostic d = op.emitOpError() << "row " << number << ": ";
    d.attachNote(apply.getLoc()) << "applied here";
    return d;
  }

  /// Every row once per group, and per chunk if these are not adjacent for the caller; the rows of
  /// a step stay in one step.
  LogicalResult inlineSchedule(ScheduleOp op, OpBuilder &b) {
    SmallVector<Value> buffers;
    for (Value v : op.getBuffers())
      buffers.push_back(bindings.find(v)->second.buffer);
    int64_t groupCount = product(groups);
    const int64_t columns = op.getAgents() ? op.getAgents()->getShapedType().getDimSize(1) : 0;
    std::vector<int64_t> rows, agents;
    ArrayRef<int64_t> in = op.getRows();
    SmallVector<bool> keeps; // by buffer
    for (Value v : op.getBuffers())
      keeps.push_back(keepsAdjacent({v, {}, {}}));
    for (size_t i = 0; i < in.size(); i += ScheduleOp::rowSize) {
      ArrayRef<int64_t> row = in.slice(i, ScheduleOp::rowSize);
      const size_t number = i / ScheduleOp::rowSize;
      auto isAdjacent = [&](int64_t buffer, int64_t chunk) {
        return keeps[buffer] && isInRow(op.getBuffers()[buffer], chunk, row[8]);
      };
      const bool whole = row[8] == 1 || (isAdjacent(row[3], row[4]) && isAdjacent(row[6], row[7]));
      for (int64_t g = 0; g < groupCount; ++g)
        for (int64_t part = 0; part < (whole ? 1 : row[8]); ++part) {
          SmallVector<int64_t> out(row.begin(), row.end());
          out[4] += part, out[7] += part, out[8] = whole ? row[8] : 1;
          if (failed(mapRowSide(op, number, out, 2, g)) ||
              failed(mapRowSide(op, number, out, 5, g)))
            return failure();
          if (out[1] == 0 && out[2] == out[5] && buffers[out[3]] == buffers[out[6]] &&
              out[4] == out[7])
            continue; // input and output of the callee are one place here
          rows.insert(rows.end(), out.begin(), out.end());
          if (op.getAgents()) {
            SmallVector<int64_t, 4> mine = op.getAgentsOf(number);
            mine.resize(columns, -1);
            llvm::append_range(agents, mine);
          }
        }
    }
    if (rows.empty() && !in.empty())
      return success();
    ElementsAttr table;
    if (!agents.empty())
      table = ScheduleOp::makeTable(context, agents, columns);
    b.create<ScheduleOp>(op.getLoc(), buffers, ScheduleOp::makeTable(context, rows),
                         op.getViaAttr(), /*tag=*/0, table);
    return success();
  }

  ApplyOp apply;
  AlgorithmOp callee;
  ArrayRef<int64_t> groups;
  MLIRContext *context;
  OpBuilder builder;
  IRMapping values;
  DenseMap<Value, Binding> bindings;
};

} // namespace

LogicalResult inlineApply(ApplyOp apply, AlgorithmOp callee, ArrayRef<int64_t> groups,
                          ArrayRef<ApplyBinding> bound) {
  return Inliner(apply, callee, groups).run(bound);
}

} // namespace ccl
