//===- SystemLinks.h - Links of a `<system>` that name their other end -----------===//
//
// `nvlink`, `xgmi`, `c2c` and `pcilink`: kept while the tree is read, since they may name a
// device that comes later, and then connected.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/topology/XmlValues.h"

#include <map>

namespace ccl::topology {

class SystemLinks {
public:
  SystemLinks(Machine &machine, XmlValues &values, const Assume &assume)
      : machine(machine), values(values), assume(assume) {}

  void enterSocket(int32_t device, int32_t host);
  /// A PCI device, by the number that links name it with; -1: one that no link leads to.
  void remember(pugi::xml_node pci, int32_t device);
  /// Links of a GPU that is one of `parts` of its device: all of them list the device's links.
  void readGpuLinks(pugi::xml_node gpu, int32_t device, const GpuFamily *family, int64_t parts);
  void readPciLinks(pugi::xml_node pci, int32_t device);
  void connect();
  void tellWhatIsMissing();

private:
  struct Bundle {
    int32_t from, host, socket;
    std::string target;
    int64_t count = 0;
    uint32_t type = 0; ///< class of the target, if the file says it
    Speed link{};
    TextPlace place{};
  };
  struct Known {
    int32_t device;
    TextPlace place;
    bool warned = false;
  };
  bool isGpu(int32_t device) const {
    return device >= 0 && machine.devices[size_t(device)].kind == DeviceKind::Gpu;
  }
  void connectBundle(const Bundle &bundle);
  int32_t nvswitch();
  void warn(TextPlace place, std::string text);
  void checkBothEnds();

  Machine &machine;
  XmlValues &values;
  const Assume &assume;
  int32_t socket = -1, host = 0;
  std::map<std::pair<int32_t, std::string>, Known> byBusId; ///< host and bus number
  std::vector<Bundle> bundles, bridges;
  int32_t switches = -1; ///< all NVSwitches are one
  std::map<std::pair<int32_t, int32_t>, std::pair<int64_t, const Bundle *>> direct; ///< of two GPUs
  int64_t unknownFamily = 0;
  bool anyNvls = false, anyXgmi = false;
};

} // namespace ccl::topology
