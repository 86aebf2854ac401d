//===- Device.h - One GPU that ranks of this process live on --------------------===//
//
// Its context, a stream of our own, and memory that lives as long as the communicator.
// Everything here is done before it returns and in no user's stream, so it may be called while
// some stream is captured. Of one communicator; used by one thread at a time.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/Owners.h"

#include <map>
#include <string>
#include <vector>

namespace ccl::cuda {

/// Allows this thread what the capture of a stream (any thread's) otherwise forbids: to allocate
/// memory, and to wait for streams that are not captured.
class RelaxedCapture {
public:
  explicit RelaxedCapture(const Driver &driver) : driver(driver) {
    driver.cuThreadExchangeStreamCaptureMode(&mode);
  }
  ~RelaxedCapture() { driver.cuThreadExchangeStreamCaptureMode(&mode); }
  RelaxedCapture(const RelaxedCapture &) = delete;

private:
  const Driver &driver;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
};

class Device {
public:
  /// Fails if there is no GPU `ordinal`, or it cannot run grids whose blocks wait for each other.
  static llvm::Expected<std::unique_ptr<Device>> open(const Driver &driver, int ordinal);

  const Driver &api() const { return *driver; }
  int ordinal() const { return number; }
  int multiprocessors() const { return processors; }
  /// Blocks that run at once, however small.
  int64_t mostBlocks() const { return int64_t(processors) * blocksOfEach; }
  const PrimaryContext &context() const { return primary; }
  llvm::Expected<ContextScope> enter() const { return primary.enter(); }
  CUstream stream() const { return own.get(); }
  /// Lets kernels here use memory of `other`.
  llvm::Error reachPeer(const Device &other) const;

  /// Zeroed memory on a boundary of 256 bytes, until the device is closed.
  llvm::Expected<CUdeviceptr> take(size_t bytes);
  llvm::Error write(CUdeviceptr to, const void *from, size_t bytes) const;
  /// Of `bytes` / 4 words each.
  llvm::Error fill(CUdeviceptr to, uint32_t word, size_t bytes) const;
  llvm::Error read(void *to, CUdeviceptr from, size_t bytes) const;

  /// Where `content` lies for good: what was uploaded once is used again and never changed.
  llvm::Expected<CUdeviceptr> upload(llvm::StringRef content);
  template <typename T>
  llvm::Expected<CUdeviceptr> upload(const std::vector<T> &content) {
    return upload({reinterpret_cast<const char *>(content.data()), content.size() * sizeof(T)});
  }

private:
  explicit Device(const Driver &driver) : driver(&driver) {}
  llvm::Expected<CUdeviceptr> allocateZeroed(size_t bytes);

  const Driver *driver;
  int number = 0, processors = 0, blocksOfEach = 0;
  PrimaryContext primary;
  Stream own;
  std::vector<DeviceMemory> blocks;
  CUdeviceptr next = 0;
  size_t left = 0; ///< of the last block
  std::map<std::string, CUdeviceptr, std::less<>> uploads;
};

} // namespace ccl::cuda
