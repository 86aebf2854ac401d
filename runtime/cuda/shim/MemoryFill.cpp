//===- MemoryFill.cpp - Fills, which touch much at once ----------------------------===//
#include "runtime/Memory.h"

#include "runtime/cuda/shim/Memory.h"

#include <sys/mman.h>

#include <algorithm>

namespace ccl::cuda::shim {

constexpr size_t page = 4096;

/// Gives whole pages of a range back, which are zero from then on; what is left to be filled.
static std::pair<CUdeviceptr, CUdeviceptr> dropPages(CUdeviceptr from, CUdeviceptr to) {
  const CUdeviceptr begin = (from + page - 1) / page * page, end = to / page * page;
  return begin < end && madvise(reinterpret_cast<void *>(begin), end - begin, MADV_REMOVE) == 0
             ? std::pair(begin, end)
             : std::pair(to, to);
}

template <typename T>
CUresult fillMemory(CUdeviceptr to, T value, size_t count) {
  // So much between two looks at what the machine has, and so much is left to others.
  constexpr size_t step = size_t(64) << 20, reserve = size_t(256) << 20;
  const CUdeviceptr end = to + count * sizeof(T);
  std::pair<CUdeviceptr, CUdeviceptr> dropped{end, end};
  if (value == 0 && end - to >= step / 64)
    dropped = dropPages(to, end);
  for (auto [at, last] : {std::pair(to, dropped.first), {dropped.second, end}})
    while (at < last) {
      if (last - at > step && availableMemory() < step + reserve)
        return CUDA_ERROR_OUT_OF_MEMORY;
      const size_t now = std::min(size_t(last - at), step) / sizeof(T);
      std::fill_n(reinterpret_cast<T *>(at), now, value);
      at += now * sizeof(T);
    }
  return CUDA_SUCCESS;
}

template CUresult fillMemory(CUdeviceptr to, unsigned char value, size_t count);
template CUresult fillMemory(CUdeviceptr to, unsigned value, size_t count);

} // namespace ccl::cuda::shim
