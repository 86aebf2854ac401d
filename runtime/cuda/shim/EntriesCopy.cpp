//===- EntriesCopy.cpp - Copies and fills ---------------------------------------===//
#include "runtime/cuda/shim/State.h"

#include <algorithm>
#include <cstring>

using namespace ccl::cuda;
using namespace ccl::cuda::shim;

namespace {

/// Rows of bytes. `device`: the caller says it is memory of a device.
struct Place {
  CUdeviceptr start = 0;
  size_t pitch = 0;
  bool device = false;
};

char *bytesAt(CUdeviceptr address) { return reinterpret_cast<char *>(address); }

/// From the first byte of rows to behind the last one.
size_t extent(const Place &place, size_t width, size_t height) {
  return (height - 1) * place.pitch + width;
}

/// What is known of a place, or No if it is not what the caller says.
Known know(const Place &place, size_t width, size_t height) {
  const Known known = state().memory.know(place.start, extent(place, width, height));
  return known == Known::Pageable && place.device ? Known::No : known;
}

void copyRows(const Place &to, const Place &from, size_t width, size_t height) {
  for (size_t row = 0; row < height; ++row)
    std::memmove(bytesAt(to.start + row * to.pitch), bytesAt(from.start + row * from.pitch), width);
}

/// A copy that is done in the stream's turn.
Work makeCopy(const Place &to, const Place &from, size_t width, size_t height) {
  return [=] {
    if (know(to, width, height) == Known::No || know(from, width, height) == Known::No)
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    copyRows(to, from, width, height);
    return CUDA_SUCCESS;
  };
}

/// One from memory that its owner may use again at once: what is there now.
Work makeCopyOfNow(const Place &to, const Place &from, size_t width, size_t height) {
  auto kept = std::make_shared<std::vector<char>>(width * height);
  copyRows({CUdeviceptr(kept->data()), width, false}, from, width, height);
  return [=] {
    if (know(to, width, height) == Known::No)
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    copyRows(to, {CUdeviceptr(kept->data()), width, false}, width, height);
    return CUDA_SUCCESS;
  };
}

CUresult copy(const Place &to, const Place &from, size_t width, size_t height,
              CUstream streamHandle) {
  // As much is taken along from pageable memory; the caller waits for more.
  constexpr size_t mostKept = size_t(64) << 10;
  return enterContext([&](const std::shared_ptr<Context> &context) {
    std::shared_ptr<Stream> stream;
    if (const CUresult result = streamOf(streamHandle, context, stream); result != CUDA_SUCCESS)
      return result;
    if (width == 0 || height == 0)
      return CUDA_SUCCESS;
    const Known target = know(to, width, height), source = know(from, width, height);
    if (target == Known::No || source == Known::No)
      return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureStatus status;
    uint64_t id;
    if (const CUresult result = state().captures.status(*stream, status, id);
        result != CUDA_SUCCESS)
      return result;
    const bool keep = status == CU_STREAM_CAPTURE_STATUS_NONE && source == Known::Pageable &&
                      width * height <= mostKept;
    const bool wait = target == Known::Pageable || (source == Known::Pageable && !keep);
    const Enqueued done = enqueue(stream, keep ? makeCopyOfNow(to, from, width, height)
                                               : makeCopy(to, from, width, height));
    if (done.result != CUDA_SUCCESS || done.captured || !wait)
      return done.result;
    if (!stream->waitFor(done.number))
      return CUDA_ERROR_DEINITIALIZED;
    return stream->context->error();
  });
}

/// `count` values of `value` in a row.
template <typename T>
CUresult fill(CUdeviceptr to, T value, size_t count, CUstream streamHandle) {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    std::shared_ptr<Stream> stream;
    if (const CUresult result = streamOf(streamHandle, context, stream); result != CUDA_SUCCESS)
      return result;
    if (count == 0)
      return CUDA_SUCCESS;
    size_t bytes = 0;
    if (to % sizeof(T) != 0 || __builtin_mul_overflow(count, sizeof(T), &bytes) ||
        state().memory.know(to, bytes) != Known::Yes)
      return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream,
                   [=] {
                     if (state().memory.know(to, bytes) != Known::Yes)
                       return CUDA_ERROR_ILLEGAL_ADDRESS;
                     return fillMemory(to, value, count);
                   })
        .result;
  });
}

/// One side of a 2D copy; false if it is none that is supported, or its rows overlap.
bool placeOf(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
             size_t pitch, const CUDA_MEMCPY2D &copy, Place &place) {
  if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
    return false;
  if (copy.Height > 1 && pitch < x + copy.WidthInBytes)
    return false;
  const CUdeviceptr base =
      type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
  place = {base + y * pitch + x, pitch, type == CU_MEMORYTYPE_DEVICE};
  return true;
}

} // namespace

namespace ccl::cuda {

extern "C" {

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy({to, bytes, false}, {from, bytes, false}, bytes, 1, stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return copy({to, bytes, true}, {reinterpret_cast<CUdeviceptr>(from), bytes, false}, bytes, 1,
              stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy({reinterpret_cast<CUdeviceptr>(to), bytes, false}, {from, bytes, true}, bytes, 1,
              stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy({to, bytes, true}, {from, bytes, true}, bytes, 1, stream);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *what, CUstream stream) {
  if (!what)
    return CUDA_ERROR_INVALID_VALUE;
  Place to, from;
  if (!placeOf(what->dstMemoryType, what->dstHost, what->dstDevice, what->dstXInBytes, what->dstY,
               what->dstPitch, *what, to) ||
      !placeOf(what->srcMemoryType, what->srcHost, what->srcDevice, what->srcXInBytes, what->srcY,
               what->srcPitch, *what, from))
    return CUDA_ERROR_INVALID_VALUE;
  return copy(to, from, what->WidthInBytes, what->Height, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill(to, value, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill(to, value, count, stream);
}

} // extern "C"
} // namespace ccl::cuda
