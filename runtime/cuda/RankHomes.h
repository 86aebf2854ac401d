//===- RankHomes.h - The GPUs of all ranks, as one process sees them ----------------===//
#pragma once

#include "runtime/cuda/Device.h"

namespace ccl::cuda {

/// Where each rank lives. Used by one thread at a time.
class RankHomes {
public:
  virtual ~RankHomes() = default;
  /// Whether `rank` is of this process.
  virtual bool isLocal(int64_t rank) const = 0;
  /// The GPU of a local rank.
  virtual Device &device(int64_t rank) const = 0;
  /// Zeroed memory of the GPU of `rank`, on a boundary of 256 bytes, at its address in this
  /// process; it lives as long as the communicator. If there are other processes all of them call
  /// it alike, in the same order: each knows where everything of all ranks lies.
  virtual llvm::Expected<CUdeviceptr> take(int64_t rank, size_t bytes) = 0;
  /// Returns when all processes have called it: what they did to their memory is done.
  virtual llvm::Error meet() = 0;
};

/// All ranks are of this process.
class LocalHomes final : public RankHomes {
public:
  explicit LocalHomes(std::vector<Device *> devices) : devices(std::move(devices)) {}
  bool isLocal(int64_t) const override { return true; }
  Device &device(int64_t rank) const override { return *devices[size_t(rank)]; }
  llvm::Expected<CUdeviceptr> take(int64_t rank, size_t bytes) override {
    return device(rank).take(bytes);
  }

  llvm::Error meet() override { return llvm::Error::success(); }

private:
  const std::vector<Device *> devices;
};

} // namespace ccl::cuda
