//===- EmitHost.h - L2 programs to LLVM IR and object code ------------------===//
#pragma once

#include "dialect/Ccl.h"
#include "runtime/plan/Plan.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace ccl {

/// What the emitter needs besides the programs.
struct HostOptions {
  ElementType type = ElementType::F32;
  model::Reduction reduction = model::Reduction::None; ///< in place of the contract's
  std::string sanitizer = "";                          ///< or "address", "thread"
  int64_t rank = -1;  ///< only the program of this rank, or -1: all
  bool wires = false; ///< see PlanOptions
};

/// planPrograms (codegen/Programs.h) for the host.
mlir::LogicalResult planHost(AlgorithmOp algorithm, const model::Contract &contract,
                             const HostOptions &options, Plan &plan);

/// Emits one kernel for every `ccl.program` of `algorithm` (see Plan.h for the ABI). `plan` is
/// what planHost made of the same options. Emits a diagnostic on the op that cannot be
/// generated.
mlir::FailureOr<std::unique_ptr<llvm::Module>> emitHost(AlgorithmOp algorithm,
                                                        const HostOptions &options,
                                                        llvm::LLVMContext &context,
                                                        const Plan &plan);

/// Optimizes for the machine we run on and returns an ELF object. `ir`, if not null,
/// gets the optimized LLVM IR as text.
llvm::Expected<std::string> compileToObject(llvm::Module &module, const HostOptions &options,
                                            std::string *ir = nullptr);

/// "x86_64-pc-linux-gnu sapphirerapids +avx512f,...": part of the cache key.
std::string hostTargetKey();

} // namespace ccl
