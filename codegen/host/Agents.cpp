//===- Agents.cpp -------------------------------------------------------------===//
#include "codegen/host/Agents.h"

#include "codegen/Count.h"
#include "codegen/host/Abi.h"
#include "passes/checks/CheckProofs.h"

#include <fmt/format.h>

#include <map>

using namespace mlir;

namespace ccl::host {

bool runFromTables(AlgorithmOp algorithm, ArrayRef<ProgramOp> programs) {
  // LLVM takes 0.6 ms for an instruction, and the more the more there are.
  constexpr uint64_t manyToCompile = 128;
  // A table takes some 50 bytes an instruction.
  constexpr uint64_t mostForChoice = uint64_t(1) << 20;
  uint64_t written = 0;
  bool several = false;
  for (ProgramOp program : programs) {
    int agents = 0;
    for (Operation &op : program.getBlock())
      agents += isa<BlockOp, ProxyOp>(op);
    several |= agents > 1;
    program->walk([&](Operation *op) { written += isa<TransferOp, SignalOp, WaitOp>(op); });
  }
  return several ||
         (written > manyToCompile && countInstructions(algorithm, mostForChoice) < mostForChoice);
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

namespace {

/// Makes the tables of one program's ranks, into kernel.agents.
class TableWriter {
public:
  /// `all`: of all agents, and the kernel's channels, too. Else of proxies.
  TableWriter(ProgramOp program, Plan &plan, KernelPlan &kernel, bool all)
      : program(program), plan(plan), kernel(kernel), all(all), ranks(program.getRankList()) {
    for (size_t i = 0; i < plan.transfers.size(); ++i)
      patterns[{plan.transfers[i].sources, plan.transfers[i].destinations}] = int32_t(i);
    for (auto [index, family] : llvm::enumerate(kernel.channels))
      families[{family.to, family.tag, family.slots}] = index;
  }

  LogicalResult write() {
    for (auto [index, rank] : llvm::enumerate(ranks)) {
      locations.clear();
      FailureOr<model::Program> expanded = expandRank(program, rank, locations);
      if (failed(expanded) || failed(writeRank(index, expanded->ranks.front())))
        return failure();
    }
    return success();
  }

private:
  LogicalResult writeRank(size_t index, const model::RankProgram &source) {
    if (failed(writeChannels(index, source.channels)))
      return failure();
    RankAgents &table = kernel.agents.emplace_back();
    for (const model::Agent &agent : source.agents) {
      if (!all && !agent.proxy)
        continue;
      AgentCode code{agent.proxy, agent.id, uint32_t(table.instructions.size()), 0};
      for (const model::Instruction &instruction : agent.code)
        if (failed(writeInstruction(instruction, table)))
          return failure();
      code.end = uint32_t(table.instructions.size());
      table.agents.push_back(code);
    }
    table.instructions.shrink_to_fit();
    table.operands.shrink_to_fit();
    return success();
  }

  LogicalResult writeChannels(size_t index, const std::vector<model::Channel> &channels) {
    channelIndices.clear();
    for (const model::Channel &channel : channels) {
      if (channel.peer < 0 || channel.peer >= plan.ranks())
        return emitError(at(channel.loc)) << "a channel reaches rank " << channel.peer
                                          << ", but there are ranks 0 to " << plan.ranks() - 1;
      auto [it, isNew] = families.try_emplace(
          std::make_tuple(channel.to, channel.tag, channel.slots), kernel.channels.size());
      if (isNew) {
        kernel.channels.push_back({channel.to, channel.tag, channel.slots});
        kernel.peers.emplace_back(ranks.size());
      }
      if (all)
        kernel.peers[it->second][index].push_back(channel.peer);
      channelIndices.push_back(int64_t(it->second) * plan.ranks() + channel.peer);
    }
    return success();
  }

  Location at(int32_t loc) { return locationAt(loc, locations, program.getLoc()); }

  LogicalResult writeInstruction(const model::Instruction &instruction, RankAgents &table) {
    using Kind = model::Instruction::Kind;
    if (table.operands.size() > UINT32_MAX / 2)
      return emitError(at(instruction.loc)) << "has more operands than a program may have";
    AgentInstruction row;
    row.operands = uint32_t(table.operands.size());
    row.count = instruction.count;
    if (instruction.kind == Kind::Transfer) {
      row.pattern = patternOf(instruction);
      for (const auto *side : {&instruction.from, &instruction.to})
        for (const model::Operand &operand : *side)
          if (failed(writeOperand(instruction, operand, table)))
            return failure();
    } else {
      row.pattern =
          instruction.kind == Kind::Signal ? AgentInstruction::signal : AgentInstruction::wait;
      table.operands.push_back(channelOperand(instruction.channel));
    }
    table.instructions.push_back(row);
    return success();
  }

  int32_t patternOf(const model::Instruction &instruction) {
    const auto sources = int32_t(instruction.from.size());
    const auto destinations = int32_t(instruction.to.size());
    auto [it, isNew] =
        patterns.try_emplace({sources, destinations}, int32_t(plan.transfers.size()));
    if (isNew)
      plan.transfers.push_back(
          {sources, destinations, fmt::format("transfer_{}_{}", sources, destinations)});
    return it->second;
  }

  AgentOperand channelOperand(int32_t channel) const {
    return {AgentOperand::channel, 0, channelIndices[size_t(channel)]};
  }

  LogicalResult writeOperand(const model::Instruction &instruction, const model::Operand &operand,
                             RankAgents &table) {
    if (operand.kind == model::Operand::Kind::Channel) {
      table.operands.push_back(channelOperand(operand.channel));
      return success();
    }
    const BufferPlan &buffer = plan.buffers[size_t(operand.buffer)];
    if (operand.chunk < 0 || operand.chunk > buffer.chunks - instruction.count)
      return emitError(at(instruction.loc))
             << "touches chunk " << operand.chunk + (operand.chunk < 0 ? 0 : instruction.count - 1)
             << " of " << buffer.name << ", which has chunks 0 to " << buffer.chunks - 1;
    int32_t peer = AgentOperand::own;
    if (operand.kind == model::Operand::Kind::Peer) {
      peer = operand.peer;
      if (peer < 0 || peer >= plan.ranks())
        return emitError(at(instruction.loc))
               << "reaches rank " << peer << ", but there are ranks 0 to " << plan.ranks() - 1;
    }
    table.operands.push_back({peer, operand.buffer, operand.chunk});
    return success();
  }

  ProgramOp program;
  Plan &plan;
  KernelPlan &kernel;
  const bool all;
  const SmallVector<int64_t> ranks;
  LocationTable locations;             ///< of the rank under way
  std::vector<int64_t> channelIndices; ///< of its channels, in KernelArgs::channels
  std::map<std::pair<int32_t, int32_t>, int32_t> patterns;
  std::map<std::tuple<bool, int32_t, int32_t>, size_t> families;
};

} // namespace

LogicalResult planAgents(ProgramOp program, Plan &plan, KernelPlan &kernel) {
  plan.slice = "agents_slice";
  return TableWriter(program, plan, kernel, /*all=*/true).write();
}

FailureOr<std::vector<RankAgents>> planProxies(ProgramOp program, Plan &plan,
                                               const KernelPlan &kernel) {
  KernelPlan proxies;
  proxies.channels = kernel.channels;
  proxies.peers = kernel.peers;
  if (failed(TableWriter(program, plan, proxies, /*all=*/false).write()))
    return failure();
  return std::move(proxies.agents);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

using llvm::Function;

static Function *declare(StringRef name, llvm::Type *result, ArrayRef<llvm::Type *> parameters,
                         llvm::Module &module) {
  auto *function = Function::Create(llvm::FunctionType::get(result, parameters, false),
                                    Function::ExternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  return function;
}

bool mayReadRemote(const Plan &plan) {
  return llvm::any_of(plan.buffers, [](const BufferPlan &buffer) {
    return buffer.peersRead && !buffer.peersWrite;
  });
}

/// A TransferFunction: the pattern with its arguments in memory.
static void emitTransfer(const TransferPattern &transfer, bool remote, Helpers &helpers,
                         Patterns &patterns, llvm::Module &module) {
  const auto sources = unsigned(transfer.sources), destinations = unsigned(transfer.destinations);
  llvm::IRBuilder<> builder(module.getContext());
  llvm::Type *pointer = builder.getPtrTy(), *i64 = builder.getInt64Ty();
  Function *function =
      declare(transfer.symbol, builder.getInt32Ty(), {pointer, pointer, pointer, i64}, module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  llvm::Value *places = function->getArg(1), *owners = function->getArg(2);
  SmallVector<llvm::Value *> arguments;
  llvm::Value *any = builder.getFalse();
  for (unsigned p = 0; p < sources + destinations; ++p) {
    arguments.push_back(loadField(builder, places, p * sizeof(void *), pointer));
    if (p < sources && remote)
      any = builder.CreateOr(any, isRemote(builder, arguments.back()));
  }
  arguments.push_back(function->getArg(3));
  if (remote) {
    auto *fetch = llvm::BasicBlock::Create(module.getContext(), "fetch", function);
    auto *mapped = llvm::BasicBlock::Create(module.getContext(), "mapped", function);
    builder.CreateCondBr(any, fetch, mapped);
    builder.SetInsertPoint(fetch);
    SmallVector<llvm::Value *> fetched{function->getArg(0)};
    for (unsigned s = 0; s < sources; ++s)
      fetched.push_back(loadField(builder, owners, s * sizeof(int64_t), i64));
    llvm::append_range(fetched, arguments);
    builder.CreateRet(builder.CreateCall(helpers.fetch(sources, destinations), fetched));
    builder.SetInsertPoint(mapped);
  }
  builder.CreateCall(patterns.get(sources, destinations), arguments);
  builder.CreateRet(builder.getInt32(0));
}

/// A SliceFunction: the helper, with the parameters that every program has.
static void emitSlice(StringRef name, Helpers &helpers, llvm::Module &module) {
  llvm::IRBuilder<> builder(module.getContext());
  llvm::Type *i64 = builder.getInt64Ty();
  Function *function = declare(name, llvm::StructType::get(i64, i64),
                               {i64, i64, i64, i64, builder.getPtrTy(), i64}, module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  SmallVector<llvm::Value *> arguments;
  for (unsigned p = 0; p < (helpers.mayBeUneven() ? 6u : 4u); ++p)
    arguments.push_back(function->getArg(p));
  builder.CreateRet(builder.CreateCall(helpers.slice(), arguments));
}

void emitTransfers(const Plan &plan, Patterns &patterns, llvm::Module &module) {
  Helpers helpers(module, plan, patterns);
  for (const TransferPattern &transfer : plan.transfers)
    emitTransfer(transfer, mayReadRemote(plan), helpers, patterns, module);
  emitSlice(plan.slice, helpers, module);
}

} // namespace ccl::host
