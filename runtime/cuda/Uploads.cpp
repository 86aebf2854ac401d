//===- Uploads.cpp ----------------------------------------------------------===//
#include "runtime/cuda/Uploads.h"

#include "runtime/Memory.h"

#include "llvm/Support/xxhash.h"

#include <cstring>

namespace ccl::cuda {

/// Of a turn, and what a launch may bring when it has begun.
constexpr size_t turnBytes = 512 << 10, roomBytes = 2 * turnBytes;
/// Kernels read all kinds of structs there.
constexpr size_t boundary = 64;

llvm::Error Uploads::open(Turn &turn) {
  const Driver &driver = device.api();
  llvm::Expected<Event> event = makeEvent(driver);
  if (!event)
    return event.takeError();
  turn.over = std::move(*event);
  llvm::Expected<DeviceMemory> memory = allocate(driver, roomBytes);
  if (!memory)
    return memory.takeError();
  turn.memory = std::move(*memory);
  llvm::Expected<PinnedMemory> host = allocatePinned(driver, roomBytes);
  if (!host)
    return host.takeError();
  turn.host = std::move(*host);
  return llvm::Error::success();
}

llvm::Expected<uint64_t> Uploads::begin(CUstream stream) {
  if (Turn &turn = turns[number % 2]; turn.used + turn.largeBytes <= turnBytes)
    return number;
  llvm::Expected<ContextScope> scope = device.enter();
  if (!scope)
    return scope.takeError();
  const RelaxedCapture relaxed(device.api());
  const Driver &driver = device.api();
  Turn &ended = turns[number % 2];
  CUresult result = driver.cuEventRecord(ended.over.get(), stream);
  ended.isRecorded = result == CUDA_SUCCESS;
  Turn &next = turns[++number % 2];
  if (result == CUDA_SUCCESS && next.isRecorded)
    result = driver.cuEventSynchronize(next.over.get());
  if (llvm::Error e =
          driver.check(result, "wait for launches on GPU {} that used tables", device.ordinal()))
    return e;
  next.used = next.largeBytes = 0;
  next.large.clear();
  next.known.clear();
  return number;
}

llvm::Expected<CUdeviceptr> Uploads::uploadLarge(llvm::StringRef content) {
  Turn &turn = turns[number % 2];
  const RelaxedCapture relaxed(device.api());
  if (!turn.over) // `begin` records it
    if (llvm::Error e = open(turn))
      return e;
  llvm::Expected<DeviceMemory> memory = allocate(device.api(), content.size());
  if (!memory)
    return memory.takeError();
  const CUdeviceptr address = memory->get();
  turn.large.push_back(std::move(*memory));
  turn.largeBytes += content.size();
  if (llvm::Error e = device.write(address, content.data(), content.size()))
    return e;
  return address;
}

llvm::Expected<CUdeviceptr> Uploads::upload(CUstream stream, llvm::StringRef content) {
  Turn &turn = turns[number % 2];
  auto *host = static_cast<char *>(turn.host.get());
  // Two values of 64 bits are no keys.
  const uint64_t hash = llvm::xxh3_64bits(content) >> 1;
  const auto found = turn.known.find(hash);
  if (found != turn.known.end() &&
      llvm::StringRef(host + found->second.offset, found->second.bytes) == content)
    return turn.memory.get() + found->second.offset;
  llvm::Expected<ContextScope> scope = device.enter();
  if (!scope)
    return scope.takeError();
  if (turn.used + content.size() > roomBytes)
    return uploadLarge(content);
  if (!turn.host) {
    const RelaxedCapture relaxed(device.api());
    if (llvm::Error e = open(turn))
      return e;
    host = static_cast<char *>(turn.host.get());
  }
  const size_t offset = turn.used;
  const CUdeviceptr address = turn.memory.get() + offset;
  std::memcpy(host + offset, content.data(), content.size());
  turn.used = roundUp(offset + content.size(), boundary);
  const CUresult result =
      device.api().cuMemcpyHtoDAsync_v2(address, host + offset, content.size(), stream);
  if (llvm::Error e =
          device.api().check(result, "copy {} bytes to GPU {}", content.size(), device.ordinal()))
    return e;
  turn.known[hash] = {offset, content.size()};
  return address;
}

} // namespace ccl::cuda
