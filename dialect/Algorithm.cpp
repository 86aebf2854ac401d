//===- Algorithm.cpp - L1 ops -----------------------------------------------===//

#include "dialect/Assembly.h"
#include "dialect/Indexing.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace ccl;

#define GET_OP_CLASSES
#include "dialect/CclAlgorithmOps.cpp.inc"

namespace ccl {

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

//===----------------------------------------------------------------------===//
// ccl.algorithm
//===----------------------------------------------------------------------===//

ParseResult AlgorithmOp::parse(OpAsmParser &p, OperationState &state) {
  Builder &b = p.getBuilder();
  StringAttr name;
  SmallVector<OpAsmParser::Argument> args;
  ContractAttr contract;
  if (p.parseSymbolName(name, "sym_name", state.attributes) ||
      p.parseArgumentList(args, OpAsmParser::Delimiter::OptionalParen, /*allowType=*/true) ||
      p.parseKeyword("implements") || p.parseAttribute(contract, "contract", state.attributes))
    return failure();
  if (succeeded(p.parseOptionalKeyword("on"))) {
    FlatSymbolRefAttr topology;
    if (p.parseAttribute(topology, "topology", state.attributes))
      return failure();
  }
  if (succeeded(p.parseOptionalKeyword("lowered")))
    state.addAttribute("lowered", b.getUnitAttr());
  if (p.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  SmallVector<Type> types;
  SmallVector<StringRef> names;
  for (auto &arg : args) {
    types.push_back(arg.type);
    names.push_back(arg.ssaName.name.drop_front());
  }
  state.addAttribute("function_type", TypeAttr::get(b.getFunctionType(types, {})));
  if (!names.empty())
    state.addAttribute("arg_names", b.getStrArrayAttr(names));
  Region *body = state.addRegion();
  if (p.parseRegion(*body, args))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

void AlgorithmOp::print(OpAsmPrinter &p) {
  p << ' ';
  p.printSymbolName(getSymName());
  if (getNumArguments()) {
    p << '(';
    llvm::interleaveComma(getArguments(), p, [&](BlockArgument a) { p.printRegionArgument(a); });
    p << ')';
  }
  p << " implements " << getContract();
  if (getTopology())
    p << " on " << getTopologyAttr();
  if (getLowered())
    p << " lowered";
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {"sym_name", "function_type", "contract",
                                                           "topology", "lowered", "arg_names"});
  p << ' ';
  printBody(p, *this, getBody());
}

void AlgorithmOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  if (auto names = getArgNames(); names && names->size() == region.getNumArguments())
    for (auto [arg, name] : llvm::zip_equal(region.getArguments(), *names))
      setName(arg, cast<StringAttr>(name).getValue());
}

StringRef AlgorithmOp::getParameterName(unsigned i) {
  auto names = getArgNames();
  return names && i < names->size() ? cast<StringAttr>((*names)[i]).getValue() : "";
}

static bool isAllowedInAlgorithm(Operation *op) {
  return isa<BufferOp, CopyOp, ReduceOp, ApplyOp, PipelineOp, ScheduleOp, affine::AffineForOp,
             affine::AffineParallelOp, affine::AffineYieldOp, arith::ConstantOp>(op);
}

LogicalResult verifyLoop(Operation *op) {
  if (op->getNumResults())
    return op->emitOpError("carries values between iterations; moves communicate through "
                           "buffers only");
  // Upstream leaves it open whether the maps of the bounds fit their operands.
  auto fits = [](AffineMap map, ValueRange operands) {
    return map.getNumResults() > 0 && map.getNumInputs() == operands.size();
  };
  bool fitting = true;
  if (auto f = dyn_cast<affine::AffineForOp>(op))
    fitting = fits(f.getLowerBoundMap(), f.getLowerBoundOperands()) &&
              fits(f.getUpperBoundMap(), f.getUpperBoundOperands());
  if (auto p = dyn_cast<affine::AffineParallelOp>(op))
    fitting = p.getNumDims() == p.getSteps().size() &&
              fits(p.getLowerBoundsMap(), p.getLowerBoundsOperands()) &&
              fits(p.getUpperBoundsMap(), p.getUpperBoundsOperands());
  if (!fitting)
    return op->emitOpError("has bounds whose maps do not fit their operands");
  // Far beyond any use, and far enough from the ends of int64_t to compute with.
  constexpr int64_t limit = int64_t(1) << 40;
  auto loop = dyn_cast<affine::AffineForOp>(op);
  bool far =
      loop &&
      ((loop.hasConstantLowerBound() && std::abs(loop.getConstantLowerBound() / 2) > limit / 2) ||
       (loop.hasConstantUpperBound() && std::abs(loop.getConstantUpperBound() / 2) > limit / 2) ||
       loop.getStepAsInt() > limit);
  if (auto parallel = dyn_cast<affine::AffineParallelOp>(op))
    for (AffineMap map : {parallel.getLowerBoundsMap(), parallel.getUpperBoundsMap()})
      for (AffineExpr e : map.getResults())
        if (auto c = dyn_cast<AffineConstantExpr>(e))
          far |= std::abs(c.getValue() / 2) > limit / 2;
  if (far)
    return op->emitOpError() << "has bounds or a step beyond " << limit;
  if (loop && loop.getStepAsInt() < 1)
    return op->emitOpError() << "has step " << loop.getStepAsInt() << ", needs at least 1";
  if (auto parallel = dyn_cast<affine::AffineParallelOp>(op))
    for (int64_t step : parallel.getSteps())
      if (step < 1)
        return op->emitOpError() << "has step " << step << ", needs at least 1";
  return success();
}

LogicalResult AlgorithmOp::verify() {
  for (Type type : getArgumentTypes())
    if (!type.isIndex()) // algorithm_c1
      return emitOpError() << "size parameters have type index, got " << type;
  if (!getResultTypes().empty())
    return emitOpError("has no results");
  if (getArgNames() && getArgNames()->size() != getNumArguments())
    return emitOpError("names not all of its parameters");
  if (Attribute batches = (*this)->getAttr(microBatchesAttr)) // algorithm_c7
    if (auto number = dyn_cast<IntegerAttr>(batches);
        !number || !number.getType().isInteger(64) || number.getInt() < 1)
      return emitOpError() << microBatchesAttr << " is a number from 1 on, not " << batches;
  if (getLowered() && getNumArguments()) // algorithm_c6
    return emitOpError("is lowered, so it has no size parameters");
  if (getLowered())
    for (Operation &op : getBlock())
      if (!isa<BufferOp>(op)) // algorithm_c6
        return op.emitOpError("stands in a lowered algorithm, which holds only buffers");
  // By name only, before the ops verify themselves: some that are foreign here take for
  // ever to do so.
  WalkResult walk = getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isAllowedInAlgorithm(op)) // algorithm_c2
      return WalkResult::advance();
    op->emitOpError("is not allowed in an algorithm");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

// What looks into the ops of the body waits until these have been verified.
LogicalResult AlgorithmOp::verifyRegions() {
  WalkResult walk = getBody().walk([&](Operation *op) {
    bool isLoop = isa<affine::AffineForOp, affine::AffineParallelOp>(op);
    return isLoop && failed(verifyLoop(op)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();

  BufferOp first;
  BufferOp byRole[3];
  for (auto buffer : getBody().getOps<BufferOp>()) {
    if (!first)
      first = buffer;
    auto shape = buffer.getRankShape(), firstShape = first.getRankShape();
    bool differs = buffer.getNumRankAxes() != first.getNumRankAxes() ||
                   (shape && firstShape && *shape != *firstShape);
    if (differs) { // algorithm_c3
      InFlightDiagnostic d = buffer.emitOpError("has another rank grid than the first buffer");
      d.attachNote(first.getLoc()) << "the first buffer is here";
      return d;
    }
    if (buffer.getRole() == BufferRole::Scratch)
      continue;
    BufferOp &same = byRole[uint32_t(buffer.getRole())];
    if (same) { // algorithm_c4
      InFlightDiagnostic d = buffer.emitOpError()
                             << "is a second '" << stringifyBufferRole(buffer.getRole())
                             << "' buffer; there may be one";
      d.attachNote(same.getLoc()) << "the first is here";
      return d;
    }
    same = buffer;
  }
  BufferOp inout = byRole[uint32_t(BufferRole::InOut)];
  for (BufferRole role : {BufferRole::In, BufferRole::Out})
    if (inout && byRole[uint32_t(role)]) // algorithm_c4
      return byRole[uint32_t(role)].emitOpError()
             << "'" << stringifyBufferRole(role) << "' and 'inout' exclude each other";
  return success();
}

/// Every rank has one program.
static LogicalResult verifyCoverage(AlgorithmOp algorithm) {
  int64_t ranks = 0;
  for (auto buffer : algorithm.getBody().getOps<BufferOp>())
    ranks = product(buffer.getRankShape().value_or(SmallVector<int64_t>()));
  SmallVector<std::pair<int64_t, int64_t>> intervals;
  for (ProgramOp program : getPrograms(algorithm))
    for (size_t i = 0; i + 1 < program.getRanks().size(); i += 2)
      intervals.emplace_back(program.getRanks()[i], program.getRanks()[i + 1]);
  llvm::sort(intervals);
  int64_t next = 0;
  for (auto [begin, end] : intervals) {
    if (begin < next) // algorithm_c6
      return algorithm.emitOpError() << "is lowered, but rank " << begin << " has two programs";
    if (begin > next)
      break;
    next = end;
  }
  if (next < ranks || intervals.empty()) // algorithm_c6
    return algorithm.emitOpError() << "is lowered, but rank " << next << " has no program";
  return success();
}

bool hasInOut(AlgorithmOp algorithm) {
  return llvm::any_of(algorithm.getBody().getOps<BufferOp>(),
                      [](BufferOp buffer) { return buffer.getRole() == BufferRole::InOut; });
}

LogicalResult AlgorithmOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getTopologyAttr() &&
      !symbols.lookupNearestSymbolFrom<TopologyOp>(*this, getTopologyAttr())) // algorithm_c5
    return emitOpError() << "there is no topology " << getTopologyAttr();
  return getLowered() ? verifyCoverage(*this) : success();
}

//===----------------------------------------------------------------------===//
// ccl.buffer
//===----------------------------------------------------------------------===//

ParseResult BufferOp::parse(OpAsmParser &p, OperationState &state) {
  Builder &b = p.getBuilder();
  BufferRole role;
  if (parseWord(static_cast<AsmParser &>(p), role, symbolizeBufferRole,
                getMaxEnumValForBufferRole(), stringifyBufferRole))
    return failure();
  state.addAttribute("role", BufferRoleAttr::get(p.getContext(), role));
  SmallVector<Unresolved> rankOperands, chunkOperands;
  AffineMapAttr ranks, chunks;
  if (succeeded(p.parseOptionalKeyword("ranks")) &&
      p.parseAffineMapOfSSAIds(rankOperands, ranks, "ranks", state.attributes,
                               OpAsmParser::Delimiter::Paren))
    return failure();
  if (p.parseKeyword("chunks") ||
      p.parseAffineMapOfSSAIds(chunkOperands, chunks, "chunks", state.attributes,
                               OpAsmParser::Delimiter::Paren))
    return failure();
  StringRef name = p.getResultName(0).first;
  if (!name.empty() && !llvm::isDigit(name[0]))
    state.addAttribute("name", b.getStringAttr(name));
  state.addAttribute(
      "operandSegmentSizes",
      b.getDenseI32ArrayAttr({int32_t(rankOperands.size()), int32_t(chunkOperands.size())}));
  state.addTypes(BufferType::get(p.getContext()));
  return failure(p.parseOptionalAttrDict(state.attributes) ||
                 p.resolveOperands(rankOperands, b.getIndexType(), state.operands) ||
                 p.resolveOperands(chunkOperands, b.getIndexType(), state.operands));
}

void BufferOp::print(OpAsmPrinter &p) {
  p << ' ' << stringifyBufferRole(getRole());
  if (getRanks()) {
    p << " ranks(";
    p.printAffineMapOfSSAIds(getRanksAttr(), getRankOperands());
    p << ')';
  }
  p << " chunks(";
  p.printAffineMapOfSSAIds(getChunksAttr(), getChunkOperands());
  p << ')';
  p.printOptionalAttrDict((*this)->getAttrs(),
                          {"role", "ranks", "chunks", "name", "operandSegmentSizes"});
}

void BufferOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getName())
    setName(getResult(), *getName());
}

void BufferOp::getEffects(Effects &effects) {
  // Tied to no result: an unused `out` is still part of the contract, and equal
  // scratch buffers must not be merged.
  effects.emplace_back(MemoryEffects::Allocate::get());
}

static std::optional<SmallVector<int64_t>> constantShape(AffineMap map, ValueRange operands) {
  SmallVector<Value> values(operands.begin(), operands.end());
  if (!values.empty() || !llvm::all_of(map.getResults(), llvm::IsaPred<AffineConstantExpr>))
    simplifyIndex(map, values);
  SmallVector<int64_t> shape;
  for (AffineExpr e : map.getResults()) {
    auto constant = dyn_cast<AffineConstantExpr>(e);
    if (!constant)
      return std::nullopt;
    shape.push_back(constant.getValue());
  }
  return shape;
}

std::optional<SmallVector<int64_t>> BufferOp::getRankShape() {
  if (!getRanks())
    return SmallVector<int64_t>();
  return constantShape(*getRanks(), getRankOperands());
}
std::optional<SmallVector<int64_t>> BufferOp::getChunkShape() {
  return constantShape(getChunks(), getChunkOperands());
}

LogicalResult BufferOp::verify() {
  Operation *parent = (*this)->getParentOp();
  bool inAlgorithm = isa<AlgorithmOp>(parent);
  if (!inAlgorithm && !isa<ProgramOp>(parent)) // buffer_c1
    return emitOpError("stands at the top of ccl.algorithm or ccl.program");
  if (inAlgorithm != getRanks().has_value())
    return emitOpError(inAlgorithm ? "needs ranks(...) in an algorithm"
                                   : "is one rank's part in a program: drop ranks(...)");
  if (getRanks() && getRanks()->getNumResults() == 0)
    return emitOpError("needs at least one rank axis");
  if (getChunks().getNumResults() == 0) // buffer_c2
    return emitOpError("needs at least one chunk axis");
  if (getRanks() && failed(verifyIndexOperands(*this, *getRanks(), getRankOperands())))
    return failure();
  if (failed(verifyIndexOperands(*this, getChunks(), getChunkOperands())))
    return failure();
  constexpr int64_t limits[] = {int64_t(1) << 24, int64_t(1) << 40};
  for (auto [shape, limit, what] :
       {std::tuple(getRankShape(), limits[0], "ranks"), {getChunkShape(), limits[1], "chunks"}}) {
    if (!shape)
      continue;
    int64_t total = 1;
    for (int64_t extent : *shape) {
      if (extent < 1)
        return emitOpError() << "extent " << extent << " is below 1";
      if (llvm::MulOverflow(total, extent, total) || total > limit)
        return emitOpError() << "has more than " << limit << " " << what;
    }
  }
  return success();
}

LogicalResult BufferOp::canonicalize(BufferOp op, PatternRewriter &rewriter) {
  AffineMap ranks = op.getRanks().value_or(AffineMap()), chunks = op.getChunks();
  SmallVector<Value> rankOperands(op.getRankOperands()), chunkOperands(op.getChunkOperands());
  bool changed = simplifyIndex(chunks, chunkOperands);
  if (ranks)
    changed |= simplifyIndex(ranks, rankOperands);
  if (!changed)
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    if (ranks)
      op.setRanks(ranks);
    op.setChunks(chunks);
    op.getRankOperandsMutable().assign(rankOperands);
    op.getChunkOperandsMutable().assign(chunkOperands);
  });
  return success();
}

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
// ccl.apply
//===----------------------------------------------------------------------===//

ParseResult ApplyOp::parse(OpAsmParser &p, OperationState &state) {
  Builder &b = p.getBuilder();
  FlatSymbolRefAttr callee;
  AffineMapAttr sizes, groups;
  SmallVector<Unresolved> sizeOperands, buffers, groupOperands;
  SmallVector<Attribute> maps;
  if (p.parseAttribute(callee, "callee", state.attributes) ||
      p.parseAffineMapOfSSAIds(sizeOperands, sizes, "sizes", state.attributes,
                               OpAsmParser::Delimiter::OptionalParen))
    return failure();
  if (succeeded(p.parseOptionalKeyword("along"))) {
    StringAttr axis;
    if (p.parseAttribute(axis, "along", state.attributes))
      return failure();
  }
  auto binding = [&]() -> ParseResult {
    if (p.parseOperand(buffers.emplace_back()))
      return failure();
    if (failed(p.parseOptionalKeyword("by")))
      return success();
    AffineMapAttr map;
    if (p.parseAttribute(map))
      return failure();
    maps.push_back(map);
    return success();
  };
  if (p.parseKeyword("on") || p.parseCommaSeparatedList(binding))
    return failure();
  groups = AffineMapAttr::get(AffineMap::get(p.getContext()));
  if (succeeded(p.parseOptionalKeyword("groups"))) {
    NamedAttrList ignored;
    if (p.parseAffineMapOfSSAIds(groupOperands, groups, "groups", ignored,
                                 OpAsmParser::Delimiter::Paren))
      return failure();
  }
  state.addAttribute("groups", groups);
  if (!maps.empty())
    state.addAttribute("maps", b.getArrayAttr(maps));
  state.addAttribute("operandSegmentSizes",
                     b.getDenseI32ArrayAttr({int32_t(sizeOperands.size()), int32_t(buffers.size()),
                                             int32_t(groupOperands.size())}));
  return failure(p.parseOptionalAttrDict(state.attributes) ||
                 p.resolveOperands(sizeOperands, b.getIndexType(), state.operands) ||
                 p.resolveOperands(buffers, BufferType::get(p.getContext()), state.operands) ||
                 p.resolveOperands(groupOperands, b.getIndexType(), state.operands));
}

void ApplyOp::print(OpAsmPrinter &p) {
  p << ' ' << getCalleeAttr();
  if (getSizes().getNumResults()) {
    p << '(';
    p.printAffineMapOfSSAIds(getSizesAttr(), getSizeOperands());
    p << ')';
  }
  if (getAlong())
    p << " along " << getAlongAttr();
  p << " on ";
  for (auto [i, buffer] : llvm::enumerate(getBuffers())) {
    p << (i ? ", " : "") << buffer;
    if (getMaps() && i < getMaps()->size())
      p << " by " << (*getMaps())[i];
  }
  if (getGroups().getNumResults()) {
    p << " groups(";
    p.printAffineMapOfSSAIds(getGroupsAttr(), getGroupOperands());
    p << ')';
  }
  p.printOptionalAttrDict((*this)->getAttrs(),
                          {"callee", "sizes", "along", "maps", "groups", "operandSegmentSizes"});
}

LogicalResult ApplyOp::verify() {
  Operation *parent = (*this)->getParentOp();
  if (!isa<AlgorithmOp, PipelineOp>(parent)) // apply_c4
    return emitOpError("stands at the top of an algorithm or in ccl.pipeline");
  if (failed(verifyIndexOperands(*this, getSizes(), getSizeOperands())) ||
      failed(verifyIndexOperands(*this, getGroups(), getGroupOperands())))
    return failure();
  for (Value buffer : getBuffers())
    if (!buffer.getDefiningOp<BufferOp>())
      return emitOpError("applies to ccl.buffer values only");
  if (getAlong() && (getMaps() || getGroups().getNumResults())) // apply_c3
    return emitOpError("takes either 'along' or maps and groups");
  return success();
}

/// The algorithm that is applied: the one named, or the one that implements the collective named.
static AlgorithmOp findApplied(ApplyOp apply, SymbolTableCollection &symbols) {
  Operation *named = symbols.lookupNearestSymbolFrom(apply, apply.getCalleeAttr());
  if (auto stage = dyn_cast_or_null<CollectiveOpInterface>(named))
    return stage.getAlgorithmAttr()
               ? symbols.lookupNearestSymbolFrom<AlgorithmOp>(stage, stage.getAlgorithmAttr())
               : AlgorithmOp();
  return dyn_cast_or_null<AlgorithmOp>(named);
}

/// A cycle of applies would expand for ever.
static LogicalResult verifyNoCycle(AlgorithmOp self, ApplyOp apply,
                                   SymbolTableCollection &symbols) {
  SmallVector<AlgorithmOp> stack;
  if (AlgorithmOp callee = findApplied(apply, symbols))
    stack.push_back(callee);
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!stack.empty()) {
    AlgorithmOp next = stack.pop_back_val();
    if (next == self)
      return apply.emitOpError() << "algorithm @" << self.getSymName() << " applies itself";
    if (!seen.insert(next).second)
      continue;
    next.getBody().walk([&](ApplyOp inner) {
      if (AlgorithmOp a = findApplied(inner, symbols))
        stack.push_back(a);
    });
  }
  return success();
}

/// `ccl.apply` of a collective.
static LogicalResult verifyStage(ApplyOp apply, CollectiveOpInterface stage) {
  auto self = apply->getParentOfType<AlgorithmOp>();
  if (self.getTopologyAttr() != stage.getTopologyAttr()) // apply_c1
    return apply.emitOpError() << apply.getCalleeAttr() << " is a collective on "
                               << stage.getTopologyAttr() << ", so the algorithm has to be 'on "
                               << stage.getTopologyAttr() << "'";
  if (apply.getSizes().getNumResults()) // apply_c2
    return apply.emitOpError() << apply.getCalleeAttr() << " is a collective: it has no sizes";
  if (apply.getBuffers().size() != 1 || apply.getMaps() || apply.getAlong() ||
      apply.getGroups().getNumResults()) // apply_c3
    return apply.emitOpError() << apply.getCalleeAttr()
                               << " is a collective, which says itself along which axes: it takes "
                                  "one buffer and no map, 'along' or groups";
  return success();
}

LogicalResult ApplyOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *named = symbols.lookupNearestSymbolFrom(*this, getCalleeAttr());
  if (auto stage = dyn_cast_or_null<CollectiveOpInterface>(named)) {
    if (failed(verifyStage(*this, stage)))
      return failure();
    return verifyNoCycle((*this)->getParentOfType<AlgorithmOp>(), *this, symbols);
  }
  auto callee = dyn_cast_or_null<AlgorithmOp>(named);
  if (!callee) // apply_c1
    return emitOpError() << "there is no algorithm " << getCalleeAttr();
  if (!getAlong() && (!getMaps() || getMaps()->size() != getBuffers().size()))
    return emitOpError("needs 'by' and a map for every buffer, or 'along' and an axis");
  if (callee.getLowered()) // apply_c1
    return emitOpError() << getCalleeAttr() << " is lowered: it has no moves to apply";
  if (callee.getNumArguments() != getSizes().getNumResults()) // apply_c2
    return emitOpError() << getCalleeAttr() << " has " << callee.getNumArguments()
                         << " size parameters, got " << getSizes().getNumResults();
  SmallVector<BufferOp> bound;
  for (auto buffer : callee.getBody().getOps<BufferOp>())
    if (buffer.getRole() != BufferRole::Scratch)
      bound.push_back(buffer);
  if (bound.size() != getBuffers().size())
    return emitOpError() << getCalleeAttr() << " has " << bound.size() << " buffers to bind, got "
                         << getBuffers().size();
  auto self = (*this)->getParentOfType<AlgorithmOp>();
  if (auto axis = getAlong()) { // apply_c3
    auto topology = self.getTopologyAttr()
                        ? symbols.lookupNearestSymbolFrom<TopologyOp>(self, self.getTopologyAttr())
                        : TopologyOp();
    if (!topology)
      return emitOpError("'along' needs an algorithm with 'on @topology'");
    if (!llvm::is_contained(topology.getAxes().getAsValueRange<StringAttr>(), *axis))
      return emitOpError() << "topology @" << topology.getSymName() << " has no axis \"" << *axis
                           << "\"";
  } else {
    for (auto [attr, buffer, target] :
         llvm::zip_equal(getMaps()->getAsRange<AffineMapAttr>(), bound, getBuffers())) {
      AffineMap map = attr.getValue();
      unsigned inputs =
          buffer.getNumRankAxes() + buffer.getNumChunkAxes() + getGroups().getNumResults();
      auto mine = target.getDefiningOp<BufferOp>();
      unsigned results = mine.getNumRankAxes() + mine.getNumChunkAxes();
      if (map.getNumInputs() != inputs || map.getNumResults() != results)
        return emitOpError() << "the map takes " << inputs << " indices (" << getCalleeAttr()
                             << "'s ranks and chunks, then the groups) to " << results
                             << "; this one takes " << map.getNumInputs() << " to "
                             << map.getNumResults();
    }
  }
  return verifyNoCycle(self, *this, symbols);
}

void ApplyOp::getEffects(Effects &effects) {
  for (OpOperand &buffer : getBuffersMutable()) {
    effects.emplace_back(MemoryEffects::Read::get(), &buffer);
    effects.emplace_back(MemoryEffects::Write::get(), &buffer);
  }
}

LogicalResult ApplyOp::canonicalize(ApplyOp op, PatternRewriter &rewriter) {
  AffineMap sizes = op.getSizes(), groups = op.getGroups();
  SmallVector<Value> sizeOperands(op.getSizeOperands()), groupOperands(op.getGroupOperands());
  bool changed = simplifyIndex(sizes, sizeOperands);
  changed |= simplifyIndex(groups, groupOperands);
  if (!changed)
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    op.setSizes(sizes);
    op.setGroups(groups);
    op.getSizeOperandsMutable().assign(sizeOperands);
    op.getGroupOperandsMutable().assign(groupOperands);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// ccl.pipeline, ccl.schedule
//===----------------------------------------------------------------------===//

LogicalResult PipelineOp::verify() {
  if (getStages().size() < 2) // pipeline_c1
    return emitOpError("needs at least two stages");
  return success();
}

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
  int64_t step = 0;
  for (size_t i = 0; i < rows.size(); i += rowSize) {
    ArrayRef<int64_t> row = rows.slice(i, rowSize);
    auto bad = [&] { return emitOpError() << "row " << i / rowSize << ": "; };
    if (row[0] < step)
      return bad() << "step " << row[0] << " after step " << step;
    step = row[0];
    if (row[1] != 0 && row[1] != 1)
      return bad() << "kind " << row[1] << " is neither 0 (copy) nor 1 (reduce)";
    for (int64_t buffer : {row[3], row[6]})
      if (buffer < 0 || buffer >= int64_t(getBuffers().size()))
        return bad() << "buffer " << buffer << " is outside [0, " << getBuffers().size() << ")";
    if (row[8] < 1 || row[8] > INT32_MAX)
      return bad() << "count " << row[8] << " is outside [1, 2147483647]";
    if (row[1] == 1 && getVia() == Via::Put)
      return bad() << "reduces, and only copies go by put";
  }
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

llvm::StringSet<> appliedSymbols(ModuleOp module) {
  llvm::StringSet<> names;
  module.walk([&](ApplyOp apply) {
    names.insert(apply.getCallee());
    auto stage = dyn_cast_or_null<CollectiveOpInterface>(module.lookupSymbol(apply.getCallee()));
    if (stage && stage.getAlgorithmAttr())
      names.insert(stage.getAlgorithmAttr().getValue());
  });
  return names;
}

//===----------------------------------------------------------------------===//
// Contract of an algorithm
//===----------------------------------------------------------------------===//

int64_t getMicroBatches(AlgorithmOp algorithm) {
  auto number = algorithm->getAttrOfType<IntegerAttr>(microBatchesAttr);
  return number ? number.getInt() : 0;
}

FailureOr<model::Contract> getModelContract(AlgorithmOp algorithm) {
  ContractAttr attr = algorithm.getContract();
  model::Contract c;
  c.collective = toModel(attr.getKind());
  c.reduction = toModel(attr.getReduction());
  c.root = attr.getRoot();
  c.targets.assign(attr.getTargets().begin(), attr.getTargets().end());
  for (size_t i = 0; i + 3 < attr.getRows().size(); i += 4)
    c.rows.push_back(
        {attr.getRows()[i], attr.getRows()[i + 1], attr.getRows()[i + 2], attr.getRows()[i + 3]});
  c.customInChunks = attr.getInChunks();
  c.customOutChunks = attr.getOutChunks();

  if (algorithm.getNumArguments())
    return algorithm.emitOpError()
           << "size parameter '" << algorithm.getParameterName(0) << "' is not bound";
  std::optional<int64_t> chunks;
  bool any = false;
  for (auto buffer : algorithm.getBody().getOps<BufferOp>()) {
    auto rankShape = buffer.getRankShape(), chunkShape = buffer.getChunkShape();
    if (!rankShape || !chunkShape)
      return buffer.emitOpError("has extents that are not constant");
    if (!any && (any = true))
      c.ranks = product(*rankShape);
    if (buffer.getRole() == BufferRole::Scratch || c.collective == model::Collective::Custom)
      continue;
    int64_t total = product(*chunkShape);
    auto mine = c.chunksFor(toModel(buffer.getRole()), total);
    if (!mine)
      return buffer.emitOpError() << "has " << total << " chunks, which " << c.str() << " on "
                                  << c.ranks << " ranks cannot cut into whole shards";
    if (chunks && *chunks != *mine)
      return buffer.emitOpError() << "cuts a shard into " << *mine
                                  << " chunks, another buffer into " << *chunks;
    chunks = mine;
  }
  if (!any)
    return algorithm.emitOpError("has no buffer");
  if (c.root >= c.ranks)
    return algorithm.emitOpError() << "root " << c.root << " is outside [0, " << c.ranks << ")";
  if (!c.targets.empty() && int64_t(c.targets.size()) != c.ranks)
    return algorithm.emitOpError() << "permutes " << c.targets.size() << " ranks, has " << c.ranks;
  c.chunks = chunks.value_or(1);
  if (c.collective == model::Collective::Custom) {
    // Unchecked programs: the buffers say how large in and out are.
    for (auto buffer : algorithm.getBody().getOps<BufferOp>()) {
      int64_t total = product(*buffer.getChunkShape());
      if (buffer.getRole() == BufferRole::In || buffer.getRole() == BufferRole::InOut)
        c.customInChunks = std::max(c.customInChunks, total);
      if (buffer.getRole() == BufferRole::Out || buffer.getRole() == BufferRole::InOut)
        c.customOutChunks = std::max(c.customOutChunks, total);
    }
    c.chunks = 1; // every chunk is a shard of its own: rows may join any two
  }
  return c;
}

} // namespace ccl
