//===- Machine.h - A machine as a description names it ----------------------===//
//
// What every reader makes of its file: devices and the cables between them, each with both of
// its speeds, and what the file leaves open. A topology is made of it for one choice of rates.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Topology.h"
#include "frontend/interchange/Diagnostic.h"
#include "frontend/topology/Rates.h"

#include <optional>
#include <string>
#include <vector>

namespace ccl::topology {

using interchange::Diagnostic;
using interchange::TextPlace;

enum class DeviceKind : uint8_t { Gpu, Nic, Pcie, Cpu, Switch };

struct Device {
  DeviceKind kind = DeviceKind::Switch;
  std::string name;
  int32_t host = 0;   ///< machines that one file describes, from 0
  int64_t order = 0;  ///< a GPU: ranks are numbered by (host,) this and the position
  Speed net{};        ///< a NIC: to the network; 0 if the file does not say
  double latency = 0; ///< a NIC: microseconds to the network
  bool multicast = false, reduce = false; ///< a switch
};

/// One direction of a link.
struct Cable {
  int32_t from, to;
  Speed speed;
  double latency = 0; ///< microseconds
};

struct Machine {
  std::string name;
  std::vector<Device> devices;
  std::vector<Cable> cables;
  /// What the ranks are: "gpu", or "core", "numa" of a machine without GPUs.
  std::string rankName = "gpu";
  std::vector<std::string> missing; ///< what the file cannot tell, and what is assumed instead
  std::vector<std::string> notes;   ///< what the reader made of it
  std::vector<Diagnostic> warnings;

  int32_t add(Device device);
  void cable(int32_t from, int32_t to, Speed speed, double latency = 0);
  /// Both directions.
  void connect(int32_t a, int32_t b, Speed speed, double latency = 0);
  int64_t count(DeviceKind kind) const;
  /// Whether some link has another speed for each choice of rates.
  bool hasBothRates() const;
  /// "8 GPUs, 1 switch, 8 NICs, 4 PCIe bridges, 2 sockets, 48 links"; parts that are 0 left out.
  std::string summary() const;
};

/// A NIC as a node of a topology.
struct NicPort {
  int32_t node;
  double bandwidth = 0; ///< GB/s to the network; 0: not known
  double latency = 0;   ///< microseconds
};

/// One box: what `joinNodes` takes copies of.
struct Box {
  model::Topology topology;
  std::vector<NicPort> nics; ///< in the order in which the file names them
};

/// GPUs become ranks, all else switches. The topology may fail `check()`: GPUs without links
/// cannot reach each other.
Box makeBox(const Machine &machine, Rates rates);

/// What readers may be told because files cannot tell it. Empty or 0: not told.
struct Assume {
  std::string gpu;  ///< a product or architecture: "H100", "sm_90", "gfx942"
  int32_t pcie = 0; ///< generation of PCI Express, x16
  double nic = 0;   ///< GB/s of each NIC whose speed the file does not say
};

/// The generation of PCI Express that is told, or else 3 as in NCCL, and its slot.
int32_t assumedGeneration(const Assume &assume);
Speed assumedSlot(const Assume &assume);
/// What is wrong with what is told, or "".
std::string checkAssumed(const Assume &assume);

/// "1 NIC", "4 NICs".
std::string counted(int64_t n, std::string_view one, std::string_view many);
/// "network speed of 4 NICs", and what is taken instead if that was told.
std::string missingNetSpeed(int64_t nics, const Assume &assume);

} // namespace ccl::topology
