//===- ShimDeviceTest.cpp - Devices and contexts of the stand-in -------------------===//
#include "test/unit/cuda/Shim.h"

#include <cstring>
#include <set>
#include <thread>

using namespace ccl;
using namespace ccl::cuda;
using namespace ccl::test;

TEST_CASE("devices are as many as asked for and can be told apart") {
  const Driver &driver = shim();
  int count = 0;
  REQUIRE(driver.cuDeviceGetCount(&count) == CUDA_SUCCESS);
  CHECK(count == shimDevices);
  std::set<std::string> uuids, busses;
  for (int i = 0; i < count; ++i) {
    CUdevice device = -1;
    REQUIRE(driver.cuDeviceGet(&device, i) == CUDA_SUCCESS);
    char text[32];
    CHECK(driver.cuDeviceGetName(text, sizeof text, device) == CUDA_SUCCESS);
    CHECK(std::string(text) == "shim");
    CUuuid uuid;
    CHECK(driver.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS);
    uuids.insert(std::string(uuid.bytes, sizeof uuid.bytes));
    CHECK(driver.cuDeviceGetPCIBusId(text, sizeof text, device) == CUDA_SUCCESS);
    busses.insert(text);
    int value = -1;
    CHECK(driver.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                      device) == CUDA_SUCCESS);
    CHECK(value == 0);
    driver.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    CHECK(value == 2);
    driver.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, device);
    CHECK(value == 1);
    for (int peer = 0; peer < count; ++peer) {
      CHECK(driver.cuDeviceCanAccessPeer(&value, device, peer) == CUDA_SUCCESS);
      CHECK(value == (peer != i));
    }
  }
  CHECK(uuids.size() == size_t(count));
  CHECK(busses.size() == size_t(count));
  CUdevice none;
  CHECK(driver.cuDeviceGet(&none, count) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(driver.cuDeviceGet(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("contexts are current per thread") {
  const InContext context(0);
  CUcontext current = nullptr;
  CHECK(shim().cuCtxGetCurrent(&current) == CUDA_SUCCESS);
  CHECK(current == context.get());
  CUresult there = CUDA_SUCCESS;
  std::thread([&] {
    CUdeviceptr pointer;
    there = shim().cuMemAlloc_v2(&pointer, 16);
  }).join();
  CHECK(name(there) == "CUDA_ERROR_INVALID_CONTEXT");
}

TEST_CASE("a primary context is one until its last release, and takes what it had along") {
  const Driver &driver = shim();
  CUcontext first = nullptr, second = nullptr;
  REQUIRE(driver.cuDevicePrimaryCtxRetain(&first, 3) == CUDA_SUCCESS);
  REQUIRE(driver.cuDevicePrimaryCtxRetain(&second, 3) == CUDA_SUCCESS);
  CHECK(first == second);
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  {
    const ContextScope scope = llvm::cantFail(ContextScope::enter(driver, first));
    CHECK(driver.cuMemAlloc_v2(&memory, 64) == CUDA_SUCCESS);
    CHECK(driver.cuStreamCreate(&stream, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
    CHECK(driver.cuDevicePrimaryCtxRelease_v2(3) == CUDA_SUCCESS);
    CHECK(driver.cuStreamQuery(stream) == CUDA_SUCCESS);
    CHECK(driver.cuDevicePrimaryCtxRelease_v2(3) == CUDA_SUCCESS);
    CHECK(name(driver.cuStreamQuery(stream)) == "CUDA_ERROR_CONTEXT_IS_DESTROYED");
  }
  CHECK(name(driver.cuDevicePrimaryCtxRelease_v2(3)) == "CUDA_ERROR_INVALID_CONTEXT");
  CHECK(name(driver.cuCtxSetCurrent(first)) == "CUDA_ERROR_INVALID_CONTEXT");
  const InContext again(3);
  CHECK(again.get() != first);
  CHECK(name(driver.cuStreamQuery(stream)) == "CUDA_ERROR_INVALID_HANDLE");
  CHECK(name(driver.cuMemFree_v2(memory)) == "CUDA_ERROR_INVALID_VALUE");
}

TEST_CASE("peers are enabled once, and not a device for itself") {
  const InContext other(1), context(0);
  CHECK(shim().cuCtxEnablePeerAccess(other.get(), 0) == CUDA_SUCCESS);
  CHECK(name(shim().cuCtxEnablePeerAccess(other.get(), 0)) ==
        "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED");
  CHECK(name(shim().cuCtxEnablePeerAccess(context.get(), 0)) == "CUDA_ERROR_INVALID_CONTEXT");
}
