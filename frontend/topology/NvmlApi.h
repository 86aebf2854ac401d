//===- NvmlApi.h - NVIDIA's management library, as far as it is used here --------===//
//
// libnvidia-ml is loaded when it is needed and its header is not: what of its binary interface
// is used is declared here. Names are NVIDIA's, so that its documentation can be searched for
// them; values that are macros there have names of their own, for both headers can be included.
// test/unit/topology/NvmlApiTest.cpp compares all of it with nvml.h.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>

namespace ccl::nvml {

enum nvmlReturn_t : unsigned {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_UNKNOWN = 999
};

using nvmlDevice_t = struct nvmlDevice_st *;

enum nvmlEnableState_t : unsigned { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 };

enum nvmlIntNvLinkDeviceType_t : unsigned {
  NVML_NVLINK_DEVICE_TYPE_GPU = 0,
  NVML_NVLINK_DEVICE_TYPE_IBMNPU = 1, ///< a POWER9 socket
  NVML_NVLINK_DEVICE_TYPE_SWITCH = 2,
  NVML_NVLINK_DEVICE_TYPE_UNKNOWN = 255
};

enum nvmlValueType_t : unsigned {
  NVML_VALUE_TYPE_DOUBLE = 0,
  NVML_VALUE_TYPE_UNSIGNED_INT = 1,
  NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
  NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3
};

/// Fields of nvmlDeviceGetFieldValues, MB/s of one link: of the one that `scopeId` names; of links
/// 0 to 5; of 6 to 11; of all active ones.
inline constexpr unsigned fieldLinkSpeed = 164, fieldSpeedOfLink0 = 84, fieldSpeedOfLink6 = 132,
                          fieldCommonSpeed = 90;
/// Links that a device may have: what NVML's header allows, and older ones less.
inline constexpr unsigned mostLinks = 36;
/// Buffers that hold every name, UUID and version.
inline constexpr unsigned nameSize = 96, uuidSize = 96, versionSize = 80;
/// Of nvmlDeviceGetMigMode.
inline constexpr unsigned migEnabled = 1;

struct nvmlPciInfo_t {
  char busIdLegacy[16];
  unsigned domain, bus, device;
  unsigned pciDeviceId; ///< device << 16 | vendor
  unsigned pciSubSystemId;
  char busId[32];
};

union nvmlValue_t {
  double dVal;
  unsigned uiVal;
  unsigned long ulVal;
  unsigned long long ullVal;
};

struct nvmlFieldValue_t {
  unsigned fieldId;
  unsigned scopeId;
  long long timestamp;
  long long latencyUsec;
  nvmlValueType_t valueType;
  nvmlReturn_t nvmlReturn; ///< of this field alone
  nvmlValue_t value;
};

static_assert(sizeof(nvmlPciInfo_t) == 68 && offsetof(nvmlPciInfo_t, busId) == 36 &&
              sizeof(nvmlFieldValue_t) == 40 && offsetof(nvmlFieldValue_t, value) == 32);

} // namespace ccl::nvml

/// Functions that return nvmlReturn_t, by the name that the library exports: X(name, parameters).
/// Without one of these nothing can be found out.
// clang-format off
#define CCL_NVML_NEEDED(X)                                                                         \
  X(nvmlInit_v2, ())                                                                               \
  X(nvmlShutdown, ())                                                                              \
  X(nvmlDeviceGetCount_v2, (unsigned *count))                                                      \
  X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvmlDevice_t *device))                         \
  X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t *pci))
/// Old libraries lack some of these.
#define CCL_NVML_WANTED(X)                                                                         \
  X(nvmlSystemGetDriverVersion, (char *version, unsigned length))                                  \
  X(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned length))                         \
  X(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned length))                         \
  X(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int *major, int *minor))             \
  X(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned *current, unsigned *pending))             \
  X(nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned *generation))               \
  X(nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t device, unsigned *lanes))                         \
  X(nvmlDeviceGetCurrPcieLinkWidth, (nvmlDevice_t device, unsigned *lanes))                        \
  X(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, unsigned link, nvmlEnableState_t *isActive))   \
  X(nvmlDeviceGetNvLinkVersion, (nvmlDevice_t device, unsigned link, unsigned *version))           \
  X(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci)) \
  X(nvmlDeviceGetNvLinkRemoteDeviceType,                                                           \
    (nvmlDevice_t device, unsigned link, nvmlIntNvLinkDeviceType_t *type))                         \
  X(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int count, nvmlFieldValue_t *values))
// clang-format on
