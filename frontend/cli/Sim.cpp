//===- Sim.cpp - ccl sim: how long a program takes on a topology ------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/Lengths.h"
#include "frontend/cli/Output.h"
#include "frontend/cli/Proof.h"
#include "frontend/cli/RealNumbers.h"
#include "frontend/cli/SimCurves.h"
#include "frontend/cli/SimTable.h"
#include "frontend/cli/Sizes.h"
#include "frontend/cli/TopologyInput.h"
#include "frontend/cli/WriteFile.h"

#include "dialect/simulate/SimulateTrace.h"
#include "frontend/simulation/Launches.h"
#include "runtime/plan/Plan.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <limits>

namespace ccl::cli {

namespace {

struct SimFlags {
  InputOptions input;
  LoweringFlags lowering;
  TopologyFlags topology;
  simulation::ModelRequest model;
  std::optional<std::string> bytes;
  std::string type = "float", batchOrder = "rank";
  std::string count, beside, trace, html;
  std::vector<std::string> uneven, curves;
  int64_t batches = 0;
  model::BoundOptions bound;
  bool fair = false, noBound = false, json = false;
};

class Simulation {
public:
  Simulation(Session &session, const SimFlags &flags) : session(session), flags(flags) {}
  int run();

private:
  int parse();
  int parseSizes();
  int parseCurves();
  int makeModel();
  int open();
  int expandAll();
  /// Whether one rank may be simulated for all.
  bool mayFold() const { return flags.trace.empty() && flags.html.empty() && flags.uneven.empty(); }
  /// The programs, or that of rank 0.
  const model::Program &programs() const { return one ? one->rankZero : proof.program; }
  int findLengths();
  void findBound(bool usesCircuits);
  int simulate(const Lengths &size);
  int simulate(model::SimulateReport &report);
  bool isPadded() const { return !proof.unevenSafe || proof.report.divisible; }
  int writePictures(const model::SimulateReport &report);

  Session &session;
  const SimFlags &flags;
  Input input;
  Instance instance;
  Proof proof;
  std::optional<SymmetricProgram> one; ///< proved on one rank, and not expanded
  TopologyInput topology;
  Sweep sweep;
  std::vector<Lengths> sizes;
  std::vector<std::string> curveNotes;
  std::optional<int32_t> besideArch; ///< 0: of the GPU that the topology tells
  std::optional<SimTable> table;
  ElementType type = ElementType::F32;
  model::SimulateOptions options;
  bool isFirst = true;
};

} // namespace

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

int Simulation::parseSizes() {
  const bool inBytes = flags.count.empty();
  llvm::Expected<Sweep> parsed = [&]() -> llvm::Expected<Sweep> {
    if (inBytes)
      return parseBytes(flags.bytes.value_or("8:64M:8"));
    llvm::Expected<std::vector<int64_t>> counts = parseSizeList(flags.count);
    if (!counts)
      return counts.takeError();
    return Sweep{false, std::move(*counts)};
  }();
  if (!parsed)
    return session.usage((inBytes ? "--bytes: " : "--count: ") +
                         llvm::toString(parsed.takeError()));
  sweep = std::move(*parsed);
  const size_t number = flags.uneven.empty() ? sweep.values.size() : flags.uneven.size();
  if ((!flags.trace.empty() || !flags.html.empty()) && number != 1)
    return session.usage("--trace and --html are of one size: --bytes 64M");
  if (flags.trace != "-" && !flags.trace.empty() && flags.trace == flags.html)
    return session.usage("--trace and --html name the same file");
  if (int(flags.trace == "-") + int(flags.html == "-") + int(flags.json) > 1)
    return session.usage("--json, --trace - and --html - all want stdout for themselves");
  return Fine;
}

int Simulation::parseCurves() {
  std::vector<SimCurve> curves;
  for (const std::string &text : flags.curves) {
    llvm::Expected<SimCurve> curve = parseCurve(text);
    if (!curve)
      return session.usage("--curve: " + llvm::toString(curve.takeError()));
    curves.push_back(std::move(*curve));
    options.curves.push_back(curves.back().way);
  }
  if (std::string why = model::checkOptions(options); !why.empty())
    return session.usage(why);
  for (size_t i = 0; i < curves.size(); ++i) {
    llvm::Expected<std::string> note = readCurve(curves[i]);
    if (!note)
      return session.badInput("--curve: " + llvm::toString(note.takeError()));
    options.curves[i] = std::move(curves[i].way);
    curveNotes.push_back(std::move(*note));
  }
  return Fine;
}

int Simulation::parse() {
  if (int status = parseSizes())
    return status;
  std::optional<ElementType> parsed = parseElementType(flags.type);
  if (!parsed)
    return session.usage(fmt::format("--type {}: no element type", flags.type));
  type = *parsed;
  std::optional<model::CostModel> cost = simulation::makeModel(flags.model);
  if (!cost)
    return session.usage(
        fmt::format("--model {}: there are {}", flags.model.name, model::costModelNames()));
  options.model = std::move(*cost);
  if (!flags.beside.empty()) {
    llvm::Expected<int32_t> arch = parseBeside(flags.beside);
    if (!arch)
      return session.usage(llvm::toString(arch.takeError()));
    besideArch = *arch;
  }
  options.sharing = flags.fair ? model::Sharing::Fair : model::Sharing::Fifo;
  options.batchOrder = flags.batchOrder == "agent"     ? model::BatchOrder::Agent
                       : flags.batchOrder == "barrier" ? model::BatchOrder::Barrier
                                                       : model::BatchOrder::Rank;
  options.elementBytes = sizeOf(type);
  options.timeline = !flags.trace.empty() || !flags.html.empty();
  return parseCurves();
}

/// Limits of NCCL's protocols depend on the nodes, which the topology tells.
int Simulation::makeModel() {
  const model::Topology &machine = *topology.topology;
  options.model = *simulation::makeModel(flags.model, machine);
  table.emplace(SimTable{proof.contract,
                         machine,
                         options,
                         topology.label,
                         input.algorithmName(),
                         std::move(curveNotes),
                         !flags.uneven.empty(),
                         isPadded(),
                         {},
                         {},
                         {}});
  if (besideArch == 0) {
    std::string why;
    besideArch = simulation::ncclArch(topology.gpu, why);
    if (!besideArch)
      return session.usage(fmt::format("--beside {}: {}", flags.beside, why));
  }
  if (besideArch)
    table->beside.emplace(machine, proof.contract.collective, *besideArch);
  return Fine;
}

int Simulation::open() {
  if (flags.topology.source == "-" && flags.input.file == "-")
    return session.usage("only one of FILE and --topology can be stdin");
  if (int status = openTopology(session, flags.topology, topology))
    return status;
  if (!topology.topology)
    return session.badInput(topology.namesTooLittle());
  InputOptions inputs = flags.input;
  inputs.fallbackRanks = std::to_string(topology.topology->ranks());
  if (inputs.ranks.empty() && !inputs.collective.empty())
    inputs.ranks = inputs.fallbackRanks;
  if (int status = openOne(session, "sim", inputs, flags.lowering, input, instance))
    return status;
  mlir::Location fallback = instance.op().getLoc();
  if (int status = prove(session, instance, proof, /*expandAll=*/!mayFold()))
    return status;
  if (!proof.ok()) {
    emitFaults(proof.faults(), fallback, proof.locations());
    return session.refused();
  }
  if (proof.program.ranks.empty()) {
    std::string why;
    auto found = findSymmetry(instance.op(), proof.programLocations, why);
    if (mlir::failed(found))
      return session.refused();
    one = std::move(*found);
  }
  if (int64_t ranks = topology.topology->ranks(); ranks != proof.contract.ranks)
    return session.usage(fmt::format("the program is for {}, the topology has {}",
                                     plural(proof.contract.ranks, "rank"), ranks));
  return Fine;
}

int Simulation::expandAll() {
  one.reset();
  mlir::FailureOr<model::Program> all = expandPrograms(instance.op(), proof.programLocations);
  if (mlir::failed(all))
    return session.refused();
  proof.program = std::move(*all);
  return Fine;
}

int Simulation::findLengths() {
  const int64_t shards = std::max(proof.contract.inShards(), proof.contract.outShards());
  if (flags.uneven.empty()) {
    std::vector<int64_t> counts = sweep.counts(sizeOf(type), std::max<int64_t>(shards, 1));
    // What was asked for is shown, also if it is nothing; the default begins where there is
    // something.
    if (!flags.bytes && flags.count.empty() && counts.back() > 0)
      std::erase(counts, 0);
    sizes.assign(counts.begin(), counts.end());
  }
  for (const std::string &text : flags.uneven) {
    auto lists = parseUneven(text);
    if (!lists)
      return session.usage("--uneven: " + llvm::toString(lists.takeError()));
    llvm::Expected<Lengths> lengths = unevenLengths(proof.contract, *lists, Surplus::Refuse);
    if (!lengths)
      return session.usage("--uneven: " + llvm::toString(lengths.takeError()));
    sizes.push_back(std::move(*lengths));
  }
  return Fine;
}

/// Bounds are of even shards, and of links that stay or that all can be changed.
void Simulation::findBound(bool usesCircuits) {
  if (flags.noBound || proof.contract.ranks < 2 || !flags.uneven.empty())
    return;
  model::BoundOptions wanted = flags.bound;
  wanted.root = proof.contract.root;
  const model::Topology best =
      usesCircuits ? model::withAnyCircuits(*topology.topology) : *topology.topology;
  table->bound = model::bandwidthBound(best, proof.contract.collective, wanted);
  if (table->bound)
    table->boundLines = model::timeLines(best, *table->bound);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

int Simulation::writePictures(const model::SimulateReport &report) {
  if (!flags.trace.empty())
    if (std::string why =
            writeFile(flags.trace, model::chromeTrace(report, proof.program, *topology.topology));
        !why.empty())
      return session.machine(why);
  if (flags.html.empty())
    return Fine;
  const std::string page = simulation::page(
      {input.algorithmName(), proof.program, proof.contract, *topology.topology, options, report,
       table->boundUs(report.bytes), table->bound ? table->bound->certificate : ""});
  if (std::string why = writeFile(flags.html, page); !why.empty())
    return session.machine(why);
  return Fine;
}

/// On one rank if that stands for all, also on this topology.
int Simulation::simulate(model::SimulateReport &report) {
  if (one)
    if (auto folded = model::simulateSymmetric(one->rankZero, proof.contract, one->symmetry,
                                               *topology.topology, options)) {
      report = std::move(*folded);
      if (report.lengthened)
        printError("ccl: note: {} elements are not divisible by {} chunks: all are taken to be as "
                   "long as the longest\n",
                   options.count, proof.contract.chunks);
      return Fine;
    }
  if (proof.program.ranks.empty())
    if (int status = expandAll())
      return status;
  report = model::simulate(proof.program, proof.contract, *topology.topology, options);
  return Fine;
}

int Simulation::simulate(const Lengths &size) {
  options.count = size.count();
  options.lengths.clear();
  if (size.isUneven() && !isPadded())
    options.lengths = size.unevenCounts();
  options.batches = flags.batches > 0
                        ? flags.batches
                        : simulation::defaultBatches(programs(), proof.contract, options.count,
                                                     sizeOf(type), getMicroBatches(instance.op()));
  model::SimulateReport report;
  if (int status = simulate(report))
    return status;
  if (!report.ok()) {
    emitFaults(report.faults, instance.op().getLoc(), proof.locations());
    return session.refused();
  }
  if (size.isUneven()) // padded: what is asked for, not what moves
    model::setSize(model::sizeOf(proof.contract, size.unevenCounts(), sizeOf(type)), report);
  if (isFirst)
    findBound(report.usesCircuits);
  const bool isAlone = flags.trace == "-" || flags.html == "-";
  if (!flags.json && !isAlone && isFirst)
    table->header(report);
  isFirst = false;
  if (!isAlone)
    flags.json ? table->jsonRow(report) : table->row(report);
  return writePictures(report);
}

int Simulation::run() {
  session.json = flags.json;
  for (int (Simulation::*step)() :
       {&Simulation::parse, &Simulation::open, &Simulation::makeModel, &Simulation::findLengths})
    if (int status = (this->*step)())
      return status;
  for (const Lengths &size : sizes)
    if (int status = simulate(size))
      return status;
  return Fine;
}

Action addSim(CLI::App &app) {
  const CLI::Validator fromZero = realFrom(0), aboveZero = realAboveZero();
  auto flags = std::make_shared<SimFlags>();
  flags->input.warnings = InputOptions::Warnings::Count;
  addInputOptions(app, flags->input);
  addLoweringOptions(app, flags->lowering);
  addTopologyOptions(app, flags->topology, /*asOption=*/true);
  CLI::Option *bytes = app.add_option(
      "--bytes", flags->bytes,
      "lo:hi[:factor] or a list: bytes of the larger buffer (default 8:64M:8, but those that are "
      "no element a shard), rounded down to whole elements of a shard");
  CLI::Option *count = app.add_option("--count", flags->count, "elements of one shard: 0,1,17,4097")
                           ->excludes(bytes);
  CLI::Option *uneven = app.add_option("--uneven", flags->uneven,
                                       "a count for every shard, as of ccl run; may be repeated")
                            ->type_size(1)
                            ->allow_extra_args(false)
                            ->excludes(bytes)
                            ->excludes(count);
  app.add_option("--type", flags->type, "element type (float)");
  app.add_option("--model", flags->model.name, "cost model: " + model::costModelNames());
  app.add_flag("--fair", flags->fair, "links share fairly (default: first come, first served)");
  app.add_option("--micro-batches", flags->batches, "slices of every chunk (default: as ccl run)")
      ->check(CLI::Range(int64_t(1), int64_t(std::numeric_limits<int32_t>::max())));
  app.add_option("--batch-order", flags->batchOrder,
                 "an agent begins its next micro-batch when: rank (all agents of its rank have "
                 "ended it, the default), agent (at once), barrier (all ranks have)")
      ->check(CLI::IsMember({"rank", "agent", "barrier"}));
  app.add_option("--launch", flags->model.launchUs, "us until the first instruction")
      ->check(fromZero);
  app.add_option("--sync", flags->model.syncUs, "us of a signal")->check(fromZero);
  app.add_option("--overhead", flags->model.overheadUs, "us of a message on each link")
      ->check(fromZero);
  app.add_option("--lane", flags->model.laneGBps, "GB/s at which an agent reads what it moves")
      ->check(fromZero);
  app.add_option("--epoch", flags->model.epochUs, "us of an epoch (model teccl)")->check(aboveZero);
  app.add_option(
         "--curve", flags->curves,
         "KIND=FILE: times of messages as measured, of ways of this kind: any, nvlink, pci, "
         "net, or from rank to rank, 0-1; nccl-tests' output or CSV, FILE#NAME of several "
         "curves (model ccl; may be repeated)")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_option("--beside", flags->beside,
                 "nccl, or nccl:80 with a compute capability: what NCCL's own model says of every "
                 "algorithm and protocol, and what it takes")
      ->excludes(uneven);
  app.add_flag("--no-bound", flags->noBound, "do not compute the limit beside it");
  app.add_option("--time-limit", flags->bound.seconds, "seconds for the limit (60)")
      ->check(aboveZero);
  app.add_option("--trace", flags->trace, "writes a Chrome trace (JSON)");
  app.add_option("--html", flags->html, "writes a page with the topology and the timeline");
  app.add_flag("--json", flags->json, "one object a size");
  return [flags](Session &session) { return Simulation(session, *flags).run(); };
}

} // namespace ccl::cli
