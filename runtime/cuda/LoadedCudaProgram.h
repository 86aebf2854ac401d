//===- LoadedCudaProgram.h - A plan that GPUs can execute ------------------------===//
#pragma once

#include "runtime/cuda/Device.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <memory>
#include <mutex>

namespace ccl::cuda {

/// A plan and its code, on every GPU that has asked for it. Shared by all communicators; any
/// thread.
class LoadedCudaProgram {
public:
  /// Nothing is loaded yet. Fails with BadArgument if the plan has no code for GPUs, or code for
  /// the processor where `driver` is that of GPUs, or the other way round.
  static llvm::Expected<std::shared_ptr<LoadedCudaProgram>> load(const Driver &driver, Plan plan);
  const Plan &plan() const { return thePlan; }

  struct Kernel {
    CUfunction function = nullptr;   ///< null: the plan has none
    int blocksPerMultiprocessor = 0; ///< that run at once
    int registers = 0;               ///< of a thread
  };
  struct Code {
    Kernel kernel, step, finish; ///< see CudaCode
  };
  /// On `device`, valid as long as this is.
  llvm::Expected<const Code *> on(const Device &device);

private:
  struct Loaded {
    PrimaryContext context; ///< outlives the module
    Module module;
    Code code;
  };
  explicit LoadedCudaProgram(Plan plan) : thePlan(std::move(plan)) {}
  llvm::Error loadOn(const Device &device, Loaded &loaded) const;
  llvm::Error find(const Driver &driver, const Loaded &loaded, const std::string &name, int threads,
                   Kernel &kernel) const;

  const Plan thePlan;
  std::mutex mutex;
  std::map<int, Loaded> byDevice;
};

} // namespace ccl::cuda
