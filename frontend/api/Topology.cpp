//===- Topology.cpp - Topologies and bounds ----------------------------------------===//
#include "frontend/api/Border.h"
#include "frontend/api/Machine.h"

#include "dialect/Ccl.h"
#include "dialect/simulate/Simulate.h"
#include "frontend/simulation/Nccl.h"

#include "mlir/IR/Builders.h"

#include <fmt/format.h>

#include <cmath>

namespace ccl {
inline namespace jit {

//===----------------------------------------------------------------------===//
// Making
//===----------------------------------------------------------------------===//

Topology::Impl::Impl(interchange::TopologyInput read, std::string said)
    : input(std::move(read)), model(*input.topology), remarks(std::move(said)),
      ranks(int(model.ranks())) {
  for (const model::Axis &axis : model.axes)
    axes.push_back({axis.name, axis.size});
  for (const model::Switch &s : model.switches)
    switches.push_back({s.name, std::string(model::name(s.kind)), s.multicast, s.reduce});
  links.reserve(model.links.size());
  for (const model::Link &link : model.links)
    links.push_back({link.src, link.dst, link.bandwidth, link.latency});
}

/// Why `options` cannot be, or nothing.
static std::optional<Error> refuseOptions(const TopologyOptions &options) {
  constexpr int64_t mostNodes = int64_t(1) << 20;
  if (options.nodes < 1 || options.nodes > mostNodes)
    return argumentError(fmt::format("nodes: {} is outside [1, {}]", options.nodes, mostNodes));
  if (options.rates > TopologyOptions::Rates::effective)
    return argumentError("rates: there are nominal and effective");
  if (options.pcie < 0 || options.pcie > 6)
    return argumentError(fmt::format("pcie: there is no generation {}, but 1 to 6", options.pcie));
  if (!(options.nic >= 0) || std::isinf(options.nic))
    return argumentError(fmt::format("nic: {} GB/s is no speed", options.nic));
  return std::nullopt;
}

/// `source` and `text` as of a TopologyRequest.
static Result<std::shared_ptr<const Topology::Impl>>
read(std::string source, std::optional<std::string> text, const TopologyOptions &options) {
  if (std::optional<Error> error = refuseOptions(options))
    return *error;
  interchange::TopologyRequest request;
  request.source = std::move(source);
  request.text = std::move(text);
  request.symbol = options.symbol;
  request.options = {options.nodes,
                     options.join,
                     options.rates == TopologyOptions::Rates::effective ? topology::Rates::Effective
                                                                        : topology::Rates::Nominal,
                     {options.gpu, options.pcie, options.nic}};
  request.without = options.forbidden;
  Diagnostics heard;
  interchange::TopologyInput input;
  if (auto refusal = interchange::openTopology(request, heard.sources(), heard.context(), input))
    return refusal->kind == interchange::TopologyRefusal::Kind::Diagnosed
               ? heard.refused()
               : argumentError(refusal->message);
  if (!input.topology)
    return argumentError(input.namesTooLittle());
  return std::make_shared<const Topology::Impl>(std::move(input), heard.text());
}

Result<Topology> Topology::open(const std::string &nameOrPath, const TopologyOptions &options) {
  return guarded([&]() -> Result<Topology> {
    if (nameOrPath.empty())
      return argumentError("a topology needs a name or a path");
    auto made = read(nameOrPath, std::nullopt, options);
    return made ? Result(Topology(std::move(*made))) : made.error();
  });
}

Result<Topology> Topology::parse(std::string_view text, const TopologyOptions &options,
                                 std::string_view label) {
  return guarded([&]() -> Result<Topology> {
    auto made = read(std::string(label), std::string(text), options);
    return made ? Result(Topology(std::move(*made))) : made.error();
  });
}

Result<Topology> Topology::detect(const TopologyOptions &options) {
  return guarded([&]() -> Result<Topology> {
    auto made = read("", std::nullopt, options);
    return made ? Result(Topology(std::move(*made))) : made.error();
  });
}

std::vector<Topology::Name> Topology::names() {
  auto listed = guarded([]() -> Result<std::vector<Name>> {
    std::vector<Name> all;
    for (const auto &names : {topology::presetNames(), topology::specNames()})
      for (const topology::TopologyName &row : names)
        all.push_back({std::string(row.name), std::string(row.size), std::string(row.what)});
    return all;
  });
  return listed ? std::move(*listed) : std::vector<Name>();
}

//===----------------------------------------------------------------------===//
// What it is
//===----------------------------------------------------------------------===//

const std::string &Topology::name() const { return impl->model.name; }
const std::string &Topology::label() const { return impl->input.label; }
const std::string &Topology::what() const { return impl->input.what; }
int Topology::ranks() const { return impl->ranks; }
const std::vector<Topology::Axis> &Topology::axes() const { return impl->axes; }
const std::vector<Topology::Switch> &Topology::switches() const { return impl->switches; }
const std::vector<Topology::Link> &Topology::links() const { return impl->links; }
const std::vector<std::string> &Topology::notes() const { return impl->input.notes; }
const std::vector<std::string> &Topology::missing() const { return impl->input.missing; }
std::optional<TopologyOptions::Rates> Topology::rates() const {
  using Rates = TopologyOptions::Rates;
  const std::optional<topology::Rates> &rates = impl->input.rates;
  if (!rates)
    return std::nullopt;
  return *rates == topology::Rates::Effective ? Rates::effective : Rates::nominal;
}

const std::string &Topology::remarks() const { return impl->remarks; }

std::string Topology::nodeName(int node) const {
  return node >= 0 && node < impl->model.nodes() ? impl->model.nodeName(node) : "";
}

Result<std::string> Topology::text() const {
  return guarded([&]() -> Result<std::string> {
    Diagnostics heard;
    mlir::OpBuilder builder(&heard.context());
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
    createTopology(builder, builder.getUnknownLoc(), impl->model);
    return textOf(*module);
  });
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

static std::vector<int> nodesOf(const model::Topology &topology, const std::vector<bool> &cut) {
  std::vector<int> nodes;
  for (size_t node = 0; node < cut.size() && node < size_t(topology.nodes()); ++node)
    if (cut[node])
      nodes.push_back(int(node));
  return nodes;
}

Bound::Impl::Impl(const model::Topology &of, const model::Topology &best,
                  model::BandwidthBound found)
    : bound(std::move(found)), cut(nodesOf(of, bound.cut)), lines(model::timeLines(best, bound)) {}

static std::optional<Error> refuseOptions(const BoundOptions &options, int ranks) {
  if (options.root < 0 || options.root >= ranks)
    return argumentError(fmt::format("root: {} is outside [0, {})", options.root, ranks));
  if (!(options.gap >= 0 && options.gap <= 1))
    return argumentError(fmt::format("gap: {} is outside [0, 1]", options.gap));
  if (options.timeLimit.count() < 1)
    return argumentError("time limit: needs at least a millisecond");
  return std::nullopt;
}

Result<std::shared_ptr<const Bound::Impl>> Topology::Impl::findBound(Collective collective,
                                                                     const BoundOptions &options,
                                                                     bool anyCircuits) const {
  if (!isValid(collective))
    return argumentError("there is no such collective");
  if (std::optional<Error> error = refuseOptions(options, ranks))
    return *error;
  if (ranks < 2)
    return std::shared_ptr<const Bound::Impl>();
  const int root = model::hasRoot(toInternal(collective)) ? options.root : 0;
  const Key key(collective, root, options.gap, options.timeLimit.count(), anyCircuits);
  {
    std::lock_guard lock(mutex);
    if (auto known = bounds.find(key); known != bounds.end())
      return known->second;
  }
  const model::BoundOptions wanted{root, options.gap, double(options.timeLimit.count()) / 1000};
  const std::optional<model::Topology> changed =
      anyCircuits ? std::optional(model::withAnyCircuits(model)) : std::nullopt;
  const model::Topology &best = changed ? *changed : model;
  std::optional<model::BandwidthBound> bound =
      model::bandwidthBound(best, toInternal(collective), wanted);
  auto found =
      bound ? std::make_shared<const Bound::Impl>(model, best, std::move(*bound)) : nullptr;
  std::lock_guard lock(mutex);
  return bounds.emplace(key, std::move(found)).first->second;
}

Result<Bound> Topology::bound(Collective collective, const BoundOptions &options) const {
  return guarded([&]() -> Result<Bound> {
    auto found = impl->findBound(collective, options);
    if (!found)
      return found.error();
    if (!*found)
      return argumentError(impl->ranks < 2
                               ? std::string("one rank has nothing to send: there are no bounds")
                               : fmt::format("there is no bound of {}", ccl::name(collective)));
    return Bound(std::move(*found));
  });
}

Result<std::vector<Bound>> Topology::bounds(const BoundOptions &options) const {
  return guarded([&]() -> Result<std::vector<Bound>> {
    std::vector<Bound> all;
    for (int c = 0; isValid(Collective(c)); ++c) {
      auto found = impl->findBound(Collective(c), options);
      if (!found)
        return found.error();
      if (*found)
        all.push_back(Bound(std::move(*found)));
    }
    return all;
  });
}

static Result<model::NcclMachine> ncclMachine(const interchange::TopologyInput &input,
                                              int capability) {
  std::string why;
  if (capability != 0 && !simulation::hasNcclModel(capability))
    return argumentError(
        fmt::format("compute capability: {}, but NCCL has a model for 60 and more", capability));
  const std::optional<int32_t> arch =
      capability != 0 ? capability : simulation::ncclArch(input.gpu, why);
  if (!arch)
    return argumentError(std::move(why));
  model::NcclMachineOptions options;
  options.arch = *arch;
  std::optional<model::NcclMachine> machine = model::ncclMachineOf(*input.topology, options, &why);
  if (!machine)
    return argumentError("no estimate of NCCL's: " + why);
  return std::move(*machine);
}

Result<std::vector<NcclEstimate>> Topology::ncclEstimates(Collective collective, int64_t bytes,
                                                          int computeCapability) const {
  return guarded([&]() -> Result<std::vector<NcclEstimate>> {
    if (!isValid(collective))
      return argumentError("there is no such collective");
    if (bytes < 0)
      return argumentError(fmt::format("bytes: {} is below 0", bytes));
    Result<model::NcclMachine> machine = ncclMachine(impl->input, computeCapability);
    if (!machine)
      return machine.error();
    std::vector<NcclEstimate> all;
    for (const auto &[e, isTaken] :
         simulation::ncclChoices(*machine, toInternal(collective), bytes))
      all.push_back({std::string(model::name(e.algorithm)), std::string(model::name(e.protocol)),
                     e.us, e.algbw, e.channels, e.threads, isTaken});
    return all;
  });
}

Collective Bound::collective() const { return toPublic(impl->bound.collective); }
int Bound::root() const { return int(impl->bound.root); }
double Bound::algbw() const { return impl->bound.algbw; }
double Bound::attained() const { return impl->bound.attained; }
bool Bound::isExact() const { return impl->bound.exact; }
const std::string &Bound::certificate() const { return impl->bound.certificate; }
int64_t Bound::num() const { return impl->bound.shardTime.num; }
int64_t Bound::den() const { return impl->bound.shardTime.den; }
const std::vector<int> &Bound::cut() const { return impl->cut; }
double Bound::us(int64_t bytes) const { return model::timeBound(impl->lines, bytes); }

//===----------------------------------------------------------------------===//
// Simulators
//===----------------------------------------------------------------------===//

Result<Simulator> Topology::simulator(const Program &program) const {
  return guarded([&]() -> Result<Simulator> {
    return Simulator::Impl::make(impl, program.impl->source, program.impl->options);
  });
}

Result<Simulator> Topology::simulator(const Algorithm &algorithm,
                                      const ProgramOptions &options) const {
  return guarded([&] { return Simulator::Impl::make(impl, {{}, {}, algorithm, {}}, options); });
}

Result<Simulator> Topology::simulator(std::string_view text, const ProgramOptions &options,
                                      std::string_view label) const {
  return guarded([&] {
    return Simulator::Impl::make(impl, {std::string(text), std::string(label), {}, {}}, options);
  });
}

Result<Simulator> Topology::simulatorOfFile(const std::string &path,
                                            const ProgramOptions &options) const {
  return guarded([&]() -> Result<Simulator> {
    Result<Source> source = readProgram(path);
    return source ? Simulator::Impl::make(impl, *source, options) : source.error();
  });
}

Result<Simulator> Topology::simulator(Collective collective, const ProgramOptions &options) const {
  return guarded([&]() -> Result<Simulator> {
    ProgramOptions wanted = options;
    wanted.ranks = options.ranks ? options.ranks : impl->ranks;
    Result<ProgramOptions> chosen = chooseProgram(collective, wanted);
    return chosen ? Simulator::Impl::make(impl, {{}, {}, {}, collective}, *chosen) : chosen.error();
  });
}

} // namespace jit
} // namespace ccl
