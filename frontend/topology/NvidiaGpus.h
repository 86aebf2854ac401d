//===- NvidiaGpus.h - What NVIDIA's libraries add to this machine ------------------===//
//
// hwloc tells where GPUs hang. NVML tells their kind, their slots and their NVLinks, CUDA's
// driver which of them this process sees, and in which order. Each may be missing.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/topology/Machine.h"
#include "frontend/topology/Nvml.h"
#include "runtime/cuda/DeviceList.h"

namespace ccl::topology {

/// A GPU on its way to become a rank.
struct PlacedGpu {
  int32_t device = -1; ///< of Machine; -1: it is no rank
  int32_t socket = 0;  ///< the same of the socket that it hangs at
  PciAddress address;
  uint32_t vendor = 0; ///< of PCI
  std::string product;
  bool slotKnown = false;
};

inline constexpr uint32_t nvidiaVendor = 0x10de;

class NvidiaGpus {
public:
  /// All of them outlive this.
  NvidiaGpus(Machine &machine, std::vector<PlacedGpu> &gpus, const Assume &assume)
      : machine(machine), gpus(gpus), assume(assume) {}

  /// Loads NVML and initializes CUDA's driver, if they are there, by the settings' paths. Each has
  /// until `limit` to answer.
  void ask(const std::string &nvmlLibrary, const std::string &cudaLibrary,
           std::chrono::milliseconds limit);
  /// GPUs that hwloc does not know are added at `socket`; those that cannot be used go; slots get
  /// their speed, and ranks CUDA's order.
  void choose(int32_t socket);
  /// NVLinks, and what GPUs cannot reach. After the GPUs have their names.
  void connect();
  /// Whether NVML told the links, so that nobody else has to.
  bool knowsLinks() const { return nvml.error.empty() && !nvml.gpus.empty(); }

private:
  void askCuda(const std::string &library, std::chrono::milliseconds limit);
  PlacedGpu *find(const PciAddress &address);
  PlacedGpu &place(const PciAddress &address, int32_t socket, const std::string &product);
  void setSlot(PlacedGpu &gpu, const NvmlGpu &facts);
  void orderByCuda();
  void dropUnlisted();
  void drop(PlacedGpu &gpu);
  void erase();
  void tellPeers();

  Machine &machine;
  std::vector<PlacedGpu> &gpus;
  const Assume &assume;
  NvmlReport nvml;
  std::vector<cuda::DeviceFacts> visible; ///< empty: not known
  std::vector<std::pair<int, int>> apart; ///< ordinals
  std::vector<int32_t> dropped;           ///< devices
};

/// The speed of PCIe as NVML tells it; nothing if it tells none.
std::optional<Speed> slotSpeed(const NvmlGpu &facts);

} // namespace ccl::topology
