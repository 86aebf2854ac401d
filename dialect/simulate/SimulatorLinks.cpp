//===- SimulatorLinks.cpp - Messages on their way -------------------------===//
#include "dialect/simulate/Simulator.h"

#include <algorithm>
#include <cmath>

namespace ccl::model {

int32_t Simulator::newMessage() {
  if (freeMessage < 0) {
    messages.emplace_back();
    return int32_t(messages.size()) - 1;
  }
  const int32_t number = freeMessage;
  freeMessage = messages[size_t(number)].next;
  messages[size_t(number)] = InFlight();
  return number;
}

/// At the start of a message, and again when it arrives.
void Simulator::recordFlight(InFlight &message, double time) {
  if (!timeline)
    return;
  if (message.flight < 0) {
    const SimWay &way = code.ways[size_t(message.way)];
    message.flight = int64_t(timeline->flights.size());
    timeline->flights.push_back({message.span, way.src, way.dst, message.kind == Message::Signal,
                                 message.bytes, time, time, 0, -1});
    return;
  }
  Timeline::Flight &flight = timeline->flights[size_t(message.flight)];
  flight.arrive = time;
  flight.queuedUs = message.queued;
  flight.queuedAt = message.longestAt;
}

void Simulator::send(int32_t agent, const SimSend &send, Message kind) {
  State &state = states[size_t(agent)];
  const SimWay &way = code.ways[size_t(send.way)];
  const int32_t number = newMessage();
  InFlight &message = messages[size_t(number)];
  message.way = send.way, message.link = send.link, message.agent = agent, message.kind = kind;
  message.bytes = state.bytes, message.issue = now, message.span = state.span;
  recordFlight(message, now);
  if (way.numHops > 0)
    report.moved += message.bytes, ++report.messages;
  if (kind == Message::Put) {
    // A fence with signals is closed: what comes later does not delay them.
    if (state.lastFence < 0 || fences[size_t(state.lastFence)].firstSignal >= 0) {
      int32_t fence = freeFence;
      if (fence < 0) {
        fence = int32_t(fences.size());
        fences.emplace_back();
      } else {
        freeFence = fences[size_t(fence)].next;
        fences[size_t(fence)] = Fence();
      }
      (state.lastFence < 0 ? state.firstFence : fences[size_t(state.lastFence)].next) = fence;
      state.lastFence = fence;
    }
    message.fence = state.lastFence;
    ++fences[size_t(state.lastFence)].missing;
  }
  if (way.numHops == 0) { // within the rank
    const double end = std::max(now, state.laneEnd);
    push(end, Event::Arrive, agent, number);
    if (kind != Message::Pull && --state.pending == 0)
      push(std::max(end, state.until), Event::Done, agent);
    return;
  }
  const SimWire &wire = code.wires[size_t(code.hops[size_t(way.firstHop)])];
  // The lane may still have to read what is sent: then the link begins so as to end with it.
  const double begin =
      std::max(now, state.laneEnd - message.bytes * wire.slowest - model.overheadUs);
  push(begin + (fair ? model.overheadUs : 0), Event::Hop, agent, number);
}

double Simulator::busyTime(const SimWire &wire, double bytes) const {
  const double time =
      model.overheadUs + bytes * wire.usPerByte + (model.alphaOccupies ? wire.latency : 0);
  if (!model.epochs)
    return time;
  return std::max(1.0, std::ceil(time / code.epochUs - 1e-9)) * code.epochUs;
}

void Simulator::hop(int32_t number) {
  InFlight &message = messages[size_t(number)];
  const SimWay &way = code.ways[size_t(message.way)];
  const int32_t wireNumber = code.hops[size_t(way.firstHop + message.hop)];
  const SimWire &wire = code.wires[size_t(wireNumber)];

  double begin = std::max(now, wireFree[size_t(wireNumber)]);
  for (int32_t i = wire.firstShare; i < wire.firstShare + wire.numShares; ++i)
    begin = std::max(begin, resourceFree[size_t(code.shares[size_t(i)].resource)]);
  if (model.epochs)
    begin = std::ceil(begin / code.epochUs - 1e-9) * code.epochUs;
  const double busy = busyTime(wire, message.bytes);
  double end = begin + busy;
  wireFree[size_t(wireNumber)] = end;
  wireUse[size_t(wireNumber)].busyUs += busy;
  wireUse[size_t(wireNumber)].bytes += message.bytes;
  for (int32_t i = wire.firstShare; i < wire.firstShare + wire.numShares; ++i) {
    const SimShare &share = code.shares[size_t(i)];
    const double turn =
        share.usPerByte > 0 ? model.overheadUs + message.bytes * share.usPerByte : busy;
    resourceFree[size_t(share.resource)] = begin + turn;
    end = std::max(end, begin + turn);
    resourceUse[size_t(share.resource)].busyUs += turn;
    resourceUse[size_t(share.resource)].bytes += message.bytes;
  }
  const double queued = begin - now;
  message.queued += queued;
  if (queued > message.longest)
    message.longest = queued, message.longestAt = wireNumber;
  if (timeline)
    timeline->services.push_back({wireNumber, message.flight, begin, end});
  if (message.hop == 0)
    depart(number, end);

  const double delay = model.alphaOccupies ? 0 : wire.latency;
  if (++message.hop == way.numHops)
    return push(end + delay + way.extra, Event::Arrive, message.agent, number);
  double next = end + delay;
  if (!model.storesAndForwards) {
    const SimWire &after = code.wires[size_t(code.hops[size_t(way.firstHop + message.hop)])];
    next = std::max(begin + delay, next - model.overheadUs - message.bytes * after.slowest);
  }
  push(std::max(now, next), Event::Hop, message.agent, number);
}

void Simulator::depart(int32_t number, double time) {
  InFlight &message = messages[size_t(number)];
  State &state = states[size_t(message.agent)];
  if (fair)
    push(time + code.ways[size_t(message.way)].latency, Event::Arrive, message.agent, number);
  if (message.kind == Message::Pull)
    return;
  if (time > state.until)
    state.until = time, state.pushLink = message.queued;
  if (--state.pending == 0)
    push(state.until, Event::Done, message.agent);
}

void Simulator::arrive(int32_t number) {
  InFlight &message = messages[size_t(number)];
  report.us = std::max(report.us, now);
  recordFlight(message, now);
  const int32_t agent = message.agent;
  State &state = states[size_t(agent)];
  switch (message.kind) {
  case Message::Slot:
  case Message::Signal:
    ++tokens[size_t(message.link)];
    wake(waitsForToken[size_t(message.link)], Cause::Flight, message.flight);
    break;
  case Message::Put:
    if (--fences[size_t(message.fence)].missing == 0)
      openGate(agent);
    break;
  case Message::Pull:
    if (--state.pending == 0) {
      state.pullLink = message.queued;
      startPushes(agent, stepOf(agent));
    }
    break;
  }
  // `message` may have moved: what was sent just now comes from the same pool.
  messages[size_t(number)].next = freeMessage;
  freeMessage = number;
}

//===----------------------------------------------------------------------===//
// Fair sharing
//===----------------------------------------------------------------------===//

void Simulator::joinFair(int32_t number) {
  InFlight &message = messages[size_t(number)];
  const SimWay &way = code.ways[size_t(message.way)];
  const State &state = states[size_t(message.agent)];
  for (int32_t h = 0; h < way.numHops; ++h) {
    const int32_t wire = code.hops[size_t(way.firstHop + h)];
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
  fair->add(number, message.way, message.bytes, lane, now);
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
