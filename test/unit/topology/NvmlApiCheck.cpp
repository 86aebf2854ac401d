//===- NvmlApiCheck.cpp - Compares our declarations of NVML with NVIDIA's -----------===//
//
// Compiled by NvmlApiTest.cpp where nvml.h is found, and never linked.
//===----------------------------------------------------------------------===//
#include "frontend/topology/NvmlApi.h"

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <type_traits>

namespace ours = ccl::nvml;

#define SAME(name) static_assert((long long)ours::name == (long long)::name, #name);
SAME(NVML_SUCCESS)
SAME(NVML_ERROR_UNINITIALIZED)
SAME(NVML_ERROR_INVALID_ARGUMENT)
SAME(NVML_ERROR_NOT_SUPPORTED)
SAME(NVML_ERROR_NO_PERMISSION)
SAME(NVML_ERROR_NOT_FOUND)
SAME(NVML_ERROR_INSUFFICIENT_SIZE)
SAME(NVML_ERROR_DRIVER_NOT_LOADED)
SAME(NVML_ERROR_TIMEOUT)
SAME(NVML_ERROR_GPU_IS_LOST)
SAME(NVML_ERROR_UNKNOWN)
SAME(NVML_FEATURE_DISABLED)
SAME(NVML_FEATURE_ENABLED)
SAME(NVML_NVLINK_DEVICE_TYPE_GPU)
SAME(NVML_NVLINK_DEVICE_TYPE_IBMNPU)
SAME(NVML_NVLINK_DEVICE_TYPE_SWITCH)
SAME(NVML_NVLINK_DEVICE_TYPE_UNKNOWN)
SAME(NVML_VALUE_TYPE_DOUBLE)
SAME(NVML_VALUE_TYPE_UNSIGNED_INT)
SAME(NVML_VALUE_TYPE_UNSIGNED_LONG)
SAME(NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)
#ifdef CCL_NVML_WRONG
static_assert(ours::NVML_FEATURE_DISABLED == (int)::NVML_FEATURE_ENABLED, "NVML_FEATURE_ENABLED");
#endif

static_assert(ours::fieldSpeedOfLink0 == NVML_FI_DEV_NVLINK_SPEED_MBPS_L0);
static_assert(ours::fieldSpeedOfLink0 + 5 == NVML_FI_DEV_NVLINK_SPEED_MBPS_L5);
static_assert(ours::fieldSpeedOfLink6 == NVML_FI_DEV_NVLINK_SPEED_MBPS_L6);
static_assert(ours::fieldSpeedOfLink6 + 5 == NVML_FI_DEV_NVLINK_SPEED_MBPS_L11);
static_assert(ours::fieldCommonSpeed == NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON);
#ifdef NVML_FI_DEV_NVLINK_GET_SPEED // not in old ones
static_assert(ours::fieldLinkSpeed == NVML_FI_DEV_NVLINK_GET_SPEED);
#endif
static_assert(ours::mostLinks >= NVML_NVLINK_MAX_LINKS);
static_assert(ours::nameSize >= NVML_DEVICE_NAME_V2_BUFFER_SIZE);
static_assert(ours::uuidSize >= NVML_DEVICE_UUID_V2_BUFFER_SIZE);
static_assert(ours::versionSize >= NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);
static_assert(ours::migEnabled == NVML_DEVICE_MIG_ENABLE);

#define SIZE(type)                                                                                 \
  static_assert(sizeof(ours::type) == sizeof(::type) && alignof(ours::type) == alignof(::type));
#define FIELD(type, field)                                                                         \
  static_assert(offsetof(ours::type, field) == offsetof(::type, field) &&                          \
                sizeof(ours::type::field) == sizeof(::type::field));
SIZE(nvmlReturn_t)
SIZE(nvmlDevice_t)
SIZE(nvmlEnableState_t)
SIZE(nvmlIntNvLinkDeviceType_t)
SIZE(nvmlValueType_t)
SIZE(nvmlValue_t)
SIZE(nvmlPciInfo_t)
FIELD(nvmlPciInfo_t, busIdLegacy)
FIELD(nvmlPciInfo_t, domain)
FIELD(nvmlPciInfo_t, bus)
FIELD(nvmlPciInfo_t, device)
FIELD(nvmlPciInfo_t, pciDeviceId)
FIELD(nvmlPciInfo_t, pciSubSystemId)
FIELD(nvmlPciInfo_t, busId)
SIZE(nvmlFieldValue_t)
FIELD(nvmlFieldValue_t, fieldId)
FIELD(nvmlFieldValue_t, scopeId)
FIELD(nvmlFieldValue_t, timestamp)
FIELD(nvmlFieldValue_t, latencyUsec)
FIELD(nvmlFieldValue_t, valueType)
FIELD(nvmlFieldValue_t, nvmlReturn)
FIELD(nvmlFieldValue_t, value)

/// Whether values of both are passed alike.
template <typename A, typename B>
constexpr bool alike =
    sizeof(A) == sizeof(B) && alignof(A) == alignof(B) &&
    std::is_pointer_v<A> == std::is_pointer_v<B> && std::is_class_v<A> == std::is_class_v<B>;
template <typename A, typename B>
constexpr bool sameCall = false;
template <typename... A, typename... B>
  requires(sizeof...(A) == sizeof...(B))
constexpr bool sameCall<ours::nvmlReturn_t (*)(A...), ::nvmlReturn_t (*)(B...)> =
    (alike<A, B> && ...);
static_assert(std::is_same_v<decltype(&::nvmlErrorString), const char *(*)(::nvmlReturn_t)>);

namespace ccl::nvml {
struct Functions {
#define MEMBER(name, parameters) nvmlReturn_t(*name) parameters;
  CCL_NVML_NEEDED(MEMBER)
  CCL_NVML_WANTED(MEMBER)
};
} // namespace ccl::nvml
#define CALL(name, parameters)                                                                     \
  static_assert(sameCall<decltype(ours::Functions::name), decltype(&::name)>, #name);
CCL_NVML_NEEDED(CALL)
CCL_NVML_WANTED(CALL)
