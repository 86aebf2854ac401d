//===- DeviceList.h - Which GPUs CUDA shows ------------------------------------===//
//
// Facts alone: no context is made, so no memory of a GPU is taken.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/Driver.h"

#include <string>
#include <utility>
#include <vector>

namespace ccl::cuda {

struct DeviceFacts {
  int ordinal = 0; ///< CUDA's: of those that CUDA_VISIBLE_DEVICES leaves, in its order
  std::string name;
  std::string arch; ///< deviceArch()
  size_t memoryBytes = 0;
  int major = 0, minor = 0; ///< compute capability
  int multiprocessors = 0;
  bool isCooperative = false; ///< blocks of a grid may wait for each other
  unsigned pciDomain = 0, pciBus = 0, pciDevice = 0;

  /// Why communicators cannot use it, or "".
  std::string unusable() const;
};

llvm::Expected<std::vector<DeviceFacts>> listDevices(const Driver &driver);

/// Pairs of ordinals, first the GPU that cannot use memory of the second.
llvm::Expected<std::vector<std::pair<int, int>>> peersApart(const Driver &driver, int devices);

} // namespace ccl::cuda
