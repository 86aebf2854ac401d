//===- NvidiaGpus.cpp -------------------------------------------------------===//
#include "frontend/topology/NvidiaGpus.h"

#include "frontend/topology/NvidiaLinks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ccl::topology {

void NvidiaGpus::ask(const std::string &nvmlLibrary, const std::string &cudaLibrary,
                     std::chrono::milliseconds limit) {
  nvml = askNvml(nvmlLibrary, limit);
  const bool hasNvidia = std::any_of(
      gpus.begin(), gpus.end(), [](const PlacedGpu &gpu) { return gpu.vendor == nvidiaVendor; });
  if (!nvml.error.empty() && (hasNvidia || !nvmlLibrary.empty()))
    machine.missing.push_back("NVLinks and kinds of GPUs: " + nvml.error);
  for (const std::string &problem : nvml.problems)
    machine.missing.push_back(problem);
  if (cudaLibrary == "shim") {
    if (hasNvidia || !nvml.gpus.empty())
      machine.missing.push_back("which GPUs CUDA shows: CCL_CUDA_LIBRARY=shim is a stand-in "
                                "without this machine's; taken as all, in order of PCI");
    return;
  }
  if (nvml.isStuck) { // so is CUDA, which would wait for ever
    machine.missing.push_back("which GPUs CUDA shows: not asked, as NVML does not answer; taken as "
                              "all, in order of PCI");
    return;
  }
  const size_t before = machine.missing.size();
  askCuda(cudaLibrary, limit);
  // Nothing is missed where there is no GPU to be seen.
  if (!hasNvidia && nvml.gpus.empty() && cudaLibrary.empty())
    machine.missing.resize(before);
}

void NvidiaGpus::askCuda(const std::string &library, std::chrono::milliseconds limit) {
  auto missing = [&](llvm::Error error) {
    machine.missing.push_back(
        fmt::format("which GPUs CUDA shows: {}; taken as all, in order of PCI",
                    llvm::toString(std::move(error))));
  };
  llvm::Expected<cuda::ShownDevices> shown = cuda::showDevices(library, limit);
  if (!shown)
    return missing(shown.takeError());
  if (shown->driver->isShim())
    return;
  if (shown->devices.empty())
    return missing(makeFailure(Failure::Machine, "it shows none (is CUDA_VISIBLE_DEVICES set?)"));
  visible = std::move(shown->devices);
  apart = std::move(shown->apart);
  if (!shown->apartError.empty())
    machine.missing.push_back("which GPUs reach each other: " + shown->apartError);
}

PlacedGpu *NvidiaGpus::find(const PciAddress &address) {
  auto found = std::find_if(gpus.begin(), gpus.end(),
                            [&](const PlacedGpu &gpu) { return gpu.address == address; });
  return found == gpus.end() ? nullptr : &*found;
}

/// In some containers hwloc sees no PCI device.
PlacedGpu &NvidiaGpus::place(const PciAddress &address, int32_t socket,
                             const std::string &product) {
  if (PlacedGpu *known = find(address)) {
    if (!product.empty())
      known->product = product;
    return *known;
  }
  Device device;
  device.kind = DeviceKind::Gpu;
  device.order = int64_t(gpus.size());
  const int32_t added = machine.add(std::move(device));
  machine.connect(added, socket, assumedSlot(assume));
  machine.missing.push_back(
      fmt::format("where GPU {} hangs: hwloc sees no such device; taken as at {}", address.text(),
                  machine.devices[size_t(socket)].name));
  return gpus.emplace_back(PlacedGpu{added, socket, address, nvidiaVendor, product, false});
}

std::optional<Speed> slotSpeed(const NvmlGpu &facts) {
  const int32_t lanes = facts.lanes > 0 ? facts.lanes : facts.mostLanes;
  std::optional<Speed> slot = pcieSlot(facts.pcieGeneration);
  if (!slot || lanes < 1 || lanes > 32)
    return std::nullopt;
  return *slot * (double(lanes) / 16);
}

/// hwloc only knows what an idle GPU has slowed its slot down to.
void NvidiaGpus::setSlot(PlacedGpu &gpu, const NvmlGpu &facts) {
  const std::optional<Speed> speed = slotSpeed(facts);
  if (!speed)
    return;
  gpu.slotKnown = true;
  for (Cable &cable : machine.cables)
    if (cable.from == gpu.device || cable.to == gpu.device)
      cable.speed = *speed;
  if (facts.lanes > 0 && facts.lanes < facts.mostLanes)
    machine.notes.push_back(fmt::format("GPU {} has {} of {} PCIe lanes", gpu.address.text(),
                                        facts.lanes, facts.mostLanes));
}

void NvidiaGpus::choose(int32_t socket) {
  for (const NvmlGpu &facts : nvml.gpus) {
    PlacedGpu &gpu = place(facts.address, socket, facts.name);
    gpu.vendor = nvidiaVendor;
    setSlot(gpu, facts);
  }
  for (const cuda::DeviceFacts &facts : visible)
    place({facts.pciDomain, facts.pciBus, facts.pciDevice}, socket, facts.name);
  if (!visible.empty())
    orderByCuda();
  else if (knowsLinks())
    dropUnlisted();
  erase();
}

void NvidiaGpus::orderByCuda() {
  std::vector<PciAddress> ranks;
  for (const cuda::DeviceFacts &facts : visible) {
    const PciAddress address = {facts.pciDomain, facts.pciBus, facts.pciDevice};
    if (std::find(ranks.begin(), ranks.end(), address) != ranks.end()) {
      machine.missing.push_back(
          fmt::format("how CUDA's GPU {} shares {} with another: the device is taken as one rank",
                      facts.ordinal, address.text()));
      continue;
    }
    ranks.push_back(address);
    machine.devices[size_t(find(address)->device)].order = facts.ordinal;
  }
  std::vector<std::string> hidden;
  for (PlacedGpu &gpu : gpus) {
    if (std::find(ranks.begin(), ranks.end(), gpu.address) != ranks.end())
      continue;
    if (gpu.vendor == nvidiaVendor) {
      hidden.push_back(gpu.address.text());
      drop(gpu);
    } else {
      machine.devices[size_t(gpu.device)].order += int64_t(visible.size());
    }
  }
  machine.notes.push_back("ranks are the GPUs that CUDA shows, in its order");
  if (!hidden.empty())
    machine.notes.push_back(fmt::format("CUDA does not show {}: no {}", fmt::join(hidden, ", "),
                                        hidden.size() == 1 ? "rank" : "ranks"));
}

/// Those that no driver of NVIDIA's has, as in a container with some of a machine's GPUs.
void NvidiaGpus::dropUnlisted() {
  std::vector<std::string> unlisted;
  for (PlacedGpu &gpu : gpus) {
    const bool isListed =
        std::any_of(nvml.gpus.begin(), nvml.gpus.end(),
                    [&](const NvmlGpu &facts) { return facts.address == gpu.address; });
    if (gpu.vendor != nvidiaVendor || isListed)
      continue;
    unlisted.push_back(gpu.address.text());
    drop(gpu);
  }
  if (!unlisted.empty())
    machine.notes.push_back(fmt::format("NVML does not list {}: no {}", fmt::join(unlisted, ", "),
                                        unlisted.size() == 1 ? "rank" : "ranks"));
}

void NvidiaGpus::drop(PlacedGpu &gpu) {
  dropped.push_back(gpu.device);
  gpu.device = -1;
}

void NvidiaGpus::erase() {
  std::vector<int32_t> place(machine.devices.size(), 0);
  for (int32_t device : dropped)
    place[size_t(device)] = -1;
  std::vector<Device> devices;
  for (size_t i = 0; i < place.size(); ++i)
    if (place[i] == 0) {
      place[i] = int32_t(devices.size());
      devices.push_back(std::move(machine.devices[i]));
    }
  machine.devices = std::move(devices);
  std::erase_if(machine.cables, [&](const Cable &cable) {
    return place[size_t(cable.from)] < 0 || place[size_t(cable.to)] < 0;
  });
  for (Cable &cable : machine.cables) {
    cable.from = place[size_t(cable.from)];
    cable.to = place[size_t(cable.to)];
  }
  for (PlacedGpu &gpu : gpus) {
    gpu.device = gpu.device < 0 ? -1 : place[size_t(gpu.device)];
    gpu.socket = place[size_t(gpu.socket)];
  }
}

void NvidiaGpus::connect() {
  if (knowsLinks()) {
    machine.notes.push_back(fmt::format("NVLinks are as NVML tells{}",
                                        nvml.driver.empty() ? "" : ", driver " + nvml.driver));
    NvidiaLinks(machine, gpus, nvml, assume).connect();
  }
  tellPeers();
}

void NvidiaGpus::tellPeers() {
  constexpr size_t most = 4;
  std::vector<std::string> pairs;
  for (auto [a, b] : apart)
    if (pairs.size() < most)
      pairs.push_back(fmt::format("CUDA's GPU {} that of {}", a, b));
  const size_t all = visible.size() * (visible.size() - 1);
  if (!apart.empty() && apart.size() == all)
    machine.notes.push_back("CUDA: no GPU can use memory of another, so one communicator cannot "
                            "have two of them");
  else if (!apart.empty())
    machine.notes.push_back(
        fmt::format("cannot use memory of each other: {}{}; a communicator needs GPUs that can",
                    fmt::join(pairs, ", "),
                    apart.size() > most ? fmt::format(", and {} more", apart.size() - most) : ""));
}

} // namespace ccl::topology
