//===- Memory.h - Memory of the stand-in's devices, and who knows of it ------------===//
//
// All of it is memory of this process: a pointer of a device is one of the host, and pages are
// taken when they are touched. What cuMemAlloc gives lies in one sparse file without a name
// (the heap), which other processes of the same user map through /proc; what cuMemCreate gives
// is a file of its own, known by its descriptor.
//
// What the machine has not got is refused like what a device has not got: what was allocated
// and not touched yet counts as taken. Other processes' is not known; fills, which touch much at
// once, therefore look again.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/DriverApi.h"
#include "runtime/cuda/shim/Handles.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ccl::cuda::shim {

class Context;

inline constexpr int maxDevices = 16;
/// Of cuMemCreate, as on GPUs: sizes are multiples of it.
inline constexpr size_t granularity = size_t(2) << 20;
/// Of each device. Nothing of it is taken before it is touched.
inline constexpr size_t deviceBytes = size_t(80) << 30;

/// What cuMemCreate made, or another process.
struct Allocation {
  Allocation(int file, size_t bytes, int device, bool exportable, std::atomic<size_t> *used)
      : file(file), bytes(bytes), device(device), exportable(exportable), used(used) {
    if (used)
      *used += bytes;
  }
  ~Allocation();
  Allocation(const Allocation &) = delete;
  const int file;
  const size_t bytes;
  const int device;
  const bool exportable;
  std::atomic<size_t> *const used; ///< of its device; null: another process' memory
  int handles = 1;                 ///< retains that were not released, under Memory's mutex
  CUmemGenericAllocationHandle handle = 0;
};

enum class Kind : uint8_t { Device, Host, Registered, Mapped, Imported };

/// Memory that the driver knows.
struct Range {
  Kind kind = Kind::Device;
  uintptr_t base = 0;
  size_t bytes = 0;
  int device = 0;
  uint64_t id = 0;
  std::weak_ptr<Context> context;         ///< of Device, Host, Registered, Imported
  int64_t offset = 0;                     ///< in the heap, of Device
  std::shared_ptr<Allocation> allocation; ///< of Mapped
  unsigned access[maxDevices] = {};       ///< of Mapped, by device: CUmemAccess_flags
  std::string source;                     ///< of Imported: which memory
  int opens = 1;                          ///< of Imported
  bool isAccessible() const;
};

/// What bytes are to the driver.
enum class Known : uint8_t {
  Yes,      ///< all of it
  Pageable, ///< nothing of it, and the process has it
  No        ///< it ends in between, or is nobody's
};

/// Results are CUDA's. Any thread may call.
class Memory {
public:
  CUresult allocate(const std::shared_ptr<Context> &context, int device, size_t bytes,
                    CUdeviceptr &pointer);
  /// `context`: what its device does now must end before `free`.
  CUresult owner(CUdeviceptr pointer, std::shared_ptr<Context> &context) const;
  CUresult free(CUdeviceptr pointer);
  CUresult allocateHost(const std::shared_ptr<Context> &context, int device, size_t bytes,
                        void *&pointer);
  CUresult freeHost(void *pointer);
  CUresult addHost(const std::shared_ptr<Context> &context, int device, void *pointer,
                   size_t bytes);
  CUresult removeHost(void *pointer);
  /// All that belongs to a context.
  void freeAll(const Context &context);

  std::optional<Range> find(CUdeviceptr pointer) const;
  Known know(CUdeviceptr pointer, size_t bytes) const;
  size_t used(int device) const;
  /// The reserved addresses that hold `pointer`: base and bytes.
  std::optional<std::pair<uintptr_t, size_t>> reservation(CUdeviceptr pointer) const;

  CUresult exportIpc(CUdeviceptr pointer, CUipcMemHandle &handle);
  CUresult importIpc(const std::shared_ptr<Context> &context, const CUipcMemHandle &handle,
                     CUdeviceptr &pointer);
  CUresult closeIpc(CUdeviceptr pointer);

  // Virtual memory (MemoryVirtual.cpp).
  CUresult create(size_t bytes, int device, bool exportable, CUmemGenericAllocationHandle &handle);
  CUresult release(CUmemGenericAllocationHandle handle);
  CUresult retain(CUdeviceptr pointer, CUmemGenericAllocationHandle &handle);
  CUresult exportFile(CUmemGenericAllocationHandle handle, int &file);
  CUresult importFile(int file, CUmemGenericAllocationHandle &handle);
  CUresult reserve(size_t bytes, size_t alignment, CUdeviceptr wish, CUdeviceptr &pointer);
  CUresult unreserve(CUdeviceptr pointer, size_t bytes);
  CUresult map(CUdeviceptr pointer, size_t bytes, CUmemGenericAllocationHandle handle);
  CUresult unmap(CUdeviceptr pointer, size_t bytes);
  CUresult setAccess(CUdeviceptr pointer, size_t bytes, int device, CUmemAccess_flags flags);

private:
  using Ranges = std::map<uintptr_t, Range>;
  const Range *lookUp(uintptr_t pointer) const;
  CUresult openHeap();
  /// Whether the machine can give that to a device. Under the mutex.
  bool hasRoom(size_t bytes) const;
  void unmapRange(const Range &range);
  /// The mapped ranges that make up these bytes exactly; false if there are others or gaps.
  bool cover(uintptr_t base, size_t bytes, Ranges::iterator &first, Ranges::iterator &last);

  mutable std::mutex mutex;
  Ranges ranges;
  std::map<uintptr_t, size_t> reservations;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<Allocation>> allocations;
  std::atomic<size_t> usedBytes[maxDevices] = {}; ///< allocated
  uint64_t nextId = 1;
  int heap = -1;
  int64_t heapEnd = 0;
  uint64_t cookie = 0; ///< at the start of the heap, so that another one is not taken for it
};

/// `count` values in a row. Whole pages of zeros are given back instead of being touched.
/// OUT_OF_MEMORY if the machine has no more before all is done.
template <typename T>
CUresult fillMemory(CUdeviceptr to, T value, size_t count);

} // namespace ccl::cuda::shim
