//===- Sim.cpp - ccl sim: how long a program takes on a topology ------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/Output.h"
#include "frontend/cli/Proof.h"
#include "frontend/cli/Sizes.h"
#include "frontend/cli/TopologyInput.h"
#include "frontend/cli/WriteFile.h"

#include "dialect/bound/Bound.h"
#include "dialect/simulate/SimulateTrace.h"
#include "frontend/picture/Page.h"
#include "runtime/Member.h"
#include "runtime/plan/Plan.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

namespace ccl::cli {

namespace {

struct SimFlags {
  InputOptions input;
  LoweringFlags lowering;
  TopologyFlags topology;
  std::string bytes = "8:64M:8", type = "float", model = "ccl", batchOrder = "rank";
  std::string trace, html;
  int64_t batches = 0;
  double launch = -1, sync = -1, overhead = -1, lane = -1, epoch = 0;
  model::BoundOptions bound;
  bool fair = false, noBound = false, json = false;
};

class Simulation {
public:
  Simulation(Session &session, const SimFlags &flags) : session(session), flags(flags) {}
  int run();

private:
  int parse();
  int parseModel();
  int open();
  int findBound();
  int simulate(int64_t count);
  int64_t batchesFor(int64_t count) const;
  void header() const;
  void row(const model::SimulateReport &report) const;
  void jsonRow(const model::SimulateReport &report) const;
  int writePictures(const model::SimulateReport &report);
  double boundUs(int64_t bytes) const;

  Session &session;
  const SimFlags &flags;
  Input input;
  Instance instance;
  Proof proof;
  TopologyInput topology;
  Sweep sweep;
  ElementType type = ElementType::F32;
  model::SimulateOptions options;
  std::optional<model::BandwidthBound> bound;
  bool hasHeader = false;
};

} // namespace

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

int Simulation::parseModel() {
  std::optional<model::CostModel> cost = model::parseCostModel(flags.model);
  if (!cost)
    return session.usage(
        fmt::format("--model {}: there are {}", flags.model, model::costModelNames()));
  options.model = *cost;
  for (auto [text, value] : {std::pair(flags.launch, &options.model.launchUs),
                             {flags.sync, &options.model.syncUs},
                             {flags.overhead, &options.model.overheadUs},
                             {flags.lane, &options.model.laneGBps}})
    if (text >= 0)
      *value = text;
  if (flags.epoch > 0)
    options.model.epochUs = flags.epoch;
  return Fine;
}

int Simulation::parse() {
  llvm::Expected<Sweep> sizes = parseBytes(flags.bytes);
  if (!sizes)
    return session.usage("--bytes: " + llvm::toString(sizes.takeError()));
  sweep = std::move(*sizes);
  std::optional<ElementType> parsed = parseElementType(flags.type);
  if (!parsed)
    return session.usage(fmt::format("--type {}: no element type", flags.type));
  type = *parsed;
  if ((!flags.trace.empty() || !flags.html.empty()) && sweep.values.size() != 1)
    return session.usage("--trace and --html are of one size: --bytes 64M");
  options.sharing = flags.fair ? model::Sharing::Fair : model::Sharing::Fifo;
  options.batchOrder = flags.batchOrder == "agent"     ? model::BatchOrder::Agent
                       : flags.batchOrder == "barrier" ? model::BatchOrder::Barrier
                                                       : model::BatchOrder::Rank;
  options.elementBytes = sizeOf(type);
  options.timeline = !flags.trace.empty() || !flags.html.empty();
  return parseModel();
}

int Simulation::open() {
  if (int status = openTopology(session, flags.topology, topology))
    return status;
  if (!topology.topology)
    return session.badInput(topology.label + " names too little for a topology: " +
                            (topology.missing.empty() ? "no links" : topology.missing.front()));
  InputOptions inputs = flags.input;
  inputs.fallbackRanks = std::to_string(topology.topology->ranks());
  if (inputs.ranks.empty() && !inputs.collective.empty())
    inputs.ranks = inputs.fallbackRanks;
  if (int status = openOne(session, "sim", inputs, flags.lowering, input, instance))
    return status;
  mlir::Location fallback = instance.op().getLoc();
  if (int status = prove(session, instance, proof))
    return status;
  if (!proof.ok()) {
    emitFaults(proof.faults(), fallback, proof.locations());
    return session.refused();
  }
  if (int64_t ranks = topology.topology->ranks(); ranks != proof.contract.ranks)
    return session.usage(fmt::format("the program is for {}, the topology has {}",
                                     plural(proof.contract.ranks, "rank"), ranks));
  return Fine;
}

int Simulation::findBound() {
  if (flags.noBound || proof.contract.ranks < 2)
    return Fine;
  model::BoundOptions wanted = flags.bound;
  wanted.root = proof.contract.root;
  bound = model::bandwidthBound(*topology.topology, proof.contract.collective, wanted);
  return Fine;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// As `ccl run` cuts: every longest chunk fits a slot.
int64_t Simulation::batchesFor(int64_t count) const {
  if (flags.batches > 0)
    return flags.batches;
  const int64_t slot = MemberOptions().slotBytes;
  const int64_t longest = model::longestChunk(count, proof.contract.chunks) * sizeOf(type);
  const bool staged = llvm::any_of(proof.program.ranks, [](const model::RankProgram &rank) {
    return llvm::any_of(rank.channels, [](const model::Channel &c) { return c.slots > 0; });
  });
  return staged ? std::max<int64_t>((longest + slot - 1) / slot, 1) : 1;
}

double Simulation::boundUs(int64_t bytes) const {
  return bound ? model::timeBound(*topology.topology, *bound, bytes) : 0;
}

void Simulation::header() const {
  printOut("# {} on {}: {}, model {}{}\n", proof.contract.str(), topology.label,
           plural(proof.contract.ranks, "rank"), options.model.name,
           flags.fair ? ", fair sharing" : "");
  printOut("#{:>13} {:>12} {:>8} {:>12} {:>10} {:>10} {:>12} {:>10} {:>8}\n", "size", "count",
           "batches", "time", "algbw", "busbw", "bound", "bound", "of bound");
  printOut("#{:>13} {:>12} {:>8} {:>12} {:>10} {:>10} {:>12} {:>10} {:>8}\n", "(B)", "(elements)",
           "", "(us)", "(GB/s)", "(GB/s)", "(us)", "(GB/s)", "(%)");
}

void Simulation::row(const model::SimulateReport &report) const {
  const double limit = boundUs(report.bytes);
  printOut("{:>14} {:>12} {:>8} {:>12.2f} {:>10.2f} {:>10.2f}", report.bytes, options.count,
           options.batches, report.us, report.algbw, report.algbw * busFactor(proof.contract));
  if (bound)
    printOut(" {:>12.2f} {:>10.2f} {:>8.2f}", limit,
             limit > 0 ? double(report.bytes) / limit / 1e3 : 0,
             report.us > 0 ? 100 * limit / report.us : 100);
  printOut("\n");
}

void Simulation::jsonRow(const model::SimulateReport &report) const {
  JsonLine line;
  line.text("topology", topology.label);
  line.text("collective", model::name(proof.contract.collective));
  line.text("algorithm", input.algorithmName());
  line.number("ranks", proof.contract.ranks);
  line.number("bytes", report.bytes);
  line.number("count", options.count);
  line.number("micro_batches", options.batches);
  line.text("model", options.model.name);
  line.text("sharing", flags.fair ? "fair" : "fifo");
  line.real("time_us", report.us);
  line.real("algbw_GBps", report.algbw);
  line.real("busbw_GBps", report.algbw * busFactor(proof.contract));
  if (bound) {
    const double limit = boundUs(report.bytes);
    line.real("bound_us", limit);
    line.real("bound_algbw_GBps", bound->algbw);
    line.real("ratio", report.us > 0 ? limit / report.us : 1);
    line.text("certificate", bound->certificate);
  }
  line.number("messages", int64_t(report.messages));
  line.number("events", int64_t(report.events));
  std::vector<std::string> links;
  for (size_t i = 0; i < report.links.size(); ++i) {
    if (report.links[i].bytes <= 0)
      continue;
    const model::Link &link = topology.topology->links[i];
    JsonLine use;
    use.number("link", int64_t(i));
    use.text("src", topology.topology->nodeName(link.src));
    use.text("dst", topology.topology->nodeName(link.dst));
    use.real("bytes", report.links[i].bytes);
    use.real("busy_us", report.links[i].busyUs);
    links.push_back(use.str());
  }
  line.array("links", links);
  line.print();
}

int Simulation::writePictures(const model::SimulateReport &report) {
  if (!flags.trace.empty())
    if (std::string why =
            writeFile(flags.trace, model::chromeTrace(report, proof.program, *topology.topology));
        !why.empty())
      return session.machine(why);
  if (flags.html.empty())
    return Fine;
  picture::PageInput page;
  page.program = input.algorithmName();
  page.collective = proof.contract.str();
  page.model = options.model.name;
  page.topology = &*topology.topology;
  page.report = &report;
  page.code = &proof.program;
  if (bound) {
    page.boundGBps = bound->algbw;
    page.certificate = bound->certificate;
  }
  page.facts = {{"micro-batches", std::to_string(options.batches)},
                {"sharing", flags.fair ? "fair" : "first in, first out"}};
  if (std::string why = writeFile(flags.html, picture::page(page)); !why.empty())
    return session.machine(why);
  return Fine;
}

int Simulation::simulate(int64_t count) {
  options.count = count;
  options.batches = batchesFor(count);
  model::SimulateReport report =
      model::simulate(proof.program, proof.contract, *topology.topology, options);
  if (!report.ok()) {
    emitFaults(report.faults, instance.op().getLoc(), proof.locations());
    return session.refused();
  }
  if (!flags.json && !std::exchange(hasHeader, true))
    header();
  flags.json ? jsonRow(report) : row(report);
  return writePictures(report);
}

int Simulation::run() {
  session.json = flags.json;
  for (int (Simulation::*step)() : {&Simulation::parse, &Simulation::open, &Simulation::findBound})
    if (int status = (this->*step)())
      return status;
  const int64_t shards = std::max(proof.contract.inShards(), proof.contract.outShards());
  for (int64_t count : sweep.counts(sizeOf(type), std::max<int64_t>(shards, 1)))
    if (int status = simulate(count))
      return status;
  return Fine;
}

Action addSim(CLI::App &app) {
  auto flags = std::make_shared<SimFlags>();
  flags->input.warnings = InputOptions::Warnings::Count;
  addInputOptions(app, flags->input);
  addLoweringOptions(app, flags->lowering);
  addTopologyOptions(app, flags->topology, /*asOption=*/true);
  app.add_option("--bytes", flags->bytes,
                 "lo:hi[:factor] or a list: bytes of the larger buffer (default 8:64M:8)");
  app.add_option("--type", flags->type, "element type (float)");
  app.add_option("--model", flags->model, "cost model: " + model::costModelNames());
  app.add_flag("--fair", flags->fair, "links share fairly (default: first come, first served)");
  app.add_option("--micro-batches", flags->batches, "slices of every chunk (default: as ccl run)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  app.add_option("--batch-order", flags->batchOrder,
                 "an agent begins its next micro-batch when: rank (all agents of its rank have "
                 "ended it, the default), agent (at once), barrier (all ranks have)")
      ->check(CLI::IsMember({"rank", "agent", "barrier"}));
  app.add_option("--launch", flags->launch, "us until the first instruction")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--sync", flags->sync, "us of a signal")->check(CLI::NonNegativeNumber);
  app.add_option("--overhead", flags->overhead, "us of a message on each link")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--lane", flags->lane, "GB/s at which an agent reads what it moves")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--epoch", flags->epoch, "us of an epoch (model teccl)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--no-bound", flags->noBound, "do not compute the limit beside it");
  app.add_option("--time-limit", flags->bound.seconds, "seconds for the limit (60)")
      ->check(CLI::PositiveNumber);
  app.add_option("--trace", flags->trace, "writes a Chrome trace (JSON)");
  app.add_option("--html", flags->html, "writes a page with the topology and the timeline");
  app.add_flag("--json", flags->json, "one object a size");
  return [flags](Session &session) { return Simulation(session, *flags).run(); };
}

} // namespace ccl::cli
