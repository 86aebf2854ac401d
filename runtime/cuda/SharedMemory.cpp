//===- SharedMemory.cpp -----------------------------------------------------===//
#include "runtime/cuda/SharedMemory.h"

#include "runtime/Memory.h"

namespace ccl::cuda {
namespace {

CUmemAllocationProp propertiesOn(const Device &device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device.ordinal()};
  return prop;
}

} // namespace

llvm::Expected<Sharing> SharedMemory::waysOf(const Device &device) {
  const Driver &driver = device.api();
  for (CUdevice_attribute attribute :
       {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    int has = 0;
    if (llvm::Error e =
            driver.check(driver.cuDeviceGetAttribute(&has, attribute, device.context().device()),
                         "ask GPU {} for attribute {}", device.ordinal(), unsigned(attribute)))
      return e;
    if (!has)
      return Sharing::Ipc;
  }
  return Sharing::Virtual;
}

llvm::Expected<SharedMemory> SharedMemory::allocate(Device &device, size_t bytes, Sharing sharing) {
  const Driver &driver = device.api();
  llvm::Expected<ContextScope> scope = device.enter();
  if (!scope)
    return scope.takeError();
  SharedMemory memory(device);
  memory.way = sharing;
  const CUmemAllocationProp prop = propertiesOn(device);
  size_t granularity = size_t(2) << 20; // what the driver allocates anyway
  if (sharing == Sharing::Virtual)
    if (llvm::Error e = driver.check(driver.cuMemGetAllocationGranularity(
                                         &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                                     "ask for the granularity of memory"))
      return e;
  if (bytes > SIZE_MAX - granularity)
    return makeFailure(Failure::BadArgument, "{} bytes are more than any GPU has", bytes);
  memory.size = roundUp(std::max<size_t>(bytes, 1), granularity);
  if (sharing == Sharing::Ipc) {
    llvm::Expected<DeviceMemory> ordinary = cuda::allocate(driver, memory.size);
    if (!ordinary)
      return ordinary.takeError();
    memory.ordinary = std::move(*ordinary);
    memory.address = memory.ordinary.get();
  } else {
    if (llvm::Error e = driver.check(driver.cuMemCreate(&memory.handle, memory.size, &prop, 0),
                                     "allocate {} bytes of GPU {} that other processes can map",
                                     memory.size, device.ordinal()))
      return e;
    memory.hasHandle = true;
    if (llvm::Error e = memory.map())
      return e;
  }
  CUresult result = driver.cuMemsetD8Async(memory.address, 0, memory.size, device.stream());
  if (result == CUDA_SUCCESS)
    result = driver.cuStreamSynchronize(device.stream());
  if (llvm::Error e =
          driver.check(result, "zero {} bytes on GPU {}", memory.size, device.ordinal()))
    return e;
  return memory;
}

llvm::Error SharedMemory::map() {
  const Driver &driver = device->api();
  if (llvm::Error e = driver.check(driver.cuMemAddressReserve(&address, size, 0, 0, 0),
                                   "find addresses for {} bytes", size))
    return e;
  if (llvm::Error e = driver.check(driver.cuMemMap(address, size, 0, handle, 0),
                                   "map {} bytes on GPU {}", size, device->ordinal()))
    return e;
  mapped = true;
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal()},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return driver.check(driver.cuMemSetAccess(address, size, &access, 1),
                      "let GPU {} use {} bytes of another process", device->ordinal(), size);
}

llvm::Expected<SharedMemory> SharedMemory::adopt(Device &device, CUdeviceptr pointer) {
  const Driver &driver = device.api();
  llvm::Expected<ContextScope> scope = device.enter();
  if (!scope)
    return scope.takeError();
  SharedMemory memory(device);
  memory.adopted = true;
  auto refuse = [&](CUresult result, std::string_view what) {
    return makeFailure(Failure::BadArgument, "cannot register memory at {:#x} of GPU {}: {} ({})",
                       pointer, device.ordinal(), what, driver.describe(result));
  };
  if (const CUresult result =
          driver.cuMemGetAddressRange_v2(&memory.address, &memory.size, pointer))
    return refuse(result, "it is not from CUDA");
  if (driver.cuMemRetainAllocationHandle(&memory.handle, pointerTo<void>(pointer)) ==
      CUDA_SUCCESS) {
    memory.hasHandle = true;
    return memory;
  }
  memory.way = Sharing::Ipc;
  CUipcMemHandle probe{};
  if (const CUresult result = driver.cuIpcGetMemHandle(&probe, memory.address))
    return refuse(result, "it must come from cuMemAlloc or from cuMemCreate");
  return memory;
}

llvm::Expected<MemoryOffer> SharedMemory::offer(Descriptor &descriptor) const {
  const Driver &driver = device->api();
  llvm::Expected<ContextScope> scope = device->enter();
  if (!scope)
    return scope.takeError();
  MemoryOffer result;
  result.sharing = way;
  result.bytes = size;
  if (way == Sharing::Ipc) {
    if (llvm::Error e = driver.check(driver.cuIpcGetMemHandle(&result.handle, address),
                                     "share {} bytes of GPU {}", size, device->ordinal()))
      return e;
    return result;
  }
  int number = -1;
  const CUresult exported = driver.cuMemExportToShareableHandle(
      &number, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (exported != CUDA_SUCCESS && adopted)
    return makeFailure(Failure::BadArgument,
                       "cannot register memory at {:#x} of GPU {}: it was not made to be shared "
                       "through a file descriptor ({})",
                       address, device->ordinal(), driver.describe(exported));
  if (llvm::Error e = driver.check(exported, "share {} bytes of GPU {}", size, device->ordinal()))
    return e;
  descriptor = Descriptor(number);
  return result;
}

llvm::Expected<SharedMemory> SharedMemory::import(Device &device, const MemoryOffer &offer,
                                                  Descriptor descriptor) {
  const Driver &driver = device.api();
  llvm::Expected<ContextScope> scope = device.enter();
  if (!scope)
    return scope.takeError();
  SharedMemory memory(device);
  memory.way = offer.sharing;
  memory.size = offer.bytes;
  memory.imported = true;
  if (offer.sharing == Sharing::Ipc) {
    if (llvm::Error e = driver.check(
            driver.cuIpcOpenMemHandle_v2(&memory.address, offer.handle,
                                         CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            "open {} bytes of another process on GPU {}", offer.bytes, device.ordinal()))
      return e;
    memory.mapped = true;
    return memory;
  }
  // The driver takes the number itself for a pointer.
  void *number = reinterpret_cast<void *>(intptr_t(descriptor.get()));
  if (llvm::Error e = driver.check(
          driver.cuMemImportFromShareableHandle(&memory.handle, number,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
          "take {} bytes of another process for GPU {}", offer.bytes, device.ordinal()))
    return e;
  memory.hasHandle = true;
  if (llvm::Error e = memory.map())
    return e;
  return memory;
}

SharedMemory::~SharedMemory() {
  if (!device || (!hasHandle && !mapped))
    return;
  llvm::Expected<ContextScope> scope = device->enter();
  if (!scope) {
    llvm::consumeError(scope.takeError());
    return;
  }
  const Driver &driver = device->api();
  if (way == Sharing::Ipc) {
    if (imported && mapped)
      driver.cuIpcCloseMemHandle(address);
    return;
  }
  if (!adopted) {
    if (mapped)
      driver.cuMemUnmap(address, size);
    if (address)
      driver.cuMemAddressFree(address, size);
  }
  if (hasHandle)
    driver.cuMemRelease(handle);
}

void SharedMemory::swap(SharedMemory &other) noexcept {
  std::swap(device, other.device);
  std::swap(way, other.way);
  std::swap(adopted, other.adopted);
  std::swap(imported, other.imported);
  std::swap(mapped, other.mapped);
  std::swap(address, other.address);
  std::swap(size, other.size);
  std::swap(handle, other.handle);
  std::swap(hasHandle, other.hasHandle);
  std::swap(ordinary, other.ordinary);
}

} // namespace ccl::cuda
