//===- StageMaps.cpp ----------------------------------------------------------===//
#include "passes/lowering/StageMaps.h"

#include "dialect/Indexing.h"

#include <numeric>

using namespace mlir;

namespace ccl {

AxisStates AxisStates::of(AlgorithmOp algorithm) {
  AxisStates state;
  auto topology =
      algorithm.getTopologyAttr()
          ? SymbolTable::lookupNearestSymbolFrom<TopologyOp>(algorithm, algorithm.getTopologyAttr())
          : TopologyOp();
  if (!topology)
    return state;
  for (auto [name, size] :
       llvm::zip_equal(topology.getAxes().getAsValueRange<StringAttr>(), topology.getSizes())) {
    state.names.push_back(name.str());
    state.sizes.push_back(size);
  }
  // A gather starts from scattered data, and what has a root that sends from the root's.
  const CollectiveKind kind = algorithm.getContract().getKind();
  Data start = Data::Whole;
  if (kind == CollectiveKind::AllGather || kind == CollectiveKind::Gather)
    start = Data::Scattered;
  if (kind == CollectiveKind::Broadcast)
    start = Data::AtRoot;
  state.data.assign(state.names.size(), start);
  state.roots.resize(state.names.size());
  int64_t root = algorithm.getContract().getRoot();
  for (size_t a = state.sizes.size(); a-- > 0; root /= state.sizes[a])
    state.roots[a] = root % state.sizes[a];
  return state;
}

int64_t piecesFor(const model::Contract &callee, int64_t extents) {
  if (std::max(callee.inShards(), callee.outShards()) > 1)
    return callee.chunks;
  return std::lcm(callee.chunks, extents) / extents;
}

bool isAlong(CollectiveOpInterface stage, StringRef axis) {
  ArrayAttr named = stage.getAxesAttr();
  return !named || llvm::is_contained(named.getAsValueRange<StringAttr>(), axis);
}

bool isSameStage(CollectiveOpInterface a, CollectiveOpInterface b) {
  return a.getGroupsAttr() && b.getGroupsAttr() && a.getContract() == b.getContract() &&
         a.getAxesAttr() == b.getAxesAttr();
}

void completeAxis(CollectiveKind kind, int64_t root, size_t axis, AxisStates &axes) {
  switch (kind) {
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::Scatter: axes.data[axis] = AxisStates::Data::Scattered; break;
  case CollectiveKind::Reduce:
  case CollectiveKind::Gather:
    axes.data[axis] = AxisStates::Data::AtRoot;
    axes.roots[axis] = root;
    break;
  default: axes.data[axis] = AxisStates::Data::Whole;
  }
}

static void complete(CollectiveOpInterface stage, AxisStates &axes) {
  int64_t root = stage.getContract().getRoot();
  for (size_t a = axes.names.size(); a-- > 0;) {
    if (!isAlong(stage, axes.names[a]))
      continue;
    completeAxis(stage.getContract().getKind(), root % axes.sizes[a], a, axes);
    root /= axes.sizes[a];
  }
}

void finishParts(AxisStates &axes) {
  if (axes.part)
    complete(axes.part, axes);
  axes.part = {};
}

void enterStage(CollectiveOpInterface stage, AxisStates &axes) {
  if (axes.part && !isSameStage(axes.part, stage))
    finishParts(axes);
}

void leaveStage(CollectiveOpInterface stage, AxisStates &axes) {
  if (stage.getGroupsAttr())
    axes.part = stage;
  else
    complete(stage, axes);
}

namespace {

using Data = AxisStates::Data;

class StageBinder {
public:
  StageBinder(ApplyOp apply, CollectiveOpInterface stage, AlgorithmOp callee, AxisStates &axes)
      : apply(apply), stage(stage), callee(callee), axes(axes), context(apply.getContext()) {}

  FailureOr<SmallVector<StageBinding>> run() {
    enterStage(stage, axes);
    findBlock();
    if (failed(checkStates()) || failed(checkBuffers()))
      return failure();
    SmallVector<StageBinding> bindings;
    if (auto listed = stage.getGroupsAttr()) {
      for (int64_t group : listed.asArrayRef())
        if (std::optional<SmallVector<int64_t>> at = coordinatesOf(group))
          bindings.push_back(bind(*at));
    } else {
      bindings.push_back(bind({}));
    }
    leaveStage(stage, axes);
    return bindings;
  }

private:
  AffineExpr dim(unsigned i) const { return getAffineDimExpr(i, context); }
  AffineExpr constant(int64_t value) const { return getAffineConstantExpr(value, context); }

  void findBlock() {
    for (size_t a = 0; a < axes.names.size(); ++a) {
      inBlock.push_back(isAlong(stage, axes.names[a]));
      if (inBlock[a])
        ranks *= axes.sizes[a];
    }
  }

  LogicalResult complain(size_t axis, StringRef what) {
    return apply.emitOpError() << "axis \"" << axes.names[axis] << "\" " << what;
  }

  LogicalResult checkStates() {
    const CollectiveKind kind = stage.getContract().getKind();
    int64_t root = stage.getContract().getRoot();
    for (size_t a = axes.names.size(); a-- > 0;) {
      if (!inBlock[a])
        continue;
      const int64_t mine = root % axes.sizes[a];
      root /= axes.sizes[a];
      switch (kind) {
      case CollectiveKind::AllGather:
        if (axes.data[a] != Data::Scattered)
          return complain(a, "is not scattered: there is nothing to gather");
        break;
      case CollectiveKind::Broadcast:
        if (axes.data[a] != Data::AtRoot)
          return complain(a, "is not held by one coordinate: there is nothing to broadcast");
        if (axes.roots[a] != mine)
          return apply.emitOpError() << "axis \"" << axes.names[a] << "\" is held by coordinate "
                                     << axes.roots[a] << ", the stage's root has " << mine;
        break;
      case CollectiveKind::AllReduce:
      case CollectiveKind::ReduceScatter:
      case CollectiveKind::Reduce:
        if (axes.data[a] == Data::Scattered)
          return complain(a, "is scattered: gather along it first");
        if (axes.data[a] == Data::AtRoot)
          return complain(a, "is held by one coordinate: broadcast along it first");
        break;
      default:
        return apply.emitOpError() << apply.getCalleeAttr()
                                   << " is no stage: all_reduce, reduce_scatter, all_gather, "
                                      "broadcast and reduce_to are";
      }
    }
    return success();
  }

  bool shards() const {
    return contract.collective == model::Collective::AllGather ||
           contract.collective == model::Collective::ReduceScatter;
  }

  LogicalResult checkBuffers() {
    FailureOr<model::Contract> theirs = getModelContract(callee);
    if (failed(theirs))
      return failure();
    contract = std::move(*theirs);
    if (contract.ranks != ranks)
      return apply.emitOpError() << "@" << callee.getSymName() << " is for " << contract.ranks
                                 << " ranks, the groups of " << apply.getCalleeAttr() << " have "
                                 << ranks;
    auto buffer = apply.getBuffers().front().getDefiningOp<BufferOp>();
    if (*buffer.getRankShape() != axes.sizes)
      return apply.emitOpError("needs a buffer whose rank grid is the topology's axes");
    extents = *buffer.getChunkShape();
    if (extents.size() != axes.sizes.size() && extents.size() != axes.sizes.size() + 1)
      return apply.emitOpError() << "needs a chunk grid with one dimension per axis ("
                                 << axes.sizes.size() << "), and maybe one for pieces; got "
                                 << extents.size();
    hasPieces = extents.size() > axes.sizes.size();
    pieces = hasPieces ? extents.pop_back_val() : 1;
    int64_t block = 1;
    for (size_t a = 0; a < extents.size(); ++a) {
      const bool mustBeWhole = (inBlock[a] && shards()) || axes.data[a] == Data::Scattered;
      if (extents[a] != axes.sizes[a] && (extents[a] != 1 || mustBeWhole))
        return apply.emitOpError() << "axis \"" << axes.names[a] << "\" has " << axes.sizes[a]
                                   << " ranks, and the buffer " << extents[a] << " chunks along it";
      block *= inBlock[a] ? extents[a] : 1;
    }
    if (int64_t needed = piecesFor(contract, block); pieces % needed != 0)
      return apply.emitOpError() << "@" << callee.getSymName() << " needs a multiple of " << needed
                                 << " pieces, the buffer has " << pieces
                                 << " (the chunk axis behind those of the topology)";
    return success();
  }

  /// Coordinates of a group; nothing if no rank of it holds data.
  std::optional<SmallVector<int64_t>> coordinatesOf(int64_t group) const {
    SmallVector<int64_t> at(axes.sizes.size());
    for (size_t a = axes.sizes.size(); a-- > 0;) {
      if (inBlock[a])
        continue;
      at[a] = group % axes.sizes[a];
      group /= axes.sizes[a];
      if (axes.data[a] == Data::AtRoot && at[a] != axes.roots[a])
        return std::nullopt;
    }
    return at;
  }

  /// Splits a linear index over the block's axes, of these extents.
  void split(AffineExpr index, ArrayRef<int64_t> sizes, MutableArrayRef<AffineExpr> out) const {
    int64_t stride = 1;
    bool isFirst = true;
    for (size_t a = 0; a < sizes.size(); ++a)
      stride *= inBlock[a] ? sizes[a] : 1;
    for (size_t a = 0; a < sizes.size(); ++a) {
      if (!inBlock[a] || sizes[a] == 1)
        continue;
      stride /= sizes[a];
      out[a] = stride > 1 ? index.floorDiv(stride) : index;
      if (!isFirst)
        out[a] = out[a] % sizes[a];
      isFirst = false;
    }
  }

  /// As `split`, of an index that `shape` has in parts already, from dimension `first` on.
  void splitGrid(unsigned first, ArrayRef<int64_t> shape, ArrayRef<int64_t> sizes,
                 MutableArrayRef<AffineExpr> out) const {
    SmallVector<int64_t> mine;
    for (size_t a = 0; a < sizes.size(); ++a)
      if (inBlock[a])
        mine.push_back(sizes[a]);
    if (ArrayRef<int64_t>(mine) != shape)
      return split(linear(first, shape), sizes, out);
    for (size_t a = 0; a < sizes.size(); ++a)
      if (inBlock[a])
        out[a] = dim(first++);
  }

  AffineExpr linear(unsigned first, ArrayRef<int64_t> shape) const {
    SmallVector<AffineExpr> parts;
    for (unsigned i = 0; i < shape.size(); ++i)
      parts.push_back(dim(first + i));
    return parts.empty() ? constant(0) : linearize(parts, shape);
  }

  /// `at`: the coordinates of the one group that is bound; empty: all groups.
  StageBinding bind(ArrayRef<int64_t> at) {
    StageBinding binding;
    for (auto theirs : callee.getBody().getOps<BufferOp>())
      if (theirs.getRole() != BufferRole::Scratch)
        binding.maps.push_back(mapOf(theirs, at, binding.groups));
    return binding;
  }

  AffineMap mapOf(BufferOp theirs, ArrayRef<int64_t> at, SmallVector<int64_t> &groups) {
    groups.clear();
    const SmallVector<int64_t> rankShape = *theirs.getRankShape(),
                               chunkShape = *theirs.getChunkShape();
    const unsigned fixed = unsigned(rankShape.size() + chunkShape.size());
    auto group = [&](int64_t extent) {
      groups.push_back(extent);
      return dim(fixed + unsigned(groups.size()) - 1);
    };
    const size_t count = axes.sizes.size();
    SmallVector<AffineExpr> rank(count, constant(0)), chunk(count, constant(0));
    splitGrid(0, rankShape, axes.sizes, rank);
    for (size_t a = 0; a < count; ++a)
      if (!inBlock[a])
        rank[a] = axes.data[a] == Data::AtRoot ? constant(axes.roots[a])
                  : at.empty()                 ? group(axes.sizes[a])
                                               : constant(at[a]);
    AffineExpr piece = mapChunk(theirs, rankShape, chunkShape, chunk, group);
    for (size_t a = 0; a < count; ++a)
      if (!inBlock[a])
        chunk[a] = axes.isScattered(a) ? rank[a] : extents[a] > 1 ? group(extents[a]) : constant(0);
    SmallVector<AffineExpr> results(rank);
    results.append(chunk);
    if (hasPieces)
      results.push_back(piece);
    for (AffineExpr &e : results)
      e = normalizeIndex(e);
    return AffineMap::get(fixed + unsigned(groups.size()), 0, results, context);
  }

  /// The chunk's coordinates along the block, and its piece, which is returned.
  AffineExpr mapChunk(BufferOp theirs, ArrayRef<int64_t> rankShape, ArrayRef<int64_t> chunkShape,
                      MutableArrayRef<AffineExpr> chunk, function_ref<AffineExpr(int64_t)> group) {
    const unsigned first = unsigned(rankShape.size());
    int64_t block = 1;
    for (size_t a = 0; a < extents.size(); ++a)
      block *= inBlock[a] ? extents[a] : 1;
    const int64_t total = product(chunkShape);
    auto inPieces = [&](AffineExpr index, int64_t of) {
      return of == pieces ? index : index * (pieces / of) + group(pieces / of);
    };
    // A shard of a gather's input, or a scatter's output, is the rank's own.
    if (shards() && total == contract.chunks && ranks > 1) {
      splitGrid(0, rankShape, extents, chunk);
      return inPieces(linear(first, chunkShape), total);
    }
    if (block == 1)
      return inPieces(linear(first, chunkShape), total);
    if (total % block != 0) {
      AffineExpr index = linear(first, chunkShape);
      const int64_t each = block * pieces / total;
      if (each > 1)
        index = index * each + group(each);
      split(pieces > 1 ? index.floorDiv(pieces) : index, extents, chunk);
      return pieces > 1 ? index % pieces : constant(0);
    }
    const int64_t within = total / block;
    if (within == chunkShape.back() && chunkShape.size() > 1) {
      splitGrid(first, chunkShape.drop_back(), extents, chunk);
      return inPieces(dim(first + unsigned(chunkShape.size()) - 1), within);
    }
    if (within == 1) {
      splitGrid(first, chunkShape, extents, chunk);
      return inPieces(constant(0), 1);
    }
    AffineExpr index = linear(first, chunkShape);
    split(index.floorDiv(within), extents, chunk);
    return inPieces(index % within, within);
  }

  ApplyOp apply;
  CollectiveOpInterface stage;
  AlgorithmOp callee;
  AxisStates &axes;
  MLIRContext *context;
  model::Contract contract;
  SmallVector<bool> inBlock;
  int64_t ranks = 1;            ///< of a group
  SmallVector<int64_t> extents; ///< of the chunk axes along the topology's
  bool hasPieces = false;
  int64_t pieces = 1;
};

} // namespace

FailureOr<SmallVector<StageBinding>> bindStage(ApplyOp apply, CollectiveOpInterface stage,
                                               AlgorithmOp callee, AxisStates &axes) {
  return StageBinder(apply, stage, callee, axes).run();
}

} // namespace ccl
