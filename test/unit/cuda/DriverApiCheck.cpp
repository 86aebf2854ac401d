//===- DriverApiCheck.cpp - Compares our declarations with NVIDIA's ---------------===//
//
// Compiled by DriverApiTest.cpp where cuda.h is found, and never linked. Its test writes
// DriverApiValues.inc: SAME(name) for every enumerator of DriverApi.h.
//===----------------------------------------------------------------------===//
#include "runtime/cuda/DriverApi.h"

#include <cuda.h>

#include <string_view>
#include <type_traits>

namespace ours = ccl::cuda;

#define SAME(name) static_assert((long long)ours::name == (long long)::name);
#include "DriverApiValues.inc"

// Casts of numbers to pointers are no constants: as they are written.
#define TEXT_OF(macro) #macro
#define TEXT(macro) std::string_view(TEXT_OF(macro))
static_assert(ours::streamLegacy == 1 && TEXT(CU_STREAM_LEGACY) == "((CUstream)0x1)");
static_assert(ours::streamPerThread == 2 && TEXT(CU_STREAM_PER_THREAD) == "((CUstream)0x2)");
static_assert(ours::memHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(ours::memHostAllocDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(ours::memHostAllocWriteCombined == CU_MEMHOSTALLOC_WRITECOMBINED);
static_assert(ours::memHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(ours::memHostRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);

#define SIZE(type)                                                                                 \
  static_assert(sizeof(ours::type) == sizeof(::type) && alignof(ours::type) == alignof(::type));
#define FIELD(type, field)                                                                         \
  static_assert(offsetof(ours::type, field) == offsetof(::type, field) &&                          \
                sizeof(ours::type::field) == sizeof(::type::field));
SIZE(CUresult)
SIZE(CUdevice)
SIZE(CUdeviceptr)
SIZE(CUmemGenericAllocationHandle)
SIZE(CUcontext)
SIZE(CUdevice_attribute)
SIZE(CUstreamCaptureMode)
SIZE(CUstreamCaptureStatus)
SIZE(CUuuid)
SIZE(CUipcMemHandle)
SIZE(CUmemLocation)
FIELD(CUmemLocation, type)
FIELD(CUmemLocation, id)
SIZE(CUmemAllocationProp)
FIELD(CUmemAllocationProp, type)
FIELD(CUmemAllocationProp, requestedHandleTypes)
FIELD(CUmemAllocationProp, location)
FIELD(CUmemAllocationProp, win32HandleMetaData)
FIELD(CUmemAllocationProp, allocFlags)
FIELD(CUmemAllocationProp, allocFlags.compressionType)
FIELD(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)
FIELD(CUmemAllocationProp, allocFlags.usage)
FIELD(CUmemAllocationProp, allocFlags.reserved)
SIZE(CUmemAccessDesc)
FIELD(CUmemAccessDesc, location)
FIELD(CUmemAccessDesc, flags)
SIZE(CUDA_MEMCPY2D)
FIELD(CUDA_MEMCPY2D, srcXInBytes)
FIELD(CUDA_MEMCPY2D, srcY)
FIELD(CUDA_MEMCPY2D, srcMemoryType)
FIELD(CUDA_MEMCPY2D, srcHost)
FIELD(CUDA_MEMCPY2D, srcDevice)
FIELD(CUDA_MEMCPY2D, srcArray)
FIELD(CUDA_MEMCPY2D, srcPitch)
FIELD(CUDA_MEMCPY2D, dstXInBytes)
FIELD(CUDA_MEMCPY2D, dstY)
FIELD(CUDA_MEMCPY2D, dstMemoryType)
FIELD(CUDA_MEMCPY2D, dstHost)
FIELD(CUDA_MEMCPY2D, dstDevice)
FIELD(CUDA_MEMCPY2D, dstArray)
FIELD(CUDA_MEMCPY2D, dstPitch)
FIELD(CUDA_MEMCPY2D, WidthInBytes)
FIELD(CUDA_MEMCPY2D, Height)

// CUDA 13's header knows it, but shows only its successor.
extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *,
                                              CUgraph *, const CUgraphNode **, size_t *);

/// Whether values of both are passed alike.
template <typename A, typename B>
constexpr bool alike =
    sizeof(A) == sizeof(B) && alignof(A) == alignof(B) &&
    std::is_pointer_v<A> == std::is_pointer_v<B> && std::is_class_v<A> == std::is_class_v<B> &&
    std::is_floating_point_v<A> == std::is_floating_point_v<B>;
template <typename A, typename B>
constexpr bool sameCall = false;
template <typename... A, typename... B>
  requires(sizeof...(A) == sizeof...(B))
constexpr bool sameCall<ours::CUresult (*)(A...), ::CUresult (*)(B...)> = (alike<A, B> && ...);

#define CALL(name, parameters)                                                                     \
  static_assert(sameCall<decltype(ours::Functions::name), decltype(&::name)>, #name);
namespace ccl::cuda {
struct Functions {
#define MEMBER(name, parameters) CUresult(*name) parameters;
  CCL_CUDA_DRIVER_FUNCTIONS(MEMBER)
};
} // namespace ccl::cuda
CCL_CUDA_DRIVER_FUNCTIONS(CALL)
