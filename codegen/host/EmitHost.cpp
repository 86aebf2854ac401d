//===- EmitHost.cpp ---------------------------------------------------------===//
#include "codegen/host/EmitHost.h"

#include "codegen/Programs.h"
#include "codegen/host/Agents.h"

#include "llvm/IR/Verifier.h"

using namespace mlir;

namespace ccl {

LogicalResult planHost(AlgorithmOp algorithm, const model::Contract &contract,
                       const HostOptions &options, Plan &plan) {
  const bool tables = host::runFromTables(algorithm, programsOf(algorithm, options.rank));
  return planPrograms(algorithm, contract,
                      {options.type, options.reduction, options.rank, options.wires, tables}, plan);
}

/// Whether what transfers combine can be combined.
static LogicalResult verifyReductions(AlgorithmOp algorithm, const HostOptions &options,
                                      const host::Patterns &patterns) {
  const std::string why = patterns.whyNotReducible();
  if (why.empty())
    return success();
  for (ProgramOp program : programsOf(algorithm, options.rank)) {
    WalkResult walk = program.walk([&](TransferOp transfer) {
      if (transfer.getFrom().size() < 2)
        return WalkResult::advance();
      transfer.emitOpError() << "cannot be generated: " << why;
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return failure();
  }
  return success();
}

static LogicalResult emitKernels(AlgorithmOp algorithm, const HostOptions &options,
                                 const Plan &plan, host::Patterns &patterns, llvm::Module &module) {
  for (auto [index, program] : llvm::enumerate(programsOf(algorithm, options.rank)))
    if (failed(host::emitKernel(program, plan.kernels[index], numberBuffers(program), plan,
                                patterns, module)))
      return failure();
  return success();
}

FailureOr<std::unique_ptr<llvm::Module>> emitHost(AlgorithmOp algorithm, const HostOptions &options,
                                                  llvm::LLVMContext &context, const Plan &plan) {
  auto module = std::make_unique<llvm::Module>(algorithm.getSymName(), context);
  host::Patterns patterns(*module, options.type, options.reduction);
  if (failed(verifyReductions(algorithm, options, patterns)))
    return failure();
  if (!plan.slice.empty())
    host::emitTransfers(plan, patterns, *module);
  else if (failed(emitKernels(algorithm, options, plan, patterns, *module)))
    return failure();
  // With one rank nothing is reduced, and the program is no better for that.
  if (options.reduction != model::Reduction::None)
    if (std::string why = patterns.whyNotReducible(); !why.empty())
      return algorithm.emitOpError("cannot be generated: ") << why;
  if (!plan.finish.empty())
    patterns.emitFinish(plan.finish);
  // LLVM here is built without assertions: wrong IR would be undefined behaviour.
  std::string broken;
  llvm::raw_string_ostream text(broken);
  if (llvm::verifyModule(*module, &text))
    return algorithm.emitOpError("was turned into invalid LLVM IR: ") << text.str();
  return module;
}

} // namespace ccl
