//===- SimulateWays.cpp - Which links messages take, and share ------------===//
#include "dialect/simulate/Circuits.h"
#include "dialect/simulate/SimulateCode.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ccl::model {

SimPace SimWay::pace(double bytes) const {
  if (!curve)
    return {};
  const CostSegment &segment = curve->segmentOf(bytes);
  return {segment.beta, std::max(0.0, segment.alpha - latency)};
}

WayCurve::Of SimCodeBuilder::kindOf(const Topology &topology, const Routes &routes,
                                    const std::vector<int32_t> &way, int32_t src, int32_t dst) {
  const int64_t ranks = topology.ranks();
  bool pci = false;
  for (int32_t wire : way) {
    const int32_t node = routes.wires()[size_t(wire)].dst;
    if (node < ranks)
      continue;
    const SwitchKind kind = topology.switches[size_t(node - ranks)].kind;
    if (kind == SwitchKind::Nic)
      return WayCurve::Of::Net;
    pci |= kind != SwitchKind::Switch;
  }
  const std::vector<int64_t> from = topology.coordinates(src), to = topology.coordinates(dst);
  for (size_t axis = 0; axis < from.size(); ++axis)
    if (topology.axes[axis].name == "node" && from[axis] != to[axis])
      return WayCurve::Of::Net;
  return pci ? WayCurve::Of::Pci : WayCurve::Of::Nvlink;
}

double SimCodeBuilder::latencyOf(const CostModel::Latencies &latencies, WayCurve::Of kind) {
  return kind == WayCurve::Of::Net   ? latencies.net
         : kind == WayCurve::Of::Pci ? latencies.pci
                                     : latencies.nvlink;
}

const CostCurve *SimCodeBuilder::curveOf(const std::vector<WayCurve> &curves, WayCurve::Of kind,
                                         int32_t src, int32_t dst) {
  for (size_t i = curves.size(); i-- > 0;) {
    const WayCurve &c = curves[i];
    if (c.of == WayCurve::Of::Any || c.of == kind ||
        (c.of == WayCurve::Of::Pair && c.src == src && c.dst == dst))
      return &c.curve;
  }
  return nullptr;
}

void SimCodeBuilder::findPorts(const SimCode &code) {
  sendPorts.resize(size_t(topology.ranks())), receivePorts.resize(sendPorts.size());
  auto add = [](BestPort &port, const SimWire &wire) {
    port.usPerByte = std::min(port.usPerByte, wire.usPerByte);
    port.latency = std::min(port.latency, wire.latency);
  };
  for (size_t w = 0; w < routes.wires().size(); ++w) {
    const Wire &wire = routes.wires()[w];
    if (!isCircuit(topology, wire))
      continue;
    add(sendPorts[size_t(wire.src)], code.wires[w]);
    add(receivePorts[size_t(wire.dst)], code.wires[w]);
  }
}

/// Why a message between ranks without a way cannot have a circuit, or "".
std::string SimCodeBuilder::whyNoWay(const SimWay &way, bool hasData) const {
  const std::string goes = fmt::format("data goes from rank {} to rank {}", way.src, way.dst);
  const std::string blocked =
      fmt::format("{}, but in topology {} every way between them leads through other ranks", goes,
                  topology.name);
  if (!topology.reconfigurable)
    return blocked;
  if (!sendPorts[size_t(way.src)].exists())
    return fmt::format("{}, and rank {} sends on no link that can be changed", blocked, way.src);
  if (!receivePorts[size_t(way.dst)].exists())
    return fmt::format("{}, and rank {} receives on no link that can be changed", blocked, way.dst);
  if (hasData && options.sharing == Sharing::Fair)
    return fmt::format("{}, for which topology {} has to change links; fair sharing has no order "
                       "of messages that says when",
                       goes, topology.name);
  return "";
}

void SimCodeBuilder::setPace(const SimCode &code, SimWay &way,
                             const std::vector<int32_t> &wires) const {
  for (int32_t wire : wires) {
    way.latency += code.wires[size_t(wire)].latency;
    way.narrowest = std::max(way.narrowest, code.wires[size_t(wire)].usPerByte);
  }
  if (way.src == way.dst)
    return;
  const WayCurve::Of kind = kindOf(topology, routes, wires, way.src, way.dst);
  if (options.model.latencies)
    way.extra = latencyOf(*options.model.latencies, kind);
  way.latency += way.extra;
  way.curve = curveOf(options.curves, kind, way.src, way.dst);
}

void SimCodeBuilder::addWays(SimCode &code, std::vector<Fault> &faults) {
  if (topology.reconfigurable)
    findPorts(code);
  std::vector<int32_t> order(code.ways.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const SimWay &x = code.ways[size_t(a)], &y = code.ways[size_t(b)];
    return std::pair(x.src, x.dst) < std::pair(y.src, y.dst);
  });
  for (int32_t number : order) {
    SimWay &way = code.ways[size_t(number)];
    const std::vector<int32_t> &wires = routes.way(way.src, way.dst);
    if (wires.empty() && way.src != way.dst) {
      std::string why = whyNoWay(way, carriesData[size_t(number)]);
      way.circuit = why.empty();
      auto [agent, instruction] = firstUsers[size_t(number)];
      if (!why.empty() && faults.size() < options.maxFaults)
        faults.push_back(faultAt(agent, instruction, std::move(why)));
      if (way.circuit && carriesData[size_t(number)])
        code.changeUs = topology.reconfigurable;
    }
    way.firstHop = int32_t(code.hops.size());
    way.numHops = int32_t(wires.size());
    way.only = routes.isOnly();
    code.hops.insert(code.hops.end(), wires.begin(), wires.end());
    setPace(code, way, wires);
  }
  if (topology.reconfigurable)
    addCircuits(code);
  for (SimWay &way : code.ways)
    way.signalUs = way.latency + way.pace(0).laterUs;
}

/// Once the fabric changes links, those that it began with are circuits, too.
void SimCodeBuilder::addCircuits(SimCode &code) const {
  for (SimWay &way : code.ways) {
    if (code.changeUs && way.numHops == 1 &&
        isCircuit(topology, routes.wires()[size_t(code.hops[size_t(way.firstHop)])]))
      way.circuit = true, way.numHops = 0;
    if (!way.circuit)
      continue;
    const BestPort &send = sendPorts[size_t(way.src)], &receive = receivePorts[size_t(way.dst)];
    way.narrowest = std::max(send.usPerByte, receive.usPerByte);
    way.latency = std::max(send.latency, receive.latency) + way.extra;
  }
}

/// How many hops at the beginning (at the end: `combines`) two ways share as one message: up to the
/// last switch that copies, from the first one that combines, of those where they are still, or
/// already, one.
int32_t SimCodeBuilder::sharedHops(const SimCode &code, const SimWay &a, const SimWay &b,
                                   bool combines) const {
  auto hop = [&](const SimWay &way, int32_t i) {
    return code.hops[size_t(way.firstHop + (combines ? way.numHops - 1 - i : i))];
  };
  int32_t shared = 0;
  for (int32_t i = 0; i + 1 < std::min(a.numHops, b.numHops) && hop(a, i) == hop(b, i); ++i) {
    const Wire &wire = routes.wires()[size_t(hop(a, i))];
    const int64_t node = (combines ? wire.src : wire.dst) - topology.ranks();
    const Switch &at = topology.switches[size_t(node)]; // ways lead through switches only
    if (combines ? at.reduce : at.multicast)
      shared = i + 1;
  }
  return shared;
}

/// Finds the copies that the sends of a transfer share, and the sums: each goes with the first one
/// that it shares most with.
void SimCodeBuilder::addTrunks(SimCode &code) const {
  if (std::none_of(topology.switches.begin(), topology.switches.end(),
                   [](const Switch &s) { return s.multicast || s.reduce; }))
    return;
  auto join = [&](SimStep &step, int32_t begin, int32_t end, bool combines) {
    for (int32_t i = begin + 1; i < end; ++i) {
      SimSend &send = code.sends[step.firstSend + size_t(i)];
      const SimPlace &place = places[step.firstSend + size_t(i)];
      const SimWay &way = code.ways[size_t(send.way)];
      int32_t most = 0;
      for (int32_t j = begin; j < i && place.buffer >= 0; ++j) {
        if (!(places[step.firstSend + size_t(j)] == place))
          continue;
        const SimWay &other = code.ways[size_t(code.sends[step.firstSend + size_t(j)].way)];
        if (int32_t hops = sharedHops(code, way, other, combines); hops > most)
          most = hops, send.trunk = j;
      }
      send.own = combines ? way.numHops - most : most;
      step.shares |= most > 0;
    }
  };
  for (SimStep &step : code.steps) {
    if (step.kind != SimStep::Kind::Transfer)
      continue;
    join(step, 0, step.numPulls, /*combines=*/true);
    join(step, step.numPulls, step.numPulls + step.numPushes, /*combines=*/false);
  }
}

} // namespace ccl::model
