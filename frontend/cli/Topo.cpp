//===- Topo.cpp - ccl topo: what a machine is, and its limits -------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/Output.h"
#include "frontend/cli/RealNumbers.h"
#include "frontend/cli/Sizes.h"
#include "frontend/cli/TopologyInput.h"
#include "frontend/cli/WriteFile.h"

#include "dialect/Ccl.h"
#include "dialect/bound/Bound.h"
#include "frontend/cli/Input.h"
#include "frontend/topology/EdgeList.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace ccl::cli {

namespace {

struct TopoFlags {
  TopologyFlags topology;
  std::vector<std::string> collectives;
  std::string bytes, output;
  model::BoundOptions bound;
  bool bounds = false, json = false;
};

/// Those that have a bandwidth bound, in the order of the table.
constexpr model::Collective bounded[] = {
    model::Collective::AllGather, model::Collective::ReduceScatter, model::Collective::AllReduce,
    model::Collective::AllToAll,  model::Collective::Broadcast,     model::Collective::Reduce,
    model::Collective::Gather,    model::Collective::Scatter};

class Describer {
public:
  Describer(Session &session, const TopoFlags &flags) : session(session), flags(flags) {}
  int run();

private:
  int parse();
  int findBounds();
  int write();
  void printText() const;
  void printLinks() const;
  void printBounds() const;
  void printJson() const;
  std::string boundJson(const model::BandwidthBound &bound) const;

  Session &session;
  const TopoFlags &flags;
  TopologyInput input;
  std::vector<model::Collective> collectives;
  int64_t bytes = 0; ///< 0: no times are asked for
  std::vector<model::BandwidthBound> bounds;
};

} // namespace

static void listNames() {
  auto list = [](const char *title, const std::vector<topology::TopologyName> &names) {
    printOut("{}\n", title);
    for (const topology::TopologyName &row : names)
      printOut("  {:<24} {}\n",
               row.size.empty() ? std::string(row.name) : fmt::format("{}:{}", row.name, row.size),
               row.what);
  };
  list("Machines:", topology::presetNames());
  list("\nGraphs of published comparisons:", topology::specNames());
}

int Describer::parse() {
  const llvm::StringRef output = flags.output;
  if (!output.empty() && output != "-" && !output.ends_with(".mlir") && !output.ends_with(".txt"))
    return session.usage(
        fmt::format("-o {}: .mlir or .txt (an edge list); - is MLIR on stdout", flags.output));
  for (const std::string &text : flags.collectives) {
    std::optional<model::Collective> collective = model::parseCollective(text);
    if (!collective || !llvm::is_contained(bounded, *collective)) {
      std::vector<std::string_view> names;
      for (model::Collective c : bounded)
        names.push_back(model::name(c));
      return session.usage(
          fmt::format("--collective {}: there are bounds of {}", text, fmt::join(names, ", ")));
    }
    collectives.push_back(*collective);
  }
  if (collectives.empty())
    collectives.assign(std::begin(bounded), std::end(bounded));
  if (!flags.bytes.empty()) {
    llvm::Expected<int64_t> size = parseSize(flags.bytes);
    if (!size)
      return session.usage("--bytes: " + llvm::toString(size.takeError()));
    bytes = *size;
  }
  return Fine;
}

int Describer::findBounds() {
  const model::Topology &topology = *input.topology;
  if (flags.bound.root < 0 || flags.bound.root >= topology.ranks())
    return session.usage(
        fmt::format("--root {}: ranks are 0 to {}", flags.bound.root, topology.ranks() - 1));
  if (topology.ranks() < 2)
    return Fine;
  // Some 200 bytes, and a microsecond for each of a few dozen passes, a link.
  constexpr size_t mostLinks = size_t(1) << 23, manyLinks = size_t(1) << 18;
  if (topology.links.size() > mostLinks)
    return session.badInput(
        fmt::format("{}: bounds are found for up to {} links, here are {}; take "
                    "a smaller part of it",
                    input.label, mostLinks, topology.links.size()));
  for (model::Collective collective : collectives) {
    if (topology.links.size() > manyLinks)
      printError("ccl: topo: bound of {}, {} links\n", model::name(collective),
                 topology.links.size());
    if (auto bound = model::bandwidthBound(topology, collective, flags.bound))
      bounds.push_back(std::move(*bound));
  }
  return Fine;
}

void Describer::printLinks() const {
  const model::Topology &topology = *input.topology;
  auto kind = [&](int32_t node) -> std::string_view {
    return node < topology.ranks()
               ? "rank"
               : model::name(topology.switches[size_t(node - topology.ranks())].kind);
  };
  std::map<std::tuple<std::string, double, double>, int64_t> groups;
  for (const model::Link &link : topology.links)
    ++groups[{fmt::format("{} to {}", kind(link.src), kind(link.dst)), link.bandwidth,
              link.latency}];
  printOut("  {}{}:\n", plural(topology.links.size(), "link"),
           input.rates ? fmt::format(" ({})", topology::name(*input.rates)) : "");
  for (const auto &[group, count] : groups) {
    const auto &[ends, bandwidth, latency] = group;
    printOut("  {:>8}  {:<16} {:>9.6g} GB/s{}\n", count, ends, bandwidth,
             latency > 0 ? fmt::format("  {:.6g} us", latency) : "");
  }
}

void Describer::printBounds() const {
  if (bounds.empty()) {
    printOut("One rank has nothing to send.\n");
    return;
  }
  printOut("No schedule is faster (GB/s = 1e9 bytes a second{}):\n",
           bytes ? fmt::format("; time of {}", formatBytes(double(bytes))) : "");
  for (const model::BandwidthBound &bound : bounds) {
    const std::string time =
        bytes ? fmt::format("  {:>12.2f} us", model::timeBound(*input.topology, bound, bytes)) : "";
    printOut("  {:<15} {:>10.6g} GB/s{}  {}{}\n", model::name(bound.collective), bound.algbw, time,
             bound.certificate,
             bound.exact ? "" : fmt::format(" (at least {:.6g} can be reached)", bound.attained));
  }
}

void Describer::printText() const {
  printOut("{}{}{}\n", input.label, input.what.empty() ? "" : ": ", input.what);
  if (input.topology) {
    const model::Topology &topology = *input.topology;
    std::vector<std::string> axes;
    for (const model::Axis &axis : topology.axes)
      axes.push_back(fmt::format("{} = {}", axis.name, axis.size));
    std::map<std::string_view, int64_t> kinds;
    for (const model::Switch &s : topology.switches)
      ++kinds[model::name(s.kind)];
    std::string switches;
    for (const auto &[kind, count] : kinds)
      switches += fmt::format(", {} {}", count, kind);
    printOut("  {} ({}){}\n", plural(topology.ranks(), "rank"), fmt::join(axes, ", "), switches);
    printLinks();
  }
  for (const std::string &note : input.notes)
    printOut("  note: {}\n", note);
  for (const std::string &missing : input.missing)
    printOut("  missing: {}\n", missing);
  if (!input.topology)
    printOut("  This names too little for a topology{}.\n",
             flags.bounds ? ", so there are no bounds" : "");
  else if (flags.bounds)
    printBounds();
}

std::string Describer::boundJson(const model::BandwidthBound &bound) const {
  JsonLine line;
  if (bound.shardTime.num > 0) {
    line.number("num", bound.shardTime.num);
    line.number("den", bound.shardTime.den);
  }
  line.real("algbw_GBps", bound.algbw);
  line.real("attained_GBps", bound.attained);
  line.boolean("exact", bound.exact);
  if (bytes)
    line.real("time_us", model::timeBound(*input.topology, bound, bytes));
  std::vector<std::string> cut;
  for (size_t node = 0; node < bound.cut.size() && node < size_t(input.topology->nodes()); ++node)
    if (bound.cut[node])
      cut.push_back(JsonLine::quote(input.topology->nodeName(int32_t(node))));
  if (!bound.cut.empty())
    line.array("cut", cut);
  line.text("certificate", bound.certificate);
  return line.str();
}

void Describer::printJson() const {
  JsonLine line, all;
  line.text("name", input.topology ? input.topology->name : input.label);
  line.text("what", input.what);
  if (input.rates)
    line.text("rates", topology::name(*input.rates));
  if (const auto &topology = input.topology) {
    line.number("ranks", topology->ranks());
    line.number("switches", int64_t(topology->switches.size()));
    line.number("links", int64_t(topology->links.size()));
  }
  auto texts = [](const std::vector<std::string> &lines) {
    std::vector<std::string> quoted;
    for (const std::string &text : lines)
      quoted.push_back(JsonLine::quote(text));
    return quoted;
  };
  line.array("notes", texts(input.notes));
  line.array("missing", texts(input.missing));
  for (const model::BandwidthBound &bound : bounds)
    all.raw(model::name(bound.collective), boundJson(bound));
  if (flags.bounds)
    line.raw("bounds", input.topology ? all.str() : "null");
  line.print();
}

int Describer::write() {
  if (!input.topology)
    return session.badInput(input.label + " names too little for a topology; nothing is written");
  std::string text;
  if (llvm::StringRef(flags.output).ends_with(".txt")) {
    text = topology::printEdgeList(*input.topology);
    if (std::string lost = topology::lostInEdgeList(*input.topology); !lost.empty())
      fmt::print(stderr, "ccl: note: {} has no place for {}\n", flags.output, lost);
  } else {
    mlir::OpBuilder builder(&session.context());
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
    createTopology(builder, builder.getUnknownLoc(), *input.topology);
    text = moduleText(*module);
  }
  if (std::string why = writeFile(flags.output, text); !why.empty())
    return session.machine(why);
  return Fine;
}

int Describer::run() {
  session.json = flags.json;
  if (flags.topology.source.empty() && !flags.topology.detect && !flags.json) {
    listNames();
    return Fine;
  }
  if (int status = parse())
    return status;
  if (int status = openTopology(session, flags.topology, input))
    return status;
  if (flags.bounds && input.topology)
    if (int status = findBounds())
      return status;
  if (flags.output == "-")
    return write();
  flags.json ? printJson() : printText();
  return flags.output.empty() ? int(Fine) : write();
}

Action addTopo(CLI::App &app) {
  auto flags = std::make_shared<TopoFlags>();
  addTopologyOptions(app, flags->topology, /*asOption=*/false);
  CLI::Option *bounds =
      app.add_flag("--bounds", flags->bounds, "what no schedule can beat, with the reason");
  app.add_option("--collective", flags->collectives, "of these only: all_gather,all_reduce")
      ->delimiter(',')
      ->needs(bounds);
  app.add_option("--root", flags->bound.root, "of broadcast, reduce, gather and scatter")
      ->needs(bounds);
  app.add_option("--bytes", flags->bytes, "say also how long that takes at least: 64M")
      ->needs(bounds);
  app.add_option("--gap", flags->bound.gap,
                 "all_reduce, all_to_all: stop once what can be reached is this near (0.02)")
      ->check(realFrom(0, 1))
      ->needs(bounds);
  app.add_option("--time-limit", flags->bound.seconds, "seconds for each of these two (60)")
      ->check(realAboveZero())
      ->needs(bounds);
  app.add_option("-o,--output", flags->output, "write it: .mlir, .txt (an edge list); - is stdout");
  app.add_flag("--json", flags->json, "one object on stdout");
  return [flags](Session &session) { return Describer(session, *flags).run(); };
}

} // namespace ccl::cli
