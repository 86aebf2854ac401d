//===- EmitCuda.h - L2 programs to CUDA C++ -------------------------------------===//
//
// A source that a person can review: a function for every program, with its loops, over
// device/ccl.cuh; docs/cuda.md says how to read it. It compiles by NVRTC and, unchanged, as C++
// behind device/shim.h.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Ccl.h"
#include "runtime/plan/Plan.h"

namespace ccl {

struct CudaOptions {
  ElementType type = ElementType::F32;
  model::Reduction reduction = model::Reduction::None;
  std::string arch = "sm_90a"; ///< or "shim"
  int64_t rank = -1;           ///< of one rank only; -1: of all
  int32_t threads = 512;       ///< of a block: a power of two, 32 to 1024
  bool multimem = false;       ///< what is one place of all ranks goes through the switch
  bool tma = false;            ///< copies go by the tensor memory accelerator
  bool copyEngines = false;    ///< proxies are copy engines, not thread blocks
};

/// Fills what a plan says about `algorithm`'s lowered programs, as planHost does, and all of
/// plan.cuda but the image. Emits a diagnostic on an op that has no code, or that needs what the
/// target lacks.
mlir::LogicalResult emitCuda(AlgorithmOp algorithm, const model::Contract &contract,
                             const CudaOptions &options, Plan &plan);

} // namespace ccl
