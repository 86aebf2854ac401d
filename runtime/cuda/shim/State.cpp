//===- State.cpp ------------------------------------------------------------===//
#include "runtime/cuda/shim/State.h"

#include <unistd.h>

#include <cstdlib>

namespace ccl::cuda::shim {
namespace {

std::atomic<State *> theState{nullptr};
std::mutex initMutex;
thread_local CUcontext current = nullptr;

/// Ends the threads with the process. The state itself stays: objects that end later may still
/// call, and are told that it is over.
struct AtExit {
  ~AtExit() {
    State *all = theState.load();
    if (!all || all->process != getpid())
      return;
    all->stopping = true;
    all->threads.stop();
  }
} atExit;

/// The number that the environment says, or nothing if it says what is none.
bool readNumber(const char *name, int most, int &value) {
  const char *text = std::getenv(name);
  if (!text || !*text)
    return true;
  char *end = nullptr;
  const long number = std::strtol(text, &end, 10);
  if (*end || number < 0 || number > most)
    return false;
  value = int(number);
  return true;
}

} // namespace

State &state() { return *theState.load(std::memory_order_acquire); }

CUresult isReady() {
  const State *all = theState.load(std::memory_order_acquire);
  // As with CUDA, a child does not inherit what its parent opened.
  if (!all || all->process != getpid())
    return CUDA_ERROR_NOT_INITIALIZED;
  return all->stopping ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS;
}

CUresult initialize() {
  std::lock_guard lock(initMutex);
  if (theState.load())
    return isReady();
  auto made = std::make_unique<State>();
  if (!readNumber("CCL_SHIM_DEVICES", maxDevices, made->devices) ||
      !readNumber("CCL_SHIM_SMS", maxSms, made->sms) || made->sms < 1)
    return CUDA_ERROR_INVALID_VALUE;
  if (made->devices < 1)
    return CUDA_ERROR_NO_DEVICE;
  made->process = getpid();
  theState.store(made.release(), std::memory_order_release);
  return CUDA_SUCCESS;
}

CUcontext currentHandle() { return current; }
std::string &loaderText() {
  static thread_local std::string text;
  return text;
}
void setCurrentHandle(CUcontext handle) { current = handle; }

CUresult currentContext(std::shared_ptr<Context> &context) {
  if (!current)
    return CUDA_ERROR_INVALID_CONTEXT;
  context = state().contexts.find(current);
  return context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

} // namespace ccl::cuda::shim
