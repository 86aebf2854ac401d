//===- Driver.cpp -----------------------------------------------------------===//
#include "runtime/cuda/Driver.h"

#include "runtime/Settings.h"

#include "llvm/ADT/SmallVector.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace ccl::cuda {
namespace {

constexpr const char *shimName = "libccljit-cuda-shim.so";
constexpr const char *advice = "install NVIDIA's driver, or set CCL_CUDA_LIBRARY=shim to run "
                               "kernels on this machine's processor";

namespace fs = std::filesystem;

/// Where the stand-in may lie: beside the library or program that holds this code, or in the
/// folders that builds and installations have next to it.
std::vector<fs::path> shimFolders() {
  std::vector<fs::path> folders;
  auto add = [&](const fs::path &file) {
    std::error_code error;
    const fs::path folder = fs::canonical(file, error).parent_path();
    if (error)
      return;
    folders.push_back(folder);
    folders.push_back(folder.parent_path() / "lib");
    folders.push_back(folder.parent_path() / "bin");
  };
  Dl_info info;
  // Of a program the loader only knows how it was called, which may be no path.
  if (dladdr(reinterpret_cast<const void *>(&shimFolders), &info) && info.dli_fname)
    add(info.dli_fname);
  add("/proc/self/exe");
  return folders;
}

llvm::Expected<std::string> findShim() {
  const std::vector<fs::path> folders = shimFolders();
  for (const fs::path &folder : folders) {
    std::error_code error;
    if (fs::exists(folder / shimName, error))
      return (folder / shimName).string();
  }
  return makeFailure(Failure::Machine,
                     "CCL_CUDA_LIBRARY=shim: {} is not in {}; set CCL_CUDA_LIBRARY to its path",
                     shimName, folders.empty() ? "/proc/self/exe's folder" : folders[0].string());
}

/// Loading one may take for ever; that of others need not wait for it.
struct Library {
  std::mutex mutex;
  std::unique_ptr<Driver> driver;
};
struct Loaded {
  std::mutex mutex;
  std::map<std::string, Library, std::less<>> libraries;
  pid_t process = 0; ///< that has loaded one
};

/// Lives until the process ends: other objects' destructors still give back what they own.
Loaded &loaded() {
  static auto *all = new Loaded;
  return *all;
}

std::string versionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

} // namespace

llvm::Expected<const Driver *> Driver::get() {
  llvm::Expected<Settings> settings = Settings::fromEnvironment();
  if (!settings)
    return settings.takeError();
  return get(settings->text(Setting::CudaLibrary));
}

llvm::Expected<const Driver *> Driver::get(llvm::StringRef library) {
  Loaded &all = loaded();
  std::unique_lock lock(all.mutex);
  if (all.process != 0 && all.process != getpid())
    return makeFailure(Failure::Machine,
                       "cannot use CUDA: process {} was forked from {}, which had used it already; "
                       "fork before, or start a new program",
                       getpid(), all.process);
  Library &one = all.libraries[library.str()];
  lock.unlock();
  const std::lock_guard loading(one.mutex);
  if (one.driver)
    return one.driver.get();
  llvm::Expected<std::unique_ptr<Driver>> driver = load(library);
  if (!driver)
    return driver.takeError();
  one.driver = std::move(*driver);
  lock.lock();
  all.process = getpid();
  return one.driver.get();
}

llvm::Expected<std::unique_ptr<Driver>> Driver::load(llvm::StringRef library) {
  std::unique_ptr<Driver> driver(new Driver);
  driver->path = library.empty() ? "libcuda.so.1" : library.str();
  if (library == "shim") {
    llvm::Expected<std::string> shim = findShim();
    if (!shim)
      return shim.takeError();
    driver->path = *shim;
  }
  void *handle = dlopen(driver->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return makeFailure(Failure::Machine, "cannot load CUDA's driver: {}; {}",
                       reason ? reason : driver->path, advice);
  }
  if (llvm::Error e = driver->resolve(handle)) {
    dlclose(handle);
    return e;
  }
  driver->shim = dlsym(handle, "cuShimVersion") != nullptr;
  const CUresult result = driver->cuInit(0);
  if (result == CUDA_SUCCESS)
    return driver;
  // Not unloaded: the driver may have started threads.
  return makeFailure(Failure::Machine, "cannot initialize CUDA ({}, driver {}): {}; {}",
                     driver->path, versionText(driver->driverVersion), driver->describe(result),
                     driver->shim ? "CCL_SHIM_DEVICES is a number from 1 to 16, CCL_SHIM_SMS from "
                                    "1 to 256"
                                  : advice);
}

llvm::Error Driver::resolve(void *handle) {
  const char *missing = nullptr;
#define CCL_CUDA_DRIVER_RESOLVE(name, parameters)                                                  \
  name = reinterpret_cast<decltype(name)>(dlsym(handle, #name));                                   \
  if (!name && !missing)                                                                           \
    missing = #name;
  CCL_CUDA_DRIVER_FUNCTIONS(CCL_CUDA_DRIVER_RESOLVE)
#undef CCL_CUDA_DRIVER_RESOLVE
  if (!cuDriverGetVersion)
    return makeFailure(Failure::Machine,
                       "{} is not CUDA's driver: it has no cuDriverGetVersion; {}", path, advice);
  const CUresult result = cuDriverGetVersion(&driverVersion);
  if (result != CUDA_SUCCESS)
    return check(result, "ask {} for its version", path);
  if (driverVersion < oldestDriver)
    return makeFailure(Failure::Machine,
                       "CUDA's driver {} is of version {}; at least {} is needed: update "
                       "NVIDIA's driver",
                       path, versionText(driverVersion), versionText(oldestDriver));
  if (missing)
    return makeFailure(Failure::Machine, "CUDA's driver {} of version {} has no function {}", path,
                       versionText(driverVersion), missing);
  return llvm::Error::success();
}

std::string Driver::describe(CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  if (!cuGetErrorName || cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    return fmt::format("CUDA error {}", unsigned(result));
  if (!cuGetErrorString || cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
    return name;
  return fmt::format("{} ({})", name, text);
}

} // namespace ccl::cuda
