//===- MeasureCuda.h - The same as Measure.h, with ranks on GPUs ----------------===//
#pragma once

#include "frontend/cli/Measure.h"
#include "runtime/cuda/CudaGroup.h"

namespace ccl::cli {

struct CudaMeasureOptions {
  /// Launches in a graph that is captured once and replayed for every measurement and check; 0:
  /// launches are not captured.
  int64_t graphLaunches = 0;
  /// Called once, when the first launch is over: it was not refused.
  std::function<void()> onFirstLaunch{};
};

/// Runs `program` on all ranks of `group` (each process calls it, if there are several) for all
/// these lengths; see measure(). Inputs are filled
/// and results judged on the host. Times are those of events in the GPUs' streams.
llvm::Error measureCuda(cuda::CudaGroup &group, const cuda::Driver &driver,
                        const std::shared_ptr<cuda::LoadedCudaProgram> &program,
                        const Workload &workload, const std::vector<Lengths> &sizes,
                        const MeasureOptions &options, const CudaMeasureOptions &cudaOptions,
                        const std::function<void()> &onFirstResult,
                        const std::function<void(const Measurement &)> &report);

} // namespace ccl::cli
