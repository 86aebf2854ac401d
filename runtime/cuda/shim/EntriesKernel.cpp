//===- EntriesKernel.cpp - Modules and launches ----------------------------------===//
#include "runtime/cuda/shim/State.h"

#include <algorithm>

using namespace ccl::cuda;
using namespace ccl::cuda::shim;

namespace {

struct Shape {
  uint64_t blocks, threads;
  unsigned sharedBytes;
};

uint64_t product(unsigned x, unsigned y, unsigned z) {
  uint64_t xy = uint64_t(x) * y, xyz = 0;
  return __builtin_mul_overflow(xy, uint64_t(z), &xyz) ? UINT64_MAX : xyz;
}

CUresult launch(CUfunction handle, const Shape &shape, CUstream streamHandle, void **parameters,
                bool cooperative) {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    const std::shared_ptr<Function> function = state().functions.find(handle);
    if (!function)
      return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<Stream> stream;
    if (const CUresult result = streamOf(streamHandle, context, stream); result != CUDA_SUCCESS)
      return result;
    if (stream->context != context || function->module->context != context)
      return CUDA_ERROR_INVALID_HANDLE;
    constexpr uint64_t mostBlocks = (uint64_t(1) << 31) - 1;
    if (shape.blocks == 0 || shape.blocks > mostBlocks || shape.threads == 0 ||
        shape.threads > uint64_t(maxThreadsPerBlock) ||
        shape.sharedBytes > unsigned(function->sharedBytes.load()))
      return CUDA_ERROR_INVALID_VALUE;
    if (!function->sizes.empty() &&
        (!parameters || std::any_of(parameters, parameters + function->sizes.size(),
                                    [](const void *p) { return !p; })))
      return CUDA_ERROR_INVALID_VALUE;
    const auto resident = unsigned(state().sms * blocksPerSm);
    if (cooperative && shape.blocks > resident)
      return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return enqueue(stream, makeLaunch(function, parameters, unsigned(shape.blocks), shape.threads,
                                      resident))
        .result;
  });
}

} // namespace

namespace ccl::cuda {

extern "C" {

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    if (!module || !image)
      return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = state().captures.unsafeCall(); result != CUDA_SUCCESS)
      return result;
    std::shared_ptr<shim::Module> made;
    const CUresult result = loadModule(image, made, loaderText());
    if (result != CUDA_SUCCESS)
      return result;
    made->context = context;
    *module = state().modules.add(std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return enter([&] {
    // Launches that are still to come keep its code.
    const std::shared_ptr<shim::Module> gone = state().modules.take(module);
    if (!gone)
      return CUDA_ERROR_INVALID_HANDLE;
    state().functions.takeAll([&](const Function &f) { return f.module == gone; });
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule handle, const char *name) {
  return enterContext([&](const std::shared_ptr<Context> &) {
    if (!function || !name)
      return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<shim::Module> module = state().modules.find(handle);
    if (!module)
      return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<Function> found;
    const CUresult result = findFunction(module, name, found);
    if (result == CUDA_SUCCESS)
      *function = state().functions.add(std::move(found));
    return result;
  });
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle) {
  return enter([&] {
    const std::shared_ptr<Function> function = state().functions.find(handle);
    if (!function)
      return CUDA_ERROR_INVALID_HANDLE;
    if (!value)
      return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = maxThreadsPerBlock; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = function->sharedBytes; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  return enter([&] {
    const std::shared_ptr<Function> function = state().functions.find(handle);
    if (!function)
      return CUDA_ERROR_INVALID_HANDLE;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > mostSharedBytes)
      return CUDA_ERROR_INVALID_VALUE;
    function->sharedBytes = value;
    return CUDA_SUCCESS;
  });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle, int threads,
                                                     size_t dynamicSharedBytes) {
  return enter([&] {
    const std::shared_ptr<Function> function = state().functions.find(handle);
    if (!function)
      return CUDA_ERROR_INVALID_HANDLE;
    if (!blocks || threads < 1)
      return CUDA_ERROR_INVALID_VALUE;
    const bool fits =
        threads <= maxThreadsPerBlock && dynamicSharedBytes <= size_t(function->sharedBytes.load());
    *blocks = fits ? blocksPerSm : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                        unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                        CUstream stream, void **parameters, void **extra) {
  if (extra)
    return CUDA_ERROR_NOT_SUPPORTED;
  return launch(function,
                {product(gridX, gridY, gridZ), product(blockX, blockY, blockZ), sharedBytes},
                stream, parameters, false);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gridX, unsigned gridY,
                                   unsigned gridZ, unsigned blockX, unsigned blockY,
                                   unsigned blockZ, unsigned sharedBytes, CUstream stream,
                                   void **parameters) {
  return launch(function,
                {product(gridX, gridY, gridZ), product(blockX, blockY, blockZ), sharedBytes},
                stream, parameters, true);
}

} // extern "C"
} // namespace ccl::cuda
