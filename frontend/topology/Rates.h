//===- Rates.h - How fast links of a kind are ------------------------------===//
//
// Two numbers for every link. `nominal` is what the hardware's makers say of one direction,
// without framing and protocol. `effective` is what NCCL's and RCCL's cost models count with
// (`topo.h`, `topo.cc` of both). docs/topologies.md has the tables with their sources.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ccl::topology {

enum class Rates : uint8_t { Nominal, Effective };
std::string_view name(Rates rates);
std::optional<Rates> parseRates(std::string_view text);

/// GB/s (1e9 bytes a second), of one direction.
struct Speed {
  double nominal = 0, effective = 0;
  double at(Rates rates) const { return rates == Rates::Nominal ? nominal : effective; }
  Speed operator*(double n) const { return {nominal * n, effective * n}; }
};

/// A family of GPUs, as far as links go.
struct GpuFamily {
  std::string_view name;  ///< "V100", "MI300X": an example of the family
  std::string_view links; ///< "NVLink", "xGMI"
  int32_t most = 0;       ///< links that a GPU has
  Speed link;             ///< one link
  bool inSwitch = false;  ///< its NVSwitches copy and add (NVLS)
};

/// By CUDA compute capability (70 for a V100); null if it is not known.
const GpuFamily *cudaFamily(int64_t capability);
/// By AMD's name or number of the architecture: "gfx942", "gfx90a", "908", "910" (gfx90a).
const GpuFamily *amdFamily(std::string_view gcn);
/// Whether a PCI device of this base class (0x03, 0x12) is a GPU that computes. A display
/// controller of a service processor, or of a virtual machine's screen, is none.
bool isComputingGpu(uint32_t baseClass, uint32_t vendor);
/// By PCI vendor and device, of data centers' GPUs.
const GpuFamily *pciFamily(uint32_t vendor, uint32_t device);
/// By a name of a product or architecture in `text`: "NVIDIA H100 80GB HBM3", "sm_90", "gfx942".
const GpuFamily *namedFamily(std::string_view text);

/// A link of a GPU of unknown family: the figures that most families share.
extern const Speed someNvlink, someXgmi;

/// One lane of PCI Express at `gigatransfers` (2.5, 5, 8, 16, 32, 64); nothing for another speed.
std::optional<Speed> pcieLane(double gigatransfers);
/// x16 of generation 1 to 6.
std::optional<Speed> pcieSlot(int32_t generation);

/// What lies inside of one device, or is not limited by the link itself.
inline constexpr double localSpeed = 5000;

/// Between two sockets, by NCCL's names of architectures and vendors; nothing if they name no kind
/// that NCCL has a figure for. Only that figure is known (how many links a board has is in no
/// file), so both numbers are it.
std::optional<Speed> socketSpeed(std::string_view arch, std::string_view vendor, int64_t family,
                                 int64_t model);
/// Of sockets of unknown kind: as Skylake.
extern const Speed someSocket;

} // namespace ccl::topology
