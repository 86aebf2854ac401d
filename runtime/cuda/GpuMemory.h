//===- GpuMemory.h - Memory of a rank on a GPU ------------------------------------===//
//
// Copies are put into a stream and are done when the stream comes to them. What is given back
// may still be used by launches in flight, or by a graph, so it is freed later.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/RankMemory.h"
#include "runtime/cuda/CudaPeers.h"

namespace ccl::cuda {

class GpuMemory final : public MemorySource {
public:
  /// `shared`: ranks on other GPUs, too, use this rank's memory. `peers`: those of other
  /// processes, or null. Both outlive it.
  GpuMemory(Device &device, bool shared, CudaPeers *peers)
      : device(device), shared(shared), peers(peers) {}

  /// Of the launch that is prepared.
  void setStream(CUstream launchStream) { stream = launchStream; }
  llvm::Expected<Block> allocate(size_t bytes) override;
  void release(Block block) override;
  bool isReachable(const void *address, int64_t bytes, bool read, bool written) const override;
  llvm::Error copy(const Rows &rows) override;

  /// Frees what was given back: no launch uses it any more.
  void reclaim() { retired.clear(); }
  bool hasRetired() const { return !retired.empty(); }

private:
  Device &device;
  const bool shared;
  CudaPeers *const peers;
  CUstream stream = nullptr;
  std::map<char *, DeviceMemory> used;
  std::vector<DeviceMemory> retired;
};

/// That `address`, which is `which` of `rank`, is memory that kernels on `device` can use; else
/// BadArgument. Its context is current.
llvm::Error checkMemory(const Device &device, const void *address, int64_t rank,
                        std::string_view which);

} // namespace ccl::cuda
