//===- Kernel.cpp -----------------------------------------------------------===//
#include "codegen/cuda/Kernel.h"

#include "codegen/cuda/LoopFacts.h"
#include "codegen/cuda/ProgramWriter.h"

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

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

LogicalResult ProgramWriter::write(StringRef name) {
  os << "static __device__ __forceinline__ void " << name << "(Block &b) {\n";
  if (failed(nameChannels(program.getBlock())))
    return failure();
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

LogicalResult ProgramWriter::writeBlock(Block &block) {
  if (failed(nameChannels(block)))
    return failure();
  for (Operation &op : block)
    if (!written.contains(&op) && failed(writeOp(&op)))
      return failure();
  return success();
}

LogicalResult ProgramWriter::writeOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<BufferOp, PeerOp, ChannelOp, affine::AffineYieldOp>([](auto) { return success(); })
      .Case<TransferOp>([&](TransferOp transfer) { return writeTransfer(transfer); })
      .Case<SignalOp, WaitOp>([&](auto signal) { return writeSignals(signal); })
      .Case<affine::AffineForOp>([&](affine::AffineForOp loop) { return writeFor(loop); })
      .Case<arith::ConstantOp>([&](arith::ConstantOp constant) -> LogicalResult {
        auto number = dyn_cast<IntegerAttr>(constant.getValue());
        if (!number)
          return constant.emitOpError("has no code on GPUs: only integer constants have");
        return success();
      })
      .Default([](Operation *other) -> LogicalResult {
        return other->emitOpError("has no code on GPUs: a rank program holds channels, "
                                  "transfers, signals, waits and affine.for loops");
      });
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

/// "begin, end, step" of constant bounds.
static std::string printRange(affine::AffineForOp loop) {
  return fmt::format("{}, {}, {}", loop.getConstantLowerBound(), loop.getConstantUpperBound(),
                     loop.getStepAsInt());
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
  const std::string name = fmt::format("s{}", loops++);
  names[loop.getInductionVar()] = name;
  const bool waits = isa<WaitOp>(action);
  const std::string call = waits ? "waitEach" : "signalEach",
                    range = fmt::format("b, {}{}", waits ? fmt::format("{}, ", instruction) : "",
                                        printRange(loop));
  ++instruction;
  IndexForm form(name);
  FailureOr<std::optional<std::string>> text = printChannel(channel, &form);
  if (failed(text))
    return failure();
  if (*text) {
    line() << fmt::format("static __device__ const Channels channels{} = {{{}}};\n", tables,
                          **text);
    line() << fmt::format("{}({}, channels{}{});\n", call, range, tables++, form.arguments());
    return true;
  }
  text = printChannel(channel, nullptr);
  if (failed(text))
    return failure();
  line() << fmt::format("{}Of({}, [&](int {}) {{ return channel({}); }});\n", call, range, name,
                        **text);
  return true;
}

/// Loops whose transfers have nothing to do with each other: operands of many at once.
LogicalResult ProgramWriter::writeForAtOnce(affine::AffineForOp loop, TransferOp transfer) {
  const std::string name = fmt::format("s{}", loops++);
  names[loop.getInductionVar()] = name;
  const size_t sources = transfer.getFrom().size(), all = sources + transfer.getTo().size();
  const int table = tables++;
  line() << fmt::format("static __device__ const Rows rows{} = rowsOf<{}>({}, {});\n", table, all,
                        printRange(loop), int64_t(transfer.getCount()));
  const std::string numbers =
      fmt::format("b, {}, {}, rows{}", instruction++, loop.getConstantLowerBound(), table);
  IndexForm form(name);
  FailureOr<std::optional<std::string>> operands = printOperands(transfer, &form);
  if (failed(operands))
    return failure();
  if (*operands) {
    line() << fmt::format("static __device__ const Site sites{}[] = {{{}}};\n", table, **operands);
    line() << fmt::format("transferEach<{}>({}, sites{}{});\n", sources, numbers, table,
                          form.arguments());
    return success();
  }
  operands = printOperands(transfer, nullptr);
  if (failed(operands))
    return failure();
  line() << fmt::format(
      "transferEachOf<{}, {}>({}, [&](int {}, const Row &row) {{ row.put({}); }});\n", sources, all,
      numbers, name, **operands);
  return success();
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
  SmallVector<ChannelOp> channels;
  for (Operation *op : run) {
    auto channel = op->getOperand(0).getDefiningOp<ChannelOp>();
    if (!channel)
      return op->emitOpError("names no channel of its program: that has no code on GPUs");
    channels.push_back(channel);
    written.insert(op);
  }
  const std::string waits = isa<WaitOp>(first) ? fmt::format("{}, ", instruction) : "";
  instruction += int64_t(run.size());
  return writeChannels(channels, [&](size_t, size_t, StringRef table, StringRef arguments) {
    line() << fmt::format("{}(b, {}{}{});\n", waits.empty() ? "signal" : "wait", waits, table.str(),
                          arguments.str());
  });
}

LogicalResult ProgramWriter::writeTransfer(TransferOp op) {
  const MulticastSides all = multicasts.lookup(op);
  std::string kind = kindOf(wiresOf(getFromPlaces(op)), wiresOf(getToPlaces(op)));
  if (all.any())
    kind = !all.to ? "allSources" : all.from ? "allSources | allDestinations" : "allDestinations";
  const size_t sources = all.from ? 1 : op.getFrom().size();
  const std::string types = fmt::format("{}{}", sources, kind == "0" ? "" : ", " + kind);
  const std::string numbers = fmt::format("{}, {}", instruction++, int64_t(op.getCount()));
  IndexForm form;
  FailureOr<std::optional<std::string>> operands = printOperands(op, &form);
  if (failed(operands))
    return failure();
  if (*operands) {
    line() << fmt::format("static __device__ const Site sites{}[] = {{{}}};\n", tables, **operands);
    line() << fmt::format("transfer<{}>(b, {}, sites{}{});\n", types, numbers, tables++,
                          form.arguments());
    return success();
  }
  operands = printOperands(op, nullptr);
  if (failed(operands))
    return failure();
  line() << fmt::format("transferOf<{}>(b, {}, {});\n", types, numbers, **operands);
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
