//===- GpuMemory.cpp --------------------------------------------------------===//
#include "runtime/cuda/GpuMemory.h"

#include <bit>
#include <cstdint>

namespace ccl::cuda {

llvm::Expected<Block> GpuMemory::allocate(size_t bytes) {
  llvm::Expected<ContextScope> scope = device.enter();
  if (!scope)
    return scope.takeError();
  const RelaxedCapture relaxed(device.api());
  // None is asked for where a program has no scratch, but is given a place all the same.
  bytes = std::max<size_t>(bytes, 1);
  if (peers) {
    // Others may use it until the end, so it is never freed: doubling bounds what that costs.
    bytes = std::bit_ceil(bytes);
    llvm::Expected<CUdeviceptr> segment = peers->allocateSegment(bytes);
    if (!segment)
      return segment.takeError();
    return Block{pointerTo<char>(*segment), bytes};
  }
  llvm::Expected<DeviceMemory> memory = cuda::allocate(device.api(), bytes);
  if (!memory)
    return memory.takeError();
  auto *data = pointerTo<char>(memory->get());
  used[data] = std::move(*memory);
  return Block{data, bytes};
}

void GpuMemory::release(Block block) {
  auto found = used.find(block.data);
  if (found == used.end())
    return;
  retired.push_back(std::move(found->second));
  used.erase(found);
}

bool GpuMemory::isReachable(const void *address, int64_t bytes, bool read, bool written) const {
  if (peers)
    return (!read && !written) || peers->regionOf(address, bytes) != 0;
  if (!shared || (!read && !written))
    return true;
  // Access of peers was allowed for what cuMemAlloc gives. What is mapped otherwise (pools,
  // expandable segments) has its own rights.
  int ordinary = 0;
  llvm::Expected<ContextScope> scope = device.enter();
  if (!scope) {
    llvm::consumeError(scope.takeError());
    return false; // the copy will say why
  }
  return device.api().cuPointerGetAttribute(&ordinary,
                                            CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                            addressOf(address)) == CUDA_SUCCESS &&
         ordinary;
}

llvm::Error GpuMemory::copy(const Rows &rows) {
  const Driver &driver = device.api();
  llvm::Expected<ContextScope> scope = device.enter();
  if (!scope)
    return scope.takeError();
  CUresult result = CUDA_SUCCESS;
  const int64_t bytes = rows.bytes;
  // Pitches have limits that rows do not have; few rows are as good as copies of their own.
  constexpr int64_t mostPitch = 1 << 30;
  if (rows.isOnePiece()) {
    result = driver.cuMemcpyAsync(addressOf(rows.to), addressOf(rows.from),
                                  size_t(rows.rows * bytes), stream);
  } else if (bytes > 0 && rows.rows > 1 && rows.toPitch <= mostPitch &&
             rows.fromPitch <= mostPitch) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = addressOf(rows.from);
    copy.srcPitch = size_t(rows.fromPitch);
    copy.dstDevice = addressOf(rows.to);
    copy.dstPitch = size_t(rows.toPitch);
    copy.WidthInBytes = size_t(bytes);
    copy.Height = size_t(rows.rows);
    result = driver.cuMemcpy2DAsync_v2(&copy, stream);
  } else if (bytes > 0) {
    for (int64_t r = 0; r < rows.rows && result == CUDA_SUCCESS; ++r)
      result =
          driver.cuMemcpyAsync(addressOf(rows.to + r * rows.toPitch),
                               addressOf(rows.from + r * rows.fromPitch), size_t(bytes), stream);
  }
  if (rows.zeros > 0)
    for (int64_t r = 0; r < rows.rows && result == CUDA_SUCCESS; ++r)
      result = driver.cuMemsetD8Async(addressOf(rows.to + r * rows.toPitch + bytes), 0,
                                      size_t(rows.zeros), stream);
  return driver.check(result, "copy {} rows of {} bytes on GPU {}", rows.rows, bytes,
                      device.ordinal());
}

llvm::Error checkMemory(const Device &device, const void *address, int64_t rank,
                        std::string_view which) {
  const Driver &driver = device.api();
  unsigned kind = 0;
  const CUresult result =
      driver.cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addressOf(address));
  if (result == CUDA_ERROR_INVALID_VALUE)
    return makeFailure(
        Failure::BadArgument,
        "rank {}: `{}` ({}) is no memory that GPU {} can use: it must come from CUDA", rank, which,
        fmt::ptr(address), device.ordinal());
  return driver.check(result, "ask where `{}` of rank {} lies", which, rank);
}

} // namespace ccl::cuda
