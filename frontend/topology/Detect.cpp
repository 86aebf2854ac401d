#include "frontend/topology/Detect.h"

#include "frontend/topology/NvidiaGpus.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <hwloc/distances.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include <unistd.h>

namespace ccl::topology {
namespace {

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Loaded = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

Loaded load(const DetectOptions &options, std::string &error) {
  error = "hwloc could not read this machine";
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0)
    return nullptr;
  Loaded topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  // hwloc would take this machine instead, without a word.
  const char *path = std::getenv("HWLOC_XMLFILE");
  const std::string &xml = options.hwlocXml;
  if (xml.empty() && path && *path && access(path, R_OK) != 0) {
    error = fmt::format("HWLOC_XMLFILE={}: {}", path, std::strerror(errno));
    return nullptr;
  }
  if (!xml.empty() && hwloc_topology_set_xmlbuffer(raw, xml.c_str(), int(xml.size() + 1)) != 0)
    return nullptr;
  if (hwloc_topology_load(raw) != 0) {
    if (path && *path)
      error = fmt::format("HWLOC_XMLFILE={}: hwloc could not read it", path);
    return nullptr;
  }
  return topology;
}

class Detector {
public:
  Detector(hwloc_topology_t topology, const DetectOptions &options)
      : topology(topology), options(options) {}
  Machine run();

private:
  void addSockets();
  std::optional<Speed> speedFrom(hwloc_obj_t package) const;
  std::vector<hwloc_obj_t> domains() const;
  void addIo(hwloc_obj_t object, int32_t parent);
  void addPciDevice(hwloc_obj_t object, int32_t parent);
  void addGpu(hwloc_obj_t object, int32_t parent);
  void nameGpus();
  void addLinks(const char *name);
  void tellWhatIsMissing(bool linksKnown);
  void addCores();
  bool hasInteresting(hwloc_obj_t object) const;
  int32_t socketOf(hwloc_obj_t object);
  Speed slotOf(const PciAttributes &pci);
  int32_t add(DeviceKind kind, std::string name) {
    Device device;
    device.kind = kind;
    device.name = std::move(name);
    return machine.add(std::move(device));
  }

  hwloc_topology_t topology;
  const DetectOptions &options;
  Machine machine;
  std::vector<std::pair<hwloc_obj_t, int32_t>> sockets; ///< packages, or the machine
  std::map<hwloc_obj_t, size_t> gpus;                   ///< PCI devices, by place in `placed`
  std::vector<PlacedGpu> placed;
  int32_t socket = 0;                        ///< that of what is added
  int64_t unknownSlots = 0, unknownNics = 0; ///< of others than GPUs
};

bool isGpu(hwloc_obj_t object) {
  if (object->type != HWLOC_OBJ_PCI_DEVICE)
    return false;
  const PciAttributes &pci = object->attr->pcidev;
  return isComputingGpu(pci.class_id >> 8, pci.vendor_id);
}

bool isNic(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_PCI_DEVICE && (object->attr->pcidev.class_id >> 8) == 0x02;
}

bool Detector::hasInteresting(hwloc_obj_t object) const {
  if (isGpu(object) || isNic(object))
    return true;
  for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
    if (hasInteresting(child))
      return true;
  return false;
}

void Detector::addSockets() {
  int packages = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);
  for (int i = 0; i < packages; ++i)
    sockets.emplace_back(hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, unsigned(i)),
                         add(DeviceKind::Cpu, fmt::format("cpu{}", i)));
  if (packages <= 0)
    sockets.emplace_back(hwloc_get_root_obj(topology), add(DeviceKind::Cpu, "cpu0"));
  if (sockets.size() < 2)
    return;
  bool known = true;
  for (auto [from, a] : sockets) {
    std::optional<Speed> speed = speedFrom(from);
    known &= speed.has_value();
    for (auto [to, b] : sockets)
      if (a != b)
        machine.cable(a, b, speed.value_or(someSocket));
  }
  machine.notes.push_back("between sockets NCCL's figure holds for both rates");
  if (!known)
    machine.missing.push_back(fmt::format(
        "the kind of CPU, so the speed between sockets: taken as {} GB/s", someSocket.nominal));
}

/// Of the links from a socket to others.
std::optional<Speed> Detector::speedFrom(hwloc_obj_t package) const {
  auto info = [](hwloc_obj_t object, const char *name) {
    const char *text = hwloc_obj_get_info_by_name(object, name);
    return std::string(text ? text : "");
  };
  std::string arch = info(hwloc_get_root_obj(topology), "Architecture");
  // NCCL's names.
  if (arch == "aarch64")
    arch = "arm64";
  if (arch.starts_with("ppc64"))
    arch = "ppc64";
  return socketSpeed(arch, info(package, "CPUVendor"),
                     std::atoi(info(package, "CPUFamilyNumber").c_str()),
                     std::atoi(info(package, "CPUModelNumber").c_str()));
}

int32_t Detector::socketOf(hwloc_obj_t object) {
  for (auto [package, device] : sockets)
    if (object->cpuset && package->cpuset &&
        hwloc_bitmap_intersects(object->cpuset, package->cpuset))
      return device;
  return sockets.front().second;
}

/// hwloc gives the payload in GB/s of what the slot has negotiated: lanes x 0.985 from PCIe 3 on.
Speed Detector::slotOf(const PciAttributes &pci) {
  if (!(pci.linkspeed > 0))
    return assumedSlot(options.assume);
  // Lanes are a power of two, so the nearest of the possible ones says speed and width. Of equal
  // ones the fewer lanes: their nominal and NCCL's figures agree anyway.
  Speed best;
  double distance = 0;
  for (double speed : {2.5, 5., 8., 16., 32., 64.})
    for (int lanes = 1; lanes <= 16; lanes *= 2) {
      Speed lane = *pcieLane(speed) * lanes;
      double payload = speed <= 5 ? lane.nominal : lane.nominal * 128 / 130;
      double off = std::abs(std::log(payload / double(pci.linkspeed)));
      if (best.nominal == 0 || off < distance) {
        best = lane;
        distance = off;
      }
    }
  return best;
}

void Detector::addGpu(hwloc_obj_t object, int32_t parent) {
  const PciAttributes &pci = object->attr->pcidev;
  PlacedGpu gpu;
  gpu.device = add(DeviceKind::Gpu, "");
  machine.devices.back().order = int64_t(placed.size());
  gpu.socket = socket;
  gpu.address = {pci.domain, pci.bus, pci.dev};
  gpu.vendor = pci.vendor_id;
  if (const char *name = hwloc_obj_get_info_by_name(object, "PCIDevice"))
    gpu.product = name;
  gpu.slotKnown = pci.linkspeed > 0;
  machine.connect(gpu.device, parent, slotOf(pci));
  gpus[object] = placed.size();
  placed.push_back(std::move(gpu));
}

/// As their ranks are numbered.
void Detector::nameGpus() {
  std::map<int64_t, const PlacedGpu *> byOrder;
  for (const PlacedGpu &gpu : placed)
    if (gpu.device >= 0)
      byOrder[machine.devices[size_t(gpu.device)].order] = &gpu;
  int rank = 0;
  for (auto [order, gpu] : byOrder) {
    std::string &name = machine.devices[size_t(gpu->device)].name;
    name = fmt::format("gpu{}", rank++);
    machine.notes.push_back(fmt::format("{}: {}, PCI {}", name,
                                        gpu->product.empty() ? "unknown product" : gpu->product,
                                        gpu->address.text()));
  }
}

void Detector::addPciDevice(hwloc_obj_t object, int32_t parent) {
  if (isGpu(object))
    return addGpu(object, parent);
  const PciAttributes &pci = object->attr->pcidev;
  std::string name =
      fmt::format("nic{:04x}:{:02x}:{:02x}.{}", pci.domain, pci.bus, pci.dev, unsigned(pci.func));
  for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->name &&
        (child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS ||
         child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK)) {
      name = child->name;
      if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
        break;
    }
  ++unknownNics;
  unknownSlots += !(pci.linkspeed > 0);
  int32_t nic = add(DeviceKind::Nic, name);
  machine.devices.back().net = {options.assume.nic, options.assume.nic};
  machine.connect(nic, parent, slotOf(pci));
}

void Detector::addIo(hwloc_obj_t object, int32_t parent) {
  for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling) {
    if (!hasInteresting(child))
      continue;
    if (isGpu(child) || isNic(child)) {
      addPciDevice(child, parent);
      continue;
    }
    if (child->type != HWLOC_OBJ_BRIDGE)
      continue;
    const hwloc_obj_attr_u &attr = *child->attr;
    bool bridge = attr.bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
    // A port that only one device hangs at is the slot.
    int things = 0;
    for (hwloc_obj_t below = child->io_first_child; below; below = below->next_sibling)
      things += hasInteresting(below);
    int32_t node = parent;
    if (bridge && things > 1) {
      const PciAttributes &pci = attr.bridge.upstream.pci;
      node = add(DeviceKind::Pcie, fmt::format("pci{:04x}:{:02x}:{:02x}.{}", pci.domain, pci.bus,
                                               pci.dev, unsigned(pci.func)));
      unknownSlots += !(pci.linkspeed > 0);
      machine.connect(node, parent, slotOf(pci));
    }
    addIo(child, node);
  }
}

/// hwloc's matrices of link bandwidths, MB/s, between GPUs' devices of NVML or ROCm SMI. All that
/// is no GPU in them is a port of an NVSwitch; the switches count as one.
void Detector::addLinks(const char *name) {
  unsigned count = 1;
  hwloc_distances_s *matrix = nullptr;
  if (hwloc_distances_get_by_name(topology, name, &count, &matrix, 0) != 0 || count == 0)
    return;
  int32_t middle = -1;
  std::vector<int32_t> devices;
  for (unsigned i = 0; i < matrix->nbobjs; ++i) {
    hwloc_obj_t object = matrix->objs[i];
    while (object && !gpus.contains(object))
      object = object->parent;
    if (!object && middle < 0)
      middle = add(DeviceKind::Switch, "nvswitch");
    devices.push_back(object ? placed[gpus[object]].device : middle);
  }
  std::map<std::pair<int32_t, int32_t>, double> speeds;
  for (unsigned a = 0; a < matrix->nbobjs; ++a)
    for (unsigned b = 0; b < matrix->nbobjs; ++b)
      if (devices[a] != devices[b] && devices[a] >= 0 && devices[b] >= 0)
        speeds[{devices[a], devices[b]}] += double(matrix->values[a * matrix->nbobjs + b]) / 1000;
  for (auto [ends, speed] : speeds)
    if (speed > 0)
      machine.cable(ends.first, ends.second, {speed, speed});
  machine.notes.push_back(fmt::format("links between GPUs are hwloc's {}", name));
  hwloc_distances_release(topology, matrix);
}

/// NUMA domains with cores of their own: memory without, or beside other memory, holds no rank.
std::vector<hwloc_obj_t> Detector::domains() const {
  std::vector<hwloc_obj_t> found;
  for (int i = 0; i < hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE); ++i) {
    hwloc_obj_t domain = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, unsigned(i));
    bool isOwn = domain->cpuset && !hwloc_bitmap_iszero(domain->cpuset);
    for (hwloc_obj_t other : found)
      isOwn &= !hwloc_bitmap_intersects(domain->cpuset, other->cpuset);
    if (isOwn)
      found.push_back(domain);
  }
  return found;
}

void Detector::addCores() {
  std::vector<hwloc_obj_t> ranks = domains();
  bool areDomains = ranks.size() > 1;
  if (!areDomains) {
    int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    hwloc_obj_type_t type = cores > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    ranks.clear();
    for (int i = 0; i < hwloc_get_nbobjs_by_type(topology, type); ++i)
      ranks.push_back(hwloc_get_obj_by_type(topology, type, unsigned(i)));
  }
  machine.rankName = areDomains ? "numa" : "core";
  bool measured = options.copySpeed <= 0;
  double speed = measured ? measureCopySpeed() : options.copySpeed;
  for (hwloc_obj_t object : ranks) {
    int64_t number = machine.count(DeviceKind::Gpu);
    int32_t device = add(DeviceKind::Gpu, fmt::format("{}{}", machine.rankName, number));
    machine.devices.back().order = number;
    machine.connect(device, socketOf(object), {speed, speed});
  }
  machine.notes.push_back(
      fmt::format("no GPU was found: ranks are the {}", areDomains ? "NUMA domains" : "cores"));
  std::string_view where = hwloc_topology_is_thissystem(topology) ? "" : " (on this machine)";
  machine.missing.push_back(
      fmt::format("the speed of memory between ranks: taken as what one core copies, {:.3g} GB/s{}",
                  speed, measured ? fmt::format(", measured just now{}", where) : ""));
}

void Detector::tellWhatIsMissing(bool linksKnown) {
  const int64_t count = machine.count(DeviceKind::Gpu);
  const bool areNvidia = std::all_of(placed.begin(), placed.end(), [](const PlacedGpu &gpu) {
    return gpu.vendor == nvidiaVendor;
  });
  if (!placed.empty() && count > 1 && !(linksKnown && areNvidia))
    machine.missing.push_back(
        "links between GPUs beyond PCI Express, unless hwloc was built with "
        "the GPUs' library: `nvidia-smi topo -m` or `rocm-smi --showtopo` say "
        "more");
  for (const PlacedGpu &gpu : placed)
    unknownSlots += gpu.device >= 0 && !gpu.slotKnown;
  if (unknownSlots > 0)
    machine.missing.push_back(
        "speed and width of " + counted(unknownSlots, "PCI slot", "PCI slots") +
        fmt::format(": taken as PCIe {} x16", assumedGeneration(options.assume)));
  if (unknownNics > 0)
    machine.missing.push_back(missingNetSpeed(unknownNics, options.assume));
}

Machine Detector::run() {
  machine.name = "detected";
  const bool isHere = hwloc_topology_is_thissystem(topology) != 0;
  if (!isHere)
    machine.notes.push_back("hwloc's XML describes another machine");
  addSockets();
  // Host bridges hang below any object that has memory or cores.
  std::vector<hwloc_obj_t> work = {hwloc_get_root_obj(topology)};
  while (!work.empty()) {
    hwloc_obj_t object = work.back();
    work.pop_back();
    socket = socketOf(object);
    if (object->io_arity > 0)
      addIo(object, socket);
    for (unsigned i = object->arity; i-- > 0;)
      work.push_back(object->children[i]);
  }
  NvidiaGpus nvidia(machine, placed, options.assume);
  if (isHere) {
    nvidia.ask(options.nvmlLibrary, options.cudaLibrary, options.answerLimit);
    nvidia.choose(sockets.front().second);
  }
  nameGpus();
  if (placed.empty())
    addCores();
  nvidia.connect();
  if (!nvidia.knowsLinks())
    addLinks("NVLinkBandwidth");
  addLinks("XGMIBandwidth");
  tellWhatIsMissing(nvidia.knowsLinks());
  return std::move(machine);
}

} // namespace

Machine detect(const DetectOptions &options) {
  std::string error;
  Loaded topology = load(options, error);
  if (topology)
    return Detector(topology.get(), options).run();
  Machine machine;
  machine.name = "detected";
  machine.missing.push_back(std::move(error));
  return machine;
}

} // namespace ccl::topology
