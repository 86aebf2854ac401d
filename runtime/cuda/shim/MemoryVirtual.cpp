//===- MemoryVirtual.cpp - Addresses, and memory to map there ---------------------===//
#include "runtime/cuda/shim/Memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace ccl::cuda::shim {
namespace {

/// "/memfd:ccl-shim-3 (deleted)" is of device 3.
constexpr const char *fileFormat = "ccl-shim-%d";
constexpr const char *linkFormat = "/memfd:ccl-shim-%d";

void *address(uintptr_t base) { return reinterpret_cast<void *>(base); }

} // namespace

CUresult Memory::create(size_t bytes, int device, bool exportable,
                        CUmemGenericAllocationHandle &handle) {
  if (bytes == 0 || bytes % granularity != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  if (bytes > deviceBytes - usedBytes[device] || !hasRoom(bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  char name[32];
  std::snprintf(name, sizeof name, fileFormat, device);
  const int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  auto allocation =
      std::make_shared<Allocation>(file, bytes, device, exportable, &usedBytes[device]);
  if (ftruncate(file, off_t(bytes)) != 0 ||
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  handle = allocation->handle = nextHandle();
  allocations.emplace(handle, std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult Memory::release(CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(handle);
  if (found == allocations.end())
    return CUDA_ERROR_INVALID_VALUE;
  if (--found->second->handles == 0)
    allocations.erase(found);
  return CUDA_SUCCESS;
}

CUresult Memory::retain(CUdeviceptr pointer, CUmemGenericAllocationHandle &handle) {
  std::lock_guard lock(mutex);
  const Range *range = lookUp(pointer);
  if (!range || range->kind != Kind::Mapped)
    return CUDA_ERROR_INVALID_VALUE;
  Allocation &allocation = *range->allocation;
  ++allocation.handles;
  allocations.emplace(allocation.handle, range->allocation);
  handle = allocation.handle;
  return CUDA_SUCCESS;
}

CUresult Memory::exportFile(CUmemGenericAllocationHandle handle, int &file) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(handle);
  if (found == allocations.end() || !found->second->exportable)
    return CUDA_ERROR_INVALID_VALUE;
  const int copy = fcntl(found->second->file, F_DUPFD_CLOEXEC, 0);
  if (copy < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  file = copy;
  return CUDA_SUCCESS;
}

CUresult Memory::importFile(int file, CUmemGenericAllocationHandle &handle) {
  char path[64], link[64] = {};
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  int device = -1;
  if (readlink(path, link, sizeof link - 1) < 0 || std::sscanf(link, linkFormat, &device) != 1 ||
      device < 0 || device >= maxDevices)
    return CUDA_ERROR_INVALID_VALUE;
  struct stat status;
  const int seals = fcntl(file, F_GET_SEALS);
  // What its owner could shrink would end this process some time.
  if (fstat(file, &status) != 0 || seals < 0 || !(seals & F_SEAL_SHRINK) || status.st_size <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  const int copy = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (copy < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  auto allocation =
      std::make_shared<Allocation>(copy, size_t(status.st_size), device, true, nullptr);
  std::lock_guard lock(mutex);
  handle = allocation->handle = nextHandle();
  allocations.emplace(handle, std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult Memory::reserve(size_t bytes, size_t alignment, CUdeviceptr wish, CUdeviceptr &pointer) {
  if (bytes == 0 || bytes % granularity != 0 || (alignment & (alignment - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  alignment = std::max(alignment, granularity);
  if (bytes + alignment < bytes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  void *memory = mmap(address(wish), bytes + alignment, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  const auto start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t base = (start + alignment - 1) / alignment * alignment;
  if (base != start)
    munmap(memory, base - start);
  if (const size_t behind = start + alignment - base)
    munmap(address(base + bytes), behind);
  std::lock_guard lock(mutex);
  reservations.emplace(base, bytes);
  pointer = base;
  return CUDA_SUCCESS;
}

CUresult Memory::unreserve(CUdeviceptr pointer, size_t bytes) {
  std::lock_guard lock(mutex);
  auto found = reservations.find(pointer);
  if (found == reservations.end() || found->second != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = ranges.lower_bound(pointer);
  if (mapped != ranges.end() && mapped->first < pointer + bytes)
    return CUDA_ERROR_INVALID_VALUE;
  munmap(address(pointer), bytes);
  reservations.erase(found);
  return CUDA_SUCCESS;
}

CUresult Memory::map(CUdeviceptr pointer, size_t bytes, CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(handle);
  if (found == allocations.end() || bytes == 0 || bytes > found->second->bytes ||
      bytes % granularity != 0 || pointer % granularity != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto after = reservations.upper_bound(pointer);
  if (after == reservations.begin())
    return CUDA_ERROR_INVALID_VALUE;
  const auto &[base, reserved] = *std::prev(after);
  if (pointer - base >= reserved || bytes > reserved - (pointer - base))
    return CUDA_ERROR_INVALID_VALUE;
  const auto other = ranges.lower_bound(pointer + bytes);
  if (other != ranges.begin() && std::prev(other)->first + std::prev(other)->second.bytes > pointer)
    return CUDA_ERROR_INVALID_VALUE;
  // As on GPUs nobody may touch it before cuMemSetAccess.
  if (mmap(address(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
           found->second->file, 0) == MAP_FAILED)
    return CUDA_ERROR_MAP_FAILED;
  Range range;
  range.kind = Kind::Mapped;
  range.base = pointer;
  range.bytes = bytes;
  range.device = found->second->device;
  range.id = nextId++;
  range.allocation = found->second;
  ranges.emplace(range.base, std::move(range));
  return CUDA_SUCCESS;
}

bool Memory::cover(uintptr_t base, size_t bytes, Ranges::iterator &first, Ranges::iterator &last) {
  uintptr_t at = base;
  last = first = ranges.find(base);
  while (at < base + bytes && last != ranges.end() && last->first == at &&
         last->second.kind == Kind::Mapped) {
    at += last->second.bytes;
    ++last;
  }
  return bytes > 0 && at == base + bytes;
}

CUresult Memory::unmap(CUdeviceptr pointer, size_t bytes) {
  std::lock_guard lock(mutex);
  Ranges::iterator first, last;
  if (!cover(pointer, bytes, first, last))
    return CUDA_ERROR_INVALID_VALUE;
  if (mmap(address(pointer), bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
    return CUDA_ERROR_UNMAP_FAILED;
  ranges.erase(first, last);
  return CUDA_SUCCESS;
}

CUresult Memory::setAccess(CUdeviceptr pointer, size_t bytes, int device, CUmemAccess_flags flags) {
  std::lock_guard lock(mutex);
  Ranges::iterator first, last;
  if (!cover(pointer, bytes, first, last))
    return CUDA_ERROR_INVALID_VALUE;
  for (auto it = first; it != last; ++it) {
    Range &range = it->second;
    range.access[device] = flags;
    // The devices are one processor: what one of them may, all may.
    unsigned all = 0;
    for (const unsigned one : range.access)
      all |= one;
    const int protection =
        (all & CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : 0) | (all & 2 ? PROT_WRITE : 0);
    if (mprotect(address(range.base), range.bytes, protection) != 0)
      return CUDA_ERROR_OPERATING_SYSTEM;
  }
  return CUDA_SUCCESS;
}

} // namespace ccl::cuda::shim
