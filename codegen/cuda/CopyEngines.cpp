//===- CopyEngines.cpp ------------------------------------------------------===//
#include "codegen/cuda/CopyEngines.h"

#include "codegen/Count.h"
#include "codegen/host/Agents.h"
#include "dialect/Indexing.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl::cuda {

static LogicalResult verifyTransfer(TransferOp transfer) {
  const size_t sources = transfer.getFrom().size();
  SmallVector<PlaceRef> places = getFromPlaces(transfer);
  llvm::append_range(places, getToPlaces(transfer));
  const bool usesSlots =
      llvm::any_of(places, [](const PlaceRef &place) { return place.isChannel(); });
  if (sources == 1 && !usesSlots)
    return success();
  InFlightDiagnostic diagnostic = transfer.emitOpError()
                                  << "cannot be done by a copy engine: it "
                                  << (usesSlots ? std::string("goes through the slots of a channel")
                                                : fmt::format("combines {} sources", sources));
  diagnostic.attachNote() << "put it into a ccl.block"
                          << (usesSlots ? ", or move it between memory (ccl.peer) and signal"
                                        : ", which the proxy waits for")
                          << "; or compile without copy engines, then proxies are thread blocks";
  return diagnostic;
}

LogicalResult verifyCopyEngines(AlgorithmOp algorithm, ArrayRef<ProgramOp> programs) {
  bool any = false;
  for (ProgramOp program : programs) {
    WalkResult walk = program.walk([&](ProxyOp proxy) {
      any = true;
      return proxy.walk([](TransferOp transfer) {
        return failed(verifyTransfer(transfer)) ? WalkResult::interrupt() : WalkResult::advance();
      });
    });
    if (walk.wasInterrupted())
      return failure();
  }
  if (!any)
    algorithm.emitWarning("copy engines make no difference: no rank has a proxy");
  return success();
}

/// What is left of a table without its proxies.
static RankAgents blocksOf(const RankAgents &table) {
  RankAgents blocks;
  for (AgentCode agent : table.agents) {
    if (agent.proxy)
      continue;
    const auto *code = table.instructions.data();
    const auto begin = uint32_t(blocks.instructions.size());
    blocks.instructions.insert(blocks.instructions.end(), code + agent.begin, code + agent.end);
    agent.begin = begin;
    agent.end = uint32_t(blocks.instructions.size());
    blocks.agents.push_back(agent);
  }
  blocks.operands = table.operands;
  return blocks;
}

LogicalResult planCopyEngines(AlgorithmOp algorithm, ArrayRef<ProgramOp> programs, Plan &plan) {
  // The host walks through all of it at each launch.
  constexpr uint64_t mostInstructions = uint64_t(1) << 20;
  plan.cuda.engines.clear();
  auto hasProxies = [](ProgramOp program) { return !program.getBlock().getOps<ProxyOp>().empty(); };
  if (llvm::none_of(programs, hasProxies))
    return success();
  if (countInstructions(algorithm, mostInstructions) >= mostInstructions)
    return algorithm.emitOpError() << "has programs of over " << mostInstructions
                                   << " instructions: copy engines are told each one of theirs; "
                                      "compile without them";
  for (auto [program, kernel] : llvm::zip_equal(programs, plan.kernels)) {
    FailureOr<std::vector<RankAgents>> proxies = host::planProxies(program, plan, kernel);
    if (failed(proxies))
      return failure();
    plan.cuda.engines.push_back(std::move(*proxies));
    for (RankAgents &table : kernel.agents)
      table = blocksOf(table);
  }
  return success();
}

EngineCounts countEngines(const CudaCode &code) {
  EngineCounts counts;
  for (const std::vector<RankAgents> &ranks : code.engines)
    for (const RankAgents &rank : ranks) {
      counts.agents += rank.agents.size();
      counts.ranks += !rank.agents.empty();
      counts.mostAgents = std::max(counts.mostAgents, rank.agents.size());
      for (const AgentInstruction &instruction : rank.instructions)
        ++(instruction.pattern < 0 ? counts.signals : counts.transfers);
    }
  return counts;
}

void writeStepKernel(StringRef name, llvm::raw_ostream &os) {
  os << fmt::format("\nextern \"C\" __global__ void __launch_bounds__({1})\n"
                    "{0}(const __grid_constant__ Launch one, const __grid_constant__ Step step) "
                    "{{\n  runStep(one, step);\n}}\nCCL_EXPORT({0})\n",
                    name.str(), CudaCode::stepThreads);
}

} // namespace ccl::cuda
