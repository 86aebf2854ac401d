//===- ToModule.cpp ---------------------------------------------------------------===//
#include "frontend/interchange/ToModule.h"

#include "mlir/IR/Verifier.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;

namespace ccl::interchange {

namespace {

/// Makes the ops of one program. Attributes and locations are made once each: every one of
/// them is looked up among all that there are otherwise.
class ModuleBuilder {
public:
  ModuleBuilder(const Foreign &foreign, StringRef fileName, MLIRContext &context)
      : foreign(foreign), program(foreign.program), file(StringAttr::get(&context, fileName)),
        builder(&context), symbol(legalSymbol(foreign.name)), top(FileLineColLoc::get(file, 1, 1)),
        noIndex(AffineMap::get(&context)) {}

  OwningOpRef<ModuleOp> build() {
    OwningOpRef<ModuleOp> module = ModuleOp::create(top);
    builder.setInsertionPointToEnd(module->getBody());
    if (failed(addAlgorithm()))
      return nullptr;
    for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
      builder.setInsertionPointToEnd(module->getBody());
      addProgram(rank);
    }
    if (failed(verify(*module)))
      return nullptr;
    return module;
  }

private:
  Location at(int32_t loc) {
    if (loc < 0 || size_t(loc) >= foreign.places.size() || foreign.places[size_t(loc)].line < 1)
      return top;
    const TextPlace &place = foreign.places[size_t(loc)];
    return FileLineColLoc::get(file, unsigned(place.line), unsigned(std::max(place.column, 1)));
  }

  /// The map of one constant index.
  AffineMap index(int64_t value) {
    AffineMap &map = indices[value];
    if (!map)
      map = AffineMap::get(0, 0, builder.getAffineConstantExpr(value));
    return map;
  }

  LogicalResult addAlgorithm();
  BufferOp addBuffer(const model::Buffer &buffer, AffineMapAttr ranks);
  void addProgram(size_t rank);
  void addAgent(const model::Agent &agent);
  void addInstruction(const model::Instruction &instruction);
  PlaceRef placeOf(const model::Operand &operand, Location loc);
  Value peerOf(const model::Operand &operand, Location loc);

  const Foreign &foreign;
  const model::Program &program;
  StringAttr file;
  OpBuilder builder;
  std::string symbol;
  Location top;
  AffineMap noIndex;
  llvm::DenseMap<int64_t, AffineMap> indices;

  // Of the program at hand.
  SmallVector<Value> buffers, channels;
  std::map<std::pair<int32_t, int32_t>, Value> peers; ///< by buffer and rank
  Operation *lastAtTop = nullptr;
};

} // namespace

LogicalResult ModuleBuilder::addAlgorithm() {
  const model::Contract &c = foreign.contract;
  SmallVector<int64_t> rows;
  for (const model::Contract::Row &row : c.rows)
    rows.append({row.outRank, row.outChunk, row.inRank, row.inChunk});
  bool custom = c.collective == model::Collective::Custom;
  auto contract = ContractAttr::getChecked(
      [&] { return emitError(top); }, builder.getContext(), CollectiveKind(c.collective),
      ReductionKind(c.reduction), c.root, ArrayRef<int64_t>(c.targets), ArrayRef<int64_t>(rows),
      custom && !rows.empty() ? c.customInChunks : 0,
      custom && !rows.empty() ? c.customOutChunks : 0);
  if (!contract)
    return failure();
  OperationState state(top, AlgorithmOp::getOperationName());
  state.addAttribute("sym_name", builder.getStringAttr(symbol));
  state.addAttribute("function_type", TypeAttr::get(builder.getFunctionType({}, {})));
  state.addAttribute("contract", contract);
  state.addAttribute("lowered", builder.getUnitAttr());
  state.addRegion()->emplaceBlock();
  Operation *algorithm = builder.create(state);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&algorithm->getRegion(0).front());
  auto ranks = AffineMapAttr::get(index(c.ranks));
  for (const model::Buffer &buffer : program.buffers)
    addBuffer(buffer, ranks);
  return success();
}

BufferOp ModuleBuilder::addBuffer(const model::Buffer &buffer, AffineMapAttr ranks) {
  return builder.create<BufferOp>(at(buffer.loc), BufferType::get(builder.getContext()),
                                  BufferRole(buffer.role), ranks, index(buffer.chunks),
                                  ValueRange(), ValueRange(), builder.getStringAttr(buffer.name));
}

/// For each channel, the `loc` of the first instruction that uses it, or -1.
static SmallVector<int32_t> firstUses(const model::RankProgram &program) {
  SmallVector<int32_t> uses(program.channels.size(), -1);
  auto use = [&](int32_t channel, int32_t loc) {
    if (channel >= 0 && uses[size_t(channel)] < 0)
      uses[size_t(channel)] = loc;
  };
  for (const model::Agent &agent : program.agents)
    for (const model::Instruction &instruction : agent.code) {
      use(instruction.channel, instruction.loc);
      for (const auto *side : {&instruction.from, &instruction.to})
        for (const model::Operand &operand : *side)
          use(operand.channel, instruction.loc);
    }
  return uses;
}

void ModuleBuilder::addProgram(size_t rank) {
  const model::RankProgram &mine = program.ranks[rank];
  OperationState state(top, ProgramOp::getOperationName());
  state.addAttribute("sym_name", builder.getStringAttr(symbol + "." + Twine(rank)));
  state.addAttribute("function_type", TypeAttr::get(builder.getFunctionType({}, {})));
  state.addAttribute("algorithm", FlatSymbolRefAttr::get(builder.getContext(), symbol));
  state.addAttribute("ranks", builder.getDenseI64ArrayAttr({int64_t(rank), int64_t(rank) + 1}));
  state.addRegion()->emplaceBlock();
  Operation *op = builder.create(state);
  builder.setInsertionPointToEnd(&op->getRegion(0).front());
  buffers.clear();
  channels.clear();
  peers.clear();
  for (const model::Buffer &buffer : program.buffers) {
    BufferOp part = addBuffer(buffer, AffineMapAttr());
    buffers.push_back(part);
    lastAtTop = part;
  }
  SmallVector<int32_t> used = firstUses(mine);
  for (auto [i, channel] : llvm::enumerate(mine.channels)) {
    auto end = builder.create<ChannelOp>(at(used[i]), ChannelType::get(builder.getContext()),
                                         channel.to ? Direction::To : Direction::From,
                                         index(channel.peer), ValueRange(), uint64_t(channel.tag),
                                         uint64_t(channel.slots), Protocol(channel.protocol));
    channels.push_back(end);
    lastAtTop = end;
  }
  for (const model::Agent &agent : mine.agents) {
    builder.setInsertionPointToEnd(&op->getRegion(0).front());
    addAgent(agent);
  }
}

void ModuleBuilder::addAgent(const model::Agent &agent) {
  Location loc = agent.code.empty() ? top : at(agent.code.front().loc);
  OperationState state(loc,
                       agent.proxy ? ProxyOp::getOperationName() : BlockOp::getOperationName());
  state.addAttribute("id", builder.getI64IntegerAttr(agent.id));
  state.addRegion()->emplaceBlock();
  Operation *op = builder.create(state);
  builder.setInsertionPointToEnd(&op->getRegion(0).front());
  for (const model::Instruction &instruction : agent.code)
    addInstruction(instruction);
}

void ModuleBuilder::addInstruction(const model::Instruction &instruction) {
  Location loc = at(instruction.loc);
  using Kind = model::Instruction::Kind;
  if (instruction.kind == Kind::Signal) {
    builder.create<SignalOp>(loc, channels[size_t(instruction.channel)]);
    return;
  }
  if (instruction.kind == Kind::Wait) {
    builder.create<WaitOp>(loc, channels[size_t(instruction.channel)]);
    return;
  }
  SmallVector<PlaceRef> from, to;
  for (const model::Operand &operand : instruction.from)
    from.push_back(placeOf(operand, loc));
  for (const model::Operand &operand : instruction.to)
    to.push_back(placeOf(operand, loc));
  createTransfer(builder, loc, instruction.reduce, from, to, instruction.count);
}

PlaceRef ModuleBuilder::placeOf(const model::Operand &operand, Location loc) {
  using Kind = model::Operand::Kind;
  if (operand.kind == Kind::Channel)
    return {channels[size_t(operand.channel)], noIndex, {}};
  Value base = operand.kind == Kind::Peer ? peerOf(operand, loc) : buffers[size_t(operand.buffer)];
  return {base, index(operand.chunk), {}};
}

Value ModuleBuilder::peerOf(const model::Operand &operand, Location loc) {
  Value &peer = peers[{operand.buffer, operand.peer}];
  if (!peer) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(lastAtTop);
    auto op =
        builder.create<PeerOp>(loc, BufferType::get(builder.getContext()),
                               buffers[size_t(operand.buffer)], index(operand.peer), ValueRange());
    lastAtTop = op;
    peer = op;
  }
  return peer;
}

OwningOpRef<ModuleOp> toModule(const Foreign &foreign, StringRef fileName, MLIRContext &context) {
  context.loadDialect<CclDialect>();
  return ModuleBuilder(foreign, fileName, context).build();
}

std::string legalSymbol(StringRef name) {
  constexpr size_t longest = 64;
  std::string symbol;
  for (char c : name.take_front(longest))
    symbol += llvm::isAlnum(c) || c == '_' || c == '.' || c == '$' ? c : '_';
  if (llvm::none_of(symbol, [](char c) { return llvm::isAlnum(c); }))
    return "program";
  if (!llvm::isAlpha(symbol.front()) && symbol.front() != '_')
    symbol.insert(symbol.begin(), '_');
  return symbol;
}

Location placeIn(StringRef fileName, TextPlace place, MLIRContext &context) {
  return FileLineColLoc::get(&context, fileName, unsigned(std::max(place.line, 1)),
                             unsigned(std::max(place.line < 1 ? 1 : place.column, 1)));
}

} // namespace ccl::interchange
