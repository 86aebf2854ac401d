//===- Moves.cpp - copies, reduces, and tables of them -----------------------===//

#include "dialect/Assembly.h"
#include "dialect/Indexing.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ccl {

//===----------------------------------------------------------------------===//
// ccl.copy, ccl.reduce
//===----------------------------------------------------------------------===//

template <typename Op>
static MoveRef makeMoveRef(Op op, bool reduce) {
  MoveRef move;
  move.op = op;
  move.reduce = reduce;
  move.src = {op.getSrc(), op.getSrcMap(), SmallVector<Value>(op.getSrcOperands())};
  move.dst = {op.getDst(), op.getDstMap(), SmallVector<Value>(op.getDstOperands())};
  move.count = op.getCount();
  move.tag = op.getTag();
  move.via = op.getVia();
  if (auto agents = op.getAgents(); agents && agents->size() >= 2) {
    move.srcAgent = agents->front();
    move.dstAgents.assign(agents->begin() + 1, agents->end());
  }
  return move;
}

std::optional<MoveRef> getMove(Operation *op) {
  if (auto copy = dyn_cast<CopyOp>(op))
    return makeMoveRef(copy, false);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return makeMoveRef(reduce, true);
  return std::nullopt;
}

static LogicalResult verifyPlace(Operation *op, const PlaceRef &place, int64_t count,
                                 StringRef side) {
  auto buffer = place.base.getDefiningOp<BufferOp>();
  if (!buffer)
    return op->emitOpError() << "the " << side << " is no ccl.buffer";
  unsigned rankAxes = buffer.getNumRankAxes(), axes = rankAxes + buffer.getNumChunkAxes();
  if (place.map.getNumResults() != axes) { // copy_c1
    InFlightDiagnostic d = op->emitOpError()
                           << "the " << side << " needs " << axes << " indices (" << rankAxes
                           << " for the rank, " << axes - rankAxes << " for the chunk), got "
                           << place.map.getNumResults();
    d.attachNote(buffer.getLoc()) << "the buffer is here";
    return d;
  }
  if (failed(verifyIndexOperands(op, place.map, place.operands))) // copy_c4
    return failure();
  auto ranks = buffer.getRankShape(), chunks = buffer.getChunkShape();
  if (!ranks || !chunks)
    return success();
  if (count > product(*chunks)) // copy_c3
    return op->emitOpError() << "moves " << count << " chunks, the " << side << "'s buffer has "
                             << product(*chunks);
  SmallVector<int64_t> shape(*ranks);
  shape.append(*chunks);
  bool allConstant = true;
  SmallVector<int64_t> chunk;
  for (auto [i, e] : llvm::enumerate(place.map.getResults())) {
    auto constant = dyn_cast<AffineConstantExpr>(e);
    if (!constant) {
      allConstant &= i < rankAxes;
      continue;
    }
    if (constant.getValue() < 0 || constant.getValue() >= shape[i]) // copy_c2
      return op->emitOpError() << "the " << side << (i < rankAxes ? "'s rank " : "'s chunk ")
                               << constant.getValue() << " is outside [0, " << shape[i] << ")";
    if (i >= rankAxes)
      chunk.push_back(constant.getValue());
  }
  if (allConstant && linearize(chunk, *chunks) + count > product(*chunks)) // copy_c2
    return op->emitOpError() << "the " << side << "'s chunks " << linearize(chunk, *chunks)
                             << " to " << linearize(chunk, *chunks) + count - 1
                             << " are not all inside [0, " << product(*chunks) << ")";
  return success();
}

/// What is wrong with the source's and the destination's agents of a move, if anything.
static std::string faultOf(ArrayRef<int64_t> agents) {
  for (auto [i, agent] : llvm::enumerate(agents)) {
    if (agent < 0 || agent > maxAgent)
      return llvm::formatv("agent {0} is outside [0, {1}]", agent, maxAgent);
    if (i > 0 && llvm::is_contained(agents.slice(1, i - 1), agent))
      return llvm::formatv("names agent {0} of the destination twice", agent);
  }
  return "";
}

static LogicalResult verifyAgents(Operation *op, const MoveRef &move) {
  if (move.reduce && move.via == Via::Put) // copy_c8
    return op->emitOpError("reduces, and only copies go by put");
  auto agents = op->getAttrOfType<DenseI64ArrayAttr>("agents");
  if (!agents)
    return success();
  if (agents.size() < 2 || (agents.size() > 2 && move.via != Via::Put)) // copy_c7
    return op->emitOpError() << "has " << agents.size()
                             << " agents: needs the source's and the destination's, and takes more "
                                "of the destination only with put";
  if (std::string fault = faultOf(agents); !fault.empty()) // copy_c7
    return op->emitOpError(fault);
  return success();
}

static LogicalResult verifyMove(Operation *op) {
  MoveRef move = *getMove(op);
  auto algorithm = op->getParentOfType<AlgorithmOp>();
  if (!algorithm) // copy_c4
    return op->emitOpError("stands in ccl.algorithm");
  if (move.count < 1 || move.count > INT32_MAX) // copy_c3
    return op->emitOpError() << "moves " << move.count << " chunks, needs "
                             << (move.count < 1 ? "at least 1" : "at most 2147483647");
  if (move.tag < 0)
    return op->emitOpError() << "tag " << move.tag << " is negative";
  if (failed(verifyAgents(op, move)))
    return failure();
  if (failed(verifyPlace(op, move.src, move.count, "source")) ||
      failed(verifyPlace(op, move.dst, move.count, "destination")))
    return failure();
  if (move.dst.base.getDefiningOp<BufferOp>().getRole() == BufferRole::In) // copy_c5
    return op->emitOpError("writes an 'in' buffer");
  if (move.reduce && algorithm.getContract().getReduction() == ReductionKind::None) // reduce_c6
    return op->emitOpError() << "reduces, but the contract " << algorithm.getContract()
                             << " names no reduction";
  return success();
}

LogicalResult CopyOp::verify() { return verifyMove(*this); }
LogicalResult ReduceOp::verify() { return verifyMove(*this); }

void CopyOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getSrcMutable());
  effects.emplace_back(MemoryEffects::Write::get(), &getDstMutable());
}
void ReduceOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getSrcMutable());
  effects.emplace_back(MemoryEffects::Read::get(), &getDstMutable());
  effects.emplace_back(MemoryEffects::Write::get(), &getDstMutable());
}

template <typename Op>
static LogicalResult canonicalizeMove(Op op, PatternRewriter &rewriter) {
  AffineMap src = op.getSrcMap(), dst = op.getDstMap();
  SmallVector<Value> srcOperands(op.getSrcOperands()), dstOperands(op.getDstOperands());
  bool changed = simplifyIndex(src, srcOperands);
  changed |= simplifyIndex(dst, dstOperands);
  if (!changed)
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    op.setSrcMap(src);
    op.setDstMap(dst);
    op.getSrcOperandsMutable().assign(srcOperands);
    op.getDstOperandsMutable().assign(dstOperands);
  });
  return success();
}
LogicalResult CopyOp::canonicalize(CopyOp op, PatternRewriter &rewriter) {
  return canonicalizeMove(op, rewriter);
}
LogicalResult ReduceOp::canonicalize(ReduceOp op, PatternRewriter &rewriter) {
  return canonicalizeMove(op, rewriter);
}

//===----------------------------------------------------------------------===//
// ccl.schedule
//===----------------------------------------------------------------------===//

/// The numbers of a table; empty if its resource is missing, or all are one.
static ArrayRef<int64_t> numbersOf(ElementsAttr table) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(table)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    return blob ? blob->getDataAs<int64_t>() : ArrayRef<int64_t>();
  }
  auto dense = cast<DenseElementsAttr>(table);
  if (dense.isSplat()) // stored once
    return {};
  ArrayRef<char> raw = dense.getRawData();
  return {reinterpret_cast<const int64_t *>(raw.data()), raw.size() / sizeof(int64_t)};
}

namespace {
/// Of one buffer, as far as they are known yet.
struct BufferExtent {
  std::optional<int64_t> ranks, chunks;
};
} // namespace

static SmallVector<BufferExtent> extentsOf(OperandRange buffers) {
  SmallVector<BufferExtent> extents(buffers.size());
  for (auto [extent, value] : llvm::zip(extents, buffers))
    if (auto buffer = value.getDefiningOp<BufferOp>()) {
      if (auto ranks = buffer.getRankShape())
        extent.ranks = product(*ranks);
      if (auto chunks = buffer.getChunkShape())
        extent.chunks = product(*chunks);
    }
  return extents;
}

/// What is wrong with (rank, buffer, chunk) of a row that moves `count` chunks, if anything.
static std::string faultOfPlace(ArrayRef<int64_t> place, int64_t count, StringRef side,
                                ArrayRef<BufferExtent> extents) {
  const int64_t rank = place[0], buffer = place[1], chunk = place[2];
  if (buffer < 0 || buffer >= int64_t(extents.size()))
    return llvm::formatv("buffer {0} is outside [0, {1})", buffer, extents.size());
  const auto [ranks, chunks] = extents[size_t(buffer)];
  if (ranks && (rank < 0 || rank >= *ranks)) // schedule_c4
    return llvm::formatv("the {0}'s rank {1} is outside [0, {2})", side, rank, *ranks);
  if (!chunks || (chunk >= 0 && chunk <= *chunks - count))
    return "";
  if (chunk < 0 || chunk >= *chunks) // schedule_c4
    return llvm::formatv("the {0}'s chunk {1} is outside [0, {2})", side, chunk, *chunks);
  return llvm::formatv("the {0}'s chunks {1} to {2} are not all inside [0, {3})", side, chunk,
                       chunk + count - 1, *chunks); // schedule_c4
}

SmallVector<std::pair<int64_t, Location>> ScheduleOp::getRowLocations() {
  auto fused = dyn_cast<FusedLoc>((*this)->getLoc());
  auto runs = fused ? dyn_cast_or_null<DenseI64ArrayAttr>(fused.getMetadata()) : nullptr;
  SmallVector<std::pair<int64_t, Location>> found;
  for (int64_t i = 0; runs && i + 1 < runs.size(); i += 2)
    if (runs[i] > 0 && runs[i + 1] >= 0 && runs[i + 1] < int64_t(fused.getLocations().size()))
      found.emplace_back(runs[i], fused.getLocations()[size_t(runs[i + 1])]);
  found.emplace_back(INT64_MAX, (*this)->getLoc());
  return found;
}

static Location locationOfRow(ScheduleOp op, int64_t row) {
  for (const auto &[count, location] : op.getRowLocations()) {
    if (row < count)
      return location;
    row -= count;
  }
  return op.getLoc();
}

/// Says what is wrong with the first row that is wrong, if any is, where that row was written.
static LogicalResult verifyRows(ScheduleOp op, ArrayRef<int64_t> rows) {
  const SmallVector<BufferExtent> extents = extentsOf(op.getBuffers());
  const bool puts = op.getVia() == Via::Put;
  int64_t step = 0;
  for (size_t i = 0; i < rows.size(); i += ScheduleOp::rowSize) {
    ArrayRef<int64_t> row = rows.slice(i, ScheduleOp::rowSize);
    const int64_t kind = row[1], count = row[8];
    std::string fault;
    if (row[0] < 0)
      fault = llvm::formatv("step {0} is negative", row[0]);
    else if (row[0] < step)
      fault = llvm::formatv("step {0} after step {1}", row[0], step);
    else if (kind != 0 && kind != 1)
      fault = llvm::formatv("kind {0} is neither 0 (copy) nor 1 (reduce)", kind);
    else if (count < 1 || count > INT32_MAX)
      fault = llvm::formatv("count {0} is outside [1, 2147483647]", count);
    else if (kind == 1 && puts) // schedule_c3
      fault = "reduces, and only copies go by put";
    else if (fault = faultOfPlace(row.slice(2, 3), count, "source", extents); fault.empty())
      fault = faultOfPlace(row.slice(5, 3), count, "destination", extents);
    if (!fault.empty())
      return emitError(locationOfRow(op, int64_t(i) / ScheduleOp::rowSize))
             << "'" << op->getName() << "' op row " << i / ScheduleOp::rowSize << ": " << fault;
    step = row[0];
  }
  return success();
}

static LogicalResult verifyAgentRows(ScheduleOp op);

LogicalResult ScheduleOp::verify() {
  if (!(*this)->getParentOfType<AlgorithmOp>()) // schedule_c2
    return emitOpError("stands in ccl.algorithm");
  if ((*this)->getParentOfType<affine::AffineParallelOp>())
    return emitOpError("has steps of its own and cannot stand in affine.parallel");
  auto type = getTable().getShapedType();
  if (!isa<RankedTensorType>(type) || !type.getElementType().isInteger(64) || // schedule_c1
      type.getRank() != 2 || type.getDimSize(1) != rowSize)
    return emitOpError() << "the table is a tensor<Nx" << rowSize << "xi64>, got " << type;
  if (!isa<DenseElementsAttr, DenseResourceElementsAttr>(getTable()))
    return emitOpError("the table is dense or a dense resource");
  if (getTag() > INT32_MAX)
    return emitOpError() << "tag " << int64_t(getTag()) << " is outside [0, 2147483647]";
  auto same = dyn_cast<DenseElementsAttr>(getTable());
  if (same && same.isSplat() && type.getNumElements() > 0)
    return emitOpError() << "row 0: every number is " << same.getSplatValue<int64_t>()
                         << ", which is no move";
  ArrayRef<int64_t> rows = getRows();
  if (int64_t(rows.size()) != type.getNumElements())
    return emitOpError("the table's resource is missing or has another size");
  if (failed(verifyRows(*this, rows)))
    return failure();
  return verifyAgentRows(*this);
}

static LogicalResult verifyAgentRows(ScheduleOp op) {
  if (!op.getAgents())
    return success();
  auto type = op.getAgents()->getShapedType();
  if (!isa<RankedTensorType>(type) || !type.getElementType().isInteger(64) || // schedule_c1
      type.getRank() != 2 || type.getDimSize(1) < 2 || type.getDimSize(1) > maxAgent + 2 ||
      type.getDimSize(0) != op.getTable().getShapedType().getDimSize(0))
    return op.emitOpError()
           << "agents are a tensor<NxMxi64> with as many rows as the table and 2 to "
           << maxAgent + 2 << " columns, got " << type;
  if (!isa<DenseElementsAttr, DenseResourceElementsAttr>(*op.getAgents()))
    return op.emitOpError("the table of agents is dense or a dense resource");
  auto dense = dyn_cast<DenseElementsAttr>(*op.getAgents());
  if (!(dense && dense.isSplat()) &&
      int64_t(numbersOf(*op.getAgents()).size()) != type.getNumElements())
    return op.emitOpError("the resource of agents is missing or has another size");
  for (int64_t i = 0; i < type.getDimSize(0); ++i) {
    SmallVector<int64_t, 4> agents = op.getAgentsOf(size_t(i));
    if (agents.size() > 2 && op.getVia() != Via::Put)
      return op.emitOpError() << "row " << i << ": several agents of the destination, without put";
    if (agents.size() < 2)
      return op.emitOpError() << "row " << i << ": no agent of the destination";
    if (std::string fault = faultOf(agents); !fault.empty()) // schedule_c3
      return op.emitOpError() << "row " << i << ": " << fault;
  }
  return success();
}

// A row of equal numbers is no valid row anyway.
ArrayRef<int64_t> ScheduleOp::getRows() { return numbersOf(getTable()); }

ElementsAttr ScheduleOp::makeTable(MLIRContext *context, ArrayRef<int64_t> numbers,
                                   int64_t columns) {
  auto type = RankedTensorType::get({int64_t(numbers.size()) / columns, columns},
                                    IntegerType::get(context, 64));
  return DenseElementsAttr::get(type, numbers);
}

SmallVector<int64_t, 4> ScheduleOp::getAgentsOf(size_t row) {
  if (!getAgents())
    return {0, 0};
  const size_t columns = size_t(getAgents()->getShapedType().getDimSize(1));
  SmallVector<int64_t, 4> agents;
  if (auto dense = dyn_cast<DenseElementsAttr>(*getAgents()); dense && dense.isSplat())
    agents.assign(columns, dense.getSplatValue<int64_t>());
  else
    llvm::append_range(agents, numbersOf(*getAgents()).slice(row * columns, columns));
  while (agents.size() > 1 && agents.back() == -1)
    agents.pop_back();
  return agents;
}

void ScheduleOp::getEffects(Effects &effects) {
  for (OpOperand &buffer : getBuffersMutable()) {
    effects.emplace_back(MemoryEffects::Read::get(), &buffer);
    effects.emplace_back(MemoryEffects::Write::get(), &buffer);
  }
}

} // namespace ccl
