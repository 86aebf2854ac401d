//===- Simulate.cpp -------------------------------------------------------===//
#include "dialect/simulate/SimulateRun.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace ccl::model {
namespace {

int64_t sizedShards(const Contract &contract) {
  return std::max<int64_t>({contract.inShards(), contract.outShards(), 1});
}

} // namespace

int64_t sizeOf(const Contract &contract, int64_t count, int64_t elementBytes) {
  // The linear chunks of a custom contract are shards, and as many as it states.
  if (contract.collective == Collective::Custom)
    return count * elementBytes *
           std::max<int64_t>({contract.customInChunks, contract.customOutChunks, 1});
  return count * elementBytes * sizedShards(contract);
}

int64_t countFor(const Contract &contract, int64_t bytes, int64_t elementBytes) {
  const int64_t unit = std::max<int64_t>(sizeOf(contract, 1, elementBytes), 1);
  return bytes / unit + (bytes % unit > 0);
}

std::string checkSimulation(const Contract &contract, const Topology &topology,
                            const SimulateOptions &options) {
  if (std::string error = topology.check(); !error.empty())
    return error;
  if (contract.ranks != topology.ranks())
    return fmt::format("the program has {} ranks, but topology {} has {}", contract.ranks,
                       topology.name, topology.ranks());
  if (contract.chunks < 1)
    return fmt::format("{} chunks a shard, but there is at least 1", contract.chunks);
  if (options.count < 0)
    return fmt::format("{} elements a shard, but there are at least 0", options.count);
  if (options.elementBytes < 1)
    return fmt::format("elements of {} bytes, but they have at least 1", options.elementBytes);
  if (options.batches < 1 || options.batches > std::numeric_limits<int32_t>::max())
    return fmt::format("{} micro-batches are outside [1, 2147483647]", options.batches);
  if (options.slots < 0)
    return fmt::format("{} slots a channel, but there is at least 1", options.slots);
  const int64_t shards = std::max(sizedShards(contract), contract.chunks);
  if (options.count > std::numeric_limits<int64_t>::max() / 8 / shards / options.elementBytes)
    return fmt::format("{} elements a shard are more than can be counted", options.count);
  const CostModel &model = options.model;
  for (auto [value, what] : {std::pair(model.launchUs, "launch"),
                             {model.syncUs, "sync"},
                             {model.overheadUs, "overhead"},
                             {model.laneGBps, "lane"},
                             {model.epochUs, "epoch"},
                             {model.mostGBps, "limit of bandwidth"}})
    if (!(value >= 0) || value > 1e15)
      return fmt::format("cost model {}: {} is {}, which is negative or not finite", model.name,
                         what, value);
  if (!(model.efficiency > 0) || model.efficiency > 1e6)
    return fmt::format("cost model {}: efficiency is {}, which is not positive", model.name,
                       model.efficiency);
  if (options.sharing == Sharing::Fair && (model.epochs || model.storesAndForwards))
    return fmt::format("cost model {} has an order of messages on links, so there is no fair "
                       "sharing; models ccl and nccl have it",
                       model.name);
  return "";
}

bool runSimulation(const SimCode &code, const SimulateOptions &options, const Topology &topology,
                   const std::vector<Wire> &wires, const std::vector<int32_t> &wireClass,
                   const std::vector<int32_t> &resourceClass, SimulateReport &report) {
  Simulator simulator(code, options, report);
  simulator.run();
  if (simulator.running() > 0) { // what the network says is proved; this is for a fault of ours
    Fault &fault = report.faults.emplace_back();
    fault.kind = FaultKind::Deadlock;
    fault.message = fmt::format("{} agents never ended", simulator.running());
    return false;
  }
  report.links.resize(topology.links.size());
  for (size_t w = 0; w < wires.size(); ++w) {
    const LinkUse &use = simulator.wireUse[size_t(wireClass.empty() ? int32_t(w) : wireClass[w])];
    for (int32_t link : wires[w].links) {
      const double part = topology.links[size_t(link)].bandwidth / wires[w].bandwidth;
      report.links[size_t(link)] = {use.bytes * part, use.busyUs};
    }
  }
  report.resources.resize(topology.resources.size());
  for (size_t r = 0; r < report.resources.size(); ++r)
    report.resources[r] =
        simulator.resourceUse[size_t(resourceClass.empty() ? int32_t(r) : resourceClass[r])];
  if (report.timeline) {
    auto first = [&](int32_t wire) { return wires[size_t(wire)].links.front(); };
    for (Timeline::Service &service : report.timeline->services)
      service.link = first(service.link);
    for (Timeline::Flight &flight : report.timeline->flights)
      if (flight.queuedAt >= 0)
        flight.queuedAt = first(flight.queuedAt);
  }
  return true;
}

bool isLive(const Network &network, const SimulateOptions &options, SimulateReport &report) {
  const std::vector<int32_t> stops = network.run(options.slots);
  if (!network.isStuck(stops))
    return true;
  Fault fault = network.deadlock(stops, options.slots);
  if (int32_t slots = network.leastSlots(); slots > 0)
    fault.notes.push_back({-1, fmt::format("with {} slots a channel none would get stuck", slots)});
  report.faults.push_back(std::move(fault));
  return false;
}

void setRates(const Contract &contract, const SimulateOptions &options, SimulateReport &report) {
  report.bytes = sizeOf(contract, options.count, options.elementBytes);
  report.algbw = report.us > 0 ? double(report.bytes) / report.us / 1000 : 0;
}

SimulateReport simulate(const Program &program, const Contract &contract, const Topology &topology,
                        const SimulateOptions &given) {
  SimulateReport report;
  SimulateOptions options = given;
  options.maxFaults = std::max<size_t>(options.maxFaults, 1);
  auto malformed = [&](std::string message) {
    Fault &fault = report.faults.emplace_back();
    fault.kind = FaultKind::OutOfRange;
    fault.message = std::move(message);
    return report;
  };
  if (std::string error = checkSimulation(contract, topology, options); !error.empty())
    return malformed(std::move(error));
  if (int64_t(program.ranks.size()) != contract.ranks)
    return malformed(fmt::format("the contract is about {} ranks, the program has {}",
                                 contract.ranks, program.ranks.size()));
  Network network(program);
  network.build(report.faults, options.maxFaults);
  if (!report.ok() || !isLive(network, options, report))
    return report;
  SimCodeBuilder builder(program, contract, topology, network, options);
  const SimCode code = builder.build(report.faults);
  if (!report.ok() ||
      !runSimulation(code, options, topology, builder.wires().wires(), {}, {}, report))
    return report;
  setRates(contract, options, report);
  return report;
}

} // namespace ccl::model
