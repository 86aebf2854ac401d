//===- Simulate.cpp -------------------------------------------------------===//
#include "dialect/simulate/SimulateRun.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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

int64_t sizeOf(const Contract &contract, const std::vector<int64_t> &lengths,
               int64_t elementBytes) {
  const size_t ranks = size_t(contract.ranks);
  if (!isAllToAll(contract.collective))
    return std::accumulate(lengths.begin(), lengths.end(), int64_t(0)) * elementBytes;
  std::vector<int64_t> sent(ranks), received(ranks);
  for (size_t pair = 0; pair < lengths.size(); ++pair)
    sent[pair / ranks] += lengths[pair], received[pair % ranks] += lengths[pair];
  return std::max(*std::max_element(sent.begin(), sent.end()),
                  *std::max_element(received.begin(), received.end())) *
         elementBytes;
}

int64_t countFor(const Contract &contract, int64_t bytes, int64_t elementBytes) {
  const int64_t unit = std::max<int64_t>(sizeOf(contract, 1, elementBytes), 1);
  return std::max<int64_t>(bytes / unit, 1);
}

namespace {

std::string checkLengths(const Contract &contract, const SimulateOptions &options) {
  const std::vector<int64_t> &lengths = options.lengths;
  if (lengths.empty())
    return "";
  if (!hasUnevenForm(contract.collective))
    return fmt::format("{} has no uneven form", contract.str());
  const int64_t needed = contract.ranks * (isAllToAll(contract.collective) ? contract.ranks : 1);
  if (int64_t(lengths.size()) != needed)
    return fmt::format("{} lengths of shards, but {} has {}", lengths.size(), contract.str(),
                       needed);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  if (longest != options.count)
    return fmt::format("the longest shard has {} elements, but the count is {}", longest,
                       options.count);
  if (*std::min_element(lengths.begin(), lengths.end()) < 0)
    return "a shard has at least 0 elements";
  return "";
}

std::string checkCurves(const Contract &contract, const SimulateOptions &options) {
  for (const WayCurve &c : options.curves) {
    if (c.of == WayCurve::Of::Pair)
      for (int32_t rank : {c.src, c.dst})
        if (rank < 0 || rank >= contract.ranks)
          return fmt::format("a curve is for rank {}, which is outside [0, {})", rank,
                             contract.ranks);
    if (c.curve.segments.empty())
      return "a curve has no segments";
    for (const CostSegment &segment : c.curve.segments)
      if (!(segment.alpha >= 0) || !(segment.beta >= 0) || !std::isfinite(segment.alpha) ||
          !std::isfinite(segment.beta))
        return fmt::format("a curve has {} us and {} us a byte, which is negative or not finite",
                           segment.alpha, segment.beta);
  }
  return "";
}

} // namespace

std::string checkOptions(const SimulateOptions &options) {
  const CostModel &model = options.model;
  // Times within which sums keep their digits, and rates at which bytes take no longer.
  constexpr double mostUs = 1e15, leastRate = 1e-6; // us, GB/s
  for (auto [value, what] : {std::pair(model.launchUs, "launch"),
                             {model.syncUs, "sync"},
                             {model.overheadUs, "overhead"},
                             {model.laneGBps, "lane"},
                             {model.epochUs, "epoch"},
                             {model.mostGBps, "limit of bandwidth"}})
    if (!(value >= 0) || value > mostUs)
      return fmt::format("cost model {}: {} is {}, which is not from 0 to {}", model.name, what,
                         value, mostUs);
  for (auto [value, what] : {std::pair(model.laneGBps, "lane"),
                             {model.epochUs, "epoch"},
                             {model.mostGBps, "limit of bandwidth"}})
    if (value > 0 && value < leastRate)
      return fmt::format("cost model {}: {} is {}, which is below {}", model.name, what, value,
                         leastRate);
  if (!(model.efficiency > 0) || model.efficiency > 1e6)
    return fmt::format("cost model {}: efficiency is {}, which is not positive", model.name,
                       model.efficiency);
  if (model.epochUs > 0 && !model.epochs)
    return fmt::format("cost model {} has no epochs; model teccl does", model.name);
  if (options.sharing == Sharing::Fair && (model.epochs || model.storesAndForwards))
    return fmt::format("cost model {} has an order of messages on links, so there is no fair "
                       "sharing; models ccl and nccl have it",
                       model.name);
  if (!options.curves.empty() &&
      (model.latencies || model.alphaOccupies || model.storesAndForwards || model.epochs))
    return fmt::format("cost model {} has times of its own, so it takes no measured curves; model "
                       "ccl does",
                       model.name);
  return "";
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
    return fmt::format(
        "{} micro-batches are outside [1, 2147483647]; take fewer, or a smaller size",
        options.batches);
  if (options.slots < 0)
    return fmt::format("{} slots a channel, but there is at least 1", options.slots);
  const int64_t shards = std::max(sizedShards(contract), contract.chunks);
  if (options.count > std::numeric_limits<int64_t>::max() / 8 / shards / options.elementBytes)
    return fmt::format("{} elements a shard are more than can be counted", options.count);
  for (auto check : {checkLengths, checkCurves})
    if (std::string error = check(contract, options); !error.empty())
      return error;
  return checkOptions(options);
}

bool runSimulation(const SimCode &code, const SimulateOptions &options, const Topology &topology,
                   const std::vector<Wire> &wires, const std::vector<int32_t> &wireClass,
                   const std::vector<int32_t> &resourceClass, SimulateReport &report) {
  Simulator simulator(code, options, topology, wires, report);
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
    for (Timeline::Change &change : report.timeline->changes)
      change.link = first(change.link);
    for (Timeline::Flight &flight : report.timeline->flights)
      if (flight.queuedAt >= 0)
        flight.queuedAt = first(flight.queuedAt);
  }
  return true;
}

bool isLive(const Network &network, const SimulateOptions &options, SimulateReport &report) {
  const int64_t most = options.timeline ? mostTimelineSteps : mostSteps;
  const int64_t steps = std::max<int64_t>(int64_t(network.numEvents()), 1);
  if (options.batches > most / steps) {
    Fault &fault = report.faults.emplace_back();
    fault.kind = FaultKind::OutOfRange;
    fault.message = fmt::format("{} instructions in {} micro-batches are more than the {} that a "
                                "simulation{} takes; take fewer micro-batches, or a smaller size",
                                network.numEvents(), options.batches, most,
                                options.timeline ? " with a timeline" : "");
    return false;
  }
  const std::vector<int32_t> stops = network.run(options.slots);
  if (!network.isStuck(stops))
    return true;
  Fault fault = network.deadlock(stops, options.slots);
  if (int32_t slots = network.leastSlots(); slots > 0)
    fault.notes.push_back({-1, fmt::format("with {} slots a channel none would get stuck", slots)});
  report.faults.push_back(std::move(fault));
  return false;
}

void setSize(int64_t bytes, SimulateReport &report) {
  report.bytes = bytes;
  report.algbw = report.us > 0 ? double(bytes) / report.us / 1000 : 0;
}

void setRates(const Contract &contract, const SimulateOptions &options, SimulateReport &report) {
  setSize(options.lengths.empty() ? sizeOf(contract, options.count, options.elementBytes)
                                  : sizeOf(contract, options.lengths, options.elementBytes),
          report);
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
