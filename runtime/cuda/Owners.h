//===- Owners.h - What is got from CUDA's driver and given back -------------------===//
//
// Each owner can be moved, gives back what it holds at its end, and may do so on any thread:
// it remembers the context that was current when it was made. Errors while giving back are not
// told: nobody could do anything about them.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/Driver.h"

#include <utility>

namespace ccl::cuda {

/// Makes `context` current on this thread, and what was current before again at its end.
class ContextScope {
public:
  static llvm::Expected<ContextScope> enter(const Driver &driver, CUcontext context);
  /// Where it is current already.
  static ContextScope none() { return {nullptr, nullptr}; }
  ContextScope(ContextScope &&other) noexcept
      : driver(std::exchange(other.driver, nullptr)), before(other.before) {}
  ContextScope &operator=(ContextScope &&) = delete;
  ~ContextScope();

private:
  ContextScope(const Driver *driver, CUcontext before) : driver(driver), before(before) {}
  const Driver *driver;
  CUcontext before;
};

/// Holds a device's primary context.
class PrimaryContext {
public:
  PrimaryContext() = default;
  static llvm::Expected<PrimaryContext> retain(const Driver &driver, CUdevice device);
  PrimaryContext(PrimaryContext &&other) noexcept { swap(other); }
  PrimaryContext &operator=(PrimaryContext &&other) noexcept;
  ~PrimaryContext();

  CUcontext get() const { return context; }
  CUdevice device() const { return number; }
  llvm::Expected<ContextScope> enter() const { return ContextScope::enter(*driver, context); }

private:
  void swap(PrimaryContext &other) noexcept {
    std::swap(driver, other.driver);
    std::swap(context, other.context);
    std::swap(number, other.number);
  }
  const Driver *driver = nullptr;
  CUcontext context = nullptr;
  CUdevice number = 0;
};

/// A handle of the current context. `giveBack` is the driver's function for it.
template <typename Handle, CUresult (*Driver::*giveBack)(Handle)>
class Owner {
public:
  Owner() = default;
  Owner(const Driver &driver, CUcontext context, Handle handle)
      : driver(&driver), context(context), handle(handle) {}
  Owner(Owner &&other) noexcept { swap(other); }
  Owner &operator=(Owner &&other) noexcept {
    Owner old(std::move(*this));
    swap(other);
    return *this;
  }
  ~Owner() { reset(); }

  Handle get() const { return handle; }
  explicit operator bool() const { return handle != Handle(); }
  void reset() {
    if (const Handle old = std::exchange(handle, Handle()); old != Handle()) {
      llvm::Expected<ContextScope> scope = ContextScope::enter(*driver, context);
      if (scope)
        (driver->*giveBack)(old);
      else
        llvm::consumeError(scope.takeError());
    }
  }

private:
  void swap(Owner &other) noexcept {
    std::swap(driver, other.driver);
    std::swap(context, other.context);
    std::swap(handle, other.handle);
  }
  const Driver *driver = nullptr;
  CUcontext context = nullptr;
  Handle handle{};
};

using Stream = Owner<CUstream, &Driver::cuStreamDestroy_v2>;
using Event = Owner<CUevent, &Driver::cuEventDestroy_v2>;
using Module = Owner<CUmodule, &Driver::cuModuleUnload>;
using GraphExec = Owner<CUgraphExec, &Driver::cuGraphExecDestroy>;
using Graph = Owner<CUgraph, &Driver::cuGraphDestroy>;
/// Memory of a GPU. Giving it back waits for what its context still does.
using DeviceMemory = Owner<CUdeviceptr, &Driver::cuMemFree_v2>;
/// Memory of the host that all GPUs see, at the same address.
using PinnedMemory = Owner<void *, &Driver::cuMemFreeHost>;

// All of the current context; Failure::Machine with what was attempted.
llvm::Expected<Stream> makeStream(const Driver &driver, unsigned flags = CU_STREAM_NON_BLOCKING);
llvm::Expected<Event> makeEvent(const Driver &driver, unsigned flags = CU_EVENT_DISABLE_TIMING);
/// `image`: a cubin, or a shared object for the stand-in.
llvm::Expected<Module> loadModule(const Driver &driver, llvm::StringRef image);
llvm::Expected<CUfunction> findFunction(const Driver &driver, const Module &module,
                                        const std::string &name);
llvm::Expected<DeviceMemory> allocate(const Driver &driver, size_t bytes);
/// Zeroed.
llvm::Expected<PinnedMemory> allocatePinned(const Driver &driver, size_t bytes);

} // namespace ccl::cuda
