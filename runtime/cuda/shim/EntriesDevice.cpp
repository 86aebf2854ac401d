//===- EntriesDevice.cpp - Errors, devices and contexts --------------------------===//
#include "runtime/cuda/shim/State.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

using namespace ccl::cuda;
using namespace ccl::cuda::shim;

namespace {

struct Named {
  CUresult result;
  const char *name, *text;
};

#define CCL_SHIM_ERROR(name, text) {name, #name, text}
constexpr Named errors[] = {
    CCL_SHIM_ERROR(CUDA_SUCCESS, "no error"),
    CCL_SHIM_ERROR(CUDA_ERROR_INVALID_VALUE, "an argument is wrong"),
    CCL_SHIM_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "there is no memory left"),
    CCL_SHIM_ERROR(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called in this process"),
    CCL_SHIM_ERROR(CUDA_ERROR_DEINITIALIZED, "the process ends"),
    CCL_SHIM_ERROR(CUDA_ERROR_STUB_LIBRARY, "the library is only for linking"),
    CCL_SHIM_ERROR(CUDA_ERROR_NO_DEVICE, "there is no device"),
    CCL_SHIM_ERROR(CUDA_ERROR_INVALID_DEVICE, "there is no such device"),
    CCL_SHIM_ERROR(CUDA_ERROR_INVALID_IMAGE, "the code is of no known format"),
    CCL_SHIM_ERROR(CUDA_ERROR_INVALID_CONTEXT, "no context is current, or the wrong one"),
    CCL_SHIM_ERROR(CUDA_ERROR_MAP_FAILED, "memory could not be mapped"),
    CCL_SHIM_ERROR(CUDA_ERROR_UNMAP_FAILED, "memory could not be unmapped"),
    CCL_SHIM_ERROR(CUDA_ERROR_ALREADY_MAPPED, "something is mapped there"),
    CCL_SHIM_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "the code is for another device"),
    CCL_SHIM_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the devices cannot reach each other"),
    CCL_SHIM_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "there is no such file"),
    CCL_SHIM_ERROR(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "a library lacks a symbol"),
    CCL_SHIM_ERROR(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "the code could not be loaded"),
    CCL_SHIM_ERROR(CUDA_ERROR_OPERATING_SYSTEM, "the system refused a call"),
    CCL_SHIM_ERROR(CUDA_ERROR_INVALID_HANDLE, "a handle names nothing, or nothing of this context"),
    CCL_SHIM_ERROR(CUDA_ERROR_ILLEGAL_STATE, "this cannot be done now"),
    CCL_SHIM_ERROR(CUDA_ERROR_NOT_FOUND, "there is nothing of this name"),
    CCL_SHIM_ERROR(CUDA_ERROR_NOT_READY, "it is not done yet"),
    CCL_SHIM_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "memory was used that is not there"),
    CCL_SHIM_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "there are too few threads or resources"),
    CCL_SHIM_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel took too long"),
    CCL_SHIM_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "the peer can be reached already"),
    CCL_SHIM_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "the peer cannot be reached yet"),
    CCL_SHIM_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context is gone"),
    CCL_SHIM_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the memory is registered"),
    CCL_SHIM_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the memory is not registered"),
    CCL_SHIM_ERROR(CUDA_ERROR_LAUNCH_FAILED, "a kernel failed"),
    CCL_SHIM_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "more blocks than can run at once"),
    CCL_SHIM_ERROR(CUDA_ERROR_NOT_PERMITTED, "this is not permitted"),
    CCL_SHIM_ERROR(CUDA_ERROR_NOT_SUPPORTED, "this is not supported"),
    CCL_SHIM_ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready"),
    CCL_SHIM_ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "parts of the driver do not fit"),
    CCL_SHIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not allowed while a stream is captured"),
    CCL_SHIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier error ended the capture"),
    CCL_SHIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one"),
    CCL_SHIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began in another stream"),
    CCL_SHIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream of the capture was not joined"),
    CCL_SHIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "captured work cannot wait for other work"),
    CCL_SHIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                   "the default stream would wait for a captured one"),
    CCL_SHIM_ERROR(CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a capture"),
    CCL_SHIM_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began in another thread"),
    CCL_SHIM_ERROR(CUDA_ERROR_TIMEOUT, "it took too long"),
    CCL_SHIM_ERROR(CUDA_ERROR_UNKNOWN, "something unknown went wrong"),
};
#undef CCL_SHIM_ERROR

const Named *lookUp(CUresult result) {
  for (const Named &named : errors)
    if (named.result == result)
      return &named;
  return nullptr;
}

bool isDevice(CUdevice device) { return device >= 0 && device < state().devices; }

/// `body` with a device that exists.
template <typename Body>
CUresult ofDevice(const void *to, CUdevice device, Body body) {
  return enter([&] {
    if (!isDevice(device))
      return CUDA_ERROR_INVALID_DEVICE;
    return to ? body() : CUDA_ERROR_INVALID_VALUE;
  });
}

/// The same in all processes until the machine is started again.
uint64_t machineNumber() {
  char text[64] = {};
  const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? 0 : read(file, text, sizeof text);
  if (file >= 0)
    close(file);
  uint64_t hash = 14695981039346656037ull; // FNV-1a
  for (ssize_t i = 0; i < length; ++i)
    hash = (hash ^ uint8_t(text[i])) * 1099511628211ull;
  return hash;
}

/// Ends what belongs to a context that nobody holds any more.
void endContext(const std::shared_ptr<Context> &context) {
  State &all = state();
  for (const std::shared_ptr<Stream> &stream : context->streams())
    all.captures.leave(*stream);
  context->synchronize();
  auto belongs = [&](const auto &object) { return object.context == context; };
  all.streams.takeAll(belongs);
  all.events.takeAll(belongs);
  all.functions.takeAll([&](const Function &f) { return f.module->context == context; });
  all.modules.takeAll(belongs);
  all.memory.freeAll(*context);
}

/// 0 of what is asked for and not told here: nothing that these devices lack is more than that.
int attributeOf(CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return maxThreadsPerBlock;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return defaultSharedBytes;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return mostSharedBytes;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 1;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return state().sms;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return blocksPerSm;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return maxThreadsPerBlock * blocksPerSm;
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return device + 1;
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: return 1;
  default: return 0;
  }
}

} // namespace

namespace ccl::cuda {

extern "C" {

/// Only the stand-in has it.
__attribute__((visibility("default"))) int cuShimVersion() { return 1; }

CUresult cuInit(unsigned flags) {
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  try {
    return initialize();
  } catch (...) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

CUresult cuDriverGetVersion(int *version) {
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = shimVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
  const Named *named = lookUp(error);
  if (!text)
    return CUDA_ERROR_INVALID_VALUE;
  *text = named ? named->name : nullptr;
  return named ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  const Named *named = lookUp(error);
  if (!text)
    return CUDA_ERROR_INVALID_VALUE;
  *text = named ? named->text : nullptr;
  if (error == CUDA_ERROR_SHARED_OBJECT_INIT_FAILED && !loaderText().empty())
    *text = loaderText().c_str();
  return named ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count) {
  return enter([&] {
    if (!count)
      return CUDA_ERROR_INVALID_VALUE;
    *count = state().devices;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return ofDevice(device, ordinal, [&] {
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  return ofDevice(name, device, [&] {
    if (length < 1)
      return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(name, size_t(length), "shim");
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  return ofDevice(uuid, device, [&] {
    const uint64_t machine = machineNumber();
    std::memcpy(uuid->bytes, &machine, sizeof machine);
    std::memcpy(uuid->bytes + 8, "ccl-shi", 7);
    uuid->bytes[15] = char(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  return ofDevice(value, device, [&] {
    *value = attributeOf(attribute, device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  return ofDevice(bytes, device, [&] {
    *bytes = deviceBytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  return ofDevice(can, device, [&] {
    if (!isDevice(peer))
      return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  return ofDevice(id, device, [&] {
    if (length < 1)
      return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(id, size_t(length), "0000:%02X:00.0", unsigned(device + 1));
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return ofDevice(context, device, [&] {
    std::lock_guard lock(state().primaryMutex);
    State::Primary &primary = state().primary[device];
    if (primary.retained == 0)
      primary.handle = state().contexts.add(std::make_shared<Context>(device));
    ++primary.retained;
    *context = primary.handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return ofDevice(&device, device, [&] {
    std::shared_ptr<Context> last;
    {
      std::lock_guard lock(state().primaryMutex);
      State::Primary &primary = state().primary[device];
      if (primary.retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
      if (--primary.retained == 0)
        last = state().contexts.take(primary.handle);
    }
    if (last)
      endContext(last);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return enter([&] {
    if (context && !state().contexts.find(context))
      return CUDA_ERROR_INVALID_CONTEXT;
    setCurrentHandle(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  return enter([&] {
    if (!context)
      return CUDA_ERROR_INVALID_VALUE;
    *context = currentHandle();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice *device) {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    if (!device)
      return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    const std::shared_ptr<Context> other = state().contexts.find(peer);
    if (flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (!other || other == context)
      return CUDA_ERROR_INVALID_CONTEXT;
    const unsigned bit = 1u << other->device;
    return context->peers.fetch_or(bit) & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
                                              : CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    if (const CUresult result = state().captures.forbid(*context); result != CUDA_SUCCESS)
      return result;
    return context->synchronize();
  });
}

} // extern "C"
} // namespace ccl::cuda
