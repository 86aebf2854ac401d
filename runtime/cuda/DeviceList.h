//===- DeviceList.h - Which GPUs CUDA shows ------------------------------------===//
//
// Facts alone: no context is made, so no memory of a GPU is taken.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/Driver.h"

#include <chrono>
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

/// What a driver shows of a machine.
struct ShownDevices {
  const Driver *driver = nullptr;
  std::vector<DeviceFacts> devices;
  std::vector<std::pair<int, int>> apart; ///< peersApart()
  std::string apartError;                 ///< why that is not known, or ""
};

/// How long a driver may take: GPUs that nobody uses are started by the first who asks.
inline constexpr std::chrono::milliseconds answerLimit = std::chrono::seconds(30);

/// All of it by the driver Driver::get(library). One that is stuck may never return: then
/// Failure::Timeout, and a thread is left behind in it.
llvm::Expected<ShownDevices> showDevices(const std::string &library,
                                         std::chrono::milliseconds limit = answerLimit);

} // namespace ccl::cuda
