//===- Devices.cpp ----------------------------------------------------------===//
#include "frontend/cli/Devices.h"

#include "codegen/cuda/Nvrtc.h"
#include "codegen/cuda/ShimCompile.h"
#include "frontend/cli/Output.h"
#include "runtime/bootstrap/Descriptor.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace ccl::cli {

/// What ranks of separate processes need of the system.
static DeviceRow findProcesses() {
  DeviceRow device{"processes"};
  auto lacks = [&](const char *what) {
    device.text = fmt::format("{}: {}", what, strerror(errno));
    return device;
  };
  const Descriptor memory(memfd_create("ccl", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory)
    return lacks("no shared memory (memfd_create)");
  const Descriptor self(int(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!self)
    return lacks("no way to watch processes (pidfd_open)");
  device.isUsable = true;
  device.text = "shared memory; who may read the memory of whom is found out when they meet";
  return device;
}

//===----------------------------------------------------------------------===//
// NICs
//===----------------------------------------------------------------------===//

static std::string describe(const rdma::NicFacts &nic) {
  return fmt::format("{} {}{} (GID index {}), {:g} Gbit/s, packets of {} bytes",
                     nic.ethernet ? "RoCE" : "InfiniBand", nic.gid,
                     nic.netdev.empty() ? "" : " of " + nic.netdev, nic.gidIndex, nic.gbits,
                     nic.mtu);
}

static void addNics(const Settings &settings, std::vector<DeviceRow> &rows) {
  llvm::Expected<std::vector<rdma::NicFacts>> ports =
      rdma::listVerbs(settings.text(Setting::VerbsLibrary));
  if (!ports) {
    rows.push_back({"rdma", false, llvm::toString(ports.takeError())});
    return;
  }
  const auto usable = llvm::count_if(*ports, [](const auto &port) { return port.problem.empty(); });
  rows.push_back({"rdma", usable > 0,
                  ports->empty()
                      ? "no NIC: this kernel knows no RDMA device (`rdma link`)"
                      : fmt::format("{} of {} usable", usable, plural(ports->size(), "port"))});
  for (rdma::NicFacts &port : *ports) {
    const bool isUsable = port.problem.empty();
    rows.push_back({fmt::format("{}:{}", port.device, port.port), isUsable,
                    isUsable ? describe(port) : port.problem, std::nullopt, std::move(port)});
  }
}

//===----------------------------------------------------------------------===//
// GPUs
//===----------------------------------------------------------------------===//

std::string describe(const cuda::DeviceFacts &gpu) {
  const std::string kind = gpu.arch == "shim" ? ""
                                              : fmt::format(", compute capability {}.{} ({})",
                                                            gpu.major, gpu.minor, gpu.arch);
  return fmt::format("{}, {:.1f} GiB{}, {}", gpu.name, double(gpu.memoryBytes) / double(1 << 30),
                     kind, plural(uint64_t(gpu.multiprocessors), "multiprocessor"));
}

static DeviceRow findNvrtc(const Settings &settings) {
  llvm::Expected<const Nvrtc *> nvrtc = Nvrtc::get(settings.text(Setting::NvrtcLibrary));
  if (!nvrtc)
    return {"nvrtc", false, llvm::toString(nvrtc.takeError())};
  const std::vector<int> &archs = (*nvrtc)->architectures();
  std::string range = archs.empty() ? "nothing" : fmt::format("sm_{}", archs.front());
  if (archs.size() > 1)
    range += fmt::format(" to sm_{}", archs.back());
  return {"nvrtc", true,
          fmt::format("NVIDIA's run-time compiler {}.{}, for {}", (*nvrtc)->major(),
                      (*nvrtc)->minor(), range)};
}

/// Who makes code for `arch` of source; "", or why nobody does.
static std::string noCompiler(const Settings &settings, llvm::StringRef arch) {
  if (arch == "shim") {
    llvm::Expected<ShimCompiler> compiler =
        ShimCompiler::find(settings.text(Setting::ShimCxx), CCL_SANITIZE);
    return compiler ? "" : llvm::toString(compiler.takeError());
  }
  llvm::Expected<const Nvrtc *> nvrtc = Nvrtc::get(settings.text(Setting::NvrtcLibrary));
  if (!nvrtc)
    return llvm::toString(nvrtc.takeError());
  return llvm::toString((*nvrtc)->check(arch));
}

static DeviceRow rowOf(const Settings &settings, cuda::DeviceFacts gpu) {
  std::string why = gpu.unusable();
  if (why.empty())
    why = noCompiler(settings, gpu.arch);
  const bool isUsable = why.empty();
  return {fmt::format("gpu{}", gpu.ordinal), isUsable, isUsable ? describe(gpu) : why,
          std::move(gpu)};
}

static void addGpus(const Settings &settings, std::vector<DeviceRow> &rows) {
  auto refuse = [&](llvm::Error error) {
    rows.push_back({"cuda", false, llvm::toString(std::move(error))});
  };
  llvm::Expected<cuda::ShownDevices> shown = cuda::showDevices(settings.text(Setting::CudaLibrary));
  if (!shown)
    return refuse(shown.takeError());
  const cuda::Driver &driver = *shown->driver;
  std::vector<DeviceRow> found;
  for (cuda::DeviceFacts &gpu : shown->devices)
    found.push_back(rowOf(settings, std::move(gpu)));
  const auto usable =
      std::count_if(found.begin(), found.end(), [](const DeviceRow &row) { return row.isUsable; });
  const int version = driver.version();
  std::string text = fmt::format("{}, {} for CUDA {}.{}; {} of {} usable", driver.library(),
                                 driver.isShim() ? "a stand-in" : "a driver", version / 1000,
                                 version % 1000 / 10, usable, plural(found.size(), "GPU"));
  rows.push_back({"cuda", usable > 0, std::move(text)});
  rows.insert(rows.end(), found.begin(), found.end());
}

/// Runs kernels on this machine's processor; there for every machine.
static DeviceRow findShim(const Settings &settings) {
  llvm::Expected<const cuda::Driver *> driver = cuda::Driver::get("shim");
  if (!driver)
    return {"shim", false, llvm::toString(driver.takeError())};
  if (std::string why = noCompiler(settings, "shim"); !why.empty())
    return {"shim", false, std::move(why)};
  const bool isTaken = settings.text(Setting::CudaLibrary) == "shim";
  return {"shim", true,
          fmt::format("a stand-in for GPUs on this machine's processor; CCL_CUDA_LIBRARY=shim {}",
                      isTaken ? "has chosen it" : "chooses it")};
}

std::vector<DeviceRow> findDevices(const Settings &settings) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<DeviceRow> devices;
  devices.push_back({"threads", true,
                     fmt::format("{}, ranks are threads of one process", plural(cores, "core"))});
  devices.push_back(findProcesses());
  addGpus(settings, devices);
  devices.push_back(findShim(settings));
  devices.push_back(findNvrtc(settings));
  addNics(settings, devices);
  return devices;
}

} // namespace ccl::cli
