//===- NvidiaLinks.cpp ------------------------------------------------------===//
#include "frontend/topology/NvidiaLinks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ccl::topology {

const PlacedGpu *NvidiaLinks::find(const PciAddress &address) const {
  auto found = std::find_if(gpus.begin(), gpus.end(),
                            [&](const PlacedGpu &gpu) { return gpu.address == address; });
  return found == gpus.end() ? nullptr : &*found;
}

void NvidiaLinks::note(const PlacedGpu &gpu, const std::string &what) {
  ++oddities[{nameOf(gpu), what}];
}

int32_t NvidiaLinks::nvswitch(bool copies) {
  if (switches < 0)
    switches = machine.add({DeviceKind::Switch, "nvswitch"});
  Device &device = machine.devices[size_t(switches)];
  device.multicast |= copies;
  device.reduce |= copies;
  return switches;
}

const GpuFamily *NvidiaLinks::familyOf(const NvmlGpu &facts) const {
  if (const GpuFamily *family = cudaFamily(facts.capability))
    return family;
  if (const GpuFamily *family = namedFamily(facts.name))
    return family;
  if (const GpuFamily *family = pciFamily(facts.vendor, facts.product))
    return family;
  return namedFamily(assume.gpu);
}

Speed NvidiaLinks::speedOf(const GpuFamily *family, const NvLink &link, const PlacedGpu &gpu) {
  if (!family && link.speed > 0) {
    note(gpu, fmt::format("of a GPU of unknown kind, count with NVML's {:g} GB/s at both rates",
                          link.speed));
    return {link.speed, link.speed};
  }
  if (!family) {
    ++unknownSpeeds;
    return someNvlink;
  }
  // NVML counts framing, makers round: what is within some percent is the same.
  const double ratio = link.speed / family->link.nominal;
  if (link.speed <= 0 || (ratio > 0.9 && ratio < 1.2))
    return family->link;
  note(gpu, fmt::format("run at {:g} GB/s, not a {}'s {:g}, and count so", link.speed, family->name,
                        family->link.nominal));
  return family->link * ratio;
}

void NvidiaLinks::readEnd(const NvmlGpu &facts, const PlacedGpu &gpu, const NvLink &link,
                          Speed speed) {
  if (link.end == LinkEnd::Switch) {
    const GpuFamily *family = familyOf(facts);
    nvswitch(family && family->inSwitch);
    return bundles[{gpu.device, switches}].add(speed);
  }
  if (link.end == LinkEnd::Socket) {
    machine.connect(gpu.device, gpu.socket, speed);
    return;
  }
  const PlacedGpu *other = find(link.remote);
  if (!other && link.end == LinkEnd::Unknown && link.remote == PciAddress{})
    return note(gpu, "lead to what NVML does not tell, and are left out");
  if (!other)
    return note(gpu, fmt::format("lead to {}, which is no GPU of this machine, and are left out",
                                 link.remote.text()));
  if (other == &gpu)
    return note(gpu, "lead to the GPU itself, and are left out");
  const bool isSplit = std::any_of(nvml.gpus.begin(), nvml.gpus.end(), [&](const NvmlGpu &gpu) {
    return gpu.address == link.remote && gpu.isMig;
  });
  // Of these it is said elsewhere.
  if (other->device >= 0 && !isSplit)
    bundles[{gpu.device, other->device}].add(speed);
}

void NvidiaLinks::readLinks(const NvmlGpu &facts, const PlacedGpu &gpu) {
  asked[gpu.device] = facts.linksKnown;
  if (!facts.linksKnown)
    machine.missing.push_back(fmt::format("some NVLinks of {}: NVML did not tell", nameOf(gpu)));
  const int64_t active = int64_t(facts.links.size());
  if (facts.inactiveLinks > 0)
    inactive.push_back(fmt::format("{} of {}'s {}", facts.inactiveLinks, nameOf(gpu),
                                   active + facts.inactiveLinks));
  if (facts.isMig) {
    split.push_back(nameOf(gpu));
    asked[gpu.device] = true;
    return;
  }
  const GpuFamily *family = familyOf(facts);
  if (family && active > family->most)
    machine.notes.push_back(fmt::format("{} has {} NVLinks, but a {} has {}", nameOf(gpu), active,
                                        family->name, family->most));
  for (const NvLink &link : facts.links)
    readEnd(facts, gpu, link, speedOf(family, link, gpu));
}

/// Links carry as much in both directions.
void NvidiaLinks::connectGpus() {
  for (const auto &[ends, bundle] : bundles) {
    auto [from, to] = ends;
    if (to == switches) {
      machine.connect(from, to, bundle.speed());
      continue;
    }
    auto back = bundles.find({to, from});
    const bool isTwoWay = back != bundles.end();
    if (isTwoWay && from > to)
      continue;
    const std::string &one = machine.devices[size_t(from)].name;
    const std::string &other = machine.devices[size_t(to)].name;
    const int64_t backCount = isTwoWay ? back->second.count : 0;
    if (!isTwoWay && !asked[to]) {
      machine.notes.push_back(
          fmt::format("{} does not tell its links: the {} of {} to it are taken "
                      "as two-way",
                      other, bundle.count, one));
      machine.connect(from, to, bundle.speed());
      continue;
    }
    if (bundle.count != backCount)
      machine.notes.push_back(fmt::format("{} tells of {} to {}, which tells of {} back; the less "
                                          "is taken",
                                          one, counted(bundle.count, "NVLink", "NVLinks"), other,
                                          backCount));
    if (backCount == 0)
      continue;
    const Speed speed = bundle.speed(), reverse = back->second.speed();
    machine.connect(from, to, speed.nominal <= reverse.nominal ? speed : reverse);
  }
}

void NvidiaLinks::tell() {
  for (const auto &[odd, count] : oddities)
    machine.notes.push_back(
        fmt::format("{} of {} {}", counted(count, "NVLink", "NVLinks"), odd.first, odd.second));
  if (!inactive.empty())
    machine.notes.push_back(fmt::format("inactive NVLinks: {}", fmt::join(inactive, ", ")));
  if (!split.empty())
    machine.notes.push_back(fmt::format("MIG splits {}: CUDA shows one part of each GPU to a "
                                        "process, without NVLinks and other GPUs' memory",
                                        fmt::join(split, ", ")));
  if (unknownSpeeds > 0)
    machine.missing.push_back(fmt::format(
        "the kind of some GPUs, so the speed of {}: taken as {:g} GB/s a link ({:g} effective)",
        counted(unknownSpeeds, "NVLink", "NVLinks"), someNvlink.nominal, someNvlink.effective));
}

void NvidiaLinks::connect() {
  for (const NvmlGpu &facts : nvml.gpus) {
    const PlacedGpu *gpu = find(facts.address);
    if (gpu && gpu->device >= 0)
      readLinks(facts, *gpu);
  }
  connectGpus();
  tell();
}

} // namespace ccl::topology
