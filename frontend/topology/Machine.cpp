#include "frontend/topology/Machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace ccl::topology {

int32_t Machine::add(Device device) {
  devices.push_back(std::move(device));
  return int32_t(devices.size() - 1);
}

void Machine::cable(int32_t from, int32_t to, Speed speed, double latency) {
  cables.push_back({from, to, speed, latency});
}

void Machine::connect(int32_t a, int32_t b, Speed speed, double latency) {
  cable(a, b, speed, latency);
  cable(b, a, speed, latency);
}

int64_t Machine::count(DeviceKind kind) const {
  return std::count_if(devices.begin(), devices.end(),
                       [&](const Device &device) { return device.kind == kind; });
}

bool Machine::hasBothRates() const {
  return std::any_of(cables.begin(), cables.end(), [](const Cable &cable) {
    return cable.speed.nominal != cable.speed.effective;
  });
}

std::string Machine::summary() const {
  std::string text;
  auto part = [&](int64_t n, std::string_view one, std::string_view many) {
    if (n > 0)
      text += (text.empty() ? "" : ", ") + counted(n, one, many);
  };
  if (rankName == "gpu")
    part(count(DeviceKind::Gpu), "GPU", "GPUs");
  else
    part(count(DeviceKind::Gpu), rankName, rankName + "s");
  part(count(DeviceKind::Switch), "switch", "switches");
  part(count(DeviceKind::Nic), "NIC", "NICs");
  part(count(DeviceKind::Pcie), "PCIe bridge", "PCIe bridges");
  part(count(DeviceKind::Cpu), "socket", "sockets");
  part(int64_t(cables.size()), "link", "links");
  return text.empty() ? "nothing" : text;
}

static model::SwitchKind switchKind(DeviceKind kind) {
  switch (kind) {
  case DeviceKind::Nic: return model::SwitchKind::Nic;
  case DeviceKind::Pcie: return model::SwitchKind::Pcie;
  case DeviceKind::Cpu: return model::SwitchKind::Cpu;
  case DeviceKind::Gpu:
  case DeviceKind::Switch: break;
  }
  return model::SwitchKind::Switch;
}

/// The GPUs in the order of their ranks.
static std::vector<int32_t> rankOrder(const Machine &machine) {
  std::vector<int32_t> gpus;
  for (size_t i = 0; i < machine.devices.size(); ++i)
    if (machine.devices[i].kind == DeviceKind::Gpu)
      gpus.push_back(int32_t(i));
  std::sort(gpus.begin(), gpus.end(), [&](int32_t a, int32_t b) {
    const Device &x = machine.devices[size_t(a)], &y = machine.devices[size_t(b)];
    return std::tuple(x.host, x.order, a) < std::tuple(y.host, y.order, b);
  });
  return gpus;
}

static std::vector<model::Axis> axesOf(const Machine &machine, const std::vector<int32_t> &gpus) {
  std::vector<int64_t> perHost;
  for (int32_t gpu : gpus) {
    size_t host = size_t(machine.devices[size_t(gpu)].host);
    perHost.resize(std::max(perHost.size(), host + 1));
    ++perHost[host];
  }
  std::erase(perHost, 0);
  bool equal =
      std::adjacent_find(perHost.begin(), perHost.end(), std::not_equal_to<>()) == perHost.end();
  if (perHost.size() > 1 && equal)
    return {{"node", int64_t(perHost.size())}, {machine.rankName, perHost[0]}};
  return {{machine.rankName, int64_t(std::max<size_t>(gpus.size(), 1))}};
}

Box makeBox(const Machine &machine, Rates rates) {
  Box box;
  model::Topology &topology = box.topology;
  topology.name = machine.name;
  std::vector<int32_t> gpus = rankOrder(machine);
  topology.axes = axesOf(machine, gpus);

  std::vector<int32_t> nodes(machine.devices.size());
  for (size_t rank = 0; rank < gpus.size(); ++rank)
    nodes[size_t(gpus[rank])] = int32_t(rank);
  std::set<std::string> names;
  std::map<std::string, int> copies; // so that many devices of one name do not cost their square
  for (size_t i = 0; i < machine.devices.size(); ++i) {
    const Device &device = machine.devices[i];
    if (device.kind == DeviceKind::Gpu)
      continue;
    nodes[i] = int32_t(topology.nodes());
    std::string name = device.name;
    while (!names.insert(name).second)
      name = fmt::format("{}#{}", device.name, ++copies.try_emplace(device.name, 1).first->second);
    topology.switches.push_back(
        {std::move(name), device.multicast, device.reduce, switchKind(device.kind)});
    if (device.kind == DeviceKind::Nic)
      box.nics.push_back({nodes[i], device.net.at(rates), device.latency});
  }
  for (const Cable &cable : machine.cables)
    topology.links.push_back({nodes[size_t(cable.from)],
                              nodes[size_t(cable.to)],
                              cable.speed.at(rates),
                              cable.latency,
                              {}});
  return box;
}

int32_t assumedGeneration(const Assume &assume) { return assume.pcie > 0 ? assume.pcie : 3; }
Speed assumedSlot(const Assume &assume) {
  return pcieSlot(assumedGeneration(assume)).value_or(*pcieSlot(3));
}

std::string checkAssumed(const Assume &assume) {
  if (!assume.gpu.empty() && !namedFamily(assume.gpu))
    return fmt::format("gpu: no GPU is known as `{}`; known are products (H100, MI300X) and "
                       "architectures (sm_90, gfx942)",
                       assume.gpu);
  if (assume.pcie != 0 && !pcieSlot(assume.pcie))
    return fmt::format("pcie: there is no generation {}; there are 1 to 6", assume.pcie);
  if (!(assume.nic >= 0 && assume.nic <= model::mostBandwidth))
    return fmt::format("nic: {} GB/s is no speed of a NIC", assume.nic);
  return "";
}

std::string counted(int64_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

std::string missingNetSpeed(int64_t nics, const Assume &assume) {
  std::string text = "network speed of " + counted(nics, "NIC", "NICs");
  return assume.nic > 0 ? fmt::format("{}: taken as {} GB/s", text, assume.nic) : text;
}

} // namespace ccl::topology
