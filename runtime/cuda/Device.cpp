//===- Device.cpp -----------------------------------------------------------===//
#include "runtime/cuda/Device.h"

#include "runtime/Memory.h"

namespace ccl::cuda {

/// What small requests are cut from.
constexpr size_t blockBytes = 1 << 20, boundary = 256;

llvm::Expected<std::unique_ptr<Device>> Device::open(const Driver &driver, int ordinal) {
  std::unique_ptr<Device> device(new Device(driver));
  device->number = ordinal;
  int count = 0, cooperative = 0;
  if (llvm::Error e = driver.check(driver.cuDeviceGetCount(&count), "count the GPUs"))
    return e;
  if (ordinal < 0 || ordinal >= count)
    return makeFailure(Failure::BadArgument, "there is no GPU {}: this machine has {}", ordinal,
                       count);
  CUdevice handle = 0;
  if (llvm::Error e = driver.check(driver.cuDeviceGet(&handle, ordinal), "find GPU {}", ordinal))
    return e;
  const std::pair<CUdevice_attribute, int *> facts[] = {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device->processors},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, &device->blocksOfEach},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, &cooperative}};
  for (const auto &[attribute, value] : facts)
    if (llvm::Error e = driver.check(driver.cuDeviceGetAttribute(value, attribute, handle),
                                     "ask GPU {} for attribute {}", ordinal, unsigned(attribute)))
      return e;
  if (!cooperative)
    return makeFailure(Failure::Machine,
                       "GPU {} has no cooperative launches: blocks that wait for "
                       "each other would wait for ever",
                       ordinal);
  llvm::Expected<PrimaryContext> context = PrimaryContext::retain(driver, handle);
  if (!context)
    return context.takeError();
  device->primary = std::move(*context);
  llvm::Expected<ContextScope> scope = device->enter();
  if (!scope)
    return scope.takeError();
  llvm::Expected<Stream> stream = makeStream(driver);
  if (!stream)
    return stream.takeError();
  device->own = std::move(*stream);
  return device;
}

llvm::Error Device::reachPeer(const Device &other) const {
  int can = 0;
  if (llvm::Error e = driver->check(
          driver->cuDeviceCanAccessPeer(&can, primary.device(), other.primary.device()),
          "ask whether GPU {} reaches GPU {}", number, other.number))
    return e;
  if (!can)
    return makeFailure(Failure::Machine,
                       "GPU {} cannot use memory of GPU {}: a communicator needs "
                       "GPUs that reach each other",
                       number, other.number);
  llvm::Expected<ContextScope> scope = enter();
  if (!scope)
    return scope.takeError();
  const CUresult result = driver->cuCtxEnablePeerAccess(other.primary.get(), 0);
  if (result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
    return llvm::Error::success();
  return driver->check(result, "let GPU {} use memory of GPU {}", number, other.number);
}

llvm::Expected<CUdeviceptr> Device::allocateZeroed(size_t bytes) {
  llvm::Expected<ContextScope> scope = enter();
  if (!scope)
    return scope.takeError();
  llvm::Expected<DeviceMemory> memory = allocate(*driver, bytes);
  if (!memory)
    return memory.takeError();
  const CUdeviceptr address = memory->get();
  blocks.push_back(std::move(*memory));
  CUresult result = driver->cuMemsetD8Async(address, 0, bytes, own.get());
  if (result == CUDA_SUCCESS)
    result = driver->cuStreamSynchronize(own.get());
  if (llvm::Error e = driver->check(result, "zero {} bytes on GPU {}", bytes, number))
    return e;
  return address;
}

llvm::Expected<CUdeviceptr> Device::take(size_t bytes) {
  bytes = roundUp(std::max<size_t>(bytes, 1), boundary);
  if (bytes > blockBytes / 4)
    return allocateZeroed(bytes);
  if (bytes > left) {
    llvm::Expected<CUdeviceptr> block = allocateZeroed(blockBytes);
    if (!block)
      return block.takeError();
    next = *block;
    left = blockBytes;
  }
  left -= bytes;
  return std::exchange(next, next + bytes);
}

llvm::Error Device::write(CUdeviceptr to, const void *from, size_t bytes) const {
  llvm::Expected<ContextScope> scope = enter();
  if (!scope)
    return scope.takeError();
  CUresult result = driver->cuMemcpyHtoDAsync_v2(to, from, bytes, own.get());
  if (result == CUDA_SUCCESS)
    result = driver->cuStreamSynchronize(own.get());
  return driver->check(result, "copy {} bytes to GPU {}", bytes, number);
}

llvm::Error Device::fill(CUdeviceptr to, uint32_t word, size_t bytes) const {
  llvm::Expected<ContextScope> scope = enter();
  if (!scope)
    return scope.takeError();
  CUresult result = driver->cuMemsetD32Async(to, word, bytes / 4, own.get());
  if (result == CUDA_SUCCESS)
    result = driver->cuStreamSynchronize(own.get());
  return driver->check(result, "fill {} bytes of GPU {}", bytes, number);
}

llvm::Error Device::read(void *to, CUdeviceptr from, size_t bytes) const {
  llvm::Expected<ContextScope> scope = enter();
  if (!scope)
    return scope.takeError();
  CUresult result = driver->cuMemcpyDtoHAsync_v2(to, from, bytes, own.get());
  if (result == CUDA_SUCCESS)
    result = driver->cuStreamSynchronize(own.get());
  return driver->check(result, "copy {} bytes from GPU {}", bytes, number);
}

llvm::Expected<CUdeviceptr> Device::upload(llvm::StringRef content) {
  if (const auto found = uploads.find(std::string_view(content)); found != uploads.end())
    return found->second;
  llvm::Expected<CUdeviceptr> address = take(content.size());
  if (!address)
    return address;
  if (llvm::Error e = write(*address, content.data(), content.size()))
    return e;
  uploads.emplace(content.str(), *address);
  return address;
}

} // namespace ccl::cuda
