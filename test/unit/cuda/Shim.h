//===- Shim.h - Tests that use the stand-in for CUDA's driver --------------------===//
#pragma once

#include "runtime/cuda/Owners.h"

#include "llvm/ADT/StringRef.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace ccl::test {

/// The stand-in, with 4 devices of 2 multiprocessors: 16 blocks at once on each.
const cuda::Driver &shim();
inline constexpr int shimDevices = 4, shimResident = 16;

/// "CUDA_SUCCESS", or what a call said; for CHECKs that tell it.
std::string name(cuda::CUresult result);

/// A context of a device that is current while this lives.
class InContext {
public:
  explicit InContext(int device = 0);
  cuda::CUcontext get() const { return context.get(); }

private:
  cuda::PrimaryContext context;
  cuda::ContextScope scope;
};

/// A folder for the files of this process, which goes with it.
const std::string &folder();
/// Runs this machine's C++ compiler; what it says if it fails, else "".
std::string compile(const std::string &arguments);
/// The bytes of the shared object that `source` becomes; the same one once per name.
const std::string &makeObject(const std::string &name, const std::string &source,
                              const std::string &flags = "");

/// Kernels that are written by hand, in a module of the current context.
class Kernels {
public:
  Kernels();
  cuda::CUfunction operator[](const char *kernel) const;
  static const std::string &image();

private:
  cuda::Module module;
};

/// Memory of the current context's device that holds as many values of T.
template <typename T>
class Array {
public:
  explicit Array(size_t count)
      : memory(llvm::cantFail(cuda::allocate(shim(), count * sizeof(T)))), count(count) {}
  cuda::CUdeviceptr address() const { return memory.get(); }
  T *data() const { return reinterpret_cast<T *>(memory.get()); }
  size_t size() const { return count; }
  T &operator[](size_t i) const { return data()[i]; }

private:
  cuda::DeviceMemory memory;
  size_t count;
};

/// Launches with parameters as they are.
template <typename... T>
cuda::CUresult launch(cuda::CUfunction kernel, unsigned blocks, cuda::CUstream stream,
                      T... parameters) {
  void *pointers[] = {&parameters...};
  return shim().cuLaunchKernel(kernel, blocks, 1, 1, 32, 1, 1, 0, stream, pointers, nullptr);
}
template <typename... T>
cuda::CUresult launchTogether(cuda::CUfunction kernel, unsigned blocks, cuda::CUstream stream,
                              T... parameters) {
  void *pointers[] = {&parameters...};
  return shim().cuLaunchCooperativeKernel(kernel, blocks, 1, 1, 32, 1, 1, 0, stream, pointers);
}

} // namespace ccl::test
