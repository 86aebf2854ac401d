//===- Programs.cpp ---------------------------------------------------------===//
#include "codegen/Programs.h"

#include "codegen/Count.h"
#include "codegen/host/Agents.h"
#include "codegen/host/Channels.h"
#include "codegen/rdma/Messages.h"
#include "dialect/Indexing.h"

#include <fmt/format.h>

#include <set>

using namespace mlir;

namespace ccl {

bool isInteger(ElementType type) {
  switch (type) {
  case ElementType::I8:
  case ElementType::U8:
  case ElementType::I32:
  case ElementType::U32:
  case ElementType::I64:
  case ElementType::U64: return true;
  default: return false;
  }
}

std::string whyNotReducible(StringRef backend, ElementType type, model::Reduction reduction) {
  switch (reduction) {
  case model::Reduction::None: return "no reduction is given: the contract names none";
  case model::Reduction::Band:
  case model::Reduction::Bor:
  case model::Reduction::Bxor:
    if (!isInteger(type))
      return fmt::format("{} no '{}' of '{}' elements: only integers have bits", backend.str(),
                         model::name(reduction), name(type));
    return "";
  default: return "";
  }
}

static bool runsOn(ProgramOp program, int64_t rank) {
  ArrayRef<int64_t> ranks = program.getRanks();
  for (size_t i = 0; i + 1 < ranks.size(); i += 2)
    if (rank >= ranks[i] && rank < ranks[i + 1])
      return true;
  return false;
}

SmallVector<ProgramOp> programsOf(AlgorithmOp algorithm, int64_t rank) {
  SmallVector<ProgramOp> programs = getPrograms(algorithm);
  llvm::erase_if(programs, [&](ProgramOp program) { return rank >= 0 && !runsOn(program, rank); });
  return programs;
}

host::BufferNumbers numberBuffers(ProgramOp program) {
  host::BufferNumbers numbers;
  for (auto buffer : program.getBlock().getOps<BufferOp>())
    numbers.try_emplace(buffer, int32_t(numbers.size()));
  return numbers;
}

static LogicalResult planBuffers(ProgramOp program, bool lowered, bool first, Plan &plan) {
  size_t number = 0;
  for (auto buffer : program.getBlock().getOps<BufferOp>()) {
    auto shape = buffer.getChunkShape();
    if (!shape)
      return buffer.emitOpError("has extents that are not constant");
    if (buffer.getRole() == BufferRole::InOut && !lowered)
      return buffer.emitOpError("is 'inout', which has no code: lowering splits it into 'in' and "
                                "'out'");
    BufferPlan part{buffer.getName().value_or("buffer").str(), toModel(buffer.getRole()),
                    product(*shape)};
    // It runs in place: then the larger row is `out`, whatever part of it the caller has there.
    if (part.role == model::Role::InOut)
      part.role = model::Role::Out;
    if (first)
      plan.buffers.push_back(part);
    else if (number >= plan.buffers.size() || plan.buffers[number].role != part.role ||
             plan.buffers[number].chunks != part.chunks)
      return buffer.emitOpError("differs from the buffer in this position of another rank's "
                                "program");
    ++number;
  }
  return success();
}

/// LLVM takes half a second for a loop over as many places, and from there on four times as
/// long for twice as many.
constexpr size_t mostOperands = 512;
/// The same of all patterns of an algorithm together.
constexpr size_t mostOperandsOfPatterns = 4096;

/// Patterns of transfers: (sources, destinations).
using PatternSet = std::set<std::pair<size_t, size_t>>;

static LogicalResult addPattern(TransferOp transfer, PatternSet &patterns) {
  const size_t sources = transfer.getFrom().size(), destinations = transfer.getTo().size();
  if (sources + destinations > mostOperands)
    return transfer.emitOpError() << "has " << sources + destinations
                                  << " operands; there is code for up to " << mostOperands;
  patterns.insert({sources, destinations});
  size_t total = 0;
  for (auto [s, d] : patterns)
    total += s + d;
  if (total > mostOperandsOfPatterns)
    return transfer.emitOpError()
           << "is one of too many kinds: all numbers of sources and destinations that occur add up "
              "to over "
           << mostOperandsOfPatterns;
  return success();
}

/// Whose memory transfers touch, and how much they need in between.
static LogicalResult planTransfers(ProgramOp program, PatternSet &patterns, Plan &plan) {
  const host::BufferNumbers numbers = numberBuffers(program);
  WalkResult walk = program.walk([&](TransferOp transfer) {
    if (!patterns.count({transfer.getFrom().size(), transfer.getTo().size()}) &&
        failed(addPattern(transfer, patterns)))
      return WalkResult::interrupt();
    bool staged = false, peerRead = false;
    SmallVector<PlaceRef> places = getFromPlaces(transfer);
    size_t sources = places.size();
    llvm::append_range(places, getToPlaces(transfer));
    for (auto [index, place] : llvm::enumerate(places)) {
      staged |= place.isChannel();
      if (!place.getPeer())
        continue;
      plan.direct = true;
      BufferPlan &buffer = plan.buffers[size_t(numbers.lookup(place.getBuffer()))];
      (index < sources ? buffer.peersRead : buffer.peersWrite) = true;
      peerRead |= index < sources;
    }
    if (staged)
      plan.maxCount = std::max(plan.maxCount, int64_t(transfer.getCount()));
    if (peerRead && places.size() > 2)
      plan.bounceSources = std::max(plan.bounceSources, int32_t(sources));
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// "kernel2_ring.p": readable in a debugger, distinct whatever the programs' names.
static std::string symbolFor(size_t index, StringRef name) {
  std::string symbol = "kernel" + std::to_string(index) + "_" + name.str();
  for (char &c : symbol)
    if (!llvm::isAlnum(c) && c != '.')
      c = '_';
  return symbol;
}

/// KernelArgs::agent of the code of a program.
static int64_t agentOf(ProgramOp program) {
  for (Operation &op : program.getBlock()) {
    if (auto block = dyn_cast<BlockOp>(op))
      return agentNumber(/*proxy=*/false, block.getId());
    if (auto proxy = dyn_cast<ProxyOp>(op))
      return agentNumber(/*proxy=*/true, proxy.getId());
  }
  return 0;
}

/// Instructions of all ranks; each takes some 50 bytes in the memory of every process.
constexpr uint64_t mostInTables = uint64_t(1) << 24;

static LogicalResult planProgram(ProgramOp program, size_t index, bool tables, Plan &plan) {
  KernelPlan &kernel = plan.kernels.emplace_back();
  ArrayRef<int64_t> ranks = program.getRanks();
  for (size_t i = 0; i + 1 < ranks.size(); i += 2)
    kernel.ranks.emplace_back(ranks[i], ranks[i + 1]);
  if (tables)
    return host::planAgents(program, plan, kernel);
  kernel.symbol = symbolFor(index, program.getSymName());
  kernel.agent = agentOf(program);
  return host::planChannels(program, plan.ranks(), kernel);
}

LogicalResult planPrograms(AlgorithmOp algorithm, const model::Contract &contract,
                           const PlanOptions &options, Plan &plan) {
  plan.type = options.type;
  plan.contract = contract;
  plan.contract.reduction = options.reduction;
  plan.kernels.clear();
  plan.buffers.clear();
  plan.maxCount = 1;
  plan.direct = false;
  plan.bounceSources = 0;
  plan.transfers.clear();
  plan.slice.clear();
  plan.finish.clear();
  if (options.reduction == model::Reduction::Avg) {
    if (contract.collective == model::Collective::Custom)
      return algorithm.emitOpError("has no code for 'avg': the rows of a custom contract do not "
                                   "say what to divide by");
    plan.finish = "finish_avg";
  }
  if (options.tables && countInstructions(algorithm, mostInTables) >= mostInTables)
    return algorithm.emitOpError() << "has programs of over " << mostInTables
                                   << " instructions, and of several agents: fewer are executed";
  PatternSet patterns;
  plan.hasWires = options.wires;
  uint64_t messages = 0;
  for (auto [index, program] : llvm::enumerate(programsOf(algorithm, options.rank)))
    if (failed(planBuffers(program, algorithm.getLowered(), index == 0, plan)) ||
        failed(planTransfers(program, patterns, plan)) ||
        failed(planProgram(program, index, options.tables, plan)) ||
        failed(rdma::planMessages(program, plan.kernels.back(), plan, messages)))
      return failure();
  return success();
}

} // namespace ccl
