//===- Device.cpp -----------------------------------------------------------===//
#include "runtime/cuda/Device.h"

#include "runtime/Memory.h"

#include "llvm/Support/xxhash.h"

#include <cstring>

namespace ccl::cuda {

/// What small requests are cut from.
constexpr size_t blockBytes = 1 << 20, boundary = 256;
/// Of copies in flight, of which a launch makes a few of some hundred bytes.
constexpr size_t stagingBytes = 256 << 10;

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

llvm::Expected<Device::Upload> Device::place(size_t bytes) {
  for (size_t p = 0; p < pages.size(); ++p)
    if (std::optional<uint64_t> offset = pages[p].arena.allocate(bytes))
      return Upload{p, *offset, false, false};
  llvm::Expected<ContextScope> scope = enter();
  if (!scope)
    return scope.takeError();
  const uint64_t size = std::max<uint64_t>(blockBytes, Arena::extent(bytes));
  llvm::Expected<DeviceMemory> memory = allocate(*driver, size);
  if (!memory)
    return memory.takeError();
  pages.push_back({std::move(*memory), Arena(0, size)});
  return Upload{pages.size() - 1, *pages.back().arena.allocate(bytes), false, false};
}

size_t Device::ContentHash::operator()(llvm::StringRef content) const {
  return llvm::xxh3_64bits(content);
}

llvm::Expected<CUdeviceptr> Device::upload(llvm::StringRef content, bool pinned) {
  auto found = uploads.find(content);
  const bool isNew = found == uploads.end();
  if (isNew) {
    llvm::Expected<Upload> placed = place(content.size());
    if (!placed)
      return placed.takeError();
    found = uploads.emplace(content.str(), *placed).first;
    unpinnedBytes += content.size();
  }
  Upload &upload = found->second;
  // A stream may be about to copy the same bytes there: nobody sees a difference.
  if (!std::exchange(upload.done, true))
    if (llvm::Error e = write(addressOf(upload), content.data(), content.size())) {
      upload.done = false;
      return e;
    }
  if (pinned && !std::exchange(upload.pinned, true))
    unpinnedBytes -= content.size();
  return addressOf(upload);
}

llvm::Expected<CUdeviceptr> Device::uploadIn(CUstream stream, llvm::StringRef content) {
  if (const auto found = uploads.find(content); found != uploads.end())
    return addressOf(found->second);
  if (content.size() > stagingBytes / 2)
    return upload(content, /*pinned=*/false);
  llvm::Expected<Upload> placed = place(content.size());
  if (!placed)
    return placed.takeError();
  if (llvm::Error e = stage(addressOf(*placed), content, stream)) {
    pages[placed->page].arena.release(placed->offset, content.size());
    return e;
  }
  uploads.emplace(content.str(), *placed);
  unpinnedBytes += content.size();
  return addressOf(*placed);
}

llvm::Error Device::openStaging() {
  const RelaxedCapture relaxed(*driver);
  for (Event &event : staging.over) {
    llvm::Expected<Event> made = makeEvent(*driver);
    if (!made)
      return made.takeError();
    event = std::move(*made);
  }
  llvm::Expected<PinnedMemory> memory = allocatePinned(*driver, stagingBytes);
  if (!memory)
    return memory.takeError();
  staging.memory = std::move(*memory);
  return llvm::Error::success();
}

/// `stream` comes after all that copied from this half; what copied from the other is waited for.
llvm::Error Device::changeHalves(CUstream stream) {
  const RelaxedCapture relaxed(*driver);
  CUresult result = driver->cuEventRecord(staging.over[staging.half].get(), stream);
  staging.recorded[staging.half] = true;
  staging.half ^= 1;
  staging.used = 0;
  if (result == CUDA_SUCCESS && staging.recorded[staging.half])
    result = driver->cuEventSynchronize(staging.over[staging.half].get());
  return driver->check(result, "wait for copies to GPU {}", number);
}

llvm::Error Device::stage(CUdeviceptr to, llvm::StringRef content, CUstream stream) {
  llvm::Expected<ContextScope> scope = enter();
  if (!scope)
    return scope.takeError();
  if (!staging.memory)
    if (llvm::Error e = openStaging())
      return e;
  if (staging.used + content.size() > stagingBytes / 2)
    if (llvm::Error e = changeHalves(stream))
      return e;
  char *from =
      static_cast<char *>(staging.memory.get()) + staging.half * (stagingBytes / 2) + staging.used;
  std::memcpy(from, content.data(), content.size());
  staging.used += content.size();
  return driver->check(driver->cuMemcpyHtoDAsync_v2(to, from, content.size(), stream),
                       "copy {} bytes to GPU {}", content.size(), number);
}

void Device::releaseUploads() {
  std::erase_if(uploads, [&](const auto &entry) {
    if (entry.second.pinned)
      return false;
    pages[entry.second.page].arena.release(entry.second.offset, entry.first.size());
    return true;
  });
  unpinnedBytes = 0;
}

} // namespace ccl::cuda
