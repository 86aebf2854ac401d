//===- SharedMemory.h - Memory of a GPU that other processes map ---------------------===//
//
// Two ways. Virtual memory (VMM): a handle of the driver that becomes a file descriptor; the
// memory lives as long as some process has it mapped. CUDA's old IPC, where a GPU has no virtual
// memory or an application's buffer comes from cuMemAlloc: 64 bytes that name the allocation; its
// owner has to keep it until the last process has closed it.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/bootstrap/Descriptor.h"
#include "runtime/cuda/Device.h"

namespace ccl::cuda {

enum class Sharing : uint32_t { Virtual = 1, Ipc = 2 };

/// What a process tells others of memory, beside a descriptor if it is virtual.
struct MemoryOffer {
  Sharing sharing = Sharing::Virtual;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
  CUipcMemHandle handle{}; ///< of Ipc
};

class SharedMemory {
public:
  /// How memory of `device` is best shared.
  static llvm::Expected<Sharing> waysOf(const Device &device);
  /// `bytes` of zeros or more.
  static llvm::Expected<SharedMemory> allocate(Device &device, size_t bytes, Sharing sharing);
  /// The whole allocation that `address` lies in, which somebody else owns. BadArgument: it is no
  /// memory of this GPU, or cannot be shared.
  static llvm::Expected<SharedMemory> adopt(Device &device, CUdeviceptr address);
  /// Maps what another process offers.
  static llvm::Expected<SharedMemory> import(Device &device, const MemoryOffer &offer,
                                             Descriptor descriptor);

  SharedMemory(SharedMemory &&other) noexcept { swap(other); }
  SharedMemory &operator=(SharedMemory &&other) noexcept {
    SharedMemory old(std::move(*this));
    swap(other);
    return *this;
  }
  ~SharedMemory();

  CUdeviceptr base() const { return address; }
  size_t bytes() const { return size; }
  Sharing sharing() const { return way; }
  /// `descriptor` is open if it is virtual.
  llvm::Expected<MemoryOffer> offer(Descriptor &descriptor) const;

private:
  explicit SharedMemory(Device &device) : device(&device) {}
  llvm::Error map();
  void swap(SharedMemory &other) noexcept;

  Device *device = nullptr;
  Sharing way = Sharing::Virtual;
  bool adopted = false, imported = false, mapped = false;
  CUdeviceptr address = 0;
  size_t size = 0;
  CUmemGenericAllocationHandle handle = 0;
  bool hasHandle = false;
  DeviceMemory ordinary; ///< of Ipc, if it is our own
};

} // namespace ccl::cuda
