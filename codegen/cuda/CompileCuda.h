//===- CompileCuda.h - L2 programs to an image for GPUs ---------------------------===//
#pragma once

#include "codegen/Cache.h"
#include "codegen/Compile.h"

namespace ccl {

/// `generate` for options.arch: emits CUDA and compiles it, for a GPU by NVRTC, for "shim" by the
/// host's C++ compiler, or takes the image from the cache. Fills plan.cuda and plan.hash. `text`,
/// if not null, gets the self-contained source, also of one that did not compile, and the cache
/// is not asked. The reduction is the one that the code is for.
mlir::LogicalResult compileCuda(AlgorithmOp algorithm, const model::Contract &contract,
                                model::Reduction reduction, const CompileOptions &options,
                                const std::optional<ObjectCache> &cache, Plan &plan,
                                CompileStats &stats, std::string *text);

} // namespace ccl
