//===- NvidiaLinks.h - NVLinks as NVML tells them -----------------------------------===//
//
// Each GPU tells its own ends. The two ends of a link should agree; what does not is said in the
// machine's notes, and the less is taken.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/topology/NvidiaGpus.h"

#include <map>

namespace ccl::topology {

class NvidiaLinks {
public:
  NvidiaLinks(Machine &machine, const std::vector<PlacedGpu> &gpus, const NvmlReport &nvml,
              const Assume &assume)
      : machine(machine), gpus(gpus), nvml(nvml), assume(assume) {}
  void connect();

private:
  /// Links of one GPU to one device.
  struct Bundle {
    int64_t count = 0;
    std::map<std::pair<double, double>, int64_t> speeds; ///< nominal, effective: of how many
    void add(Speed link) {
      ++count;
      ++speeds[{link.nominal, link.effective}];
    }
    /// Multiplied, not added up: exactly what makers say.
    Speed speed() const {
      Speed sum;
      for (const auto &[link, links] : speeds)
        sum = {sum.nominal + link.first * double(links),
               sum.effective + link.second * double(links)};
      return sum;
    }
  };
  void readLinks(const NvmlGpu &facts, const PlacedGpu &gpu);
  void readEnd(const NvmlGpu &facts, const PlacedGpu &gpu, const NvLink &link, Speed speed);
  void connectGpus();
  const GpuFamily *familyOf(const NvmlGpu &facts) const;
  Speed speedOf(const GpuFamily *family, const NvLink &link, const PlacedGpu &gpu);
  void note(const PlacedGpu &gpu, const std::string &what);
  void tell();
  const PlacedGpu *find(const PciAddress &address) const;
  int32_t nvswitch(bool copies);
  std::string nameOf(const PlacedGpu &gpu) const {
    return machine.devices[size_t(gpu.device)].name;
  }

  Machine &machine;
  const std::vector<PlacedGpu> &gpus;
  const NvmlReport &nvml;
  const Assume &assume;
  std::map<std::pair<int32_t, int32_t>, Bundle> bundles; ///< from a GPU to another
  std::map<int32_t, bool> asked; ///< by device: whether all of its links could be asked
  /// What is odd, once for all links that it is true of: of whom, and what.
  std::map<std::pair<std::string, std::string>, int64_t> oddities;
  std::vector<std::string> inactive, split;
  int32_t switches = -1; ///< all NVSwitches are one
  int64_t unknownSpeeds = 0;
};

} // namespace ccl::topology
