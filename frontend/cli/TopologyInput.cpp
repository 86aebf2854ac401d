//===- TopologyInput.cpp ------------------------------------------------------===//
#include "frontend/cli/TopologyInput.h"

#include "frontend/cli/RealNumbers.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

namespace ccl::cli {

void addTopologyOptions(CLI::App &command, TopologyFlags &flags, bool asOption) {
  command.add_option(asOption ? "--topology" : "TOPOLOGY", flags.source,
                     "a name (dgx-h100:64, torus:8x8x8; `ccl topo` alone lists them) or a file: "
                     "NCCL or RCCL topology XML, nvidia-smi topo -m or nvlink -s, rocm-smi "
                     "--showtopo, an edge list, .mlir; - is stdin");
  command.add_flag("--detect", flags.detect, "this machine");
  command.add_option("--nodes", flags.nodes, "so many copies, joined by their NICs")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
  command.add_option("--join", flags.join,
                     "how: rail (default), switch, planes:P, fat-tree:R[/B] (R : 1 "
                     "oversubscribed, B boxes a leaf), graph:FILE");
  command.add_option("--rates", flags.rates,
                     "nominal (what makers say) or effective (what NCCL counts with)");
  command.add_option("--gpu", flags.gpu, "which GPU it is, where a file does not say: H100, sm_90");
  command.add_option("--pcie", flags.pcie, "generation of PCI Express, where a file does not say")
      ->check(CLI::Range(1, 6));
  command.add_option("--nic", flags.nic, "GB/s of a NIC, where a file does not say")
      ->check(realAboveZero());
  command.add_option("--symbol", flags.symbol, "which one of a .mlir file with several");
  command
      .add_option(
          "--forbid", flags.forbidden,
          "not to use: links A-B (both directions), a switch, or a rank, which then neither "
          "takes part nor forwards; ranks are numbers, and those that are left are numbered "
          "anew, in order")
      ->type_size(1)
      ->allow_extra_args(false)
      ->delimiter(',');
}

int openTopology(Session &session, const TopologyFlags &flags, TopologyInput &input) {
  if (flags.detect != flags.source.empty())
    return session.usage(flags.detect ? "a topology and --detect exclude each other"
                                      : "name a topology, or --detect");
  std::optional<topology::Rates> rates = topology::parseRates(flags.rates);
  if (!rates)
    return session.usage(fmt::format("--rates {}: expected nominal or effective", flags.rates));
  interchange::TopologyRequest request;
  request.source = flags.source;
  request.symbol = flags.symbol;
  request.without = flags.forbidden;
  request.options = {flags.nodes, flags.join, *rates, {flags.gpu, flags.pcie, flags.nic}};
  std::optional<interchange::TopologyRefusal> refusal =
      interchange::openTopology(request, session.sources(), session.context(), input);
  if (!refusal)
    return Fine;
  switch (refusal->kind) {
  case interchange::TopologyRefusal::Kind::Without:
    return session.usage("--forbid: " + refusal->message);
  case interchange::TopologyRefusal::Kind::Usage: return session.usage(refusal->message);
  case interchange::TopologyRefusal::Kind::Input: return session.badInput(refusal->message);
  case interchange::TopologyRefusal::Kind::Diagnosed: break;
  }
  return session.refused();
}

} // namespace ccl::cli
