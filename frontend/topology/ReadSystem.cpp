//===- ReadSystem.cpp - `<system>`: the tree of sockets, bridges, GPUs, NICs ----===//
#include "frontend/topology/ReadNccl.h"
#include "frontend/topology/SystemLinks.h"
#include "frontend/topology/XmlValues.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace ccl::topology {
namespace {

// A host has a handful of sockets; more would make the links between them a flood.
constexpr size_t mostSockets = 256;

class SystemReader {
public:
  SystemReader(const interchange::Xml &xml, const Assume &assume,
               std::vector<Diagnostic> &diagnostics)
      : values(xml, diagnostics), assume(assume), links(machine, values, assume) {}

  std::optional<Machine> read();

private:
  void readCpu(pugi::xml_node node);
  void readPci(pugi::xml_node node, int32_t parent);
  void readGpu(pugi::xml_node pci, pugi::xml_node node, int32_t parent, Speed speed,
               int64_t parts = 1);
  void readNic(pugi::xml_node nic, std::string_view busId, int32_t parent,
               std::optional<Speed> speed);
  std::optional<Speed> readPcie(pugi::xml_node pci);
  bool isGpuByClass(pugi::xml_node pci);
  Speed readSocket(pugi::xml_node cpu);
  void connectSockets();
  void orderGpus();
  void tellWhatIsMissing();
  TextPlace place(pugi::xml_node node) const { return values.document().place(node); }
  void warn(TextPlace place, std::string text) {
    machine.warnings.push_back({Diagnostic::Kind::Warning, place, -1, std::move(text), {}});
  }
  void warnOfUnknown(pugi::xml_node parent, std::initializer_list<std::string_view> known);

  Machine machine;
  XmlValues values;
  const Assume &assume;
  SystemLinks links;

  struct Socket {
    int32_t device, host;
    Speed speed;
  };
  std::vector<Socket> sockets;
  std::set<std::pair<int32_t, int64_t>> numas;       ///< host, numaid
  std::map<std::string, int32_t, std::less<>> hosts; ///< by host_hash
  int32_t host = 0;
  std::vector<std::pair<int32_t, std::optional<int64_t>>> ranks; ///< GPU devices, with `rank`
  bool namesGpus = false;                                        ///< some `gpu` element
  int64_t unknownDevices = 0, gpusByClass = 0, nicsByClass = 0;
  int64_t assumedSlots = 0, assumedNets = 0, assumedSockets = 0;
};

void SystemReader::warnOfUnknown(pugi::xml_node parent,
                                 std::initializer_list<std::string_view> known) {
  for (pugi::xml_node child : parent.children())
    if (std::find(known.begin(), known.end(), child.name()) == known.end())
      warn(place(child), fmt::format("`{}` in a `{}` is ignored", child.name(), parent.name()));
}

bool hasGpu(pugi::xml_node top) {
  return static_cast<bool>(
      top.find_node([](pugi::xml_node node) { return std::string_view(node.name()) == "gpu"; }));
}

std::optional<Machine> SystemReader::read() {
  pugi::xml_node top = values.document().root();
  machine.name = top.attribute("name").value();
  if (!top.attribute("version"))
    warn(place(top), "no version; NCCL takes 1, RCCL 2");
  values.integer(top, "version", 1, 2);
  namesGpus = hasGpu(top);
  warnOfUnknown(top, {"cpu"});
  for (pugi::xml_node cpu : top.children("cpu"))
    readCpu(cpu);
  if (values.failed())
    return std::nullopt;
  links.connect();
  connectSockets();
  if (values.failed())
    return std::nullopt;
  orderGpus();
  tellWhatIsMissing();
  return std::move(machine);
}

void SystemReader::readCpu(pugi::xml_node node) {
  host = 0;
  std::string_view hash = node.attribute("host_hash").value();
  host = hosts.try_emplace(std::string(hash), int32_t(hosts.size())).first->second;
  values.required(node, "numaid");
  int64_t numa = values.integer(node, "numaid", -1, 1 << 20).value_or(-1);
  if (!numas.emplace(host, numa).second)
    warn(place(node), fmt::format("numaid=\"{}\" for the second time; taken as two CPUs", numa));
  std::string prefix = host > 0 ? fmt::format("host{}.", host) : "";
  Device socket;
  socket.kind = DeviceKind::Cpu;
  socket.name = numa < 0 ? prefix + "cpu" : fmt::format("{}cpu{}", prefix, numa);
  socket.host = host;
  int32_t device = machine.add(std::move(socket));
  sockets.push_back({device, host, readSocket(node)});
  links.enterSocket(device, host);
  warnOfUnknown(node, {"pci", "nic"});
  for (pugi::xml_node child : node.children("pci"))
    readPci(child, device);
  // NICs that no PCI device is known of.
  for (pugi::xml_node nic : node.children("nic"))
    readNic(nic, "", device, std::nullopt);
}

Speed SystemReader::readSocket(pugi::xml_node cpu) {
  int64_t family = values.integer(cpu, "familyid", -1, 1 << 20).value_or(0);
  int64_t model = values.integer(cpu, "modelid", -1, 1 << 20).value_or(0);
  std::optional<Speed> speed =
      socketSpeed(cpu.attribute("arch").value(), cpu.attribute("vendor").value(), family, model);
  assumedSockets += !speed;
  return speed.value_or(someSocket);
}

/// "16.0 GT/s PCIe", "8 GT/s"; empty or another unit: nothing.
std::optional<double> gigatransfers(std::string_view text) {
  double value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view rest(end, size_t(text.data() + text.size() - end));
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  if (code != std::errc() || !rest.starts_with("GT/s"))
    return std::nullopt;
  return value;
}

/// What the slot of a device carries, as NCCL reads it: no speed is 8 GT/s, no width 16 lanes.
std::optional<Speed> SystemReader::readPcie(pugi::xml_node pci) {
  constexpr int64_t unknownWidth = 255; // what Linux says of devices without a slot
  int64_t width = values.integer(pci, "link_width", 0, unknownWidth).value_or(0);
  if (width > 32 && width != unknownWidth)
    values.error(values.document().place(pci, "link_width"),
                 fmt::format("link_width=\"{}\": PCI Express has up to 32 lanes", width));
  if (width == unknownWidth)
    width = 0;
  std::string_view text = pci.attribute("link_speed").value();
  std::optional<double> speed = gigatransfers(text);
  std::optional<Speed> lane = speed ? pcieLane(*speed) : std::nullopt;
  if (speed && !lane)
    values.error(values.document().place(pci, "link_speed"),
                 fmt::format("link_speed=\"{}\" is no speed of PCI Express: 2.5, 5, 8, 16, 32 or "
                             "64 GT/s",
                             text));
  if (!lane || width == 0)
    ++assumedSlots;
  if (!lane)
    lane = assumedSlot(assume) * (1.0 / 16);
  return *lane * double(width == 0 ? 16 : width);
}

bool SystemReader::isGpuByClass(pugi::xml_node pci) {
  if (namesGpus || !pci.attribute("class"))
    return false;
  uint32_t type = values.hexadecimal(pci, "class").value_or(0) >> 16;
  return isComputingGpu(type, values.hexadecimal(pci, "vendor").value_or(0));
}

void SystemReader::readPci(pugi::xml_node node, int32_t parent) {
  std::string busId(values.required(node, "busid"));
  Speed speed = readPcie(node).value_or(Speed{});
  uint32_t type = values.hexadecimal(node, "class").value_or(0);

  std::vector<pugi::xml_node> gpus(node.children("gpu").begin(), node.children("gpu").end());
  if (gpus.empty() && isGpuByClass(node)) {
    ++gpusByClass;
    gpus.push_back({});
  }
  pugi::xml_node nic = node.child("nic");
  if (gpus.size() == 1) {
    warnOfUnknown(node, {"gpu"});
    readGpu(node, gpus[0], parent, speed);
    return;
  }
  if (nic || (type >> 16) == 0x02) {
    warnOfUnknown(node, {"nic"});
    if (pugi::xml_node second = nic.next_sibling("nic"))
      warn(place(second), "a second `nic` in a `pci` is ignored, as in NCCL");
    readNic(nic, busId, parent, speed);
    links.remember(node, -1);
    if (!nic)
      ++nicsByClass;
    return;
  }
  warnOfUnknown(node, {"pci", "gpu", "pcilink"});
  bool bridge = node.child("pci") || (type >> 8) == 0x0604 || gpus.size() > 1;
  if (!bridge) {
    // NVSwitches count by the links that lead to them; disks and the like do not count.
    links.remember(node, -1);
    unknownDevices += !node.attribute("class");
    return;
  }
  int32_t device = machine.add({DeviceKind::Pcie, "pci" + busId, host});
  links.remember(node, device);
  machine.connect(device, parent, speed);
  for (pugi::xml_node gpu : gpus) // parts of one GPU
    readGpu({}, gpu, device, speed, int64_t(gpus.size()));
  links.readPciLinks(node, device);
  for (pugi::xml_node child : node.children("pci"))
    readPci(child, device);
}

void SystemReader::readGpu(pugi::xml_node pci, pugi::xml_node node, int32_t parent, Speed speed,
                           int64_t parts) {
  int64_t number = values.integer(node, "dev", 0, 1 << 20).value_or(int64_t(ranks.size()));
  int32_t device = machine.add({DeviceKind::Gpu, fmt::format("gpu{}", number), host});
  ranks.emplace_back(device, values.integer(node, "rank", -1, 1 << 24));
  if (ranks.back().second == -1)
    ranks.back().second.reset();
  if (pci)
    links.remember(pci, device);
  machine.connect(device, parent, speed);

  const GpuFamily *family = nullptr;
  if (std::string_view gcn = node.attribute("gcn").value(); !gcn.empty())
    family = amdFamily(gcn); // there `sm` is the number of compute units
  else if (std::optional<int64_t> sm = values.integer(node, "sm", 0, 1000))
    family = cudaFamily(*sm);
  if (!family && pci)
    family = pciFamily(values.hexadecimal(pci, "vendor").value_or(0),
                       values.hexadecimal(pci, "device").value_or(0));
  if (!family)
    family = namedFamily(assume.gpu);
  links.readGpuLinks(node, device, family, parts);
}

void SystemReader::readNic(pugi::xml_node nic, std::string_view busId, int32_t parent,
                           std::optional<Speed> speed) {
  std::vector<pugi::xml_node> nets(nic.children("net").begin(), nic.children("net").end());
  if (nic)
    warnOfUnknown(nic, {"net", "gin", "rma", "coll"});
  if (nets.empty())
    nets.push_back({});
  // The ports of one device share its slot.
  if (nets.size() > 1 && speed) {
    int32_t slot = machine.add({DeviceKind::Pcie, fmt::format("pci{}", busId), host});
    machine.connect(slot, parent, *speed);
    parent = slot;
  }
  for (pugi::xml_node net : nets) {
    Device device;
    device.kind = DeviceKind::Nic;
    device.host = host;
    device.name = net.attribute("name").value();
    if (device.name.empty())
      device.name = net.attribute("dev") ? fmt::format("net{}", net.attribute("dev").value())
                                         : fmt::format("nic{}", busId);
    device.latency = values.number(net, "latency", 0, 1e9).value_or(0);
    std::optional<double> megabits = values.number(net, "speed", -1e12, 1e12);
    if (megabits && *megabits <= 0)
      megabits = 10000; // what NCCL takes then
    if (megabits && *megabits >= 1e7)
      warn(values.document().place(net, "speed"),
           fmt::format("{} Mbit/s is more than any NIC; taken as it is", *megabits));
    double net_ = megabits ? *megabits / 8000 : assume.nic;
    assumedNets += !megabits;
    device.net = {net_, net_};
    Speed attach = speed.value_or(Speed{net_ > 0 ? net_ : localSpeed, localSpeed});
    machine.connect(machine.add(std::move(device)), parent, attach);
  }
}

void SystemReader::connectSockets() {
  if (sockets.size() > mostSockets) {
    values.error(
        place(values.document().root()),
        fmt::format("{} `cpu` elements; at most {} are read", sockets.size(), mostSockets));
    return;
  }
  // NCCL: every socket has a link to every other one of its host, as fast as its kind allows.
  for (const Socket &from : sockets)
    for (const Socket &to : sockets)
      if (from.device != to.device && from.host == to.host)
        machine.cable(from.device, to.device, from.speed);
}

void SystemReader::orderGpus() {
  std::set<int64_t> seen;
  bool distinct = true;
  for (auto &[device, rank] : ranks)
    distinct &= rank && seen.insert(*rank).second;
  for (auto &[device, rank] : ranks)
    if (distinct)
      machine.devices[size_t(device)].order = *rank;
  if (!distinct && !seen.empty())
    machine.notes.push_back("ranks are numbered as GPUs follow in the file: some `rank` is missing "
                            "or given twice");
}

void SystemReader::tellWhatIsMissing() {
  std::vector<std::string> &missing = machine.missing;
  auto tell = [&](bool when, std::string text) {
    if (when)
      missing.push_back(std::move(text));
  };
  int64_t gpus = machine.count(DeviceKind::Gpu);
  tell(unknownDevices > 0,
       fmt::format("what PCI devices without `class` are ({} of them)", unknownDevices));
  tell(gpus == 0, "GPUs: there is neither a `gpu` nor a PCI device of class 0x03 or 0x12");
  tell(gpusByClass > 0,
       fmt::format("`gpu` elements: {} known by PCI class alone, without kind, rank and NVLinks "
                   "(NCCL asks the driver); only PCI Express joins them here",
                   counted(gpusByClass, "GPU is", "GPUs are")));
  tell(nicsByClass > 0,
       fmt::format("`net` elements, so the names, of {}", counted(nicsByClass, "NIC", "NICs")));
  tell(assumedSlots > 0, fmt::format("speed or width of {}: taken as 16 lanes of {}",
                                     counted(assumedSlots, "PCI slot", "PCI slots"),
                                     assume.pcie > 0 ? fmt::format("PCIe {}", assume.pcie)
                                                     : "8 GT/s (PCIe 3), as NCCL does"));
  tell(sockets.size() > 1 && assumedSockets > 0,
       fmt::format("the kind of {}, so the speed between them: taken as {} GB/s",
                   counted(assumedSockets, "CPU", "CPUs"), someSocket.nominal));
  tell(assumedNets > 0, missingNetSpeed(assumedNets, assume));
  links.tellWhatIsMissing();
  if (sockets.size() > 1)
    machine.notes.push_back("between sockets NCCL's figure holds for both rates: no file says how "
                            "many links a board has");
}

} // namespace

std::optional<Machine> readSystem(const interchange::Xml &xml, const Assume &assume,
                                  std::vector<Diagnostic> &diagnostics) {
  return SystemReader(xml, assume, diagnostics).read();
}

} // namespace ccl::topology
