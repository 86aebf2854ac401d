//===- ShimMemoryTest.cpp - Memory of the stand-in's devices -----------------------===//
#include "runtime/Memory.h"
#include "test/unit/cuda/Shim.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace ccl;
using namespace ccl::cuda;
using namespace ccl::test;

namespace {

constexpr size_t unit = size_t(2) << 20; ///< granularity

CUmemAllocationProp propOf(int device, bool exportable = true) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  if (exportable)
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return prop;
}

template <typename T>
std::pair<CUresult, T> attribute(CUpointer_attribute which, CUdeviceptr pointer) {
  T value{};
  const CUresult result = shim().cuPointerGetAttribute(&value, which, pointer);
  return {result, value};
}

} // namespace

TEST_CASE("5 GiB are there, and pages are taken when they are touched") {
  const InContext context;
  constexpr size_t bytes = size_t(5) << 30;
  const DeviceMemory memory = llvm::cantFail(allocate(shim(), bytes));
  const cuda::Stream stream = llvm::cantFail(makeStream(shim()));
  for (size_t at = 0; at < bytes; at += bytes / 16)
    CHECK(shim().cuMemsetD8Async(memory.get() + at, uint8_t(at >> 28), 1000, stream.get()) ==
          CUDA_SUCCESS);
  CHECK(shim().cuMemsetD8Async(memory.get() + bytes - 1, 77, 1, stream.get()) == CUDA_SUCCESS);
  CHECK(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
  const auto *data = reinterpret_cast<const uint8_t *>(memory.get());
  for (size_t at = 0; at < bytes; at += bytes / 16) {
    CHECK(data[at + 999] == uint8_t(at >> 28));
    CHECK(data[at + 1000] == 0);
  }
  CHECK(data[bytes - 1] == 77);
  CHECK(name(shim().cuMemsetD8Async(memory.get() + bytes - 1, 77, 2, stream.get())) ==
        "CUDA_ERROR_INVALID_VALUE");
}

TEST_CASE("what the machine has not got is refused, touched or not") {
  const InContext context;
  // Three times so much are more than there is, and two of them are less than a GPU has.
  const size_t piece = availableMemory() / 10 * 4 / unit * unit;
  if (piece > size_t(39) << 30)
    return;
  const DeviceMemory first = llvm::cantFail(allocate(shim(), piece));
  {
    const DeviceMemory second = llvm::cantFail(allocate(shim(), piece));
    CUdeviceptr third = 0;
    CHECK(name(shim().cuMemAlloc_v2(&third, piece)) == "CUDA_ERROR_OUT_OF_MEMORY");
    CUmemGenericAllocationHandle handle = 0;
    for (const int device : {0, 1}) {
      const CUmemAllocationProp prop = propOf(device);
      CHECK(name(shim().cuMemCreate(&handle, piece, &prop, 0)) == "CUDA_ERROR_OUT_OF_MEMORY");
    }
    void *host = nullptr;
    CHECK(name(shim().cuMemHostAlloc(&host, 4 * piece, 0)) == "CUDA_ERROR_OUT_OF_MEMORY");
    // What is small is still there.
    CHECK(bool(allocate(shim(), 1 << 20)));
  }
  CHECK(bool(allocate(shim(), piece)));
}

TEST_CASE("zeros cost no memory") {
  const InContext context;
  constexpr size_t bytes = size_t(1) << 30, page = 4096;
  const DeviceMemory memory = llvm::cantFail(allocate(shim(), bytes));
  const cuda::Stream stream = llvm::cantFail(makeStream(shim()));
  auto *data = reinterpret_cast<uint8_t *>(memory.get());
  data[0] = data[1] = data[page] = data[bytes / 2] = data[bytes - 2] = data[bytes - 1] = 7;
  CHECK(shim().cuMemsetD8Async(memory.get() + 1, 0, bytes - 2, stream.get()) == CUDA_SUCCESS);
  CHECK(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
  std::vector<unsigned char> resident(bytes / page);
  REQUIRE(mincore(data, bytes, resident.data()) == 0);
  CHECK(std::count_if(resident.begin(), resident.end(), [](auto there) { return there & 1; }) < 16);
  CHECK(data[0] == 7);
  for (const size_t at : {size_t(1), page, bytes / 2, bytes - 2})
    CHECK(data[at] == 0);
  CHECK(data[bytes - 1] == 7);
}

TEST_CASE("what is freed, or was never there, is no memory") {
  const InContext context;
  const cuda::Stream stream = llvm::cantFail(makeStream(shim()));
  CUdeviceptr pointer = 0;
  CHECK(name(shim().cuMemAlloc_v2(&pointer, 0)) == "CUDA_ERROR_INVALID_VALUE");
  REQUIRE(shim().cuMemAlloc_v2(&pointer, 100) == CUDA_SUCCESS);
  CHECK(name(shim().cuMemFree_v2(pointer + 8)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(shim().cuMemFreeHost(reinterpret_cast<void *>(pointer))) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(shim().cuMemFree_v2(pointer) == CUDA_SUCCESS);
  CHECK(name(shim().cuMemFree_v2(pointer)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(shim().cuMemFree_v2(0) == CUDA_SUCCESS);
  int there = 0;
  CHECK(name(shim().cuMemcpyDtoHAsync_v2(&there, pointer, 4, stream.get())) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(shim().cuMemcpyAsync(CUdeviceptr(&there), pointer, 4, stream.get())) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(shim().cuMemcpyHtoDAsync_v2(CUdeviceptr(&there), &there, 4, stream.get())) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(shim().cuMemcpyAsync(CUdeviceptr(&there), 64, 4, stream.get())) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
}

TEST_CASE("memory is freed once its device is done with it") {
  const InContext context;
  const Kernels kernels;
  const cuda::Stream stream = llvm::cantFail(makeStream(shim()));
  const PinnedMemory flag = llvm::cantFail(allocatePinned(shim(), 64));
  auto *word = static_cast<unsigned *>(flag.get());
  CUdeviceptr numbers = 0;
  REQUIRE(shim().cuMemAlloc_v2(&numbers, 800) == CUDA_SUCCESS);
  CHECK(launch(kernels["scale"], 4, stream.get(), numbers, 100ll, 1ll, 1ll) == CUDA_SUCCESS);
  CHECK(shim().cuLaunchHostFunc(
            stream.get(),
            [](void *data) {
              timespec time{0, 50000000};
              nanosleep(&time, nullptr);
              __atomic_store_n(static_cast<unsigned *>(data), 1, __ATOMIC_RELEASE);
            },
            word) == CUDA_SUCCESS);
  CHECK(launch(kernels["scale"], 4, stream.get(), numbers, 100ll, 1ll, 1ll) == CUDA_SUCCESS);
  CHECK(shim().cuMemFree_v2(numbers) == CUDA_SUCCESS);
  CHECK(__atomic_load_n(word, __ATOMIC_ACQUIRE) == 1);
  CHECK(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
}

TEST_CASE("copies and fills") {
  const InContext context;
  const cuda::Stream stream = llvm::cantFail(makeStream(shim()));
  std::vector<unsigned> from(50000), to(50000);
  std::iota(from.begin(), from.end(), 0u);
  const Array<unsigned> there(50000), back(50000);
  // Pageable memory may be used again at once, whether it is little or much.
  for (const size_t count : {size_t(1000), from.size()}) {
    CHECK(shim().cuMemcpyHtoDAsync_v2(there.address(), from.data(), count * 4, stream.get()) ==
          CUDA_SUCCESS);
    from[1] = 99;
    CHECK(shim().cuMemcpyDtoDAsync_v2(back.address(), there.address(), count * 4, stream.get()) ==
          CUDA_SUCCESS);
    CHECK(shim().cuMemcpyDtoHAsync_v2(to.data(), back.address(), count * 4, stream.get()) ==
          CUDA_SUCCESS);
    CHECK(to[1] == 1);
    from[1] = 1;
    CHECK(std::equal(from.begin(), from.begin() + long(count), to.begin()));
  }
  CHECK(shim().cuMemsetD32Async(there.address(), 0xabcd, 10, stream.get()) == CUDA_SUCCESS);
  CHECK(name(shim().cuMemsetD32Async(there.address() + 2, 0, 1, stream.get())) ==
        "CUDA_ERROR_INVALID_VALUE");
  CUDA_MEMCPY2D rows = {};
  rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = back.address();
  rows.srcPitch = 400;
  rows.srcXInBytes = 8;
  rows.srcY = 1;
  rows.dstMemoryType = CU_MEMORYTYPE_HOST;
  rows.dstHost = to.data();
  rows.dstPitch = 40;
  rows.WidthInBytes = 20;
  rows.Height = 30;
  CHECK(shim().cuMemcpy2DAsync_v2(&rows, stream.get()) == CUDA_SUCCESS);
  for (unsigned row = 0; row < 30; ++row)
    for (unsigned i = 0; i < 5; ++i)
      CHECK(to[row * 10 + i] == (row + 1) * 100 + 2 + i);
  CHECK(to[5] == 5);
  rows.dstPitch = 10;
  CHECK(name(shim().cuMemcpy2DAsync_v2(&rows, stream.get())) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
  CHECK(there[9] == 0xabcd);
  CHECK(there[10] == 10);
}

TEST_CASE("pointers say whose they are") {
  const InContext other(1);
  const Array<char> memory(1000);
  const PinnedMemory pinned = llvm::cantFail(allocatePinned(shim(), 100));
  const CUdeviceptr host = CUdeviceptr(pinned.get());
  const CUdeviceptr inside = memory.address() + 10;
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside).second ==
        CU_MEMORYTYPE_DEVICE);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside).second == 1);
  CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, inside).second == other.get());
  CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside).second ==
        memory.address());
  CHECK(attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside).second == 1000);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, inside).second == 1);
  CHECK(name(attribute<void *>(CU_POINTER_ATTRIBUTE_HOST_POINTER, inside).first) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host).second == CU_MEMORYTYPE_HOST);
  CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, host).second == host);
  CHECK(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, host).second !=
        attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, inside).second);
  int mine = 0;
  CHECK(name(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CUdeviceptr(&mine)).first) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory.address() + 1000).first) ==
        "CUDA_ERROR_INVALID_VALUE");
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CHECK(shim().cuMemGetAddressRange_v2(&base, &bytes, inside) == CUDA_SUCCESS);
  CHECK(base == memory.address());
  CHECK(bytes == 1000);
  CHECK(name(shim().cuMemGetAddressRange_v2(&base, &bytes, 8)) == "CUDA_ERROR_NOT_FOUND");
}

TEST_CASE("memory of the host is registered once") {
  const InContext context;
  std::vector<char> memory(10000);
  CUdeviceptr device = 0;
  CHECK(shim().cuMemHostRegister_v2(memory.data(), 10000, memHostRegisterPortable) == CUDA_SUCCESS);
  CHECK(name(shim().cuMemHostRegister_v2(memory.data() + 100, 10, 0)) ==
        "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED");
  CHECK(shim().cuMemHostGetDevicePointer_v2(&device, memory.data() + 1, 0) == CUDA_SUCCESS);
  CHECK(device == CUdeviceptr(memory.data() + 1));
  CHECK(shim().cuMemHostUnregister(memory.data()) == CUDA_SUCCESS);
  CHECK(name(shim().cuMemHostUnregister(memory.data())) == "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED");
  CHECK(name(shim().cuMemHostGetDevicePointer_v2(&device, memory.data(), 0)) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(shim().cuMemHostRegister_v2(reinterpret_cast<void *>(4096), 64, 0)) ==
        "CUDA_ERROR_INVALID_VALUE");
}

TEST_CASE("virtual memory is reserved, mapped, made accessible and given back") {
  const InContext context;
  const Driver &driver = shim();
  const CUmemAllocationProp prop = propOf(0);
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  size_t granularity = 0;
  CHECK(driver.cuMemGetAllocationGranularity(&granularity, &prop,
                                             CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
  CHECK(granularity == unit);
  CUmemGenericAllocationHandle first = 0, second = 0, again = 0;
  CHECK(name(driver.cuMemCreate(&first, 100, &prop, 0)) == "CUDA_ERROR_INVALID_VALUE");
  REQUIRE(driver.cuMemCreate(&first, unit, &prop, 0) == CUDA_SUCCESS);
  REQUIRE(driver.cuMemCreate(&second, 2 * unit, &prop, 0) == CUDA_SUCCESS);
  CUdeviceptr base = 0;
  REQUIRE(driver.cuMemAddressReserve(&base, 4 * unit, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(base % unit == 0);
  CHECK(driver.cuMemMap(base, unit, 0, first, 0) == CUDA_SUCCESS);
  CHECK(name(driver.cuMemMap(base, unit, 0, second, 0)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(driver.cuMemMap(base + 3 * unit, 2 * unit, 0, second, 0)) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(driver.cuMemMap(base + unit, 2 * unit, 0, second, 0) == CUDA_SUCCESS);
  CHECK(name(driver.cuMemsetD8Async(base, 1, 10, nullptr)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(driver.cuMemSetAccess(base, 4 * unit, &access, 1)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(driver.cuMemSetAccess(base, 3 * unit, &access, 1) == CUDA_SUCCESS);
  // Over the border of two allocations, and not over the end.
  CHECK(driver.cuMemsetD8Async(base + unit - 10, 7, 20, nullptr) == CUDA_SUCCESS);
  CHECK(name(driver.cuMemsetD8Async(base + 3 * unit - 10, 7, 20, nullptr)) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(driver.cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(reinterpret_cast<char *>(base)[unit + 9] == 7);
  CHECK(attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + unit).second == 4 * unit);
  CHECK(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, base).second ==
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK(driver.cuMemRetainAllocationHandle(&again, reinterpret_cast<void *>(base + 5)) ==
        CUDA_SUCCESS);
  CHECK(again == first);
  CHECK(driver.cuMemRelease(again) == CUDA_SUCCESS);
  CHECK(driver.cuMemRelease(first) == CUDA_SUCCESS);
  CHECK(driver.cuMemRelease(second) == CUDA_SUCCESS);
  CHECK(name(driver.cuMemRelease(second)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(reinterpret_cast<char *>(base)[unit - 1] == 7); // mapped, it lives on
  CHECK(name(driver.cuMemAddressFree(base, 4 * unit)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(driver.cuMemUnmap(base, 2 * unit)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(driver.cuMemUnmap(base, 3 * unit) == CUDA_SUCCESS);
  CHECK(driver.cuMemAddressFree(base, 4 * unit) == CUDA_SUCCESS);
  size_t available = 0, total = 0;
  CHECK(driver.cuMemGetInfo_v2(&available, &total) == CUDA_SUCCESS);
  CHECK(available == total);
}

TEST_CASE("what is not to be exported, or is no memory, is no descriptor") {
  const InContext context;
  const CUmemAllocationProp prop = propOf(0, false);
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(shim().cuMemCreate(&handle, unit, &prop, 0) == CUDA_SUCCESS);
  int file = -1;
  CHECK(name(shim().cuMemExportToShareableHandle(&file, handle,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)) ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(shim().cuMemRelease(handle) == CUDA_SUCCESS);
  for (const intptr_t wrong : {intptr_t(0), intptr_t(-1), intptr_t(9999)})
    CHECK(name(shim().cuMemImportFromShareableHandle(&handle, reinterpret_cast<void *>(wrong),
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) ==
          "CUDA_ERROR_INVALID_VALUE");
}
