//===- Needs.h - What a program needs of a GPU and of the device's header --------===//
#pragma once

#include "codegen/cuda/EmitCuda.h"
#include "codegen/cuda/Kernel.h"

#include <set>

namespace ccl::cuda {

struct Needs {
  Protocols protocols;
  Multicasts multicasts;          ///< what goes through the switch
  std::optional<SwitchLoad> load; ///< if some transfer needs it
  AtOnce atOnce;
  size_t mostOperands = 1; ///< of a transfer, or of those of a loop that are moved at once
  bool slots = false;      ///< some transfer has a slot of a channel
  bool peers = false;      ///< some has memory of a peer
  bool turns = false;      ///< some is of several chunks, or has operands for several batches
  size_t mostChannels = 0; ///< of a program, that slots of its transfers are of
  /// Numbers of sources of transfers with flags in their data, as far as there is code for each.
  std::set<size_t> flaggedSources{1};
};

/// Emits a diagnostic on the op that has no code, or that needs what options.arch lacks. Channels
/// of programs that need an order of memory become `simple`.
mlir::FailureOr<Needs> findNeeds(AlgorithmOp algorithm, llvm::ArrayRef<ProgramOp> programs,
                                 const CudaOptions &options, int64_t ranks);

} // namespace ccl::cuda
