//===- DriverApi.h - CUDA's driver API, as far as it is used here ---------------===//
//
// libcuda is loaded when it is needed and its headers are not: what of its binary interface
// is used is declared here. Types, functions and values have NVIDIA's names, so that its
// documentation can be searched for them; values that are macros there have names of their
// own, for both headers can be included (this one first). test/unit/cuda/DriverApiTest.cpp
// compares every size, offset, value and signature with cuda.h.
//
// The libraries that implement it: libcuda.so.1, and runtime/cuda/shim for this machine's
// processor. Handles are theirs alone.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccl::cuda {

enum CUresult : unsigned {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_MAP_FAILED = 205,
  CUDA_ERROR_UNMAP_FAILED = 206,
  CUDA_ERROR_ALREADY_MAPPED = 208,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
  CUDA_ERROR_FILE_NOT_FOUND = 301,
  CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
  CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
  CUDA_ERROR_OPERATING_SYSTEM = 304,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_ILLEGAL_STATE = 401,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_CAPTURED_EVENT = 907,
  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
  CUDA_ERROR_TIMEOUT = 909,
  CUDA_ERROR_UNKNOWN = 999
};

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *; ///< null: the default stream of the current context
using CUevent = struct CUevent_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphNode = struct CUgraphNode_st *;
using CUgraphExec = struct CUgraphExec_st *;
using CUarray = struct CUarray_st *;
using CUhostFn = void (*)(void *);

/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, as addresses.
inline constexpr uintptr_t streamLegacy = 1, streamPerThread = 2;

enum CUdevice_attribute : unsigned {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
  CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED = 90,
  CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,
  CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132
};

enum CUfunction_attribute : unsigned {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

enum CUpointer_attribute : unsigned {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,     ///< CUcontext
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2, ///< unsigned, a CUmemorytype
  CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
  CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
  CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
  CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,                   ///< unsigned long long
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,                  ///< int
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,              ///< int
  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10, ///< int
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,           ///< CUdeviceptr
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,                 ///< size_t
  CU_POINTER_ATTRIBUTE_MAPPED = 13,                     ///< int
  CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14        ///< unsigned long long
};

enum CUmemorytype : unsigned {
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
  CU_MEMORYTYPE_ARRAY = 3,
  CU_MEMORYTYPE_UNIFIED = 4
};

enum CUstream_flags : unsigned { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum CUevent_flags : unsigned {
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_BLOCKING_SYNC = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_EVENT_INTERPROCESS = 4
};
enum CUipcMem_flags : unsigned { CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1 };
/// Of cuMemHostAlloc.
inline constexpr unsigned memHostAllocPortable = 1, memHostAllocDeviceMap = 2,
                          memHostAllocWriteCombined = 4;
/// Of cuMemHostRegister.
inline constexpr unsigned memHostRegisterPortable = 1, memHostRegisterDeviceMap = 2;

enum CUstreamCaptureMode : unsigned {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2
};
enum CUstreamCaptureStatus : unsigned {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
};

enum CUmemAllocationType : unsigned { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemAllocationHandleType : unsigned {
  CU_MEM_HANDLE_TYPE_NONE = 0,
  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
  CU_MEM_HANDLE_TYPE_FABRIC = 8
};
enum CUmemLocationType : unsigned { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum CUmemAccess_flags : unsigned {
  CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
  CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3
};
enum CUmemAllocationGranularity_flags : unsigned {
  CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1
};

struct CUuuid {
  char bytes[16];
};

struct CUipcMemHandle {
  char reserved[64];
};

struct CUmemLocation {
  CUmemLocationType type;
  int id; ///< of a device: its ordinal
};

struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  void *win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};

struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

struct CUDA_MEMCPY2D {
  size_t srcXInBytes, srcY;
  CUmemorytype srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  CUmemorytype dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
};

static_assert(sizeof(CUuuid) == 16 && sizeof(CUipcMemHandle) == 64 && sizeof(CUmemLocation) == 8 &&
              sizeof(CUmemAllocationProp) == 32 && sizeof(CUmemAccessDesc) == 12 &&
              sizeof(CUDA_MEMCPY2D) == 128 && offsetof(CUDA_MEMCPY2D, srcHost) == 24 &&
              offsetof(CUDA_MEMCPY2D, dstHost) == 80);

} // namespace ccl::cuda

/// Every function that is used, by the name that libcuda exports: X(name, parameters). All
/// return CUresult.
// clang-format off
#define CCL_CUDA_DRIVER_FUNCTIONS(X)                                                               \
  X(cuInit, (unsigned flags))                                                                      \
  X(cuDriverGetVersion, (int *version))                                                            \
  X(cuGetErrorName, (CUresult error, const char **text))                                           \
  X(cuGetErrorString, (CUresult error, const char **text))                                         \
  X(cuDeviceGetCount, (int *count))                                                                \
  X(cuDeviceGet, (CUdevice *device, int ordinal))                                                  \
  X(cuDeviceGetName, (char *name, int length, CUdevice device))                                    \
  X(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device))                                           \
  X(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))             \
  X(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))                                         \
  X(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))                             \
  X(cuDeviceGetPCIBusId, (char *id, int length, CUdevice device))                                  \
  X(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device))                               \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                               \
  X(cuCtxSetCurrent, (CUcontext context))                                                          \
  X(cuCtxGetCurrent, (CUcontext *context))                                                         \
  X(cuCtxGetDevice, (CUdevice *device))                                                            \
  X(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))                                       \
  X(cuCtxSynchronize, ())                                                                          \
  X(cuModuleLoadData, (CUmodule *module, const void *image))                                       \
  X(cuModuleUnload, (CUmodule module))                                                             \
  X(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name))                \
  X(cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function))         \
  X(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))          \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                   \
    (int *blocks, CUfunction function, int threads, size_t dynamicSharedBytes))                    \
  X(cuLaunchKernel,                                                                                \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,         \
     unsigned blockY, unsigned blockZ, unsigned sharedBytes, CUstream stream, void **parameters,   \
     void **extra))                                                                                \
  X(cuLaunchCooperativeKernel,                                                                     \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,         \
     unsigned blockY, unsigned blockZ, unsigned sharedBytes, CUstream stream, void **parameters))  \
  X(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data))                            \
  X(cuStreamCreate, (CUstream *stream, unsigned flags))                                            \
  X(cuStreamDestroy_v2, (CUstream stream))                                                         \
  X(cuStreamSynchronize, (CUstream stream))                                                        \
  X(cuStreamQuery, (CUstream stream))                                                              \
  X(cuStreamGetCtx, (CUstream stream, CUcontext *context))                                         \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                           \
  X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status))                         \
  X(cuStreamGetCaptureInfo_v2,                                                                     \
    (CUstream stream, CUstreamCaptureStatus *status, unsigned long *id, CUgraph *graph,            \
     const CUgraphNode **dependencies, size_t *numDependencies))                                   \
  X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                          \
  X(cuStreamEndCapture, (CUstream stream, CUgraph *graph))                                         \
  X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode))                                \
  X(cuGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph, unsigned long long flags))     \
  X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                            \
  X(cuGraphExecDestroy, (CUgraphExec exec))                                                        \
  X(cuGraphDestroy, (CUgraph graph))                                                               \
  X(cuEventCreate, (CUevent *event, unsigned flags))                                               \
  X(cuEventDestroy_v2, (CUevent event))                                                            \
  X(cuEventRecord, (CUevent event, CUstream stream))                                               \
  X(cuEventSynchronize, (CUevent event))                                                           \
  X(cuEventQuery, (CUevent event))                                                                 \
  X(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))                         \
  X(cuMemGetInfo_v2, (size_t *freeBytes, size_t *totalBytes))                                      \
  X(cuMemAlloc_v2, (CUdeviceptr *pointer, size_t bytes))                                           \
  X(cuMemFree_v2, (CUdeviceptr pointer))                                                           \
  X(cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags))                                \
  X(cuMemFreeHost, (void *pointer))                                                                \
  X(cuMemHostRegister_v2, (void *pointer, size_t bytes, unsigned flags))                           \
  X(cuMemHostUnregister, (void *pointer))                                                          \
  X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *device, void *host, unsigned flags))               \
  X(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))              \
  X(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))                              \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))       \
  X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))             \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))       \
  X(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))         \
  X(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream stream))             \
  X(cuMemGetAddressRange_v2, (CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer))              \
  X(cuPointerGetAttribute, (void *value, CUpointer_attribute attribute, CUdeviceptr pointer))      \
  X(cuMemGetAllocationGranularity,                                                                 \
    (size_t *bytes, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option))     \
  X(cuMemCreate, (CUmemGenericAllocationHandle *handle, size_t bytes,                              \
                  const CUmemAllocationProp *prop, unsigned long long flags))                      \
  X(cuMemRelease, (CUmemGenericAllocationHandle handle))                                           \
  X(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *handle, void *address))            \
  X(cuMemExportToShareableHandle, (void *shareable, CUmemGenericAllocationHandle handle,           \
                                   CUmemAllocationHandleType type, unsigned long long flags))      \
  X(cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *handle, void *shareable,        \
                                     CUmemAllocationHandleType type))                              \
  X(cuMemAddressReserve, (CUdeviceptr *pointer, size_t bytes, size_t alignment,                    \
                          CUdeviceptr address, unsigned long long flags))                          \
  X(cuMemAddressFree, (CUdeviceptr pointer, size_t bytes))                                         \
  X(cuMemMap, (CUdeviceptr pointer, size_t bytes, size_t offset,                                   \
               CUmemGenericAllocationHandle handle, unsigned long long flags))                     \
  X(cuMemUnmap, (CUdeviceptr pointer, size_t bytes))                                               \
  X(cuMemSetAccess,                                                                                \
    (CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *accesses, size_t count))            \
  X(cuIpcGetMemHandle, (CUipcMemHandle *handle, CUdeviceptr pointer))                              \
  X(cuIpcOpenMemHandle_v2, (CUdeviceptr *pointer, CUipcMemHandle handle, unsigned flags))          \
  X(cuIpcCloseMemHandle, (CUdeviceptr pointer))
// clang-format on
