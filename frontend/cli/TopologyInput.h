//===- TopologyInput.h - The topology a command works on --------------------===//
//
// A name (`dgx-h100:64`), a file in any format that we read (`-` is stdin), or this machine.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/cli/Session.h"
#include "frontend/interchange/Topologies.h"

namespace ccl::cli {

/// As typed.
struct TopologyFlags {
  std::string source, symbol, join, rates = "nominal", gpu;
  std::vector<std::string> forbidden;
  bool detect = false;
  int64_t nodes = 1;
  int32_t pcie = 0;
  double nic = 0;
};
/// Adds --detect, --nodes, --join, --rates, --gpu, --pcie, --nic, --symbol, --forbid; and the
/// topology itself as a word, or as --topology if `asOption`.
void addTopologyOptions(CLI::App &command, TopologyFlags &flags, bool asOption);

using interchange::TopologyInput;

/// The exit status; reports what is wrong.
int openTopology(Session &session, const TopologyFlags &flags, TopologyInput &input);

} // namespace ccl::cli
