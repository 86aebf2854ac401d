//===- Nvml.cpp - NVML of a machine that a text describes --------------------------===//
//
// With CCL_TEST_OLD the library lacks what old ones lack.
//===----------------------------------------------------------------------===//
#include "frontend/topology/NvmlApi.h"
#include "test/gpus/Machine.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

using namespace ccl::nvml;
using namespace ccl::test;

namespace {

int opened = 0;

nvmlReturn_t failureOf(const char *function) {
  if (fakeMachine().hangs.count(function))
    hangUntilFileIsGone();
  auto found = fakeMachine().failures.find(function);
  return found == fakeMachine().failures.end() ? NVML_SUCCESS : nvmlReturn_t(found->second);
}

/// `body` with the GPU, unless this call of it has to fail.
template <typename Body>
nvmlReturn_t ofGpu(nvmlDevice_t device, const char *function, Body body) {
  const auto index = reinterpret_cast<uintptr_t>(device);
  if (opened == 0)
    return NVML_ERROR_UNINITIALIZED;
  if (index < 1 || index > fakeMachine().gpus.size())
    return NVML_ERROR_INVALID_ARGUMENT;
  const FakeGpu &gpu = fakeMachine().gpus[index - 1];
  if (gpu.hangs.count(function))
    hangUntilFileIsGone();
  auto found = gpu.failures.find(function);
  return found == gpu.failures.end() ? body(gpu) : nvmlReturn_t(found->second);
}

template <typename Body>
nvmlReturn_t ofLink(nvmlDevice_t device, unsigned number, const char *function, Body body) {
  return ofGpu(device, function, [&](const FakeGpu &gpu) {
    if (gpu.links.empty())
      return NVML_ERROR_NOT_SUPPORTED;
    auto link = gpu.links.find(number);
    return link == gpu.links.end() ? NVML_ERROR_INVALID_ARGUMENT : body(gpu, link->second);
  });
}

nvmlReturn_t copyText(const std::string &text, char *to, unsigned length) {
  if (text.size() >= length)
    return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

template <typename T>
void fillPci(const T &of, nvmlPciInfo_t *pci) {
  pci->domain = of.domain;
  pci->bus = of.bus;
  pci->device = of.device;
  std::snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", of.domain, of.bus, of.device);
}

} // namespace

#define API extern "C" __attribute__((visibility("default")))

namespace ccl::nvml {

API nvmlReturn_t nvmlInit_v2() {
  fakeMachine(true);
  const nvmlReturn_t result = failureOf("nvmlInit_v2");
  opened += result == NVML_SUCCESS;
  return result;
}
API nvmlReturn_t nvmlShutdown() {
  if (opened == 0)
    return NVML_ERROR_UNINITIALIZED;
  --opened;
  return NVML_SUCCESS;
}
API const char *nvmlErrorString(nvmlReturn_t result) {
  return result == NVML_ERROR_DRIVER_NOT_LOADED ? "Driver Not Loaded"
         : result == NVML_ERROR_GPU_IS_LOST     ? "GPU is lost"
                                                : "Unknown Error";
}
API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
  return copyText(fakeMachine().driver, version, length);
}
API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
  *count = unsigned(fakeMachine().gpus.size());
  return failureOf("nvmlDeviceGetCount_v2");
}
API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
  *device = reinterpret_cast<nvmlDevice_t>(uintptr_t(index + 1));
  return ofGpu(*device, "nvmlDeviceGetHandleByIndex_v2",
               [](const FakeGpu &) { return NVML_SUCCESS; });
}
API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
  return ofGpu(device, "nvmlDeviceGetPciInfo_v3", [&](const FakeGpu &gpu) {
    fillPci(gpu, pci);
    pci->pciDeviceId = gpu.number("pci", 0x10de);
    return NVML_SUCCESS;
  });
}
API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
  return ofGpu(device, "nvmlDeviceGetName", [&](const FakeGpu &gpu) {
    auto found = gpu.facts.find("name");
    return copyText(found == gpu.facts.end() ? "NVIDIA GPU" : found->second, name, length);
  });
}
API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
  return ofGpu(device, "nvmlDeviceGetUUID", [&](const FakeGpu &gpu) {
    return copyText("GPU-00000000-0000-0000-0000-0000000000" + std::to_string(10 + gpu.bus % 90),
                    uuid, length);
  });
}
API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
  return ofGpu(device, "nvmlDeviceGetCudaComputeCapability", [&](const FakeGpu &gpu) {
    const unsigned sm = gpu.number("sm", 0);
    *major = int(sm / 10);
    *minor = int(sm % 10);
    return sm ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
  });
}

static nvmlReturn_t tellNumber(nvmlDevice_t device, const char *function, const char *key,
                               unsigned *value) {
  return ofGpu(device, function, [&](const FakeGpu &gpu) {
    *value = gpu.number(key, 0);
    return *value ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
  });
}
API nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *generation) {
  return tellNumber(device, "nvmlDeviceGetMaxPcieLinkGeneration", "gen", generation);
}
API nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *lanes) {
  return tellNumber(device, "nvmlDeviceGetMaxPcieLinkWidth", "most", lanes);
}
API nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *lanes) {
  return tellNumber(device, "nvmlDeviceGetCurrPcieLinkWidth", "lanes", lanes);
}
API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link,
                                          nvmlEnableState_t *isActive) {
  return ofLink(device, link, "nvmlDeviceGetNvLinkState", [&](const FakeGpu &, const FakeLink &l) {
    *isActive = l.isActive ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
  });
}
API nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version) {
  return ofLink(device, link, "nvmlDeviceGetNvLinkVersion",
                [&](const FakeGpu &gpu, const FakeLink &) {
                  *version = gpu.number("nvlink", 6);
                  return NVML_SUCCESS;
                });
}
API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                     nvmlPciInfo_t *pci) {
  return ofLink(device, link, "nvmlDeviceGetNvLinkRemotePciInfo_v2",
                [&](const FakeGpu &, const FakeLink &l) {
                  if (!l.hasAddress)
                    return NVML_ERROR_NOT_SUPPORTED;
                  fillPci(l, pci);
                  return NVML_SUCCESS;
                });
}
#ifndef CCL_TEST_OLD
API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
  return ofGpu(device, "nvmlDeviceGetMigMode", [&](const FakeGpu &gpu) {
    *current = *pending = gpu.number("mig", 0);
    return NVML_SUCCESS;
  });
}
API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link,
                                                     nvmlIntNvLinkDeviceType_t *type) {
  return ofLink(device, link, "nvmlDeviceGetNvLinkRemoteDeviceType",
                [&](const FakeGpu &, const FakeLink &l) {
                  *type = nvmlIntNvLinkDeviceType_t(l.type);
                  return NVML_SUCCESS;
                });
}
/// The common speed alone, as of a driver of the time before it was told by link.
API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                          nvmlFieldValue_t *values) {
  return ofGpu(device, "nvmlDeviceGetFieldValues", [&](const FakeGpu &gpu) {
    for (int i = 0; i < count; ++i) {
      values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
      values[i].value.uiVal = gpu.number("speed", 0);
      values[i].nvmlReturn =
          values[i].fieldId == fieldCommonSpeed && gpu.number("speed", 0) && !gpu.links.empty()
              ? NVML_SUCCESS
              : NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
  });
}
#endif

} // namespace ccl::nvml
