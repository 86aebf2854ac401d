//===- Topology.h - Ranks, switches and links -----------------------------===//
//
// The plain form of `ccl.topology`. Nodes 0..ranks-1 are ranks, switches follow.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccl::model {

struct Axis {
  std::string name;
  int64_t size;
};

struct Link {
  int32_t src, dst;               ///< node numbers
  double bandwidth = 0;           ///< GB/s (1e9 bytes a second), of this direction
  double latency = 0;             ///< microseconds
  std::vector<int32_t> resources; ///< shared resources, index into Topology::resources
};

/// What a node that is no rank stands for. It forwards, whatever it is.
enum class SwitchKind : uint8_t { Switch, Nic, Pcie, Cpu };
/// "switch", "nic", "pcie", "cpu".
std::string_view name(SwitchKind kind);
std::optional<SwitchKind> parseSwitchKind(std::string_view text);

struct Switch {
  std::string name;
  bool multicast = false, reduce = false;
  SwitchKind kind = SwitchKind::Switch;
};

/// What several links share: a port, a NIC, the lanes of a slot.
struct Resource {
  std::string name;
  /// GB/s that all of its links have together. 0: they take turns, each with its own bandwidth.
  double bandwidth = 0;
};

/// What a link may have: GB/s, microseconds. No link that ever was is outside, and within them sums
/// and ratios keep their digits.
inline constexpr double leastBandwidth = 1e-6, mostBandwidth = 1e9, mostLatency = 1e9;

struct Topology {
  std::string name;
  std::vector<Axis> axes; ///< slowest first: rank = row-major coordinate
  std::vector<Switch> switches;
  std::vector<Link> links;
  std::vector<Resource> resources;
  /// Microseconds in which the fabric can change its links, if it can.
  std::optional<double> reconfigurable;

  int64_t ranks() const;
  int64_t nodes() const { return ranks() + int64_t(switches.size()); }
  std::vector<int64_t> coordinates(int64_t rank) const;
  int64_t rankAt(const std::vector<int64_t> &coordinates) const;
  /// "rank 3" or the name of a switch.
  std::string nodeName(int32_t node) const;
  /// First thing wrong (a link to nowhere, a bandwidth that is not positive, a
  /// rank that another cannot reach), or "".
  std::string check() const;
};

} // namespace ccl::model
