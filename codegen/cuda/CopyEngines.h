//===- CopyEngines.h - Proxies that are no blocks ---------------------------------===//
#pragma once

#include "codegen/Programs.h"

#include "llvm/Support/raw_ostream.h"

namespace ccl::cuda {

/// That copy engines can do what the proxies of these programs do: transfers of one source, all in
/// memory, besides signals and waits. Else a diagnostic on the transfer. Warns where there is no
/// proxy.
mlir::LogicalResult verifyCopyEngines(AlgorithmOp algorithm, llvm::ArrayRef<ProgramOp> programs);

/// Fills plan.cuda.engines; plan.kernels are those of `programs` already, and lose the proxies in
/// their tables. Leaves plan.cuda.engines empty if there is no proxy.
mlir::LogicalResult planCopyEngines(AlgorithmOp algorithm, llvm::ArrayRef<ProgramOp> programs,
                                    Plan &plan);

/// What copy engines have to do, on all ranks together.
struct EngineCounts {
  size_t agents = 0, ranks = 0;      ///< ranks with such agents
  size_t mostAgents = 0;             ///< of a rank
  size_t transfers = 0, signals = 0; ///< waits are counted as signals
};
EngineCounts countEngines(const CudaCode &code);

/// A kernel of steps of that name; see Step in runtime/plan/CudaAbi.h.
void writeStepKernel(llvm::StringRef name, llvm::raw_ostream &os);

} // namespace ccl::cuda
