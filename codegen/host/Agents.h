//===- Agents.h - Programs as tables that the runtime executes ---------------===//
#pragma once

#include "codegen/host/Helpers.h"
#include "dialect/Ccl.h"

namespace ccl::host {

/// Whether programs are executed from tables instead of being compiled: those with several
/// agents, and those of so many instructions that LLVM would take longer than some 0.1 s,
/// unless loops make the tables large. All of an algorithm's are alike in that.
bool runFromTables(AlgorithmOp algorithm, llvm::ArrayRef<ProgramOp> programs);

/// Fills what a plan says about the tables: kernel.agents, kernel.channels and kernel.peers,
/// plan.transfers and plan.slice. plan.contract and plan.buffers must be there. Emits an error
/// on an instruction that touches what does not exist.
mlir::LogicalResult planAgents(ProgramOp program, Plan &plan, KernelPlan &kernel);

/// Tables of the proxies alone, by index of the rank in the set. `kernel` has the channels already;
/// plan.transfers gets what is missing there.
mlir::FailureOr<std::vector<RankAgents>> planProxies(ProgramOp program, Plan &plan,
                                                     const KernelPlan &kernel);

/// Whether some source of a transfer may be an address of another process.
bool mayReadRemote(const Plan &plan);

/// Emits the functions that plan.transfers and plan.slice name.
void emitTransfers(const Plan &plan, Patterns &patterns, llvm::Module &module);

} // namespace ccl::host
