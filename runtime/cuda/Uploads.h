//===- Uploads.h - Small tables that launches bring to a GPU -----------------------===//
//
// They are copied in the order of the launch's stream, and nothing is waited for: from memory of
// the host that the driver reads later. What was brought is used again by launches that need the
// same bytes. Memory is that of two *turns*: a turn ends when it has brought so much, and the one
// before is given up then, after its launches.
//
// Not for launches that are captured: Device::upload(). Used by one thread at a time.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/Device.h"

#include "llvm/ADT/DenseMap.h"

namespace ccl::cuda {

class Uploads {
public:
  /// `device` outlives it.
  explicit Uploads(Device &device) : device(device) {}

  /// A launch begins in `stream`, which comes after all that began before. The number of its turn:
  /// what was brought in another one is not there any more.
  llvm::Expected<uint64_t> begin(CUstream stream);
  /// Where `content` lies for this launch and others of its turn.
  llvm::Expected<CUdeviceptr> upload(CUstream stream, llvm::StringRef content);

private:
  struct Place {
    size_t offset, bytes;
  };
  struct Turn {
    PinnedMemory host;   ///< what was brought, one after the other
    DeviceMemory memory; ///< the same there
    Event over;          ///< of all launches, once it is recorded
    bool isRecorded = false;
    size_t used = 0, largeBytes = 0;
    std::vector<DeviceMemory> large;       ///< what does not fit
    llvm::DenseMap<uint64_t, Place> known; ///< by a hash of the bytes
  };
  llvm::Error open(Turn &turn);
  llvm::Expected<CUdeviceptr> uploadLarge(llvm::StringRef content);

  Device &device;
  Turn turns[2];
  uint64_t number = 0; ///< of the turn, which is turns[number % 2]
};

} // namespace ccl::cuda
