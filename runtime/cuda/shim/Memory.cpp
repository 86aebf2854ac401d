//===- Memory.cpp -----------------------------------------------------------===//
#include "runtime/cuda/shim/Memory.h"

#include "runtime/Memory.h"
#include "runtime/cuda/shim/Stream.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

namespace ccl::cuda::shim {
namespace {

constexpr size_t page = 4096;

size_t wholePages(size_t bytes) { return (bytes + page - 1) / page * page; }

void *address(uintptr_t base) { return reinterpret_cast<void *>(base); }
uintptr_t number(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

/// What a CUipcMemHandle holds here.
struct IpcHandle {
  char magic[8];
  uint64_t cookie, id;
  int64_t offset;
  uint64_t bytes;
  int32_t process, file, device, reserved;
};
static_assert(sizeof(IpcHandle) <= sizeof(CUipcMemHandle));
constexpr char ipcMagic[8] = {'c', 'c', 'l', 's', 'h', 'i', 'm', '1'};

/// Whether the process has all these bytes: asks the kernel, as a look would end the process.
bool isMapped(uintptr_t from, size_t bytes) {
  constexpr size_t some = 1024;
  unsigned char resident[some];
  if (from + bytes < from)
    return false;
  for (uintptr_t at = from / page * page; at < from + bytes; at += some * page)
    if (mincore(address(at), std::min(wholePages(from + bytes - at), some * page), resident) != 0)
      return false;
  return true;
}

/// Of a file, what was touched.
size_t touchedBytes(int file) {
  struct stat status;
  return file >= 0 && fstat(file, &status) == 0 ? size_t(status.st_blocks) * 512 : 0;
}

} // namespace

Allocation::~Allocation() {
  close(file);
  if (used)
    *used -= bytes;
}

bool Range::isAccessible() const {
  return kind != Kind::Mapped ||
         std::any_of(std::begin(access), std::end(access), [](unsigned flags) { return flags; });
}

bool Memory::hasRoom(size_t bytes) const {
  // What is small does no harm, and a look is slow.
  if (bytes < size_t(16) << 20)
    return true;
  size_t allocated = 0, touched = touchedBytes(heap);
  for (const std::atomic<size_t> &used : usedBytes)
    allocated += used;
  std::set<const Allocation *> own;
  for (const auto &[handle, allocation] : allocations)
    own.insert(allocation.get());
  for (const auto &[base, range] : ranges)
    own.insert(range.allocation.get());
  for (const Allocation *allocation : own)
    if (allocation && allocation->used)
      touched += touchedBytes(allocation->file);
  const size_t promised = allocated - std::min(allocated, touched);
  const uint64_t available = availableMemory();
  return promised <= available && bytes <= available - promised;
}

CUresult Memory::openHeap() {
  if (heap >= 0)
    return CUDA_SUCCESS;
  if (getrandom(&cookie, sizeof cookie, 0) != sizeof cookie)
    return CUDA_ERROR_OPERATING_SYSTEM;
  const int made = memfd_create("ccl-shim-heap", MFD_CLOEXEC);
  if (made < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  if (pwrite(made, &cookie, sizeof cookie, 0) != sizeof cookie || ftruncate(made, page) != 0) {
    close(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  heap = made;
  heapEnd = page;
  return CUDA_SUCCESS;
}

CUresult Memory::allocate(const std::shared_ptr<Context> &context, int device, size_t bytes,
                          CUdeviceptr &pointer) {
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  std::atomic<size_t> &used = usedBytes[device];
  if (bytes > deviceBytes - used || !hasRoom(bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (const CUresult result = openHeap(); result != CUDA_SUCCESS)
    return result;
  const size_t mapped = wholePages(bytes);
  // Offsets are never used again, so that an old handle never reaches new memory.
  if (ftruncate(heap, heapEnd + int64_t(mapped)) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  void *memory =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, heap, heapEnd);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  Range range;
  range.base = number(memory);
  range.bytes = bytes;
  range.device = device;
  range.id = nextId++;
  range.context = context;
  range.offset = heapEnd;
  heapEnd += int64_t(mapped);
  used += bytes;
  pointer = range.base;
  ranges.emplace(range.base, std::move(range));
  return CUDA_SUCCESS;
}

/// The pages of a range that goes. Under the mutex.
void Memory::unmapRange(const Range &range) {
  if (range.kind == Kind::Registered)
    return;
  munmap(address(range.base), wholePages(range.bytes));
  if (range.kind != Kind::Device)
    return;
  usedBytes[range.device] -= range.bytes;
  // Who still maps it in another process sees zeros.
  fallocate(heap, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, range.offset,
            off_t(wholePages(range.bytes)));
}

CUresult Memory::owner(CUdeviceptr pointer, std::shared_ptr<Context> &context) const {
  std::lock_guard lock(mutex);
  auto found = ranges.find(pointer);
  if (found == ranges.end() ||
      (found->second.kind != Kind::Device && found->second.kind != Kind::Host))
    return CUDA_ERROR_INVALID_VALUE;
  context = found->second.context.lock();
  return CUDA_SUCCESS;
}

CUresult Memory::free(CUdeviceptr pointer) {
  std::lock_guard lock(mutex);
  auto found = ranges.find(pointer);
  if (found == ranges.end() || found->second.kind != Kind::Device)
    return CUDA_ERROR_INVALID_VALUE;
  unmapRange(found->second);
  ranges.erase(found);
  return CUDA_SUCCESS;
}

CUresult Memory::allocateHost(const std::shared_ptr<Context> &context, int device, size_t bytes,
                              void *&pointer) {
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes > deviceBytes || bytes > availableMemory())
    return CUDA_ERROR_OUT_OF_MEMORY;
  void *memory = mmap(nullptr, wholePages(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(mutex);
  Range range;
  range.kind = Kind::Host;
  range.base = number(memory);
  range.bytes = bytes;
  range.device = device;
  range.id = nextId++;
  range.context = context;
  pointer = memory;
  ranges.emplace(range.base, std::move(range));
  return CUDA_SUCCESS;
}

CUresult Memory::freeHost(void *pointer) {
  std::lock_guard lock(mutex);
  auto found = ranges.find(number(pointer));
  if (found == ranges.end() || found->second.kind != Kind::Host)
    return CUDA_ERROR_INVALID_VALUE;
  unmapRange(found->second);
  ranges.erase(found);
  return CUDA_SUCCESS;
}

CUresult Memory::addHost(const std::shared_ptr<Context> &context, int device, void *pointer,
                         size_t bytes) {
  const uintptr_t base = number(pointer);
  if (!pointer || bytes == 0 || !isMapped(base, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  auto after = ranges.lower_bound(base + bytes);
  if (after != ranges.begin() && std::prev(after)->first + std::prev(after)->second.bytes > base)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Range range;
  range.kind = Kind::Registered;
  range.base = base;
  range.bytes = bytes;
  range.device = device;
  range.id = nextId++;
  range.context = context;
  ranges.emplace(base, std::move(range));
  return CUDA_SUCCESS;
}

CUresult Memory::removeHost(void *pointer) {
  std::lock_guard lock(mutex);
  auto found = ranges.find(number(pointer));
  if (found == ranges.end() || found->second.kind != Kind::Registered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  ranges.erase(found);
  return CUDA_SUCCESS;
}

void Memory::freeAll(const Context &context) {
  std::lock_guard lock(mutex);
  for (auto it = ranges.begin(); it != ranges.end();) {
    auto next = std::next(it);
    if (it->second.kind != Kind::Mapped && it->second.context.lock().get() == &context) {
      unmapRange(it->second);
      ranges.erase(it);
    }
    it = next;
  }
}

const Range *Memory::lookUp(uintptr_t pointer) const {
  auto after = ranges.upper_bound(pointer);
  if (after == ranges.begin())
    return nullptr;
  const Range &range = std::prev(after)->second;
  return pointer - range.base < range.bytes ? &range : nullptr;
}

std::optional<Range> Memory::find(CUdeviceptr pointer) const {
  std::lock_guard lock(mutex);
  const Range *range = lookUp(pointer);
  return range ? std::optional(*range) : std::nullopt;
}

std::optional<std::pair<uintptr_t, size_t>> Memory::reservation(CUdeviceptr pointer) const {
  std::lock_guard lock(mutex);
  auto after = reservations.upper_bound(pointer);
  if (after == reservations.begin() ||
      pointer - std::prev(after)->first >= std::prev(after)->second)
    return std::nullopt;
  return *std::prev(after);
}

Known Memory::know(CUdeviceptr pointer, size_t bytes) const {
  if (pointer + bytes < pointer)
    return Known::No;
  {
    std::lock_guard lock(mutex);
    const Range *range = lookUp(pointer);
    uintptr_t at = pointer;
    while (range && range->isAccessible()) {
      const uintptr_t end = range->base + range->bytes;
      if (end >= pointer + bytes)
        return Known::Yes;
      // Only mappings of one reservation go on in the next one.
      const Range *next = range->kind == Kind::Mapped ? lookUp(end) : nullptr;
      at = end;
      range = next;
    }
    if (range || at != pointer)
      return Known::No;
  }
  return isMapped(pointer, bytes) ? Known::Pageable : Known::No;
}

size_t Memory::used(int device) const { return usedBytes[device]; }

CUresult Memory::exportIpc(CUdeviceptr pointer, CUipcMemHandle &handle) {
  std::lock_guard lock(mutex);
  const Range *range = lookUp(pointer);
  if (!range || range->kind != Kind::Device)
    return CUDA_ERROR_INVALID_VALUE;
  IpcHandle out = {};
  std::memcpy(out.magic, ipcMagic, sizeof ipcMagic);
  out.cookie = cookie;
  out.id = range->id;
  out.offset = range->offset;
  out.bytes = range->bytes;
  out.process = getpid();
  out.file = heap;
  out.device = range->device;
  handle = {};
  std::memcpy(handle.reserved, &out, sizeof out);
  return CUDA_SUCCESS;
}

CUresult Memory::importIpc(const std::shared_ptr<Context> &context, const CUipcMemHandle &handle,
                           CUdeviceptr &pointer) {
  IpcHandle in;
  std::memcpy(&in, handle.reserved, sizeof in);
  if (std::memcmp(in.magic, ipcMagic, sizeof ipcMagic) != 0 || in.bytes == 0 ||
      in.bytes > deviceBytes || in.offset <= 0 || in.offset % int64_t(page) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (in.process == getpid())
    return CUDA_ERROR_INVALID_CONTEXT;
  const std::string source(handle.reserved, sizeof in);
  std::lock_guard lock(mutex);
  for (auto &[base, range] : ranges)
    if (range.kind == Kind::Imported && range.source == source && range.context.lock() == context) {
      ++range.opens;
      pointer = base;
      return CUDA_SUCCESS;
    }
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", in.process, in.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t theirs = 0;
  void *memory = MAP_FAILED;
  // Mapped behind its end, the first touch would end the process.
  const bool same = pread(file, &theirs, sizeof theirs, 0) == sizeof theirs &&
                    theirs == in.cookie &&
                    lseek(file, 0, SEEK_END) >= in.offset + int64_t(wholePages(in.bytes));
  if (same)
    memory = mmap(nullptr, wholePages(in.bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                  file, in.offset);
  close(file);
  if (memory == MAP_FAILED)
    return same ? CUDA_ERROR_MAP_FAILED : CUDA_ERROR_INVALID_VALUE;
  Range range;
  range.kind = Kind::Imported;
  range.base = number(memory);
  range.bytes = in.bytes;
  range.device = in.device;
  range.id = nextId++;
  range.context = context;
  range.source = source;
  pointer = range.base;
  ranges.emplace(range.base, std::move(range));
  return CUDA_SUCCESS;
}

CUresult Memory::closeIpc(CUdeviceptr pointer) {
  std::lock_guard lock(mutex);
  auto found = ranges.find(pointer);
  if (found == ranges.end() || found->second.kind != Kind::Imported)
    return CUDA_ERROR_INVALID_VALUE;
  if (--found->second.opens > 0)
    return CUDA_SUCCESS;
  unmapRange(found->second);
  ranges.erase(found);
  return CUDA_SUCCESS;
}

} // namespace ccl::cuda::shim
