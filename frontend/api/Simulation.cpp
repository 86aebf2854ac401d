//===- Simulation.cpp ------------------------------------------------------------===//
#include "frontend/api/Border.h"
#include "frontend/api/Machine.h"

#include "dialect/simulate/SimulateRun.h"
#include "dialect/simulate/SimulateTrace.h"
#include "frontend/cli/SimCurves.h"
#include "frontend/cli/Sizes.h"
#include "frontend/cli/WriteFile.h"
#include "frontend/simulation/Launches.h"

#include <fmt/format.h>

namespace ccl {
inline namespace jit {

struct [[gnu::visibility("hidden")]] Simulation::Impl {
  model::SimulateReport simulate(const model::SimulateOptions &wanted) const;
  /// Of the report.
  void keepUses();
  double boundUs() const { return bound ? model::timeBound(bound->lines, report.bytes) : 0; }
  /// Simulates once more, unless that was done already, and keeps what happened when; an error
  /// if that is too much. The result lives as long as this.
  Result<const model::SimulateReport *> timed() const;

  std::shared_ptr<const Topology::Impl> topology;
  std::shared_ptr<const Lowered> lowered;
  model::SimulateOptions options;
  std::vector<int64_t> counts; ///< of an uneven launch
  model::SimulateReport report;
  std::shared_ptr<const Bound::Impl> bound; ///< null: not known
  std::vector<LinkUse> links;
  std::vector<AgentUse> agents;

private:
  mutable std::mutex mutex;
  mutable std::optional<model::SimulateReport> withTimeline;
};

//===----------------------------------------------------------------------===//
// Simulating
//===----------------------------------------------------------------------===//

Result<Simulator> Simulator::Impl::make(std::shared_ptr<const Topology::Impl> topology,
                                        const Source &source, const ProgramOptions &options) {
  ProgramOptions wanted = options;
  // A size parameter that is left open is the number of ranks.
  if (!source.algorithm && !source.generated && !wanted.ranks)
    wanted.ranks = topology->ranks;
  Result<std::shared_ptr<const Lowered>> lowered = lowerSource(source, wanted);
  if (!lowered)
    return lowered.error();
  if ((*lowered)->contract.ranks != topology->ranks)
    return argumentError(fmt::format("the program is for {} ranks, the topology has {}",
                                     (*lowered)->contract.ranks, topology->ranks));
  return Simulator(std::make_shared<const Impl>(Impl{std::move(topology), std::move(*lowered)}));
}

const std::string &Simulator::name() const { return impl->lowered->name; }
Collective Simulator::collective() const { return toPublic(impl->lowered->contract.collective); }
DataType Simulator::type() const { return toPublic(impl->lowered->type); }

/// Negative: as the model has it.
static double numberOf(std::optional<double> number) { return number.value_or(-1); }

static std::optional<Error> refuseOptions(const SimulationOptions &options) {
  if (options.microBatches < 0)
    return argumentError(fmt::format("micro-batches: {} is below 0", options.microBatches));
  if (options.sharing > SimulationOptions::Sharing::fair ||
      options.batchOrder > SimulationOptions::BatchOrder::barrier)
    return argumentError("there is no such sharing or order of micro-batches");
  for (auto [name, number] : {std::pair("launch", options.launchUs),
                              {"sync", options.syncUs},
                              {"overhead", options.overheadUs},
                              {"lane", options.laneGBps},
                              {"epoch", options.epochUs}})
    if (number && !(*number >= 0))
      return argumentError(fmt::format("{}: {} is no number from 0 on", name, *number));
  return std::nullopt;
}

static_assert(uint32_t(SimulationOptions::BatchOrder::agent) == uint32_t(model::BatchOrder::Agent));
static_assert(uint32_t(SimulationOptions::BatchOrder::barrier) ==
              uint32_t(model::BatchOrder::Barrier));

/// All but the lengths of shards, and what follows from them.
static Result<model::SimulateOptions> toInternal(const SimulationOptions &options,
                                                 const model::Topology &topology) {
  if (std::optional<Error> error = refuseOptions(options))
    return *error;
  std::optional<model::CostModel> cost = simulation::makeModel(
      {options.model, numberOf(options.launchUs), numberOf(options.syncUs),
       numberOf(options.overheadUs), numberOf(options.laneGBps), options.epochUs.value_or(0)},
      topology);
  if (!cost)
    return argumentError(
        fmt::format("model: '{}' is none of {}", options.model, model::costModelNames()));
  model::SimulateOptions wanted;
  wanted.model = std::move(*cost);
  wanted.sharing = options.sharing == SimulationOptions::Sharing::fair ? model::Sharing::Fair
                                                                       : model::Sharing::Fifo;
  wanted.batchOrder = model::BatchOrder(options.batchOrder);
  for (const std::string &text : options.curves) {
    llvm::Expected<cli::SimCurve> curve = cli::parseCurve(text);
    if (!curve)
      return argumentError("curves: " + llvm::toString(curve.takeError()));
    llvm::Expected<std::string> said = cli::readCurve(*curve);
    if (!said)
      return argumentError("curves: " + llvm::toString(said.takeError()));
    wanted.curves.push_back(std::move(curve->way));
  }
  return wanted;
}

Result<Simulation> Simulator::Impl::run(const cli::Lengths &lengths,
                                        const SimulationOptions &options) const {
  Result<model::SimulateOptions> wanted = toInternal(options, topology->model);
  if (!wanted)
    return wanted.error();
  auto made = std::make_shared<Simulation::Impl>();
  made->topology = topology;
  made->lowered = lowered;
  made->counts = lengths.unevenCounts();
  made->options = std::move(*wanted);
  made->options.elementBytes = sizeOf(lowered->type);
  made->options.count = lengths.count();
  if (lowered->unevenSafe)
    made->options.lengths = lengths.unevenCounts();
  made->options.batches =
      options.microBatches
          ? options.microBatches
          : simulation::defaultBatches(lowered->program, lowered->contract, lengths.count(),
                                       made->options.elementBytes, lowered->microBatches);
  if (std::string why = model::checkSimulation(lowered->contract, topology->model, made->options);
      !why.empty())
    return argumentError(std::move(why));
  made->report = made->simulate(made->options);
  if (!made->report.ok())
    return lowered->refused(made->report.faults);
  if (options.bound && !lengths.isUneven()) { // bounds are of even shards
    BoundOptions limits = *options.bound;
    limits.root = int(lowered->contract.root);
    auto bound = topology->findBound(toPublic(lowered->contract.collective), limits,
                                     made->report.usesCircuits);
    if (!bound)
      return bound.error();
    made->bound = std::move(*bound);
  }
  made->keepUses();
  return Simulation(std::move(made));
}

Result<Simulation> Simulator::run(int64_t bytes, const SimulationOptions &options) const {
  return guarded([&]() -> Result<Simulation> {
    if (bytes < 0)
      return argumentError(fmt::format("bytes: {} is below 0", bytes));
    const model::Contract &contract = impl->lowered->contract;
    const int64_t shards = std::max<int64_t>({contract.inShards(), contract.outShards(), 1});
    const cli::Sweep sweep{true, {bytes}};
    return impl->run(sweep.counts(sizeOf(impl->lowered->type), shards).front(), options);
  });
}

Result<Simulation> Simulator::runV(std::span<const int64_t> counts,
                                   const SimulationOptions &options) const {
  return guarded([&]() -> Result<Simulation> {
    if (counts.empty())
      return argumentError("counts: there are none");
    int64_t bytes = sizeOf(impl->lowered->type) * impl->topology->ranks;
    for (int64_t count : counts) {
      int64_t sum = 0;
      if (count < 0)
        return argumentError(fmt::format("counts: {} is below 0", count));
      if (__builtin_mul_overflow(count, sizeOf(impl->lowered->type), &sum) ||
          __builtin_mul_overflow(sum, int64_t(impl->topology->ranks), &sum) ||
          __builtin_add_overflow(bytes, sum, &bytes))
        return argumentError(fmt::format("counts: {} elements are too many", count));
    }
    llvm::Expected<cli::Lengths> lengths = cli::unevenLengths(
        impl->lowered->contract, {std::vector<int64_t>(counts.begin(), counts.end())},
        cli::Surplus::Refuse);
    if (!lengths)
      return argumentError("counts: " + llvm::toString(lengths.takeError()));
    return impl->run(*lengths, options);
  });
}

model::SimulateReport Simulation::Impl::simulate(const model::SimulateOptions &wanted) const {
  model::SimulateReport result =
      model::simulate(lowered->program, lowered->contract, topology->model, wanted);
  if (!counts.empty() && result.ok()) // padded: what is asked for, not what moves
    model::setSize(model::sizeOf(lowered->contract, counts, wanted.elementBytes), result);
  return result;
}

void Simulation::Impl::keepUses() {
  for (size_t i = 0; i < report.links.size(); ++i)
    if (const model::LinkUse &use = report.links[i]; use.bytes > 0)
      links.push_back({int(i), use.bytes, use.busyUs});
  for (const model::AgentUse &use : report.agents)
    agents.push_back({use.rank, use.agent, use.launchUs, use.busyUs, use.linkUs, use.changeUs,
                      use.slotUs, use.dataUs, use.signalUs, use.batchUs, use.endUs});
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

int64_t Simulation::bytes() const { return impl->report.bytes; }
int64_t Simulation::count() const { return impl->options.count; }
int64_t Simulation::microBatches() const { return impl->options.batches; }
const std::string &Simulation::model() const { return impl->options.model.name; }
double Simulation::us() const { return impl->report.us; }
double Simulation::algbw() const { return impl->report.algbw; }
double Simulation::busbw() const { return algbw() * cli::busFactor(impl->lowered->contract); }
std::optional<Bound> Simulation::bound() const {
  return impl->bound ? std::optional(Bound(impl->bound)) : std::nullopt;
}
double Simulation::boundUs() const { return impl->boundUs(); }
double Simulation::ratio() const { return !impl->bound ? 0 : us() > 0 ? boundUs() / us() : 1; }
int64_t Simulation::messages() const { return int64_t(impl->report.messages); }
int64_t Simulation::events() const { return int64_t(impl->report.events); }
const std::vector<Simulation::LinkUse> &Simulation::links() const { return impl->links; }
const std::vector<Simulation::AgentUse> &Simulation::agents() const { return impl->agents; }

//===----------------------------------------------------------------------===//
// What happened when
//===----------------------------------------------------------------------===//

Result<const model::SimulateReport *> Simulation::Impl::timed() const {
  std::lock_guard lock(mutex);
  if (!withTimeline) {
    model::SimulateOptions wanted = options;
    wanted.timeline = true;
    withTimeline = simulate(wanted);
  }
  if (!withTimeline->ok())
    return lowered->refused(withTimeline->faults);
  return &*withTimeline;
}

std::string_view name(Simulation::PathPart::Kind kind) {
  switch (kind) {
  case Simulation::PathPart::Kind::launch: return "launch";
  case Simulation::PathPart::Kind::run: return "run";
  case Simulation::PathPart::Kind::flight: return "flight";
  case Simulation::PathPart::Kind::wait: return "wait";
  }
  return "?";
}

/// What the part is, with names instead of numbers.
static Simulation::PathPart explain(const model::PathPart &part, const model::Program &program,
                                    const model::SimulateReport &report,
                                    const model::Timeline &timeline) {
  using Kind = Simulation::PathPart::Kind;
  Simulation::PathPart said{Kind::wait,    part.begin, part.end, part.queuedUs,
                            part.changeUs, -1,         -1,       {}};
  switch (part.kind) {
  case model::PathPart::Kind::Launch:
    said.kind = Kind::launch;
    said.what = "launch";
    break;
  case model::PathPart::Kind::Barrier: said.what = "wait for others"; break;
  case model::PathPart::Kind::Run: {
    const model::Timeline::Span &span = timeline.spans[size_t(part.index)];
    const model::AgentUse &agent = report.agents[size_t(span.agent)];
    const model::RankProgram &rank = program.ranks[size_t(agent.rank)];
    said.kind = Kind::run;
    said.rank = agent.rank;
    said.what =
        model::describe(rank, rank.agents[size_t(agent.agent)].code[size_t(span.instruction)]);
    break;
  }
  case model::PathPart::Kind::Flight: {
    const model::Timeline::Flight &flight = timeline.flights[size_t(part.index)];
    said.kind = Kind::flight;
    said.rank = flight.src;
    said.peer = flight.dst;
    said.what = flight.signal ? "signal" : fmt::format("{:g} bytes", flight.bytes);
    break;
  }
  }
  return said;
}

Result<std::vector<Simulation::PathPart>> Simulation::criticalPath() const {
  return guarded([&]() -> Result<std::vector<PathPart>> {
    Result<const model::SimulateReport *> report = impl->timed();
    if (!report)
      return report.error();
    std::vector<PathPart> path;
    const std::optional<model::Timeline> &timeline = (*report)->timeline;
    if (!timeline)
      return path;
    for (const model::PathPart &part : model::criticalPath(**report))
      path.push_back(explain(part, impl->lowered->program, **report, *timeline));
    return path;
  });
}

Result<std::string> Simulation::trace() const {
  return guarded([&]() -> Result<std::string> {
    Result<const model::SimulateReport *> report = impl->timed();
    if (!report)
      return report.error();
    return model::chromeTrace(**report, impl->lowered->program, impl->topology->model);
  });
}

Result<std::string> Simulation::html() const {
  return guarded([&]() -> Result<std::string> {
    const Lowered &lowered = *impl->lowered;
    Result<const model::SimulateReport *> report = impl->timed();
    if (!report)
      return report.error();
    return simulation::page({lowered.name, lowered.program, lowered.contract, impl->topology->model,
                             impl->options, **report, impl->boundUs(),
                             impl->bound ? impl->bound->bound.certificate : ""});
  });
}

static Status write(const std::string &path, const Result<std::string> &text) {
  if (!text)
    return text.error();
  return guarded([&]() -> Status {
    if (path.empty())
      return argumentError("path: is empty");
    if (path.find('\0') != path.npos) // the system would write to another file
      return argumentError("path: has a zero byte");
    // The command's name for stdout is a file here.
    std::string why = cli::writeFile(path == "-" ? "./-" : path, *text);
    return why.empty() ? Status() : Error{Error::Kind::machine, std::move(why), -1};
  });
}

Status Simulation::writeTrace(const std::string &path) const { return write(path, trace()); }
Status Simulation::writeHtml(const std::string &path) const { return write(path, html()); }

} // namespace jit
} // namespace ccl
