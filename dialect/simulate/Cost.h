//===- Cost.h - What a message costs on a way of links --------------------===//
//
// Named cost models of the simulator. Each is one set of numbers and rules about the links of a
// way; the topology gives bandwidth and latency (alpha). A message of B bytes on a link:
//
//   ccl    busy `overheadUs` + B / bandwidth; alpha delays the arrival and does not occupy.
//          Cut-through: the next link begins as soon as it can go on without a gap.
//   taccl  busy alpha + B / bandwidth, the next link begins after that (TACCL, NSDI 2023: chunks of
//          a link cost alpha + beta * bytes each; what is sent together, one alpha)
//   tacos  the same, and links share nothing (TACOS, MICRO 2024)
//   teccl  time goes in epochs: a message starts at the beginning of one, occupies the link for
//          ceil(B / (bandwidth * epoch)) of them and arrives ceil(alpha / epoch) later; alpha of at
//          most a tenth of an epoch is dropped, and a switch hands on at once (TE-CCL, SIGCOMM
//          2024)
//   nccl   as ccl, but latencies are those of NCCL's tuning model by the kind of way, and
//          bandwidths have the efficiency of a protocol (NCCL 2.30, src/graph/tuning.cc)
//
// Times are in microseconds, bandwidths in GB/s (1e9 bytes a second).
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/simulate/NcclModel.h"

#include <optional>
#include <string>
#include <string_view>

namespace ccl::model {

struct CostModel {
  std::string name = "ccl";

  double launchUs = 0;   ///< until the first instruction of an agent
  double syncUs = 0;     ///< of a signal on top of its way's latency, and of a barrier
  double overheadUs = 0; ///< of a message, on every link that it occupies
  /// An agent reads every source of a transfer at this rate; 0: at any. Local copies and
  /// reductions cost nothing else.
  double laneGBps = 0;

  bool alphaOccupies = false;     ///< alpha is time in which the link is busy
  bool storesAndForwards = false; ///< a link begins when the one before has ended
  bool sharesResources = true;    ///< what the topology says that links share counts
  bool epochs = false;            ///< links start at multiples of `epochUs`
  double epochUs = 0;             ///< 0: the longest chunk on the fastest link

  double efficiency = 1; ///< of every bandwidth
  double mostGBps = 0;   ///< no link is faster; 0: no limit
  /// Latency of a message by the kind of its way, instead of that of its links.
  struct Latencies {
    double nvlink = 0;
    double pci = 0; ///< through a PCIe switch or a CPU
    double net = 0; ///< through a NIC, or between ranks that differ along an axis named "node"
  };
  std::optional<Latencies> latencies;
};

CostModel cclModel();
CostModel tacclModel();
CostModel tacosModel();
CostModel tecclModel(double epochUs = 0);
/// NCCL's latencies and efficiencies are those of its ring or of its tree (NcclModel.h has the
/// numbers); `nodes` and the compute capability limit LL.
CostModel ncclCostModel(NcclProtocol protocol, bool tree = false, int64_t nodes = 1,
                        int32_t arch = 90);

/// "ccl", "taccl", "tacos", "teccl"; "nccl" is "nccl:simple", and there are "nccl:ll", "nccl:ll128"
/// and with NCCL's tree latencies "nccl-tree:simple", ... Nothing: there is no such model.
std::optional<CostModel> parseCostModel(std::string_view text, int64_t nodes = 1,
                                        int32_t arch = 90);
/// All names, for messages: "ccl, taccl, ...".
std::string costModelNames();

} // namespace ccl::model
