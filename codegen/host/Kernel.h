//===- Kernel.h - One rank program as an LLVM function ---------------------===//
#pragma once

#include "codegen/host/Patterns.h"
#include "dialect/Ccl.h"

namespace ccl::host {

/// Number of a program's buffer in Plan::buffers.
using BufferNumbers = llvm::DenseMap<mlir::Operation *, int32_t>;

/// Emits `int32_t kernel.symbol(KernelArgs *)`, see Plan.h. Emits a diagnostic on the
/// op that has no code.
mlir::LogicalResult emitKernel(ProgramOp program, const KernelPlan &kernel,
                               const BufferNumbers &buffers, const Plan &plan, Patterns &patterns,
                               llvm::Module &module);

} // namespace ccl::host
