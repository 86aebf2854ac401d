//===- Algorithm.cpp - L1 ops -----------------------------------------------===//

#include "dialect/Assembly.h"
#include "dialect/Indexing.h"

#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace ccl;

#define GET_OP_CLASSES
#include "dialect/CclAlgorithmOps.cpp.inc"

namespace ccl {

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
  auto isNumber = [](Attribute given, int64_t most) {
    auto number = dyn_cast<IntegerAttr>(given);
    return number && number.getType().isInteger(64) && number.getInt() >= 1 &&
           number.getInt() <= most;
  };
  if (Attribute batches = (*this)->getAttr(microBatchesAttr); // algorithm_c7
      batches && !isNumber(batches, std::numeric_limits<int64_t>::max()))
    return emitOpError() << microBatchesAttr << " is an i64 from 1 on, not " << batches;
  if (Attribute slots = (*this)->getAttr(slotsAttr); // algorithm_c8
      slots && !isNumber(slots, maxSlots))
    return emitOpError() << slotsAttr << " is an i64 from 1 to " << maxSlots << ", not " << slots;
  if (Attribute copies = (*this)->getAttr(multicastAttr); copies && !isa<UnitAttr>(copies))
    return emitOpError() << multicastAttr << " has no value, not " << copies; // algorithm_c9
  if (getLowered() && getNumArguments())                                      // algorithm_c6
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
// Contract of an algorithm
//===----------------------------------------------------------------------===//

static int64_t numberOf(AlgorithmOp algorithm, StringRef name) {
  auto number = algorithm->getAttrOfType<IntegerAttr>(name);
  return number ? number.getInt() : 0;
}

int64_t getMicroBatches(AlgorithmOp algorithm) { return numberOf(algorithm, microBatchesAttr); }
int64_t getSlots(AlgorithmOp algorithm) { return numberOf(algorithm, slotsAttr); }

void raiseSlots(AlgorithmOp algorithm, int64_t slots) {
  if (slots > getSlots(algorithm))
    algorithm->setAttr(slotsAttr, Builder(algorithm.getContext()).getI64IntegerAttr(slots));
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
