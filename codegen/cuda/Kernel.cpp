//===- Kernel.cpp -----------------------------------------------------------===//
#include "codegen/cuda/Kernel.h"

#include "codegen/cuda/IndexText.h"
#include "codegen/cuda/LoopFacts.h"
#include "codegen/host/Affine.h"
#include "codegen/host/Channels.h"
#include "dialect/Indexing.h"

#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl::cuda {

bool isFlagged(Wire wire) { return wire && *wire != Protocol::Simple; }

std::string kindOf(ArrayRef<Wire> from, ArrayRef<Wire> to) {
  const bool sends = llvm::any_of(to, isFlagged);
  if (!sends && llvm::none_of(from, isFlagged))
    return "0";
  std::string text = "flagged";
  if (llvm::is_contained(from, Protocol::LL128) || llvm::is_contained(to, Protocol::LL128))
    text += " | inLines";
  // Who takes words of `lamport` makes all of them fresh again.
  return sends || llvm::is_contained(from, Protocol::Lamport) ? text + " | wholeSlots" : text;
}

SmallVector<Wire> wiresOf(ArrayRef<PlaceRef> places) {
  SmallVector<Wire> wires;
  for (const PlaceRef &place : places) {
    auto channel = place.base.getDefiningOp<ChannelOp>();
    wires.push_back(channel ? Wire(channel.getProtocol()) : std::nullopt);
  }
  return wires;
}

namespace {

class ProgramWriter {
public:
  ProgramWriter(ProgramOp program, const KernelPlan &kernel, ArrayRef<std::string> bufferNames,
                const Multicasts &multicasts, const AtOnce &atOnce, bool withProxies,
                llvm::raw_ostream &os)
      : program(program), kernel(kernel), bufferNames(bufferNames), multicasts(multicasts),
        atOnce(atOnce), withProxies(withProxies), buffers(numberBuffers(program)), os(os) {}

  LogicalResult write(StringRef name);

private:
  // Structure
  LogicalResult writeAgents();
  bool isAgent(Operation *op) const {
    return isa<BlockOp>(op) || (withProxies && isa<ProxyOp>(op));
  }
  bool isUsed(ChannelOp channel) const;
  LogicalResult writeBlock(Block &block);
  LogicalResult writeOp(Operation *op);
  LogicalResult writeFor(affine::AffineForOp loop);
  FailureOr<bool> writeForOfSignals(affine::AffineForOp loop);
  LogicalResult writeForAtOnce(affine::AffineForOp loop, TransferOp transfer);
  llvm::raw_ostream &line() { return os.indent(indent); }
  // Names of things
  FailureOr<SmallVector<std::string>> print(Operation *op, AffineMap map, ValueRange operands);
  FailureOr<std::string> printBound(affine::AffineForOp loop, bool upper);
  FailureOr<std::string> printChannel(ChannelOp channel);
  FailureOr<std::string> printOperand(TransferOp op, const PlaceRef &place, bool all);
  // Instructions
  LogicalResult writeTransfer(TransferOp op);
  /// This one and those of its kind that follow it.
  LogicalResult writeSignals(Operation *first);

  ProgramOp program;
  const KernelPlan &kernel;
  ArrayRef<std::string> bufferNames;
  const Multicasts &multicasts;
  const AtOnce &atOnce;
  const bool withProxies;
  const host::BufferNumbers buffers;
  llvm::raw_ostream &os;
  unsigned indent = 2;
  int loops = 0, channels = 0;
  int64_t instruction = 0;
  /// Of indices, and of channels.
  llvm::DenseMap<Value, std::string> names;
  /// What has been written along with what stands before it.
  llvm::SmallPtrSet<Operation *, 16> written;
};

} // namespace

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

LogicalResult ProgramWriter::write(StringRef name) {
  os << "static __device__ __forceinline__ void " << name << "(Block &b) {\n";
  if (Value me = program.getMe()) {
    names[me] = "me";
    line() << "const Me me;\n";
  }
  for (Operation &op : program.getBlock())
    if (!isa<BlockOp, ProxyOp>(op) && failed(writeOp(&op)))
      return failure();
  if (failed(writeAgents()))
    return failure();
  os << "}\n\n";
  return success();
}

LogicalResult ProgramWriter::writeAgents() {
  SmallVector<Operation *> agents;
  for (Operation &op : program.getBlock())
    if (isAgent(&op))
      agents.push_back(&op);
  if (agents.size() == 1)
    return writeBlock(agents.front()->getRegion(0).front());
  if (agents.empty())
    return success();
  line() << "switch (state.here.agent) {\n";
  for (auto [index, agent] : llvm::enumerate(agents)) {
    const bool isProxy = isa<ProxyOp>(agent);
    const int64_t id = isProxy ? cast<ProxyOp>(agent).getId() : cast<BlockOp>(agent).getId();
    line() << "case " << index << ": { // " << agentName(agentNumber(isProxy, id)) << "\n";
    indent += 2;
    instruction = 0;
    if (failed(writeBlock(agent->getRegion(0).front())))
      return failure();
    line() << "break;\n";
    indent -= 2;
    line() << "}\n";
  }
  line() << "}\n";
  return success();
}

/// By some agent that is written.
bool ProgramWriter::isUsed(ChannelOp channel) const {
  return llvm::any_of(channel->getUsers(), [&](Operation *user) {
    return withProxies || !user->getParentOfType<ProxyOp>();
  });
}

LogicalResult ProgramWriter::writeBlock(Block &block) {
  for (Operation &op : block)
    if (!written.contains(&op) && failed(writeOp(&op)))
      return failure();
  return success();
}

LogicalResult ProgramWriter::writeOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<BufferOp, PeerOp, affine::AffineYieldOp>([](auto) { return success(); })
      .Case<ChannelOp>([&](ChannelOp channel) -> LogicalResult {
        if (!isUsed(channel))
          return success();
        FailureOr<std::string> text = printChannel(channel);
        if (failed(text))
          return failure();
        std::string &name = names[channel];
        name = fmt::format("{}{}", channel.getDirection() == Direction::To ? "to" : "from",
                           channels++);
        if (const int number = channels - 1; size_t(number) < mostNamed)
          line() << fmt::format("const Named {}({}, {});\n", name, number, *text);
        else
          line() << fmt::format("const Channel {} = {};\n", name, *text);
        return success();
      })
      .Case<TransferOp>([&](TransferOp transfer) { return writeTransfer(transfer); })
      .Case<SignalOp, WaitOp>([&](auto signal) { return writeSignals(signal); })
      .Case<affine::AffineForOp>([&](affine::AffineForOp loop) { return writeFor(loop); })
      .Case<arith::ConstantOp>([&](arith::ConstantOp constant) -> LogicalResult {
        auto number = dyn_cast<IntegerAttr>(constant.getValue());
        if (!number)
          return constant.emitOpError("has no code on GPUs: only integer constants have");
        names[constant] = fmt::format("{}", number.getInt());
        return success();
      })
      .Default([](Operation *other) -> LogicalResult {
        return other->emitOpError("has no code on GPUs: a rank program holds channels, "
                                  "transfers, signals, waits and affine.for loops");
      });
}

FailureOr<std::string> ProgramWriter::printBound(affine::AffineForOp loop, bool upper) {
  auto bounds = upper ? print(loop, loop.getUpperBoundMap(), loop.getUpperBoundOperands())
                      : print(loop, loop.getLowerBoundMap(), loop.getLowerBoundOperands());
  if (failed(bounds))
    return failure();
  std::string text = bounds->front();
  for (const std::string &bound : ArrayRef(*bounds).drop_front())
    text = fmt::format("{}({}, {})", upper ? "smaller" : "larger", text, bound);
  return text;
}

LogicalResult ProgramWriter::writeFor(affine::AffineForOp loop) {
  if (loop.getNumIterOperands() > 0)
    return loop.emitOpError("carries values between iterations, which has no code on GPUs");
  FailureOr<bool> ofSignals = writeForOfSignals(loop);
  if (failed(ofSignals) || *ofSignals)
    return failure(failed(ofSignals));
  if (TransferOp transfer = atOnce.lookup(loop))
    return writeForAtOnce(loop, transfer);
  FailureOr<std::string> lower = printBound(loop, false), upper = printBound(loop, true);
  if (failed(lower) || failed(upper))
    return failure();
  const std::string name = fmt::format("s{}", loops++);
  names[loop.getInductionVar()] = name;
  os << "#pragma unroll 1\n";
  line() << fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3}) {{\n", name, *lower, *upper,
                        loop.getStepAsInt());
  indent += 2;
  if (failed(writeBlock(*loop.getBody())))
    return failure();
  indent -= 2;
  line() << "}\n";
  return success();
}

/// Loops that only signal peers, or only wait for them: a thread for each.
FailureOr<bool> ProgramWriter::writeForOfSignals(affine::AffineForOp loop) {
  auto ops = loop.getBody()->without_terminator();
  if (std::distance(ops.begin(), ops.end()) != 2)
    return false;
  auto channel = dyn_cast<ChannelOp>(*ops.begin());
  Operation *action = &*std::next(ops.begin());
  if (!channel || !isa<SignalOp, WaitOp>(action) || action->getOperand(0) != channel ||
      !namesEachChannelOnce(loop, channel))
    return false;
  FailureOr<std::string> lower = printBound(loop, false), upper = printBound(loop, true);
  if (failed(lower) || failed(upper))
    return failure();
  const std::string name = fmt::format("s{}", loops++);
  names[loop.getInductionVar()] = name;
  FailureOr<std::string> text = printChannel(channel);
  if (failed(text))
    return failure();
  line() << fmt::format("{}(b, {}, {}, {}, {}, [&](int {}) {{ return {}; }});\n",
                        isa<SignalOp>(action) ? "signalEach" : "waitEach", instruction++, *lower,
                        *upper, loop.getStepAsInt(), name, *text);
  return true;
}

/// Loops whose transfers have nothing to do with each other: operands of many at once.
LogicalResult ProgramWriter::writeForAtOnce(affine::AffineForOp loop, TransferOp transfer) {
  FailureOr<std::string> lower = printBound(loop, false), upper = printBound(loop, true);
  if (failed(lower) || failed(upper))
    return failure();
  const std::string name = fmt::format("s{}", loops++);
  names[loop.getInductionVar()] = name;
  for (Operation &op : loop.getBody()->without_terminator())
    if (&op != transfer && failed(writeOp(&op)))
      return failure();
  std::string operands;
  const SmallVector<PlaceRef> from = getFromPlaces(transfer), to = getToPlaces(transfer);
  for (ArrayRef<PlaceRef> places : {ArrayRef(from), ArrayRef(to)})
    for (const PlaceRef &place : places) {
      FailureOr<std::string> operand = printOperand(transfer, place, false);
      if (failed(operand))
        return failure();
      operands += (operands.empty() ? "" : ", ") + *operand;
    }
  line() << fmt::format(
      "transferEach<{}, {}>(b, {}, {}, {}, {}, {}, [&](int {}, const Row &row) {{ "
      "row.put({}); }});\n",
      from.size(), from.size() + to.size(), instruction++, int64_t(transfer.getCount()), *lower,
      *upper, loop.getStepAsInt(), name, operands);
  return success();
}

//===----------------------------------------------------------------------===//
// Names of things
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<std::string>> ProgramWriter::print(Operation *op, AffineMap map,
                                                         ValueRange operands) {
  if (std::string why = host::whyNotAffine(map); !why.empty())
    return op->emitOpError() << why;
  SmallVector<std::string> texts, results;
  for (Value operand : operands) {
    texts.push_back(names.lookup(operand));
    if (texts.back().empty())
      return op->emitOpError("depends on an index that has no code on GPUs");
  }
  for (AffineExpr expr : map.getResults())
    results.push_back(printIndex(expr, map.getNumDims(), texts));
  return results;
}

FailureOr<std::string> ProgramWriter::printChannel(ChannelOp channel) {
  auto peer = print(channel, channel.getPeer(), channel.getPeerOperands());
  if (failed(peer))
    return failure();
  return fmt::format("channel({}, {})", host::familyOf(kernel, channel), peer->front());
}

/// `all`: of all ranks, not of its own only.
FailureOr<std::string> ProgramWriter::printOperand(TransferOp op, const PlaceRef &place, bool all) {
  if (place.isChannel())
    return fmt::format(
        "slot({}, {})", names.lookup(place.base),
        stringifyProtocol(place.base.getDefiningOp<ChannelOp>().getProtocol()).str());
  auto indices = print(op, place.map, place.operands);
  if (failed(indices))
    return failure();
  BufferOp buffer = place.getBuffer();
  std::string chunk;
  for (auto [index, extent] : llvm::zip_equal(*indices, *buffer.getChunkShape()))
    chunk =
        chunk.empty() || chunk == "0" ? index : fmt::format("({}) * {} + {}", chunk, extent, index);
  const std::string &name = bufferNames[size_t(buffers.lookup(buffer))];
  if (all)
    return fmt::format("atAll({}, {})", name, chunk);
  PeerOp peer = place.getPeer();
  if (!peer)
    return fmt::format("at({}, {})", name, chunk);
  auto rank = print(op, peer.getPeer(), peer.getPeerOperands());
  if (failed(rank))
    return failure();
  return fmt::format("at({}, {}, {})", name, chunk, rank->front());
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

LogicalResult ProgramWriter::writeSignals(Operation *first) {
  // Of a wait the acquire may come later, of a signal the release earlier: none of them is
  // between the others, and no channel is named twice.
  constexpr size_t mostTogether = 32;
  SmallVector<Operation *> run{first};
  llvm::SmallDenseSet<Value> seen{first->getOperand(0)};
  auto isOutside = [&](Operation *op) {
    Operation *channel = op->getOperand(0).getDefiningOp();
    return channel && !isa<affine::AffineForOp>(channel->getParentOp());
  };
  if (isOutside(first))
    for (Operation *next = first->getNextNode(); next && run.size() < mostTogether;
         next = next->getNextNode()) {
      // What is named in between has no effect.
      if (isa<ChannelOp, PeerOp, BufferOp, arith::ConstantOp>(next)) {
        if (!written.insert(next).second)
          continue;
        if (failed(writeOp(next)))
          return failure();
        continue;
      }
      if (next->getName() != first->getName() || !isOutside(next) ||
          !seen.insert(next->getOperand(0)).second)
        break;
      run.push_back(next);
    }
  std::string channels;
  for (Operation *op : run) {
    channels += ", " + names.lookup(op->getOperand(0));
    written.insert(op);
  }
  line() << fmt::format("{}(b, {}{});\n", isa<SignalOp>(first) ? "signal" : "wait", instruction,
                        channels);
  instruction += int64_t(run.size());
  return success();
}

LogicalResult ProgramWriter::writeTransfer(TransferOp op) {
  SmallVector<PlaceRef> from = getFromPlaces(op), to = getToPlaces(op);
  std::string kind = kindOf(wiresOf(from), wiresOf(to));
  const MulticastSides all = multicasts.lookup(op);
  if (all.from)
    from.truncate(1);
  if (all.to)
    to.truncate(1);
  if (all.any())
    kind = !all.to ? "allSources" : all.from ? "allSources | allDestinations" : "allDestinations";
  std::string operands;
  for (auto [places, isAll] : {std::pair(ArrayRef(from), all.from), {ArrayRef(to), all.to}})
    for (const PlaceRef &place : places) {
      FailureOr<std::string> operand = printOperand(op, place, isAll);
      if (failed(operand))
        return failure();
      operands += ", " + *operand;
    }
  line() << fmt::format("transfer<{}{}>(b, {}, {}{});\n", from.size(),
                        kind == "0" ? "" : ", " + kind, instruction++, int64_t(op.getCount()),
                        operands);
  return success();
}

LogicalResult writeProgram(ProgramOp program, const KernelPlan &kernel,
                           ArrayRef<std::string> bufferNames, const Multicasts &multicasts,
                           const AtOnce &atOnce, bool withProxies, StringRef name,
                           llvm::raw_ostream &os) {
  return ProgramWriter(program, kernel, bufferNames, multicasts, atOnce, withProxies, os)
      .write(name);
}

} // namespace ccl::cuda
