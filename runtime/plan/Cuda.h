//===- Cuda.h - What a plan holds for GPUs ------------------------------------===//
#pragma once

#include "runtime/plan/Agents.h"
#include "runtime/plan/CudaAbi.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ccl {

/// Code of a plan for GPUs: one module that defines every symbol below. Its kernels take
/// parameters of runtime/plan/CudaAbi.h; `Launch` there is a LaunchHead with a BufferView for
/// every buffer of the plan behind it.
struct CudaCode {
  static constexpr int32_t stepThreads = 32;
  std::string arch;   ///< "sm_90a"; "shim": C++ for this machine's processor
  std::string source; ///< what a person reads
  std::string image;  ///< a cubin, or for "shim" a shared object
  /// `void(Launch one, const Launch *all, int blocksPerRank)`. If `all` is null the grid is that
  /// of one rank, of one.instances * one.agents blocks. Else `one` is not looked at and block b
  /// belongs to rank b / blocksPerRank, which is at least instances * agents of each rank.
  std::string kernel;
  /// `void(void *to, const void *from, long long n, long long ranks)`, any grid: a FinishFunction
  /// (see Plan.h); "" if none is needed.
  std::string finish;
  /// By Plan::kernels: agentNumber() of each block of an instance, of programs that are no
  /// tables.
  std::vector<std::vector<int64_t>> agents;
  /// What copy engines do: by Plan::kernels and index of the rank in its set, agents besides the
  /// blocks. Their transfers have one source, and no operand that is a slot. Empty: nothing.
  std::vector<std::vector<RankAgents>> engines;
  /// `void(Launch one, Step step)`, a grid of one block of stepThreads; "" if there are no engines.
  std::string step;
  bool multimem = false; ///< kernels need BufferView::multicast
  int32_t threads = 512; ///< of a block
  int32_t barriers = 0;  ///< cuda::Barriers that the kernels go through
};

} // namespace ccl
