//===- TopologyInput.cpp ------------------------------------------------------===//
#include "frontend/cli/TopologyInput.h"

#include "dialect/Ccl.h"
#include "frontend/cli/Source.h"
#include "frontend/interchange/Formats.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

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
      ->check(CLI::PositiveNumber);
  command.add_option("--symbol", flags.symbol, "which one of a .mlir file with several");
}

/// Of text that other tools do not write.
static int readModule(Session &session, const TopologyFlags &flags,
                      std::unique_ptr<llvm::MemoryBuffer> file, TopologyInput &input) {
  interchange::Imported imported = interchange::readFile(interchange::Format::Mlir, std::move(file),
                                                         session.sources(), session.context());
  if (!imported.module)
    return session.refused();
  std::vector<TopologyOp> found;
  std::vector<std::string> names;
  for (TopologyOp op : imported.module->getOps<TopologyOp>()) {
    names.push_back("@" + op.getSymName().str());
    if (flags.symbol.empty() || op.getSymName() == flags.symbol)
      found.push_back(op);
  }
  if (found.size() != 1)
    return session.usage(names.empty() ? fmt::format("{} has no ccl.topology", input.label)
                                       : fmt::format("{} has {}: name one by --symbol", input.label,
                                                     fmt::join(names, ", ")));
  input.topology = getModelTopology(found.front());
  if (std::string why = input.topology->check(); !why.empty()) {
    found.front().emitError() << why;
    return session.refused();
  }
  return Fine;
}

int openTopology(Session &session, const TopologyFlags &flags, TopologyInput &input) {
  if (flags.detect != flags.source.empty())
    return session.usage(flags.detect ? "a topology and --detect exclude each other"
                                      : "name a topology, or --detect");
  topology::Options options;
  options.nodes = flags.nodes;
  options.join = flags.join;
  options.assume = {flags.gpu, flags.pcie, flags.nic};
  std::optional<topology::Rates> rates = topology::parseRates(flags.rates);
  if (!rates)
    return session.usage(fmt::format("--rates {}: expected nominal or effective", flags.rates));
  options.rates = *rates;

  input.label = flags.detect ? "this machine" : flags.source == "-" ? "<stdin>" : flags.source;
  topology::ReadResult result;
  if (flags.detect || topology::isTopologyName(flags.source)) {
    result = topology::readTopology(flags.detect ? "detect" : flags.source, options);
  } else {
    llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readSource(flags.source);
    if (!file)
      return session.badInput(
          fmt::format("cannot read '{}': {}", input.label, llvm::toString(file.takeError())));
    const llvm::StringRef text = (*file)->getBuffer();
    if (!topology::detectFormat({text.data(), text.size()})) {
      if (flags.nodes > 1)
        return session.usage("--nodes joins machines, not a ccl.topology");
      return readModule(session, flags, std::move(*file), input);
    }
    session.sources().AddNewSourceBuffer(
        llvm::MemoryBuffer::getMemBufferCopy(interchange::forDisplay(text), input.label),
        llvm::SMLoc());
    result = topology::readTopologyText({text.data(), text.size()}, input.label, options);
  }
  interchange::emitDiagnostics(result.diagnostics, input.label, session.context());
  if (result.failed())
    return session.refused();
  input.topology = std::move(result.topology);
  input.what = std::move(result.what);
  input.notes = std::move(result.notes);
  input.missing = std::move(result.missing);
  return Fine;
}

} // namespace ccl::cli
