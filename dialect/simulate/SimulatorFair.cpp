//===- SimulatorFair.cpp - Messages with fair rates -----------------------===//
//
// What shares links with other messages, as a copy or as a part of a sum, has one rate with them on
// all links of theirs.
//===----------------------------------------------------------------------===//
#include "dialect/simulate/Simulator.h"

#include <algorithm>

namespace ccl::model {

/// Visits a message and all that share links with it, each with the links that are its own.
template <typename Visit>
void Simulator::visitTree(int32_t number, Visit visit) {
  const InFlight &message = messages[size_t(number)];
  const SimWay &way = code.ways[size_t(message.way)];
  const std::span<const int32_t> hops(code.hops.data() + way.firstHop, size_t(way.numHops));
  if (message.branch < 0)
    return visit(number, hops);
  const Branch &branch = branches[size_t(message.branch)];
  const bool follows = branch.trunk >= 0, pulls = message.kind == Message::Pull;
  visit(number, !follows ? hops
                : pulls  ? hops.first(size_t(branch.own))
                         : hops.subspan(size_t(branch.own)));
  for (int32_t b = branch.firstChild; b >= 0; b = branches[size_t(b)].sibling)
    visitTree(branches[size_t(b)].message, visit);
}

/// Fair: all of the tree has left, at `time`.
void Simulator::endTree(int32_t number, double time) {
  double longest = 0;
  const bool pulls = messages[size_t(number)].kind == Message::Pull;
  visitTree(number, [&](int32_t one, std::span<const int32_t>) {
    const InFlight &message = messages[size_t(one)];
    const double late = code.ways[size_t(message.way)].latency + message.pace.laterUs;
    longest = std::max(longest, late);
    if (!pulls)
      push(time + late, Event::Arrive, message.agent, one);
  });
  if (pulls)
    push(time + longest, Event::Arrive, messages[size_t(number)].agent, number);
}

void Simulator::joinFair(int32_t number) {
  InFlight &message = messages[size_t(number)];
  const State &state = states[size_t(message.agent)];
  std::vector<int32_t> wires;
  visitTree(number, [&](int32_t, std::span<const int32_t> own) {
    wires.insert(wires.end(), own.begin(), own.end());
  });
  for (int32_t wire : wires) {
    const SimWire &numbers = code.wires[size_t(wire)];
    auto add = [&](LinkUse &use, double usPerByte) {
      use.bytes += message.bytes;
      use.busyUs += message.bytes * usPerByte;
    };
    add(wireUse[size_t(wire)], numbers.usPerByte);
    for (int32_t i = numbers.firstShare; i < numbers.firstShare + numbers.numShares; ++i) {
      const SimShare &share = code.shares[size_t(i)];
      add(resourceUse[size_t(share.resource)],
          share.usPerByte > 0 ? share.usPerByte : numbers.usPerByte);
    }
  }
  // The lane still has to read what it sends.
  const double lane = message.bytes > 0 ? std::max(0.0, state.laneEnd - now) / message.bytes : 0;
  fair->add(number, wires, message.bytes, std::max(lane, message.pace.usPerByte), now);
}

void Simulator::settleFair() {
  fair->settle(now);
  for (const FairShares::Change &change : fair->changed) {
    InFlight &message = messages[size_t(change.flow)];
    message.version = states[size_t(message.agent)].events;
    push(std::max(now, change.end), Event::Ended, message.agent, change.flow);
  }
}

} // namespace ccl::model
