//===- EntriesMemory.cpp - Memory, and what is known of pointers ------------------===//
#include "runtime/cuda/shim/State.h"

using namespace ccl::cuda;
using namespace ccl::cuda::shim;

namespace {

/// `body` in a context, unless a capture forbids such calls.
template <typename Body>
CUresult outsideCapture(Body body) {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    if (const CUresult result = state().captures.unsafeCall(); result != CUDA_SUCCESS)
      return result;
    return body(context);
  });
}

/// Waits for the device that may still use an allocation.
CUresult waitForOwner(CUdeviceptr pointer) {
  std::shared_ptr<Context> context;
  if (const CUresult result = state().memory.owner(pointer, context); result != CUDA_SUCCESS)
    return result;
  if (context)
    context->synchronize(); // a failure there does not keep the memory
  return CUDA_SUCCESS;
}

template <typename T>
CUresult put(void *to, T value) {
  *static_cast<T *>(to) = value;
  return CUDA_SUCCESS;
}

CUresult putAttribute(void *to, CUpointer_attribute attribute, CUdeviceptr pointer,
                      const Range &range) {
  const bool onHost = range.kind == Kind::Host || range.kind == Kind::Registered;
  const auto reserved = state().memory.reservation(pointer);
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT: {
    std::lock_guard lock(state().primaryMutex);
    if (range.kind == Kind::Mapped) // belongs to no context
      return put<CUcontext>(to, nullptr);
    return put(to, state().primary[range.device].handle);
  }
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    return put<unsigned>(to, onHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return put(to, pointer);
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    return onHost ? put(to, reinterpret_cast<void *>(pointer)) : CUDA_ERROR_INVALID_VALUE;
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put<int>(to, 0);
  case CU_POINTER_ATTRIBUTE_BUFFER_ID: return put<unsigned long long>(to, range.id);
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put<int>(to, range.device);
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    return put<int>(to, range.kind == Kind::Device);
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    return put<CUdeviceptr>(to, reserved ? reserved->first : range.base);
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    return put<size_t>(to, reserved ? reserved->second : range.bytes);
  case CU_POINTER_ATTRIBUTE_MAPPED: return put<int>(to, 1);
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    return put<unsigned long long>(to, range.allocation && range.allocation->exportable
                                           ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                           : CU_MEM_HANDLE_TYPE_NONE);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

/// Whether memory can be had as asked.
CUresult check(const CUmemAllocationProp *prop) {
  if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  const int device = prop->location.id;
  return device < 0 || device >= state().devices ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

} // namespace

namespace ccl::cuda {

extern "C" {

CUresult cuMemGetInfo_v2(size_t *freeBytes, size_t *totalBytes) {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    if (!freeBytes || !totalBytes)
      return CUDA_ERROR_INVALID_VALUE;
    *totalBytes = deviceBytes;
    *freeBytes = deviceBytes - state().memory.used(context->device);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  return outsideCapture([&](const std::shared_ptr<Context> &context) {
    return pointer ? state().memory.allocate(context, context->device, bytes, *pointer)
                   : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  return enter([&] {
    if (!pointer)
      return CUDA_SUCCESS;
    if (const CUresult result = state().captures.unsafeCall(); result != CUDA_SUCCESS)
      return result;
    const CUresult result = waitForOwner(pointer);
    return result == CUDA_SUCCESS ? state().memory.free(pointer) : result;
  });
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  return outsideCapture([&](const std::shared_ptr<Context> &context) {
    return pointer && flags <= 7
               ? state().memory.allocateHost(context, context->device, bytes, *pointer)
               : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemFreeHost(void *pointer) {
  return enter([&] {
    if (const CUresult result = state().captures.unsafeCall(); result != CUDA_SUCCESS)
      return result;
    const CUresult result = waitForOwner(reinterpret_cast<CUdeviceptr>(pointer));
    return result == CUDA_SUCCESS ? state().memory.freeHost(pointer) : result;
  });
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  return outsideCapture([&](const std::shared_ptr<Context> &context) {
    return flags <= 15 ? state().memory.addHost(context, context->device, pointer, bytes)
                       : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemHostUnregister(void *pointer) {
  return outsideCapture(
      [&](const std::shared_ptr<Context> &) { return state().memory.removeHost(pointer); });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
  return enterContext([&](const std::shared_ptr<Context> &) {
    const std::optional<Range> range = state().memory.find(reinterpret_cast<CUdeviceptr>(host));
    if (!device || flags != 0 || !range ||
        (range->kind != Kind::Host && range->kind != Kind::Registered))
      return CUDA_ERROR_INVALID_VALUE;
    *device = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
  return enterContext([&](const std::shared_ptr<Context> &) {
    const std::optional<Range> range = state().memory.find(pointer);
    if (!range || range->kind == Kind::Registered)
      return CUDA_ERROR_NOT_FOUND;
    if (base)
      *base = range->base;
    if (bytes)
      *bytes = range->bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return enter([&] {
    const std::optional<Range> range = state().memory.find(pointer);
    if (!value || !range)
      return CUDA_ERROR_INVALID_VALUE;
    return putAttribute(value, attribute, pointer, *range);
  });
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
  return enter([&] {
    if (!bytes || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
      return CUDA_ERROR_INVALID_VALUE;
    *bytes = granularity;
    return check(prop);
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *prop, unsigned long long flags) {
  return enter([&] {
    if (!handle || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = check(prop); result != CUDA_SUCCESS)
      return result;
    const bool exportable = prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return state().memory.create(bytes, prop->location.id, exportable, *handle);
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return enter([&] { return state().memory.release(handle); });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
  return enter([&] {
    return handle ? state().memory.retain(reinterpret_cast<CUdeviceptr>(address), *handle)
                  : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return enter([&] {
    if (!shareable || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return CUDA_ERROR_INVALID_VALUE;
    return state().memory.exportFile(handle, *static_cast<int *>(shareable));
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type) {
  return enter([&] {
    if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return CUDA_ERROR_INVALID_VALUE;
    return state().memory.importFile(int(reinterpret_cast<intptr_t>(shareable)), *handle);
  });
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment,
                             CUdeviceptr address, unsigned long long flags) {
  return enter([&] {
    return pointer && flags == 0 ? state().memory.reserve(bytes, alignment, address, *pointer)
                                 : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  return enter([&] { return state().memory.unreserve(pointer, bytes); });
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return enter([&] {
    return offset == 0 && flags == 0 ? state().memory.map(pointer, bytes, handle)
                                     : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  return enter([&] { return state().memory.unmap(pointer, bytes); });
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *accesses,
                        size_t count) {
  return enter([&] {
    if (!accesses || count == 0)
      return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      const CUmemAccessDesc &access = accesses[i];
      if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
      if (access.location.id < 0 || access.location.id >= state().devices)
        return CUDA_ERROR_INVALID_DEVICE;
      if (access.flags > CU_MEM_ACCESS_FLAGS_PROT_READWRITE || access.flags == 2)
        return CUDA_ERROR_INVALID_VALUE;
      if (const CUresult result =
              state().memory.setAccess(pointer, bytes, access.location.id, access.flags);
          result != CUDA_SUCCESS)
        return result;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
  return enterContext([&](const std::shared_ptr<Context> &) {
    return handle ? state().memory.exportIpc(pointer, *handle) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned flags) {
  return outsideCapture([&](const std::shared_ptr<Context> &context) {
    return pointer && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
               ? state().memory.importIpc(context, handle, *pointer)
               : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  return outsideCapture([&](const std::shared_ptr<Context> &context) {
    context->synchronize(); // it may still be in use
    return state().memory.closeIpc(pointer);
  });
}

} // extern "C"
} // namespace ccl::cuda
