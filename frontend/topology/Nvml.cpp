//===- Nvml.cpp -------------------------------------------------------------===//
#include "frontend/topology/Nvml.h"

#include "frontend/topology/NvmlApi.h"
#include "runtime/Deadline.h"

#include <fmt/format.h>

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>

namespace ccl::topology {
namespace {

using namespace ccl::nvml;

constexpr const char *standard = "libnvidia-ml.so.1";
constexpr const char *advice =
    "it comes with NVIDIA's driver (Debian: libnvidia-ml1; in a container it is there if that was "
    "started with NVIDIA_DRIVER_CAPABILITIES=utility,compute), or name it by CCL_NVML_LIBRARY";

/// What the thread that asks has in common with who waits for it, who may be gone. Where it is.
class Progress {
public:
  /// False: nobody waits any more.
  bool begin(const char *call) {
    current.store(call);
    return !abandoned.load();
  }
  const char *call() const { return current.load(); }
  void abandon() { abandoned.store(true); }

private:
  std::atomic<const char *> current{"dlopen"};
  std::atomic<bool> abandoned{false};
};

/// A function of the library. Nothing is begun for nobody.
template <typename... T>
class Function {
public:
  using Pointer = nvmlReturn_t (*)(T...);
  explicit operator bool() const { return pointer; }
  nvmlReturn_t operator()(T... values) const {
    return progress->begin(name) ? pointer(values...) : NVML_ERROR_TIMEOUT;
  }
  Pointer pointer = nullptr;
  const char *name = "";
  Progress *progress = nullptr;
};
template <typename T>
struct FunctionOf;
template <typename... T>
struct FunctionOf<nvmlReturn_t(T...)> {
  using Type = Function<T...>;
};

class Library {
public:
  explicit Library(Progress &progress) : progress(progress) {}
  /// "", or why there is none.
  std::string open(const std::string &name);
  std::string describe(nvmlReturn_t result) const;

#define CCL_NVML_MEMBER(name, parameters) FunctionOf<nvmlReturn_t parameters>::Type name;
  CCL_NVML_NEEDED(CCL_NVML_MEMBER)
  CCL_NVML_WANTED(CCL_NVML_MEMBER)
#undef CCL_NVML_MEMBER
  std::vector<std::string> lacks; ///< functions

  Library(const Library &) = delete;
  ~Library() {
    if (initialized) {
      progress.begin(nvmlShutdown.name);
      nvmlShutdown.pointer(); // also for nobody
    }
    if (handle)
      dlclose(handle);
  }

private:
  Progress &progress;
  const char *(*nvmlErrorString)(nvmlReturn_t) = nullptr;
  void *handle = nullptr;
  bool initialized = false;
};

std::string Library::open(const std::string &name) {
  const std::string path = name.empty() ? standard : name;
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return fmt::format("cannot load NVML: {}; {}", reason ? reason : path, advice);
  }
  const char *missing = nullptr;
#define CCL_NVML_RESOLVE(name, parameters)                                                         \
  name = {reinterpret_cast<decltype(name)::Pointer>(dlsym(handle, #name)), #name, &progress};
#define CCL_NVML_NEED(name, parameters)                                                            \
  CCL_NVML_RESOLVE(name, parameters)                                                               \
  if (!name && !missing)                                                                           \
    missing = #name;
#define CCL_NVML_WANT(name, parameters)                                                            \
  CCL_NVML_RESOLVE(name, parameters)                                                               \
  if (!name)                                                                                       \
    lacks.push_back(#name);
  CCL_NVML_NEEDED(CCL_NVML_NEED)
  CCL_NVML_WANTED(CCL_NVML_WANT)
#undef CCL_NVML_WANT
#undef CCL_NVML_NEED
#undef CCL_NVML_RESOLVE
  nvmlErrorString = reinterpret_cast<decltype(nvmlErrorString)>(dlsym(handle, "nvmlErrorString"));
  if (missing)
    return fmt::format("{} has no {}: it is no NVML, or that of a driver too old; update NVIDIA's "
                       "driver",
                       path, missing);
  const nvmlReturn_t result = nvmlInit_v2();
  if (result != NVML_SUCCESS)
    return fmt::format("cannot initialize NVML ({}): {}; is NVIDIA's kernel module loaded, and may "
                       "this user open /dev/nvidiactl?",
                       path, describe(result));
  initialized = true;
  return "";
}

std::string Library::describe(nvmlReturn_t result) const {
  const char *text = nvmlErrorString ? nvmlErrorString(result) : nullptr;
  return text ? text : fmt::format("NVML error {}", unsigned(result));
}

class Asker {
public:
  Asker(const Library &api, NvmlReport &report) : api(api), report(report) {}
  void run();

private:
  void askGpu(unsigned index);
  void askLinks(NvmlGpu &gpu, nvmlDevice_t device);
  bool askLink(NvmlGpu &gpu, nvmlDevice_t device, unsigned number);
  void askEnd(NvmlGpu &gpu, nvmlDevice_t device, NvLink &link);
  double speedOf(nvmlDevice_t device, unsigned number) const;
  /// Calls what the library has. False if it lacks the function or the device the feature; other
  /// errors are problems, too.
  template <typename Function, typename... T>
  bool call(const NvmlGpu &gpu, const char *what, Function function, T... values) {
    if (!function)
      return false;
    const nvmlReturn_t result = function(values...);
    if (result != NVML_SUCCESS && result != NVML_ERROR_NOT_SUPPORTED)
      fail(gpu.address.text(), what, result);
    return result == NVML_SUCCESS;
  }
  void fail(const std::string &who, const char *what, nvmlReturn_t result) {
    ++failures[fmt::format("NVML says no {} of GPU {}: {}", what, who, api.describe(result))];
  }

  const Library &api;
  NvmlReport &report;
  std::map<std::string, int> failures;
};

std::string textOf(const char *buffer, size_t size) {
  return {buffer, std::find(buffer, buffer + size, '\0')};
}

PciAddress addressOf(const nvmlPciInfo_t &pci) { return {pci.domain, pci.bus, pci.device}; }

void Asker::run() {
  char version[versionSize] = {};
  if (api.nvmlSystemGetDriverVersion &&
      api.nvmlSystemGetDriverVersion(version, versionSize) == NVML_SUCCESS)
    report.driver = textOf(version, versionSize);
  unsigned count = 0;
  const nvmlReturn_t result = api.nvmlDeviceGetCount_v2(&count);
  if (result != NVML_SUCCESS) {
    report.error = fmt::format("NVML cannot count the GPUs: {}", api.describe(result));
    return;
  }
  for (unsigned i = 0; i < count; ++i)
    askGpu(i);
  std::string lacking;
  for (const std::string &name : api.lacks)
    lacking += (lacking.empty() ? "" : ", ") + name;
  if (!lacking.empty() && count > 0)
    report.problems.push_back(fmt::format("NVML of driver {} has no {}: a newer driver has",
                                          report.driver.empty() ? "?" : report.driver, lacking));
  for (const auto &[text, times] : failures)
    report.problems.push_back(times > 1 ? fmt::format("{} ({} times)", text, times) : text);
}

void Asker::askGpu(unsigned index) {
  NvmlGpu gpu;
  nvmlDevice_t device = nullptr;
  nvmlPciInfo_t pci = {};
  nvmlReturn_t result = api.nvmlDeviceGetHandleByIndex_v2(index, &device);
  if (result == NVML_SUCCESS)
    result = api.nvmlDeviceGetPciInfo_v3(device, &pci);
  if (result != NVML_SUCCESS)
    return fail(std::to_string(index), "address", result);
  gpu.address = addressOf(pci);
  gpu.vendor = pci.pciDeviceId & 0xffff;
  gpu.product = pci.pciDeviceId >> 16;
  char name[nameSize] = {}, uuid[uuidSize] = {};
  if (call(gpu, "name", api.nvmlDeviceGetName, device, name, nameSize))
    gpu.name = textOf(name, nameSize);
  if (call(gpu, "UUID", api.nvmlDeviceGetUUID, device, uuid, uuidSize))
    gpu.uuid = textOf(uuid, uuidSize);
  int major = 0, minor = 0;
  if (call(gpu, "compute capability", api.nvmlDeviceGetCudaComputeCapability, device, &major,
           &minor))
    gpu.capability = int64_t(major) * 10 + minor;
  unsigned now = 0, next = 0;
  if (call(gpu, "MIG mode", api.nvmlDeviceGetMigMode, device, &now, &next))
    gpu.isMig = now == migEnabled;
  auto number = [&](const char *what, auto function) {
    unsigned value = 0;
    return call(gpu, what, function, device, &value) && value < 1024 ? int32_t(value) : 0;
  };
  gpu.pcieGeneration = number("PCIe generation", api.nvmlDeviceGetMaxPcieLinkGeneration);
  gpu.lanes = number("PCIe lanes", api.nvmlDeviceGetCurrPcieLinkWidth);
  gpu.mostLanes = number("PCIe lanes", api.nvmlDeviceGetMaxPcieLinkWidth);
  askLinks(gpu, device);
  report.gpus.push_back(std::move(gpu));
}

void Asker::askLinks(NvmlGpu &gpu, nvmlDevice_t device) {
  gpu.linksKnown = api.nvmlDeviceGetNvLinkState && api.nvmlDeviceGetNvLinkRemotePciInfo_v2;
  for (unsigned link = 0; gpu.linksKnown && link < mostLinks; ++link)
    if (!askLink(gpu, device, link))
      break;
}

/// False behind the last link.
bool Asker::askLink(NvmlGpu &gpu, nvmlDevice_t device, unsigned number) {
  nvmlEnableState_t state = NVML_FEATURE_DISABLED;
  const nvmlReturn_t result = api.nvmlDeviceGetNvLinkState(device, number, &state);
  // The number of links is not told: the first that is none ends them.
  if (result == NVML_ERROR_INVALID_ARGUMENT)
    return false;
  // Some products have gaps.
  if (result == NVML_ERROR_NOT_SUPPORTED)
    return true;
  if (result != NVML_SUCCESS) {
    fail(gpu.address.text(), "state of an NVLink", result);
    gpu.linksKnown = false;
    return result != NVML_ERROR_GPU_IS_LOST;
  }
  if (state != NVML_FEATURE_ENABLED) {
    ++gpu.inactiveLinks;
    return true;
  }
  NvLink link;
  link.number = number;
  if (!call(gpu, "version of an NVLink", api.nvmlDeviceGetNvLinkVersion, device, number,
            &link.version))
    link.version = 0;
  link.speed = speedOf(device, number);
  askEnd(gpu, device, link);
  gpu.links.push_back(link);
  return true;
}

void Asker::askEnd(NvmlGpu &gpu, nvmlDevice_t device, NvLink &link) {
  nvmlIntNvLinkDeviceType_t type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
  if (!call(gpu, "kind of an NVLink's end", api.nvmlDeviceGetNvLinkRemoteDeviceType, device,
            link.number, &type))
    type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
  link.end = type == NVML_NVLINK_DEVICE_TYPE_GPU      ? LinkEnd::Gpu
             : type == NVML_NVLINK_DEVICE_TYPE_IBMNPU ? LinkEnd::Socket
             : type == NVML_NVLINK_DEVICE_TYPE_SWITCH ? LinkEnd::Switch
                                                      : LinkEnd::Unknown;
  // Virtual machines do not see the address of a switch, and need not.
  if (link.end == LinkEnd::Switch || link.end == LinkEnd::Socket)
    return;
  nvmlPciInfo_t pci = {};
  if (!call(gpu, "address of an NVLink's end", api.nvmlDeviceGetNvLinkRemotePciInfo_v2, device,
            link.number, &pci)) {
    link.end = LinkEnd::Unknown;
    link.remote = {};
    return;
  }
  link.remote = addressOf(pci);
  if (link.end == LinkEnd::Unknown && link.remote.domain >= 0xfffffff)
    link.end = LinkEnd::Switch; // a switch that is hidden
}

double Asker::speedOf(nvmlDevice_t device, unsigned number) const {
  if (!api.nvmlDeviceGetFieldValues)
    return 0;
  const unsigned ofLink = number < 6    ? fieldSpeedOfLink0 + number
                          : number < 12 ? fieldSpeedOfLink6 + number - 6
                                        : fieldCommonSpeed;
  for (unsigned field : {fieldLinkSpeed, ofLink, fieldCommonSpeed}) {
    nvmlFieldValue_t value = {};
    value.fieldId = field;
    value.scopeId = number;
    if (api.nvmlDeviceGetFieldValues(device, 1, &value) != NVML_SUCCESS ||
        value.nvmlReturn != NVML_SUCCESS)
      continue;
    const double speed =
        value.valueType == NVML_VALUE_TYPE_DOUBLE          ? value.value.dVal
        : value.valueType == NVML_VALUE_TYPE_UNSIGNED_INT  ? double(value.value.uiVal)
        : value.valueType == NVML_VALUE_TYPE_UNSIGNED_LONG ? double(value.value.ulVal)
                                                           : double(value.value.ullVal);
    if (speed > 0 && speed < 1e7)
      return speed / 1000;
  }
  return 0;
}

} // namespace

std::string PciAddress::text() const {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", domain, bus, device);
}

NvmlReport askNvml(const std::string &library, std::chrono::milliseconds limit) {
  const auto progress = std::make_shared<Progress>();
  std::optional<NvmlReport> report = within<NvmlReport>(limit, [progress, library] {
    NvmlReport found;
    Library api(*progress);
    found.error = api.open(library);
    if (found.error.empty())
      Asker(api, found).run();
    return found;
  });
  if (report)
    return std::move(*report);
  progress->abandon();
  NvmlReport stuck;
  stuck.isStuck = true;
  stuck.error = fmt::format(
      "NVML has not answered for {:g} s, in {}: the driver is stuck or GPUs are still being "
      "started; see whether nvidia-smi answers, and what the kernel says of NVRM (dmesg)",
      double(limit.count()) / 1000, progress->call());
  return stuck;
}

} // namespace ccl::topology
