//===- Kernel.h - One rank program as a function of CUDA C++ -------------------===//
#pragma once

#include "codegen/Programs.h"

#include "llvm/Support/raw_ostream.h"

#include <map>

namespace ccl::cuda {

/// Protocols of channels by (tag, slots): both ends of a channel have one.
using Protocols = std::map<std::pair<int64_t, int64_t>, Protocol>;

/// "Wires<simple, memory>" of the operands of one side of a transfer.
std::string wires(llvm::ArrayRef<Protocol> protocols, llvm::ArrayRef<bool> isChannel);

/// Writes `static __device__ void NAME(Block &b)`: what one rank of `program` does in a
/// micro-batch. Emits a diagnostic on the op that has no code.
mlir::LogicalResult writeProgram(ProgramOp program, const KernelPlan &kernel,
                                 llvm::ArrayRef<std::string> bufferNames, llvm::StringRef name,
                                 llvm::raw_ostream &os);

} // namespace ccl::cuda
