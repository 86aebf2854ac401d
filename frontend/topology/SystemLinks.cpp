#include "frontend/topology/SystemLinks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace ccl::topology {

/// "0000:1B:00.0" and "00000000:1b:00.0" are one device.
static std::string normalBusId(std::string_view text) {
  std::string id;
  for (char c : text)
    id += char(std::tolower(static_cast<unsigned char>(c)));
  size_t colon = id.find(':');
  if (colon != id.npos && id.find(':', colon + 1) == id.npos)
    return "0000:" + id; // no domain
  while (colon != id.npos && colon > 4 && id[0] == '0') {
    id.erase(0, 1);
    --colon;
  }
  return id;
}

void SystemLinks::warn(TextPlace place, std::string text) {
  machine.warnings.push_back({Diagnostic::Kind::Warning, place, -1, std::move(text), {}});
}

void SystemLinks::enterSocket(int32_t device, int32_t ofHost) {
  socket = device;
  host = ofHost;
}

void SystemLinks::remember(pugi::xml_node pci, int32_t device) {
  std::string_view busId = values.required(pci, "busid");
  TextPlace place = values.document().place(pci);
  auto [it, isNew] = byBusId.try_emplace({host, normalBusId(busId)}, Known{device, place});
  Known &known = it->second;
  if (isNew)
    return;
  if (isGpu(device) && isGpu(known.device)) {
    values.error(place, fmt::format("a second GPU on bus {}: links to it could mean either", busId),
                 known.place, "the first");
    return;
  }
  // Files that were put together by hand repeat bridges; as in NCCL, each is one of its own.
  if (!known.warned)
    warn(place,
         fmt::format("{} is also in line {}; taken as two devices", busId, known.place.line));
  known.warned = true;
  if (isGpu(device) || known.device < 0)
    known.device = device;
}

void SystemLinks::readGpuLinks(pugi::xml_node gpu, int32_t device, const GpuFamily *family,
                               int64_t parts) {
  int64_t nvlinks = 0;
  for (pugi::xml_node node : gpu.children()) {
    std::string_view kind = node.name();
    TextPlace place = values.document().place(node);
    int64_t count = values.integer(node, "count", 0, 1024).value_or(0);
    if (kind == "c2c") {
      values.required(node, "bw");
      values.required(node, "count");
      double bandwidth =
          values.number(node, "bw", 0, 1e9).value_or(0) * double(count) / 1000 / double(parts);
      if (bandwidth > 0)
        machine.connect(device, socket, {bandwidth, bandwidth});
      continue;
    }
    if (kind != "nvlink" && kind != "xgmi") {
      warn(place, fmt::format("`{}` in a `gpu` is ignored", kind));
      continue;
    }
    values.required(node, "count");
    Bundle bundle = {device, host,
                     socket, normalBusId(values.required(node, "target")),
                     count,  values.hexadecimal(node, "tclass").value_or(0)};
    bundle.link = (family           ? family->link
                   : kind == "xgmi" ? someXgmi
                                    : someNvlink) *
                  (1.0 / double(parts));
    bundle.place = place;
    anyXgmi |= kind == "xgmi";
    anyNvls |= family && family->inSwitch;
    unknownFamily += !family;
    nvlinks += kind == "nvlink" ? count : 0;
    if (family && nvlinks > family->most && nvlinks - count <= family->most && family->most > 0)
      warn(place, fmt::format("{} NVLinks, but a {} has {}", nvlinks, family->name, family->most));
    if (count > 0)
      bundles.push_back(std::move(bundle));
  }
}

void SystemLinks::readPciLinks(pugi::xml_node pci, int32_t device) {
  for (pugi::xml_node node : pci.children("pcilink"))
    bridges.push_back({device,
                       host,
                       socket,
                       normalBusId(values.required(node, "target")),
                       1,
                       0,
                       {localSpeed, localSpeed},
                       values.document().place(node)});
}

/// NCCL puts several hosts into one file only where NVLink spans them.
int32_t SystemLinks::nvswitch() {
  if (switches < 0)
    switches = machine.add({DeviceKind::Switch, "nvswitch", 0, 0, {}, 0, anyNvls, anyNvls});
  return switches;
}

void SystemLinks::connectBundle(const Bundle &bundle) {
  Speed speed = bundle.link * double(bundle.count);
  // Virtual machines hide NVSwitches behind a bus number that cannot be.
  bool hidden = bundle.target.starts_with("fffffff:ffff:ff");
  if (hidden || bundle.type == 0x068000) {
    machine.connect(bundle.from, nvswitch(), speed);
    return;
  }
  if (bundle.type == 0x068001) { // a POWER9 socket
    machine.connect(bundle.from, bundle.socket, speed);
    return;
  }
  auto known = byBusId.find({bundle.host, bundle.target});
  int32_t target = known == byBusId.end() ? -1 : known->second.device;
  if (!isGpu(target)) {
    warn(bundle.place, fmt::format("the link to {} leads to no GPU of this file, and is left out",
                                   bundle.target));
    return;
  }
  if (target == bundle.from) {
    values.error(bundle.place, "a link from a GPU to itself");
    return;
  }
  machine.cable(bundle.from, target, speed);
  auto [it, isNew] = direct.try_emplace({bundle.from, target}, bundle.count, &bundle);
  if (!isNew)
    it->second.first += bundle.count;
}

/// Links have two ends and carry as much in both directions.
void SystemLinks::checkBothEnds() {
  for (const auto &[ends, bundle] : direct) {
    auto [from, to] = ends;
    auto back = direct.find({to, from});
    if (back == direct.end()) {
      warn(bundle.second->place,
           fmt::format("{} names no link back to {}; taken as {} links in both directions",
                       machine.devices[size_t(to)].name, machine.devices[size_t(from)].name,
                       bundle.first));
      machine.cable(to, from, bundle.second->link * double(bundle.first));
    } else if (back->second.first != bundle.first && from < to) {
      values.error(bundle.second->place,
                   fmt::format("{} links to {}, which names {} back", bundle.first,
                               machine.devices[size_t(to)].name, back->second.first),
                   back->second.second->place, "the other end");
    }
  }
}

void SystemLinks::connect() {
  for (const Bundle &bundle : bundles)
    connectBundle(bundle);
  checkBothEnds();
  std::map<std::pair<int32_t, int32_t>, int> joined;
  for (const Bundle &bridge : bridges) {
    auto known = byBusId.find({bridge.host, bridge.target});
    int32_t target = known == byBusId.end() ? -1 : known->second.device;
    if (target < 0 || target == bridge.from ||
        machine.devices[size_t(target)].kind != DeviceKind::Pcie) {
      warn(bridge.place,
           fmt::format("the link to {} leads to no other bridge, and is left out", bridge.target));
      continue;
    }
    if (joined[std::minmax(bridge.from, target)]++ == 0)
      machine.connect(bridge.from, target, bridge.link);
  }
}

void SystemLinks::tellWhatIsMissing() {
  if (unknownFamily > 0)
    machine.missing.push_back(fmt::format(
        "the kind of some GPUs, so the speed of {} links: taken as {} GB/s a link "
        "({} effective){}",
        unknownFamily, anyXgmi ? someXgmi.nominal : someNvlink.nominal,
        anyXgmi ? someXgmi.effective : someNvlink.effective,
        assume.gpu.empty() ? "" : fmt::format("; no GPU is known as \"{}\"", assume.gpu)));
}

} // namespace ccl::topology
