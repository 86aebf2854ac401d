//===- Cuda.h - What a plan holds for GPUs ------------------------------------===//
#pragma once

#include "runtime/plan/CudaAbi.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ccl {

/// Code of a plan for GPUs: one module that defines every symbol below. Its kernels take
/// parameters of runtime/plan/CudaAbi.h; `Launch` there is a LaunchHead with a BufferView for
/// every buffer of the plan behind it.
struct CudaCode {
  std::string arch;   ///< "sm_90a"; "shim": C++ for this machine's processor
  std::string source; ///< what a person reads
  std::string image;  ///< a cubin, or for "shim" a shared object
  /// All ranks in one grid: `void(const Launch *launches, int blocksPerRank)`. Block b belongs to
  /// rank b / blocksPerRank; blocksPerRank is at least instances * agents of each rank.
  std::string allRanks;
  /// By Plan::kernels: `void(Launch launch)`, a grid of instances * agents blocks.
  std::vector<std::string> oneRank;
  /// `void(void *to, const void *from, long long n, long long ranks)`, any grid: a FinishFunction
  /// (see Plan.h); "" if none is needed.
  std::string finish;
  std::vector<int32_t> agents; ///< by Plan::kernels: blocks of an instance
  int32_t threads = 512;       ///< of a block
  int32_t barriers = 0;        ///< cuda::Barriers that the kernels go through
};

} // namespace ccl
