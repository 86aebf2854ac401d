//===- Programs.h - What a plan says about programs, whatever runs them --------===//
#pragma once

#include "codegen/host/Kernel.h"
#include "dialect/Ccl.h"
#include "runtime/plan/Plan.h"

namespace ccl {

/// The programs of `algorithm`, or those that `rank` runs if it is not negative.
llvm::SmallVector<ProgramOp> programsOf(AlgorithmOp algorithm, int64_t rank);

/// Buffers are numbered in program order, alike in every program.
host::BufferNumbers numberBuffers(ProgramOp program);

bool isInteger(ElementType type);
/// "" if elements can be combined so, else the reason. `backend`: "GPUs have".
std::string whyNotReducible(llvm::StringRef backend, ElementType type, model::Reduction reduction);

struct PlanOptions {
  ElementType type = ElementType::F32;
  model::Reduction reduction = model::Reduction::None; ///< in place of the contract's
  int64_t rank = -1;                                   ///< only its program, or -1: all
  bool wires = false;  ///< say what is sent through channels, for those between hosts
  bool tables = false; ///< programs are executed from tables, see runtime/plan/Agents.h
};

/// Fills what a plan says about the programs of `algorithm` besides their code: type, kernels,
/// buffers, the contract (with the reduction that the code does), and what it needs of the
/// runtime. Emits a diagnostic on what is wrong.
mlir::LogicalResult planPrograms(AlgorithmOp algorithm, const model::Contract &contract,
                                 const PlanOptions &options, Plan &plan);

} // namespace ccl
