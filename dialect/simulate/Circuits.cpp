//===- Circuits.cpp -------------------------------------------------------===//
#include "dialect/simulate/Circuits.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace ccl::model {

bool isCircuit(const Topology &topology, const Wire &wire) {
  return topology.reconfigurable && wire.src < topology.ranks() && wire.dst < topology.ranks() &&
         topology.links[size_t(wire.links.front())].resources.empty();
}

Circuits::Circuits(const SimCode &code, const Topology &topology, const std::vector<Wire> &wires)
    : code(code), changeUs(*topology.reconfigurable), senders(wires.size()),
      receivers(wires.size()), sending(size_t(topology.ranks())), receiving(sending.size()) {
  for (size_t w = 0; w < wires.size(); ++w) {
    if (!isCircuit(topology, wires[w]))
      continue;
    senders[w].other = receivers[w].other = int32_t(w);
    sending[size_t(wires[w].src)].push_back(int32_t(w));
    receiving[size_t(wires[w].dst)].push_back(int32_t(w));
  }
}

/// One that leads nowhere, else the one that is quiet first.
int32_t Circuits::choose(const std::vector<int32_t> &candidates,
                         const std::vector<Port> &ports) const {
  return *std::min_element(candidates.begin(), candidates.end(), [&](int32_t a, int32_t b) {
    const Port &x = ports[size_t(a)], &y = ports[size_t(b)];
    return std::tuple(x.other >= 0, x.quiet, a) < std::tuple(y.other >= 0, y.quiet, b);
  });
}

Circuits::Circuit Circuits::find(int32_t src, int32_t dst, double now) const {
  const std::vector<int32_t> &outs = sending[size_t(src)], &ins = receiving[size_t(dst)];
  Circuit found;
  found.isNew = true;
  found.free = std::numeric_limits<double>::infinity();
  for (int32_t out : outs) {
    const int32_t in = senders[size_t(out)].other;
    if (in < 0 || std::find(ins.begin(), ins.end(), in) == ins.end())
      continue;
    const double free = std::max(now, senders[size_t(out)].free);
    if (free < found.free)
      found = {out, in, 0, 0, free, 0, false};
  }
  if (found.isNew) {
    found.sender = choose(outs, senders), found.receiver = choose(ins, receivers);
    found.changeBegin = std::max(
        {now, senders[size_t(found.sender)].quiet, receivers[size_t(found.receiver)].quiet});
    found.free = found.changeBegin + changeUs;
  }
  const SimWire &sends = code.wires[size_t(found.sender)];
  const SimWire &receives = code.wires[size_t(found.receiver)];
  found.usPerByte = std::max(sends.usPerByte, receives.usPerByte);
  found.latency = std::max(sends.latency, receives.latency);
  return found;
}

void Circuits::use(const Circuit &circuit, double end, double quiet) {
  Port &sender = senders[size_t(circuit.sender)], &receiver = receivers[size_t(circuit.receiver)];
  if (circuit.isNew) {
    if (sender.other >= 0)
      receivers[size_t(sender.other)].other = -1;
    if (receiver.other >= 0)
      senders[size_t(receiver.other)].other = -1;
    sender.other = circuit.receiver, receiver.other = circuit.sender;
  }
  sender.free = receiver.free = end;
  sender.quiet = receiver.quiet = std::max({sender.quiet, receiver.quiet, quiet});
}

Topology withAnyCircuits(const Topology &topology) {
  Topology any = topology;
  any.reconfigurable.reset();
  const int32_t hub = int32_t(topology.nodes());
  std::string name = "circuits";
  while (std::any_of(any.switches.begin(), any.switches.end(),
                     [&](const Switch &s) { return s.name == name; }))
    name += '\'';
  any.switches.push_back({name});
  // What all ports of a rank have together, and the least latency of one: a circuit has no less.
  std::map<int32_t, Link> up, down;
  auto add = [](std::map<int32_t, Link> &links, int32_t rank, Link link) {
    auto [it, isFirst] = links.try_emplace(rank, link);
    if (isFirst)
      return;
    it->second.bandwidth += link.bandwidth;
    it->second.latency = std::min(it->second.latency, link.latency);
  };
  any.links.clear();
  for (const Link &link : topology.links) {
    if (!link.resources.empty() || link.src >= topology.ranks() || link.dst >= topology.ranks()) {
      any.links.push_back(link);
      continue;
    }
    add(up, link.src, {link.src, hub, link.bandwidth, link.latency, {}});
    add(down, link.dst, {hub, link.dst, link.bandwidth, 0, {}});
  }
  for (const std::map<int32_t, Link> *links : {&up, &down})
    for (const auto &[rank, link] : *links)
      any.links.push_back(link);
  return any;
}

} // namespace ccl::model
