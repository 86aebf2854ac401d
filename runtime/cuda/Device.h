//===- Device.h - One GPU that ranks of this process live on --------------------===//
//
// Its context, a stream of our own, and memory that lives as long as the communicator.
// Everything here but uploadIn() is done before it returns and in no user's stream, so it may be
// called while some stream is captured. Of one communicator; used by one thread at a time.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Arena.h"
#include "runtime/cuda/Owners.h"

#include <string>
#include <unordered_map>
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

  /// Where `content` lies: what was uploaded once is used again and never changed. `pinned`: for
  /// good, else until releaseUploads().
  llvm::Expected<CUdeviceptr> upload(llvm::StringRef content, bool pinned);
  template <typename T>
  llvm::Expected<CUdeviceptr> upload(const std::vector<T> &content, bool pinned) {
    return upload({reinterpret_cast<const char *>(content.data()), content.size() * sizeof(T)},
                  pinned);
  }
  /// The same, not pinned, without waiting: it lies there for what comes later in `stream`, which
  /// is not captured, and in streams that wait for that. Each call's stream waits for the last
  /// one's.
  llvm::Expected<CUdeviceptr> uploadIn(CUstream stream, llvm::StringRef content);
  /// Bytes that releaseUploads() would free.
  size_t releasable() const { return unpinnedBytes; }
  /// No kernel that uses what was uploaded and not pinned runs any more, or will.
  void releaseUploads();

private:
  struct Page {
    DeviceMemory memory;
    Arena arena;
  };
  struct Upload {
    size_t page;
    uint64_t offset;
    bool pinned;
    bool done; ///< it was copied, whatever streams do
  };
  /// Memory of the host that copies in streams read from: one half after the other.
  struct Staging {
    PinnedMemory memory;
    Event over[2]; ///< no copy reads this half any more, if it was recorded
    bool recorded[2] = {false, false};
    size_t half = 0, used = 0; ///< bytes of that half
  };
  struct ContentHash {
    using is_transparent = void;
    size_t operator()(llvm::StringRef content) const;
    size_t operator()(const std::string &content) const {
      return (*this)(llvm::StringRef(content));
    }
  };
  struct ContentEqual {
    using is_transparent = void;
    bool operator()(llvm::StringRef a, llvm::StringRef b) const { return a == b; }
  };
  explicit Device(const Driver &driver) : driver(&driver) {}
  llvm::Expected<CUdeviceptr> allocateZeroed(size_t bytes);
  llvm::Expected<Upload> place(size_t bytes);
  llvm::Error openStaging();
  llvm::Error changeHalves(CUstream stream);
  llvm::Error stage(CUdeviceptr to, llvm::StringRef content, CUstream stream);
  CUdeviceptr addressOf(const Upload &upload) const {
    return pages[upload.page].memory.get() + upload.offset;
  }

  const Driver *driver;
  int number = 0, processors = 0, blocksOfEach = 0;
  PrimaryContext primary;
  Stream own;
  std::vector<DeviceMemory> blocks;
  CUdeviceptr next = 0;
  size_t left = 0; ///< of the last block
  std::vector<Page> pages;
  std::unordered_map<std::string, Upload, ContentHash, ContentEqual> uploads;
  Staging staging;
  size_t unpinnedBytes = 0;
};

} // namespace ccl::cuda
