//===- Owners.cpp -----------------------------------------------------------===//
#include "runtime/cuda/Owners.h"

#include <cstring>

namespace ccl::cuda {

llvm::Expected<ContextScope> ContextScope::enter(const Driver &driver, CUcontext context) {
  CUcontext before = nullptr;
  if (llvm::Error e =
          driver.check(driver.cuCtxGetCurrent(&before), "find the context of CUDA that is current"))
    return e;
  if (before == context) // nothing to restore, either
    return ContextScope(nullptr, nullptr);
  if (llvm::Error e =
          driver.check(driver.cuCtxSetCurrent(context), "make a context of CUDA current"))
    return e;
  return ContextScope(&driver, before);
}

ContextScope::~ContextScope() {
  if (driver)
    driver->cuCtxSetCurrent(before);
}

llvm::Expected<PrimaryContext> PrimaryContext::retain(const Driver &driver, CUdevice device) {
  PrimaryContext result;
  if (llvm::Error e = driver.check(driver.cuDevicePrimaryCtxRetain(&result.context, device),
                                   "open GPU {}", device))
    return e;
  result.driver = &driver;
  result.number = device;
  return result;
}

PrimaryContext &PrimaryContext::operator=(PrimaryContext &&other) noexcept {
  PrimaryContext old(std::move(*this));
  swap(other);
  return *this;
}

PrimaryContext::~PrimaryContext() {
  if (driver)
    driver->cuDevicePrimaryCtxRelease_v2(number);
}

/// What `make` puts into a handle, owned.
template <typename Owner, typename Handle, typename Make, typename... T>
static llvm::Expected<Owner> own(const Driver &driver, Handle handle, Make make,
                                 fmt::format_string<T...> attempt, T &&...values) {
  CUcontext context = nullptr;
  CUresult result = driver.cuCtxGetCurrent(&context);
  if (result == CUDA_SUCCESS && !context)
    result = CUDA_ERROR_INVALID_CONTEXT;
  if (result == CUDA_SUCCESS)
    result = make(&handle);
  if (llvm::Error e = driver.check(result, attempt, std::forward<T>(values)...))
    return e;
  return Owner(driver, context, handle);
}

llvm::Expected<Stream> makeStream(const Driver &driver, unsigned flags) {
  return own<Stream>(
      driver, CUstream(), [&](CUstream *to) { return driver.cuStreamCreate(to, flags); },
      "make a stream of CUDA");
}

llvm::Expected<Event> makeEvent(const Driver &driver, unsigned flags) {
  return own<Event>(
      driver, CUevent(), [&](CUevent *to) { return driver.cuEventCreate(to, flags); },
      "make an event of CUDA");
}

llvm::Expected<Module> loadModule(const Driver &driver, llvm::StringRef image) {
  return own<Module>(
      driver, CUmodule(), [&](CUmodule *to) { return driver.cuModuleLoadData(to, image.data()); },
      "load {} bytes of code onto a GPU", image.size());
}

llvm::Expected<CUfunction> findFunction(const Driver &driver, const Module &module,
                                        const std::string &name) {
  CUfunction function = nullptr;
  if (llvm::Error e =
          driver.check(driver.cuModuleGetFunction(&function, module.get(), name.c_str()),
                       "find the kernel {}", name))
    return e;
  return function;
}

llvm::Expected<DeviceMemory> allocate(const Driver &driver, size_t bytes) {
  return own<DeviceMemory>(
      driver, CUdeviceptr(), [&](CUdeviceptr *to) { return driver.cuMemAlloc_v2(to, bytes); },
      "allocate {} bytes on a GPU", bytes);
}

llvm::Expected<PinnedMemory> allocatePinned(const Driver &driver, size_t bytes) {
  llvm::Expected<PinnedMemory> memory = own<PinnedMemory>(
      driver, static_cast<void *>(nullptr),
      [&](void **to) {
        return driver.cuMemHostAlloc(to, bytes, memHostAllocPortable | memHostAllocDeviceMap);
      },
      "allocate {} bytes that GPUs see on the host", bytes);
  if (memory)
    std::memset(memory->get(), 0, bytes);
  return memory;
}

} // namespace ccl::cuda
