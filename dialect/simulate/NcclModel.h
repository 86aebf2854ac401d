//===- NcclModel.h - What NCCL would do, by its own cost model ------------===//
//
// NCCL picks an algorithm and a protocol for every call by a model of their times: a latency,
// which sums what hops cost, plus bytes over a bandwidth (NCCL 2.28 and later: constants and
// formulas in src/graph/tuning.cc, the pick and the threads in src/enqueue.cc, the channels in
// src/graph/search.cc). This is that model, so that any plan can be set beside what NCCL would do.
// It is NCCL's opinion, not a measurement: docs/calibration.md.
//
// Times are in microseconds, bandwidths in GB/s of 1e9 bytes, of one direction.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Contract.h"
#include "dialect/model/Topology.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccl::model {

/// In NCCL's order: of equal times the first is picked.
enum class NcclAlgorithm : uint8_t { Tree, Ring, CollNetDirect, CollNetChain, Nvls, NvlsTree, Pat };
enum class NcclProtocol : uint8_t { LL, LL128, Simple };
/// NCCL_ALGO's and NCCL_PROTO's words: "Tree", "CollNetDirect", "NVLS", "NVLSTree", "PAT"; "LL",
/// "LL128", "Simple".
std::string_view name(NcclAlgorithm algorithm);
std::string_view name(NcclProtocol protocol);

/// What NCCL adds up for a call, us.
struct NcclLatency {
  double call = 0;
  double nvlink = 0, pci = 0, net = 0; ///< of a hop, by what it goes through
};
NcclLatency latencyOf(NcclAlgorithm algorithm, NcclProtocol protocol);
/// The part of a bandwidth that rings and trees get of it by their protocol; 1 of the others. That
/// channels and protocols have limits of their own comes on top.
double efficiencyOf(NcclAlgorithm algorithm, NcclProtocol protocol, int64_t nodes);

/// What NCCL's search finds for a pattern: channels, and what each of them gets.
struct NcclGraph {
  int32_t channels = 0; ///< 0: the pattern does not exist
  double bwIntra = 0;   ///< between GPUs of a node, GB/s a channel
  double bwInter = 0;   ///< between nodes, GB/s a channel
};

struct NcclMachine {
  enum class Cpu : uint8_t { Intel, Amd, Other };

  int64_t ranks = 1, nodes = 1;
  int32_t arch = 90;  ///< compute capability: 70, 80, 90, 100, ...
  bool nvlink = true; ///< between the GPUs of a node; else PCIe
  bool nvswitch = true;
  /// LL128 needs NVLink inside of nodes and, between them, NICs close to their GPUs.
  bool ll128 = true;
  bool sharp = false; ///< the network reduces (CollNet)
  Cpu cpu = Cpu::Intel;
  double netLatency = 0; ///< us, of the NIC: a NIC's `latency` in NCCL's topology files
  /// Every channel visits the GPUs in one order.
  bool sameChannels = true;
  /// The tree's NIC and both of its neighbors meet in one GPU, because nothing better was found.
  bool plainTree = false;
  NcclGraph ring, tree, nvls, collnet;

  int64_t ranksPerNode() const { return ranks / nodes; }
  /// Channels that kernels have for rings and trees: twice what the search finds.
  int32_t kernelChannels() const;
  /// First thing wrong, or "".
  std::string check() const;
};

/// GB/s that no LL goes beyond, all channels together.
double mostOfLL(int32_t arch, int64_t nodes, NcclMachine::Cpu cpu = NcclMachine::Cpu::Intel);

struct NcclEstimate {
  NcclAlgorithm algorithm = NcclAlgorithm::Ring;
  NcclProtocol protocol = NcclProtocol::Simple;
  double us = 0;
  double algbw = 0;     ///< bytes / us, GB/s
  double latency = 0;   ///< us, the part that does not depend on bytes
  double bandwidth = 0; ///< GB/s, of the rest
  /// What the kernel is launched with if this is picked; small calls get less of both.
  int32_t channels = 0, threads = 0;
};

/// Of every algorithm and protocol that NCCL has for the collective on the machine, in NCCL's
/// order. `bytes` is nccl-tests' size. Empty for collectives that NCCL makes of sends and receives
/// (all_to_all, gather, scatter, ...), for one rank, for no bytes, and if `machine.check()` is not
/// "".
std::vector<NcclEstimate> estimates(const NcclMachine &machine, Collective collective,
                                    int64_t bytes);
/// The one that NCCL takes.
std::optional<NcclEstimate> pick(const NcclMachine &machine, Collective collective, int64_t bytes);

struct NcclMachineOptions {
  int32_t arch = 90;
  NcclMachine::Cpu cpu = NcclMachine::Cpu::Intel;
  bool sharp = false;
};

/// Nodes are the coordinates of the axis "node"; without that axis, the ranks that reach each other
/// without passing a NIC. Bandwidths are those of the links: take effective ones, NCCL does. A
/// node's links are those to ranks and switches that are nearer to it than to any other node; NVLS
/// needs an architecture of 90 or more, and a switch inside that multicasts and reduces.
///
/// Channels follow NCCL's search as far as capacities decide: the fastest speeds of its tables of
/// which ranks' links and NICs carry the most channels. In which order GPUs are visited is not
/// searched, so graphs without a switch may get more channels than NCCL finds. Nothing, and `why`,
/// if nodes have different numbers of ranks, or a rank has no link.
std::optional<NcclMachine> ncclMachineOf(const Topology &topology,
                                         const NcclMachineOptions &options = {},
                                         std::string *why = nullptr);

} // namespace ccl::model
