//===- Program.cpp - L2 ops -------------------------------------------------===//

#include "dialect/Assembly.h"
#include "dialect/Indexing.h"

#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace ccl;

#define GET_OP_CLASSES
#include "dialect/CclProgramOps.cpp.inc"

namespace ccl {

//===----------------------------------------------------------------------===//
// ccl.program
//===----------------------------------------------------------------------===//

ParseResult ProgramOp::parse(OpAsmParser &p, OperationState &state) {
  Builder &b = p.getBuilder();
  StringAttr name;
  SmallVector<OpAsmParser::Argument> args;
  FlatSymbolRefAttr algorithm;
  SmallVector<int64_t> ranks;
  auto interval = [&]() -> ParseResult {
    int64_t low, high;
    SMLoc place = p.getCurrentLocation();
    if (p.parseInteger(low))
      return failure();
    if (succeeded(p.parseOptionalKeyword("to"))) {
      if (p.parseInteger(high))
        return failure();
    } else if (llvm::AddOverflow(low, int64_t(1), high)) {
      return p.emitError(place) << "there is no rank " << low;
    }
    ranks.append({low, high});
    return success();
  };
  if (p.parseSymbolName(name, "sym_name", state.attributes) ||
      p.parseArgumentList(args, OpAsmParser::Delimiter::OptionalParen) || p.parseKeyword("of") ||
      p.parseAttribute(algorithm, "algorithm", state.attributes) || p.parseKeyword("ranks") ||
      p.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, interval) ||
      p.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  SmallVector<Type> types(args.size(), b.getIndexType());
  for (auto &arg : args)
    arg.type = b.getIndexType();
  state.addAttribute("ranks", b.getDenseI64ArrayAttr(ranks));
  state.addAttribute("function_type", TypeAttr::get(b.getFunctionType(types, {})));
  Region *body = state.addRegion();
  if (p.parseRegion(*body, args))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

void ProgramOp::print(OpAsmPrinter &p) {
  p << ' ';
  p.printSymbolName(getSymName());
  if (getNumArguments()) {
    p << '(';
    llvm::interleaveComma(getArguments(), p, [&](BlockArgument a) { p << a; });
    p << ')';
  }
  p << " of " << getAlgorithmAttr() << " ranks(";
  for (size_t i = 0; i + 1 < getRanks().size(); i += 2) {
    int64_t low = getRanks()[i], high = getRanks()[i + 1];
    p << (i ? ", " : "") << low;
    if (high != low + 1)
      p << " to " << high;
  }
  p << ')';
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                     {"sym_name", "function_type", "algorithm", "ranks"});
  p << ' ';
  printBody(p, *this, getBody());
}

void ProgramOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  if (region.getNumArguments())
    setName(region.getArgument(0), "me");
}

SmallVector<int64_t> ProgramOp::getRankList() {
  SmallVector<int64_t> list;
  for (size_t i = 0; i + 1 < getRanks().size(); i += 2)
    for (int64_t r = getRanks()[i]; r < getRanks()[i + 1]; ++r)
      list.push_back(r);
  return list;
}

LogicalResult ProgramOp::verify() {
  ArrayRef<int64_t> ranks = getRanks();
  if (ranks.empty() || ranks.size() % 2) // program_c2
    return emitOpError("needs at least one rank");
  int64_t last = 0, total = 0;
  for (size_t i = 0; i < ranks.size(); i += 2) {
    if (ranks[i] < last || ranks[i + 1] <= ranks[i])
      return emitOpError() << "ranks " << ranks[i] << " to " << ranks[i + 1]
                           << ": intervals ascend and do not overlap";
    last = ranks[i + 1];
    total += ranks[i + 1] - ranks[i];
  }
  if (last > (int64_t(1) << 24))
    return emitOpError("has ranks over the limit of 16777216");
  if (getNumArguments() > 1 || (getNumArguments() == 1 && !getArgument(0).getType().isIndex()))
    return emitOpError("takes one argument, the rank, of type index"); // program_c3
  if (total > 1 && !getNumArguments())
    return emitOpError() << "is shared by " << total << " ranks and so needs the argument %me";
  // By name only, before the ops verify themselves.
  WalkResult walk = getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<BufferOp, ChannelOp, PeerOp, BlockOp, ProxyOp, TransferOp, SignalOp, WaitOp,
            affine::AffineForOp, affine::AffineYieldOp, arith::ConstantOp>(op))
      return WalkResult::advance();
    op->emitOpError("is not allowed in a program");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult ProgramOp::verifyRegions() {
  llvm::SmallSet<std::pair<bool, int64_t>, 4> agents;
  for (Operation &op : getBody().front()) {
    if (!isa<BufferOp, ChannelOp, PeerOp, BlockOp, ProxyOp, arith::ConstantOp>(op)) // program_c4
      return op.emitOpError("is not allowed at the top of a program: use an agent");
    auto block = dyn_cast<BlockOp>(op);
    auto proxy = dyn_cast<ProxyOp>(op);
    int64_t id = block ? block.getId() : proxy ? proxy.getId() : 0;
    if (id < 0 || id > INT32_MAX)
      return op.emitOpError() << "has number " << id << ", which is outside [0, 2147483647]";
    if ((block && !agents.insert({false, int64_t(block.getId())}).second) ||
        (proxy && !agents.insert({true, int64_t(proxy.getId())}).second)) // program_c5
      return op.emitOpError("has the number of another agent");
  }
  WalkResult walk = getBody().walk([&](affine::AffineForOp loop) {
    return failed(verifyLoop(loop)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto algorithm = symbols.lookupNearestSymbolFrom<AlgorithmOp>(*this, getAlgorithmAttr());
  if (!algorithm) // program_c1
    return emitOpError() << "there is no algorithm " << getAlgorithmAttr();
  for (auto buffer : algorithm.getBody().getOps<BufferOp>())
    if (auto shape = buffer.getRankShape(); shape && getRanks().back() > product(*shape))
      return emitOpError() << "rank " << getRanks().back() - 1 << " is outside [0, "
                           << product(*shape) << "), the ranks of " << getAlgorithmAttr();
  return success();
}

//===----------------------------------------------------------------------===//
// ccl.peer, ccl.channel
//===----------------------------------------------------------------------===//

template <typename Op>
static LogicalResult canonicalizePeer(Op op, PatternRewriter &rewriter) {
  AffineMap map = op.getPeer();
  SmallVector<Value> operands(op.getPeerOperands());
  if (!simplifyIndex(map, operands))
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    op.setPeer(map);
    op.getPeerOperandsMutable().assign(operands);
  });
  return success();
}
LogicalResult PeerOp::canonicalize(PeerOp op, PatternRewriter &rewriter) {
  return canonicalizePeer(op, rewriter);
}
LogicalResult ChannelOp::canonicalize(ChannelOp op, PatternRewriter &rewriter) {
  return canonicalizePeer(op, rewriter);
}

LogicalResult PeerOp::verify() {
  if (!(*this)->getParentOfType<ProgramOp>()) // peer_c1
    return emitOpError("stands in ccl.program");
  if (!getBuffer().getDefiningOp<BufferOp>())
    return emitOpError("names the peer's part of a ccl.buffer");
  return verifyIndexOperands(*this, getPeer(), getPeerOperands());
}

LogicalResult ChannelOp::verify() {
  if (!(*this)->getParentOfType<ProgramOp>()) // channel_c1
    return emitOpError("stands in ccl.program");
  if (int64_t(getSlots()) < 0 || int64_t(getSlots()) > 1024)
    return emitOpError() << "slots " << int64_t(getSlots()) << " are outside [0, 1024]";
  if (int64_t(getTag()) < 0 || int64_t(getTag()) > (1 << 20))
    return emitOpError() << "tag " << int64_t(getTag()) << " is outside [0, 1048576]";
  return verifyIndexOperands(*this, getPeer(), getPeerOperands());
}

void ChannelOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getDirection() == Direction::To ? "to" : "from");
}

//===----------------------------------------------------------------------===//
// ccl.transfer
//===----------------------------------------------------------------------===//

BufferOp PlaceRef::getBuffer() const {
  if (auto peer = getPeer())
    return peer.getBuffer().getDefiningOp<BufferOp>();
  return base.getDefiningOp<BufferOp>();
}

static SmallVector<PlaceRef> places(OperandRange bases, OperandRange operands, ArrayAttr maps) {
  SmallVector<PlaceRef> list;
  for (auto [base, attr] : llvm::zip_equal(bases, maps)) {
    AffineMap map = cast<AffineMapAttr>(attr).getValue();
    list.push_back({base, map, SmallVector<Value>(operands.take_front(map.getNumInputs()))});
    operands = operands.drop_front(map.getNumInputs());
  }
  return list;
}

SmallVector<PlaceRef> getFromPlaces(TransferOp op) {
  return places(op.getFrom(), op.getFromOperands(), op.getFromMaps());
}
SmallVector<PlaceRef> getToPlaces(TransferOp op) {
  return places(op.getTo(), op.getToOperands(), op.getToMaps());
}

namespace {
/// The operand lists of one side of a transfer.
struct Side {
  SmallVector<Value> bases, operands;
  SmallVector<Attribute> maps;
  explicit Side(ArrayRef<PlaceRef> list) {
    for (const PlaceRef &place : list) {
      bases.push_back(place.base);
      operands.append(place.operands);
      maps.push_back(AffineMapAttr::get(place.map));
    }
  }
};
} // namespace

TransferOp createTransfer(OpBuilder &builder, Location loc, bool reduce, ArrayRef<PlaceRef> from,
                          ArrayRef<PlaceRef> to, int64_t count) {
  Side f(from), t(to);
  return builder.create<TransferOp>(loc, reduce, f.bases, f.operands, builder.getArrayAttr(f.maps),
                                    t.bases, t.operands, builder.getArrayAttr(t.maps), count);
}

static LogicalResult verifySide(TransferOp op, OperandRange bases, OperandRange operands,
                                ArrayAttr maps, bool isFrom) {
  StringRef side = isFrom ? "source" : "destination";
  unsigned inputs = 0;
  if (maps.size() != bases.size())
    return op.emitOpError() << "has " << maps.size() << " maps for " << bases.size() << " " << side
                            << "s";
  for (auto map : maps.getAsRange<AffineMapAttr>())
    inputs += map.getValue().getNumInputs();
  if (inputs != operands.size())
    return op.emitOpError() << "has " << operands.size() << " index operands for its " << side
                            << "s, the maps take " << inputs;
  llvm::SmallPtrSet<Value, 4> channels;
  for (const PlaceRef &place : places(bases, operands, maps)) {
    if (place.isChannel()) {
      auto channel = place.base.getDefiningOp<ChannelOp>();
      if (!channel || (channel.getDirection() == Direction::From) != isFrom) // transfer_c3
        return op.emitOpError() << "a " << side << " channel is a '" << (isFrom ? "from" : "to")
                                << "' end";
      if (!channel.getSlots())
        return op.emitOpError() << "a " << side << " channel needs slots";
      if (!channels.insert(place.base).second) // transfer_c4
        return op.emitOpError() << "lists a " << side << " channel twice";
      if (place.map.getNumResults())
        return op.emitOpError("a channel has no index");
      continue;
    }
    BufferOp buffer = place.getBuffer();
    if (!buffer)
      return op.emitOpError() << "a " << side << " is neither buffer, peer nor channel";
    if (place.map.getNumResults() != buffer.getNumChunkAxes()) // transfer_c2
      return op.emitOpError() << "a " << side << " needs " << buffer.getNumChunkAxes()
                              << " indices (one per chunk axis), got " << place.map.getNumResults();
    auto chunks = buffer.getChunkShape();
    if (chunks && int64_t(op.getCount()) > product(*chunks)) // transfer_c6
      return op.emitOpError() << "moves " << int64_t(op.getCount()) << " chunks, a " << side
                              << "'s buffer has " << product(*chunks);
    if (failed(verifyIndexOperands(op, place.map, place.operands))) // transfer_c5
      return failure();
    if (!isFrom && buffer.getRole() == BufferRole::In) // transfer_c7
      return op.emitOpError("writes an 'in' buffer");
  }
  return success();
}

LogicalResult TransferOp::verify() {
  if (!(*this)->getParentOfType<BlockOp>() && !(*this)->getParentOfType<ProxyOp>())
    return emitOpError("stands in an agent (ccl.block or ccl.proxy)"); // transfer_c5
  if (getFrom().empty() || getTo().empty())
    return emitOpError("needs a source and a destination");
  if ((getFrom().size() > 1) != getReduce()) // transfer_c1
    return emitOpError(getReduce() ? "reduces a single source" : "has several sources: reduce");
  if (int64_t count = getCount(); count < 1 || count > INT32_MAX) // transfer_c6
    return emitOpError() << "moves " << count << " chunks, needs "
                         << (count < 1 ? "at least 1" : "at most 2147483647");
  return failure(failed(verifySide(*this, getFrom(), getFromOperands(), getFromMaps(), true)) ||
                 failed(verifySide(*this, getTo(), getToOperands(), getToMaps(), false)));
}

void TransferOp::getEffects(Effects &effects) {
  for (OpOperand &operand : getFromMutable()) {
    effects.emplace_back(MemoryEffects::Read::get(), &operand);
    if (isa<ChannelType>(operand.get().getType())) // receiving consumes
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
  }
  for (OpOperand &operand : getToMutable())
    effects.emplace_back(MemoryEffects::Write::get(), &operand);
}

LogicalResult TransferOp::canonicalize(TransferOp op, PatternRewriter &rewriter) {
  SmallVector<PlaceRef> from = getFromPlaces(op), to = getToPlaces(op);
  bool changed = false;
  for (auto *list : {&from, &to})
    for (PlaceRef &place : *list)
      if (!place.isChannel())
        changed |= simplifyIndex(place.map, place.operands);
  if (!changed)
    return failure();
  Side f(from), t(to);
  rewriter.modifyOpInPlace(op, [&] {
    op.setFromMapsAttr(rewriter.getArrayAttr(f.maps));
    op.setToMapsAttr(rewriter.getArrayAttr(t.maps));
    op.getFromOperandsMutable().assign(f.operands);
    op.getToOperandsMutable().assign(t.operands);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// ccl.signal, ccl.wait
//===----------------------------------------------------------------------===//

template <typename Op>
static LogicalResult verifyCounter(Op op, Direction direction) {
  auto channel = op.getChannel().template getDefiningOp<ChannelOp>();
  if (!channel || channel.getDirection() != direction || channel.getSlots())
    return op.emitOpError() << "takes a '" << stringifyDirection(direction)
                            << "' channel without slots"; // signal_c1, wait_c1
  if (!op.getBuffer())
    return success();
  auto buffer = op.getBuffer().template getDefiningOp<BufferOp>();
  if (!buffer || !op.getMap() || // signal_c2, wait_c2
      op.getMap()->getNumResults() != buffer.getNumChunkAxes())
    return op.emitOpError("'of' names a place of a ccl.buffer, one index per chunk axis");
  return verifyIndexOperands(op, *op.getMap(), op.getIndices());
}
LogicalResult SignalOp::verify() { return verifyCounter(*this, Direction::To); }
LogicalResult WaitOp::verify() { return verifyCounter(*this, Direction::From); }

template <typename Op>
static LogicalResult canonicalizeCounter(Op op, PatternRewriter &rewriter) {
  if (!op.getMap())
    return failure();
  AffineMap map = *op.getMap();
  SmallVector<Value> operands(op.getIndices());
  if (!simplifyIndex(map, operands))
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    op.setMap(map);
    op.getIndicesMutable().assign(operands);
  });
  return success();
}
LogicalResult SignalOp::canonicalize(SignalOp op, PatternRewriter &rewriter) {
  return canonicalizeCounter(op, rewriter);
}
LogicalResult WaitOp::canonicalize(WaitOp op, PatternRewriter &rewriter) {
  return canonicalizeCounter(op, rewriter);
}

template <typename Op>
static std::optional<GuardedPlace> guardedPlace(Op op) {
  if (!op.getBuffer())
    return std::nullopt;
  return GuardedPlace{{op.getBuffer(), *op.getMap(), SmallVector<Value>(op.getIndices())},
                      int64_t(op.getCount())};
}

SmallVector<ProgramOp> getPrograms(AlgorithmOp algorithm) {
  SmallVector<ProgramOp> programs;
  for (auto program : algorithm->getParentRegion()->getOps<ProgramOp>())
    if (program.getAlgorithm() == algorithm.getSymName())
      programs.push_back(program);
  return programs;
}

std::optional<GuardedPlace> getGuardedPlace(Operation *op) {
  std::optional<GuardedPlace> guarded;
  if (auto signal = dyn_cast<SignalOp>(op))
    guarded = guardedPlace(signal);
  else if (auto wait = dyn_cast<WaitOp>(op))
    guarded = guardedPlace(wait);
  if (guarded)
    guarded->arrives = op->hasAttr(arrivalAttr);
  return guarded;
}

} // namespace ccl
