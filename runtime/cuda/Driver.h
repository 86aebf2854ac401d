//===- Driver.h - CUDA's driver, loaded when it is needed ------------------------===//
//
// Contexts are current per thread: who calls a function that needs one puts a ContextScope
// (Owners.h) around it. All functions may be called by any thread.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Failure.h"
#include "runtime/cuda/DriverApi.h"

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

namespace ccl::cuda {

/// The oldest driver that has all we use: of CUDA 12.0, as cuDriverGetVersion tells it.
inline constexpr int oldestDriver = 12000;

class Driver {
public:
  /// That of the setting CCL_CUDA_LIBRARY. Errors: the setting is wrong (BadArgument); else
  /// Failure::Machine, with what to install.
  static llvm::Expected<const Driver *> get();
  /// `library`: a path; "shim": our own, which runs kernels on this machine's processor, from
  /// beside this program or library; "": libcuda.so.1. Loaded and initialized once per process
  /// and never unloaded; an error is not remembered.
  static llvm::Expected<const Driver *> get(llvm::StringRef library);

  /// Each function of the driver, by its name: driver.cuMemAlloc_v2(&pointer, bytes).
#define CCL_CUDA_DRIVER_MEMBER(name, parameters) CUresult(*name) parameters = nullptr;
  CCL_CUDA_DRIVER_FUNCTIONS(CCL_CUDA_DRIVER_MEMBER)
#undef CCL_CUDA_DRIVER_MEMBER

  /// What was loaded: a path, or the name that the loader found.
  const std::string &library() const { return path; }
  /// 12040 is CUDA 12.4.
  int version() const { return driverVersion; }
  /// Whether kernels run on this machine's processor: its code is of CudaCode::arch "shim".
  bool isShim() const { return shim; }

  /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string describe(CUresult result) const;
  /// Success, or Failure::Machine: "cannot <what was attempted>: <describe>". Evaluate the call
  /// first: driver.check(driver.cuMemFree_v2(p), "free {} bytes of GPU {}", bytes, gpu).
  template <typename... T>
  llvm::Error check(CUresult result, fmt::format_string<T...> attempt, T &&...values) const {
    if (result == CUDA_SUCCESS)
      return llvm::Error::success();
    return makeFailure(Failure::Machine, "cannot {}: {}",
                       fmt::format(attempt, std::forward<T>(values)...), describe(result));
  }

private:
  Driver() = default;
  static llvm::Expected<std::unique_ptr<Driver>> load(llvm::StringRef library);
  llvm::Error resolve(void *handle);

  std::string path;
  int driverVersion = 0;
  bool shim = false;
};

/// A GPU's address as a pointer, and back: one number.
template <typename T>
T *pointerTo(CUdeviceptr address) {
  return reinterpret_cast<T *>(uintptr_t(address));
}
inline CUdeviceptr addressOf(const void *pointer) {
  return CUdeviceptr(reinterpret_cast<uintptr_t>(pointer));
}

} // namespace ccl::cuda
