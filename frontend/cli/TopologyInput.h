//===- TopologyInput.h - The topology a command works on --------------------===//
//
// A name (`dgx-h100:64`), a file in any format that we read (`-` is stdin), or this machine.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/cli/Session.h"
#include "frontend/topology/Read.h"

namespace ccl::cli {

/// As typed.
struct TopologyFlags {
  std::string source, symbol, join, rates = "nominal", gpu;
  bool detect = false;
  int64_t nodes = 1;
  int32_t pcie = 0;
  double nic = 0;
};
/// Adds --detect, --nodes, --join, --rates, --gpu, --pcie, --nic, --symbol; and the topology itself
/// as a word, or as --topology if `asOption`.
void addTopologyOptions(CLI::App &command, TopologyFlags &flags, bool asOption);

/// What was read. Without a topology the file is right, but names too little: `missing`.
struct TopologyInput {
  std::string label; ///< the name or the file
  std::string what;  ///< "NCCL topology XML: 8 GPUs, ...", or ""
  std::optional<model::Topology> topology;
  std::vector<std::string> notes, missing;
};

/// The exit status; reports what is wrong.
int openTopology(Session &session, const TopologyFlags &flags, TopologyInput &input);

} // namespace ccl::cli
