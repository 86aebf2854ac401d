//===- Compiler.h - From what a program is made of to code ------------------------===//
//
// One MLIR context for each compilation: any number of threads may compile at once, and
// nothing stays behind.
//===----------------------------------------------------------------------===//
#pragma once

#include <ccl/builder.h>

#include "runtime/LoadedProgram.h"
#include "runtime/cuda/LoadedCudaProgram.h"

#include <map>
#include <mutex>

namespace ccl {
inline namespace jit {

/// What a program is made of. Kept, so that its stages can be shown later.
struct Source {
  std::string text, label;            ///< MLIR text, unless one of these:
  std::optional<Algorithm> algorithm; ///< a builder's
  std::optional<Collective> generated;
};

struct Compiled {
  std::shared_ptr<LoadedProgram> loaded;
  std::string remarks;
};

/// What the file holds.
Result<Source> readProgram(const std::string &path);
/// The options of a generated program with its generator named.
Result<ProgramOptions> chooseProgram(Collective collective, const ProgramOptions &options);

Result<Compiled> compileSource(const Source &source, const ProgramOptions &options);
/// The same for GPUs, or what stands for them: see CudaCode::arch.
Result<Plan> compileForGpus(const Source &source, const ProgramOptions &options,
                            const std::string &arch);
Result<std::string> printStage(const Source &source, const ProgramOptions &options,
                               Program::Stage stage);

/// The generator to use: `wanted`, else `setting` (CCL_ALGO) if one of that name is for the
/// collective, since a job runs several, else the default. `reason` says which it was.
Result<std::string> chooseGenerator(Collective collective, const std::string &wanted,
                                    const std::string &setting, const char *&reason);

struct [[gnu::visibility("hidden")]] Program::Impl {
  Source source;
  ProgramOptions options;
  std::shared_ptr<LoadedProgram> loaded;
  std::string remarks;

  /// The same program for GPUs, compiled when it is first asked for. Any thread.
  Result<std::shared_ptr<cuda::LoadedCudaProgram>> onGpus(const cuda::Driver &driver,
                                                          const std::string &arch) const;
  mutable std::mutex gpusMutex{};
  mutable std::map<std::string, std::shared_ptr<cuda::LoadedCudaProgram>> gpus{}; ///< by arch

  static Result<Program> handle(Result<std::shared_ptr<const Impl>> made);
};
Result<std::shared_ptr<const Program::Impl>> makeProgram(Source source,
                                                         const ProgramOptions &options);

} // namespace jit
} // namespace ccl
