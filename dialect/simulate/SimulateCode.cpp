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
  for (int64_t i = 0; i < step.count; ++i) {
    const int64_t k = (step.chunk + i) % chunks;
    elements += part(step.firstLength >= 0
                         ? lengths[size_t(step.firstLength + i)]
                         : chunkStart(k + 1, count, chunks) - chunkStart(k, count, chunks),
                     batch, batches);
  }
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

void SimCodeBuilder::addSend(SimCode &code, int32_t src, int32_t dst, int32_t link,
                             SimPlace place) {
  const int32_t way = wayNumber(code, src, dst);
  code.sends.push_back({way, link});
  places.push_back(place);
  carriesData.resize(code.ways.size());
  if (link < 0 || code.capacities[size_t(link)] > 0)
    carriesData[size_t(way)] = true;
}

void SimCodeBuilder::addSends(SimCode &code, SimStep &step, int32_t rank,
                              const Instruction &instruction) {
  auto placeOf = [](const Operand &operand) { return SimPlace{operand.buffer, operand.chunk}; };
  for (const Operand &operand : instruction.from) {
    if (operand.kind == Operand::Kind::Channel) {
      addUse(code, step, network.linkOf(rank, operand.channel), /*adds=*/false);
    } else if (operand.kind == Operand::Kind::Peer && operand.peer != rank) {
      addSend(code, operand.peer, rank, -1, instruction.reduce ? placeOf(operand) : SimPlace());
      ++step.numPulls;
    }
  }
  for (const Operand &operand : instruction.to) {
    if (operand.kind == Operand::Kind::Channel) {
      const int32_t link = network.linkOf(rank, operand.channel);
      addUse(code, step, link, /*adds=*/true);
      addSend(code, rank, network.links()[size_t(link)].dst, link);
      ++step.numPushes;
    } else if (operand.kind == Operand::Kind::Peer && operand.peer != rank) {
      addSend(code, rank, operand.peer, -1, placeOf(operand));
      ++step.numPushes;
    }
  }
}

/// Of an uneven launch: how long the chunks are that a transfer moves.
void SimCodeBuilder::addLengths(SimCode &code, SimStep &step, int32_t rank,
                                const Operand &operand) const {
  if (options.lengths.empty())
    return;
  const int32_t owner = operand.kind == Operand::Kind::Peer ? operand.peer : rank;
  const Role role = program.buffers[size_t(operand.buffer)].role;
  step.firstLength = int64_t(code.lengths.size());
  for (int64_t k = step.chunk; k < step.chunk + step.count; ++k) {
    const int64_t shard = contract.shardOf(role, owner, k).value_or(-1);
    const bool known = shard >= 0 && size_t(shard) < options.lengths.size();
    const int64_t elements = known ? options.lengths[size_t(shard)] : 0;
    const int64_t c = k % code.chunks;
    code.lengths.push_back(chunkStart(c + 1, elements, code.chunks) -
                           chunkStart(c, elements, code.chunks));
  }
}

void SimCodeBuilder::addStep(SimCode &code, const NetworkAgent &agent, int32_t index,
                             std::vector<Fault> &faults) {
  const Instruction &instruction = agent.agent->code[size_t(index)];
  SimStep step;
  step.firstUse = uint32_t(code.uses.size());
  step.firstSend = uint32_t(code.sends.size());
  const int32_t rank = agent.rank;
  if (instruction.kind != Instruction::Kind::Transfer) {
    const bool signals = instruction.kind == Instruction::Kind::Signal;
    const int32_t link = network.linkOf(rank, instruction.channel);
    step.kind = signals ? SimStep::Kind::Signal : SimStep::Kind::Wait;
    if (signals)
      addSend(code, rank, network.links()[size_t(link)].dst, link);
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
    if (length) {
      step.inShard = true, step.chunk = length->chunk;
      addLengths(code, step, rank, *length);
    }
    addSends(code, step, rank, instruction);
  }
  step.numUses = int32_t(code.uses.size() - step.firstUse);
  firstUsers.resize(code.ways.size(), {int32_t(&agent - network.agents().data()), index});
  code.steps.push_back(step);
}

void SimCodeBuilder::setLengths(SimCode &code) const {
  const int64_t chunk = longestChunk(code.count, code.chunks);
  const int64_t longest = (chunk + code.batches - 1) / code.batches;
  const bool even =
      code.count % code.chunks == 0 && chunk % code.batches == 0 && options.lengths.empty();
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
  if (faults.empty())
    addTrunks(code);
  setLengths(code);
  return code;
}

} // namespace ccl::model
