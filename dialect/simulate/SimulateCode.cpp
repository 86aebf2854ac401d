//===- SimulateCode.cpp ---------------------------------------------------===//
#include "dialect/simulate/SimulateCode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ccl::model {
namespace {

constexpr double bytesPerUs = 1000; ///< of 1 GB/s

/// Elements of part `i` of `m` of something `length` long.
int64_t part(int64_t length, int64_t i, int64_t m) {
  return int64_t(__int128_t(length) * (i + 1) / m - __int128_t(length) * i / m);
}

bool isShard(const Buffer &buffer) { return buffer.role != Role::Scratch; }

} // namespace

double SimCode::bytesOf(const SimStep &step, int64_t batch) const {
  if (step.bytes >= 0)
    return step.bytes;
  int64_t elements = 0;
  for (int64_t k = step.chunk; k < step.chunk + step.count; ++k)
    elements +=
        part(chunkStart(k % chunks + 1, count, chunks) - chunkStart(k % chunks, count, chunks),
             batch, batches);
  return double(elements) * double(elementBytes);
}

Fault SimCodeBuilder::faultAt(int32_t agent, int32_t instruction, std::string message) const {
  const NetworkAgent &who = network.agents()[size_t(agent)];
  Fault fault;
  fault.kind = FaultKind::OutOfRange;
  fault.rank = who.rank;
  fault.agent = who.index;
  fault.instruction = instruction;
  fault.loc = who.agent->code[size_t(instruction)].loc;
  fault.message = fmt::format("{}: {}", network.str(agent, instruction), message);
  return fault;
}

bool SimCodeBuilder::exists(const NetworkAgent &agent, int32_t index, const Operand &operand,
                            int32_t count, std::vector<Fault> &faults) const {
  if (operand.kind == Operand::Kind::Channel)
    return true;
  const int64_t buffers = int64_t(program.buffers.size());
  std::string message;
  if (operand.buffer < 0 || operand.buffer >= buffers) {
    message = fmt::format("buffer {} is outside [0, {})", operand.buffer, buffers);
  } else {
    const Buffer &buffer = program.buffers[size_t(operand.buffer)];
    if (operand.chunk >= 0 && operand.chunk <= buffer.chunks - count)
      return true;
    message = fmt::format("{}: {} chunk{} from chunk {} on are outside [0, {})", buffer.name, count,
                          count == 1 ? "" : "s", operand.chunk, buffer.chunks);
  }
  if (faults.size() < options.maxFaults)
    faults.push_back(faultAt(int32_t(&agent - network.agents().data()), index, std::move(message)));
  return false;
}

void SimCodeBuilder::addWires(SimCode &code) const {
  const CostModel &model = options.model;
  auto rate = [&](double bandwidth) {
    bandwidth *= model.efficiency;
    if (model.mostGBps > 0)
      bandwidth = std::min(bandwidth, model.mostGBps);
    return 1 / (bandwidth * bytesPerUs);
  };
  code.numResources = int32_t(topology.resources.size());
  double fastest = 0;
  for (const Wire &wire : routes.wires()) {
    SimWire &made = code.wires.emplace_back();
    made.usPerByte = made.slowest = rate(wire.bandwidth);
    made.latency = model.latencies ? 0 : wire.latency;
    made.firstShare = int32_t(code.shares.size());
    if (fastest == 0 || made.usPerByte < fastest)
      fastest = made.usPerByte;
    if (!model.sharesResources)
      continue;
    for (int32_t resource : topology.links[size_t(wire.links.front())].resources) {
      const double bandwidth = topology.resources[size_t(resource)].bandwidth;
      code.shares.push_back({resource, bandwidth > 0 ? rate(bandwidth) : 0});
      made.slowest = std::max(made.slowest, code.shares.back().usPerByte);
    }
    made.numShares = int32_t(code.shares.size()) - made.firstShare;
  }
  if (!model.epochs)
    return;
  const int64_t longest =
      part(longestChunk(code.count, code.chunks) + code.batches - 1, 0, code.batches);
  code.epochUs = model.epochUs > 0
                     ? model.epochUs
                     : std::max<double>(double(longest * code.elementBytes), 1) * fastest;
  for (size_t w = 0; w < code.wires.size(); ++w) {
    double &latency = code.wires[w].latency;
    const bool fromSwitch = routes.wires()[w].src >= topology.ranks();
    latency = fromSwitch || latency <= 0.1 * code.epochUs
                  ? 0
                  : std::ceil(latency / code.epochUs - 1e-9) * code.epochUs;
  }
}

void SimCodeBuilder::addUse(SimCode &code, const SimStep &step, int32_t link, bool adds) const {
  for (size_t i = step.firstUse; i < code.uses.size(); ++i)
    if (code.uses[i].link == link && code.uses[i].adds == adds) {
      ++code.uses[i].number;
      return;
    }
  code.uses.push_back({link, 1, adds});
}

int32_t SimCodeBuilder::wayNumber(SimCode &code, int32_t src, int32_t dst) {
  auto [it, added] = wayNumbers.try_emplace(uint64_t(uint32_t(src)) << 32 | uint32_t(dst),
                                            int32_t(code.ways.size()));
  if (added) {
    SimWay &way = code.ways.emplace_back();
    way.src = src, way.dst = dst;
  }
  return it->second;
}

void SimCodeBuilder::addStep(SimCode &code, const NetworkAgent &agent, int32_t index,
                             std::vector<Fault> &faults) {
  const Instruction &instruction = agent.agent->code[size_t(index)];
  SimStep step;
  step.firstUse = uint32_t(code.uses.size());
  step.firstSend = uint32_t(code.sends.size());
  const int32_t rank = agent.rank;
  auto linkOf = [&](int32_t channel) { return network.linkOf(rank, channel); };
  auto peerOf = [&](int32_t link) { return network.links()[size_t(link)].dst; };
  if (instruction.kind != Instruction::Kind::Transfer) {
    const bool signals = instruction.kind == Instruction::Kind::Signal;
    const int32_t link = linkOf(instruction.channel);
    step.kind = signals ? SimStep::Kind::Signal : SimStep::Kind::Wait;
    if (signals)
      code.sends.push_back({wayNumber(code, rank, peerOf(link)), link});
    else
      addUse(code, step, link, /*adds=*/false);
  } else {
    step.count = instruction.count;
    step.sources = uint16_t(std::min<size_t>(instruction.from.size(), UINT16_MAX));
    const Operand *length = nullptr;
    for (const std::vector<Operand> *operands : {&instruction.from, &instruction.to})
      for (const Operand &operand : *operands) {
        if (!exists(agent, index, operand, instruction.count, faults))
          return;
        if (operand.kind == Operand::Kind::Channel ||
            !isShard(program.buffers[size_t(operand.buffer)]))
          continue;
        if (!length ||
            (length->kind == Operand::Kind::Peer && operand.kind == Operand::Kind::Local))
          length = &operand;
      }
    if (length)
      step.inShard = true, step.chunk = length->chunk;
    for (const Operand &operand : instruction.from) {
      if (operand.kind == Operand::Kind::Channel) {
        addUse(code, step, linkOf(operand.channel), /*adds=*/false);
      } else if (operand.kind == Operand::Kind::Peer && operand.peer != rank) {
        code.sends.push_back({wayNumber(code, operand.peer, rank), -1});
        ++step.numPulls;
      }
    }
    for (const Operand &operand : instruction.to) {
      if (operand.kind == Operand::Kind::Channel) {
        const int32_t link = linkOf(operand.channel);
        addUse(code, step, link, /*adds=*/true);
        code.sends.push_back({wayNumber(code, rank, peerOf(link)), link});
        ++step.numPushes;
      } else if (operand.kind == Operand::Kind::Peer && operand.peer != rank) {
        code.sends.push_back({wayNumber(code, rank, operand.peer), -1});
        ++step.numPushes;
      }
    }
  }
  step.numUses = int32_t(code.uses.size() - step.firstUse);
  firstUsers.resize(code.ways.size(), {int32_t(&agent - network.agents().data()), index});
  code.steps.push_back(step);
}

double SimCodeBuilder::latencyOf(const CostModel::Latencies &latencies, const Topology &topology,
                                 const Routes &routes, const std::vector<int32_t> &way, int32_t src,
                                 int32_t dst) {
  const int64_t ranks = topology.ranks();
  bool pci = false;
  for (int32_t wire : way) {
    const int32_t node = routes.wires()[size_t(wire)].dst;
    if (node < ranks)
      continue;
    const SwitchKind kind = topology.switches[size_t(node - ranks)].kind;
    if (kind == SwitchKind::Nic)
      return latencies.net;
    pci |= kind != SwitchKind::Switch;
  }
  const std::vector<int64_t> from = topology.coordinates(src), to = topology.coordinates(dst);
  for (size_t axis = 0; axis < from.size(); ++axis)
    if (topology.axes[axis].name == "node" && from[axis] != to[axis])
      return latencies.net;
  return pci ? latencies.pci : latencies.nvlink;
}

void SimCodeBuilder::addWays(SimCode &code, std::vector<Fault> &faults) {
  std::vector<int32_t> order(code.ways.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const SimWay &x = code.ways[size_t(a)], &y = code.ways[size_t(b)];
    return std::pair(x.src, x.dst) < std::pair(y.src, y.dst);
  });
  for (int32_t number : order) {
    SimWay &way = code.ways[size_t(number)];
    const std::vector<int32_t> &wires = routes.way(way.src, way.dst);
    if (wires.empty() && way.src != way.dst && faults.size() < options.maxFaults) {
      auto [agent, instruction] = firstUsers[size_t(number)];
      faults.push_back(faultAt(agent, instruction,
                               fmt::format("data goes from rank {} to rank {}, but in topology {} "
                                           "every way between them leads through other ranks",
                                           way.src, way.dst, topology.name)));
    }
    way.firstHop = int32_t(code.hops.size());
    way.numHops = int32_t(wires.size());
    for (int32_t wire : wires) {
      code.hops.push_back(wire);
      way.latency += code.wires[size_t(wire)].latency;
    }
    if (options.model.latencies && !wires.empty())
      way.extra = latencyOf(*options.model.latencies, topology, routes, wires, way.src, way.dst);
    way.latency += way.extra;
  }
}

void SimCodeBuilder::setLengths(SimCode &code) const {
  const int64_t chunk = longestChunk(code.count, code.chunks);
  const int64_t longest = (chunk + code.batches - 1) / code.batches;
  const bool even = code.count % code.chunks == 0 && chunk % code.batches == 0;
  for (SimStep &step : code.steps)
    if (step.kind == SimStep::Kind::Transfer && (even || !step.inShard))
      step.bytes = double(longest) * double(step.count) * double(code.elementBytes);
}

SimCode SimCodeBuilder::build(std::vector<Fault> &faults) {
  SimCode code;
  code.ranks = int32_t(program.ranks.size());
  code.chunks = contract.chunks, code.count = options.count;
  code.elementBytes = options.elementBytes, code.batches = options.batches;
  for (const NetworkLink &link : network.links())
    code.capacities.push_back(link.slots > 0 && options.slots > 0 ? options.slots : link.slots);
  addWires(code);
  code.steps.reserve(network.numEvents());
  for (const NetworkAgent &agent : network.agents()) {
    code.agents.push_back(
        {agent.rank, agent.index, uint32_t(code.steps.size()), uint32_t(agent.agent->code.size())});
    for (size_t i = 0; i < agent.agent->code.size(); ++i)
      addStep(code, agent, int32_t(i), faults);
  }
  if (faults.empty())
    addWays(code, faults);
  setLengths(code);
  return code;
}

} // namespace ccl::model
