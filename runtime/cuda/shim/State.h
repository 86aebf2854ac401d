//===- State.h - The stand-in for CUDA's driver as a whole -----------------------===//
//
// A library with the functions of DriverApi.h that runs kernels on this machine's processor:
// what calls the driver is tested as it is, and generated kernels as they are but compiled as
// C++ (Kernel.h says what is asked of them). Only time and the sizes of caches are not those of
// a GPU: streams, events, graphs, contexts, devices and the memory that processes share behave
// as CUDA's documentation says, errors included.
//
// Read from the environment by cuInit: CCL_SHIM_DEVICES and CCL_SHIM_SMS (runtime/Settings.cpp).
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/DriverApi.h"
#include "runtime/cuda/shim/Capture.h"
#include "runtime/cuda/shim/Handles.h"
#include "runtime/cuda/shim/Kernel.h"
#include "runtime/cuda/shim/Memory.h"
#include "runtime/cuda/shim/Stream.h"
#include "runtime/cuda/shim/Threads.h"

#include <sys/types.h>

#include <atomic>
#include <new>

namespace ccl::cuda::shim {

inline constexpr int blocksPerSm = 8, maxThreadsPerBlock = 1024, maxSms = 256;
inline constexpr int defaultSharedBytes = 48 << 10, mostSharedBytes = 227 << 10;
inline constexpr int shimVersion = 13000; ///< what cuDriverGetVersion says

struct State {
  int devices = 1;
  int sms = 16; ///< of each device
  pid_t process = 0;
  std::atomic<bool> stopping{false}; ///< the process ends: nothing new starts

  Threads threads;
  Memory memory;
  Captures captures;
  Handles<CUcontext, Context> contexts;
  Handles<CUstream, Stream> streams;
  Handles<CUevent, Event> events;
  Handles<CUmodule, Module> modules;
  Handles<CUfunction, Function> functions;
  Handles<CUgraph, Graph> graphs;
  Handles<CUgraphExec, GraphExec> execs;

  std::mutex primaryMutex;
  struct Primary {
    CUcontext handle = nullptr;
    int retained = 0;
  } primary[maxDevices];
};

/// Once cuInit has succeeded, to the end of the process.
State &state();
/// Success if this process called cuInit and is not ending.
CUresult isReady();
/// Sets the state up.
CUresult initialize();

/// The calling thread's.
CUcontext currentHandle();
void setCurrentHandle(CUcontext handle);
/// What the loader said of the last code that this thread could not load: told with the text of
/// CUDA_ERROR_SHARED_OBJECT_INIT_FAILED.
std::string &loaderText();
CUresult currentContext(std::shared_ptr<Context> &context);

/// Runs an entry of the driver: no exception leaves it.
template <typename Body>
CUresult enter(Body body) noexcept {
  if (const CUresult ready = isReady(); ready != CUDA_SUCCESS)
    return ready;
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

/// One that needs a current context in which nothing has failed.
template <typename Body>
CUresult enterContext(Body body) noexcept {
  return enter([&] {
    std::shared_ptr<Context> context;
    if (const CUresult result = currentContext(context); result != CUDA_SUCCESS)
      return result;
    if (const CUresult failed = context->error(); failed != CUDA_SUCCESS)
      return failed;
    return body(context);
  });
}

} // namespace ccl::cuda::shim

namespace ccl::cuda {
#define CCL_SHIM_EXPORT(name, parameters)                                                          \
  extern "C" __attribute__((visibility("default"))) CUresult name parameters;
CCL_CUDA_DRIVER_FUNCTIONS(CCL_SHIM_EXPORT)
#undef CCL_SHIM_EXPORT
} // namespace ccl::cuda
