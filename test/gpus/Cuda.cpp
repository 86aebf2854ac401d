//===- Cuda.cpp - CUDA's driver of a machine that a text describes -----------------===//
//
// It tells what there is, and does nothing: every function that is not here refuses.
//===----------------------------------------------------------------------===//
#include "runtime/cuda/DriverApi.h"
#include "test/gpus/Machine.h"

#include <cstdio>
#include <cstring>

using namespace ccl::cuda;
using namespace ccl::test;

namespace {

CUresult failureOf(const char *function) {
  if (fakeMachine().hangs.count(function))
    hangUntilFileIsGone();
  auto found = fakeMachine().failures.find(function);
  return found == fakeMachine().failures.end() ? CUDA_SUCCESS : CUresult(found->second);
}

template <typename Body>
CUresult ofDevice(CUdevice device, const char *function, Body body) {
  const FakeMachine &machine = fakeMachine();
  if (device < 0 || size_t(device) >= machine.visible.size())
    return CUDA_ERROR_INVALID_DEVICE;
  const FakeGpu &gpu = machine.gpus[machine.visible[size_t(device)]];
  if (gpu.hangs.count(function))
    hangUntilFileIsGone();
  auto found = gpu.failures.find(function);
  return found == gpu.failures.end() ? body(gpu) : CUresult(found->second);
}

} // namespace

#define API extern "C" __attribute__((visibility("default")))

namespace ccl::cuda {

API CUresult cuInit(unsigned) {
  if (CUresult result = failureOf("cuInit"))
    return result;
  return fakeMachine(true).visible.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
API CUresult cuDriverGetVersion(int *version) {
  *version = fakeMachine().driver.starts_with("4") ? 11040 : 12080;
  return CUDA_SUCCESS;
}
API CUresult cuGetErrorName(CUresult error, const char **text) {
  *text = error == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return CUDA_SUCCESS;
}
API CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = error == CUDA_ERROR_NO_DEVICE ? "there is no device" : "something unknown went wrong";
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetCount(int *count) {
  *count = int(fakeMachine(true).visible.size());
  return failureOf("cuDeviceGetCount");
}
API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return ofDevice(ordinal, "cuDeviceGet", [](const FakeGpu &) { return CUDA_SUCCESS; });
}
API CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  return ofDevice(device, "cuDeviceGetName", [&](const FakeGpu &gpu) {
    auto found = gpu.facts.find("name");
    std::snprintf(name, size_t(length), "%s",
                  found == gpu.facts.end() ? "NVIDIA GPU" : found->second.c_str());
    return CUDA_SUCCESS;
  });
}
API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  return ofDevice(device, "cuDeviceTotalMem_v2", [&](const FakeGpu &gpu) {
    *bytes = size_t(gpu.number("gib", 80)) << 30;
    return CUDA_SUCCESS;
  });
}
API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  return ofDevice(device, "cuDeviceGetAttribute", [&](const FakeGpu &gpu) {
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = int(gpu.number("sm", 0) / 10);
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = int(gpu.number("sm", 0) % 10);
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = int(gpu.number("sms", 132)); break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *value = gpu.number("alone", 0) == 0; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *value = int(gpu.domain); break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = int(gpu.bus); break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: *value = int(gpu.device); break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}
API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  return ofDevice(device, "cuDeviceCanAccessPeer", [&](const FakeGpu &) {
    *can = !fakeMachine().apart.contains({device, peer});
    return CUDA_SUCCESS;
  });
}

} // namespace ccl::cuda
