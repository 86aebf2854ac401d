//===- Plan.cpp - ccl plan: the best algorithm for a topology --------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/Input.h"
#include "frontend/cli/Output.h"
#include "frontend/cli/PlanReportText.h"
#include "frontend/cli/RealNumbers.h"
#include "frontend/cli/Sizes.h"
#include "frontend/cli/WriteFile.h"

#include "dialect/model/Sizes.h"
#include "runtime/plan/Plan.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

namespace ccl::cli {

namespace {

struct PlanFlags {
  TopologyFlags topology;
  std::string collective, reduction = "sum", bytes = "64M", type = "float", model = "ccl", output;
  int64_t root = 0;
  int32_t slots = PlanRequest().slots;
  PlanLimits limits;
  double seconds = 0;
  int64_t seed = 1;
  bool flat = false, json = false;
};

/// Ctrl-C asks for the best so far; the second one ends the process.
class Interrupt {
public:
  Interrupt() {
    came = 0;
    struct sigaction action{};
    action.sa_handler = [](int) { came = 1; };
    action.sa_flags = int(SA_RESETHAND);
    sigaction(SIGINT, &action, &before);
  }
  Interrupt(const Interrupt &) = delete;
  ~Interrupt() { sigaction(SIGINT, &before, nullptr); }
  static bool isThere() { return came != 0; }

private:
  static inline volatile std::sig_atomic_t came = 0;
  struct sigaction before{};
};

/// Says on stderr what is going on, every two seconds, however long that takes.
class Progress {
public:
  Progress() : speaker([this](std::stop_token ended) { speak(ended); }) {}

  void tell(const std::string &what) {
    std::lock_guard lock(mutex);
    doing = what;
  }

private:
  void speak(std::stop_token ended) {
    constexpr auto pause = std::chrono::seconds(2);
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    while (!wakes.wait_for(lock, ended, pause, [] { return false; }) && !ended.stop_requested()) {
      const std::chrono::duration<double> past = std::chrono::steady_clock::now() - start;
      printError("ccl: plan: {:.0f} s: {}\n", past.count(), doing);
    }
  }

  std::mutex mutex;
  std::condition_variable_any wakes;
  std::string doing = "reading";
  std::jthread speaker; ///< the last member: it uses the others
};

class PlanCommand {
public:
  PlanCommand(Session &session, const PlanFlags &flags) : session(session), flags(flags) {}
  int run();

private:
  int parseCollective();
  int parse();
  int checkOutput() const;
  int open();
  int search();
  int write() const;
  bool writesEach() const { return flags.output.find(place) != std::string::npos; }

  static constexpr std::string_view place = "{bytes}";

  Session &session;
  const PlanFlags &flags;
  Sweep sweep;
  TopologyInput topology;
  PlanRequest request;
  PlanReport report;
};

} // namespace

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

int PlanCommand::parseCollective() {
  std::optional<model::Collective> collective = model::parseCollective(flags.collective);
  if (!collective || !llvm::is_contained(plannedCollectives(), *collective)) {
    std::vector<std::string_view> names;
    for (model::Collective c : plannedCollectives())
      names.push_back(model::name(c));
    return session.usage(flags.collective.empty()
                             ? fmt::format("name a --collective: {}", fmt::join(names, ", "))
                             : fmt::format("--collective {}: there are plans for {}",
                                           flags.collective, fmt::join(names, ", ")));
  }
  std::optional<model::Reduction> reduction = model::parseReduction(flags.reduction);
  if (!reduction || *reduction == model::Reduction::None)
    return session.usage(fmt::format("--op {}: unknown reduction", flags.reduction));
  request.generator.collective = *collective;
  request.generator.reduction = model::reduces(*collective) ? *reduction : model::Reduction::None;
  request.generator.root = flags.root;
  if (flags.root != 0 && !model::hasRoot(*collective))
    return session.usage(fmt::format("-r {}: {} has no root", flags.root, flags.collective));
  return Fine;
}

int PlanCommand::parse() {
  llvm::Expected<Sweep> sizes = parseBytes(flags.bytes);
  if (!sizes)
    return session.usage("--bytes: " + llvm::toString(sizes.takeError()));
  sweep = std::move(*sizes);
  if (llvm::is_contained(sweep.values, 0))
    return session.usage("--bytes: a plan is for a size over 0");
  for (int64_t bytes : sweep.values)
    if (bytes > model::mostPlannedBytes)
      return session.usage(fmt::format("--bytes {}: a plan is for at most {} bytes", bytes,
                                       model::mostPlannedBytes));
  std::optional<ElementType> type = parseElementType(flags.type);
  if (!type)
    return session.usage(fmt::format("--type {}: no element type", flags.type));
  request.elementBytes = sizeOf(*type);
  std::optional<model::CostModel> cost = model::parseCostModel(flags.model);
  if (!cost)
    return session.usage(
        fmt::format("--model {}: there are {}", flags.model, model::costModelNames()));
  request.model = *cost;
  if (int status = checkOutput())
    return status;
  request.limits = flags.limits;
  request.slots = flags.slots;
  request.symmetric = !flags.flat;
  request.seed = uint64_t(flags.seed);
  request.bytes = sweep.values;
  request.isCancelled = Interrupt::isThere;
  if (flags.seconds > 0) {
    using namespace std::chrono;
    request.deadline = steady_clock::now() +
                       duration_cast<steady_clock::duration>(duration<double>(flags.seconds));
    request.boundSeconds = std::min(request.boundSeconds, flags.seconds);
  }
  return parseCollective();
}

/// Before the search, which may take long.
int PlanCommand::checkOutput() const {
  if (flags.output == "-")
    return flags.json ? session.usage("--json and -o - both want stdout: name a file") : int(Fine);
  const llvm::StringRef path = flags.output;
  if (path.empty() || path.starts_with("/dev/"))
    return Fine;
  if (!path.ends_with(".mlir"))
    return session.usage(fmt::format("-o {}: a plan is written as .mlir; ccl convert makes other "
                                     "formats of it",
                                     flags.output));
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (folder.empty())
    folder = ".";
  if (std::error_code wrong = llvm::sys::fs::access(folder, llvm::sys::fs::AccessMode::Write))
    return session.machine(fmt::format("cannot write '{}': {}", flags.output, wrong.message()));
  return Fine;
}

int PlanCommand::open() {
  if (int status = openTopology(session, flags.topology, topology))
    return status;
  if (!topology.topology)
    return session.badInput(topology.label + " names too little for a topology: " +
                            (topology.missing.empty() ? "no links" : topology.missing.front()));
  request.generator.ranks = topology.topology->ranks();
  if (flags.root < 0 || flags.root >= request.generator.ranks)
    return session.usage(
        fmt::format("-r {}: ranks are 0 to {}", flags.root, request.generator.ranks - 1));
  if (std::string wrong = request.check(*topology.topology); !wrong.empty())
    return session.badInput(fmt::format("{}: {}", topology.label, wrong));
  return Fine;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

int PlanCommand::search() {
  mlir::MLIRContext &context = session.context();
  for (const char *dialect : {"affine", "ccl"})
    context.getOrLoadDialect(dialect);
  Progress progress;
  request.progress = [&](const std::string &what) { progress.tell(what); };
  double seconds = 0;
  const double start = millisecondsSinceStart();
  report = plan(context, *topology.topology, request);
  seconds = (millisecondsSinceStart() - start) / 1e3;
  if (!report.error.empty())
    return report.broken ? session.machine("no plan: " + report.error)
                         : session.badInput("no plan: " + report.error);
  const bool anyNumber = // of pairs
      request.generator.collective == model::Collective::AllReduce && !report.symmetric;
  if (request.limits.chunks > mostTreesOfRoot && !anyNumber)
    printError("ccl: note: -k {}: at most {} chunks of a root are tried\n", request.limits.chunks,
               mostTreesOfRoot);
  const std::string stop = !report.stopped ? "" : Interrupt::isThere() ? "interrupt" : "time-limit";
  const PlanResult result{topology, request, report, stop, seconds};
  if (flags.json)
    for (const std::string &line : planJson(result))
      printOut("{}\n", line);
  else if (flags.output == "-")
    printError("{}", planText(result));
  else
    printOut("{}", planText(result));
  flushOut();
  return write();
}

static std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// Of several sizes the largest one's, or each one's.
int PlanCommand::write() const {
  if (flags.output.empty())
    return Fine;
  const SizePlan *largest = &report.sizes.front();
  for (const SizePlan &size : report.sizes)
    if (size.bytes > largest->bytes)
      largest = &size;
  for (size_t i = 0; i < report.sizes.size(); ++i) {
    const SizePlan &size = report.sizes[i];
    if (!writesEach() && &size != largest)
      continue;
    // The size that was asked for.
    const std::string path = replaced(flags.output, place, std::to_string(request.bytes[i]));
    if (std::string why = writeFile(path, moduleText(*report.algorithms[size.algorithm].module));
        !why.empty())
      return session.machine(why);
  }
  return Fine;
}

int PlanCommand::run() {
  session.json = flags.json;
  Interrupt interrupt;
  for (int (PlanCommand::*step)() : {&PlanCommand::parse, &PlanCommand::open, &PlanCommand::search})
    if (int status = (this->*step)())
      return status;
  return Fine;
}

Action addPlan(CLI::App &app) {
  auto flags = std::make_shared<PlanFlags>();
  addTopologyOptions(app, flags->topology, /*asOption=*/true);
  app.add_option("--collective", flags->collective,
                 "all_gather, reduce_scatter, all_reduce, broadcast, reduce, scatter or gather");
  app.add_option("--op", flags->reduction, "reduction (sum)");
  app.add_option("-r,--root", flags->root, "root rank of broadcast, reduce, scatter and gather");
  app.add_option(
      "--bytes", flags->bytes,
      "lo:hi[:factor] or a list: bytes of the larger buffer (default 64M), rounded down to "
      "whole elements of a shard, at least one");
  app.add_option("--type", flags->type, "element type (float)");
  app.add_option("--model", flags->model, "cost model: " + model::costModelNames());
  const auto atLeastOne = CLI::Range(int32_t(1), int32_t(1) << 16);
  app.add_option(
         "-k,--chunks", flags->limits.chunks,
         fmt::format("chunks of a root's data, at most; over {} only of all_reduce in pairs",
                     mostTreesOfRoot))
      ->check(atLeastOne);
  app.add_option("--height", flags->limits.height, "messages one after the other, at most")
      ->check(atLeastOne);
  app.add_option("--pieces", flags->limits.pieces, "pieces of a chunk, at most")->check(atLeastOne);
  app.add_option("--micro-batches", flags->limits.batches,
                 "micro-batches of a launch, at most; 1: pieces only")
      ->check(atLeastOne);
  app.add_option("--agents", flags->limits.agents, "agents of a rank for a link, at most")
      ->check(atLeastOne);
  app.add_option("--slots", flags->slots,
                 fmt::format("slots of staged channels, at most ({})", flags->slots))
      ->check(CLI::Range(2, 1024));
  app.add_flag("--flat", flags->flat, "look for no symmetry: trees for every rank");
  app.add_option("--seed", flags->seed, "of random choices (1)")
      ->check(CLI::Range(int64_t(0), std::numeric_limits<int64_t>::max()));
  app.add_option("--time-limit", flags->seconds, "seconds; then the best so far")
      ->check(realAboveZero());
  app.add_option("-o,--output", flags->output,
                 "write the algorithm: .mlir; - is stdout; {bytes} in the name: one for each size");
  app.add_flag("--json", flags->json, "one object a size");
  return [flags](Session &session) { return PlanCommand(session, *flags).run(); };
}

} // namespace ccl::cli
