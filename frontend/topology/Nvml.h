//===- Nvml.h - What NVIDIA's management library says of the GPUs ----------------===//
//
// Which GPUs the driver has, where they hang, and where each NVLink leads. The library is
// opened, asked and closed again; nothing here starts a context of CUDA.
//
// A driver that is stuck may never return from a call. So a thread of its own asks; it is left
// behind if it takes too long, with all that it still uses.
//===----------------------------------------------------------------------===//
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace ccl::topology {

/// Of a GPU: its function is 0.
struct PciAddress {
  uint32_t domain = 0, bus = 0, device = 0;
  auto operator<=>(const PciAddress &) const = default;
  /// "0000:1b:00.0".
  std::string text() const;
};

/// The end of a link that is not this GPU.
enum class LinkEnd : uint8_t { Gpu, Socket, Switch, Unknown };

/// One that carries data.
struct NvLink {
  uint32_t number = 0;
  LinkEnd end = LinkEnd::Unknown;
  PciAddress remote; ///< of a GPU, and of an unknown end
  uint32_t version =
      0;            ///< NVML's number: 1 is NVLink 1, 2 and 3 are 2, 4 and 5 are 3, 6 is 4; or 0
  double speed = 0; ///< GB/s of one direction, with framing; 0: not said
};

/// 0 and "" are what could not be asked.
struct NvmlGpu {
  PciAddress address;
  uint32_t vendor = 0, product = 0; ///< of PCI
  std::string name, uuid;
  int64_t capability = 0;           ///< 90 is 9.0
  int32_t pcieGeneration = 0;       ///< the best of GPU and slot: an idle GPU takes a slower one
  int32_t lanes = 0, mostLanes = 0; ///< now, and the most of GPU and slot
  bool isMig = false;               ///< it is split up
  bool linksKnown = false;          ///< each link was asked for
  int32_t inactiveLinks = 0;
  std::vector<NvLink> links; ///< the active ones
};

struct NvmlReport {
  std::string error;                 ///< why nothing is known, with what to do; or ""
  bool isStuck = false;              ///< because a call did not return
  std::string driver;                ///< "570.86.15"
  std::vector<NvmlGpu> gpus;         ///< in the library's order, that of PCI
  std::vector<std::string> problems; ///< what some of the calls failed at
};

/// `library`: a path; "": libnvidia-ml.so.1. Waits for `limit` at most; GPUs that nobody uses are
/// started by the first who asks, which may take seconds for each. From any thread.
NvmlReport askNvml(const std::string &library, std::chrono::milliseconds limit);

} // namespace ccl::topology
