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
  flight.changeUs = message.changed;
}

int32_t Simulator::newTransferMessage(int32_t agent, const SimSend &send, Message kind) {
  State &state = states[size_t(agent)];
  const SimWay &way = code.ways[size_t(send.way)];
  const int32_t number = newMessage();
  InFlight &message = messages[size_t(number)];
  message.way = send.way, message.link = send.link, message.agent = agent, message.kind = kind;
  message.bytes = state.bytes, message.issue = now, message.span = state.span;
  if (way.curve)
    message.pace = way.pace(message.bytes);
  recordFlight(message, now);
  if (way.numHops > 0 || way.circuit)
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
  return number;
}

void Simulator::send(int32_t agent, const SimSend &send, Message kind) {
  setOff(newTransferMessage(agent, send, kind));
}

/// The message goes to its first link.
void Simulator::setOff(int32_t number) {
  InFlight &message = messages[size_t(number)];
  const int32_t agent = message.agent;
  State &state = states[size_t(agent)];
  const SimWay &way = code.ways[size_t(message.way)];
  if (way.numHops == 0 && !way.circuit) { // within the rank
    const double end = std::max(now, state.laneEnd);
    push(end, Event::Arrive, agent, number);
    if (message.kind != Message::Pull && --state.pending == 0)
      push(std::max(end, state.until), Event::Done, agent);
    return;
  }
  const double usPerByte =
      way.circuit ? std::max(way.narrowest, message.pace.usPerByte)
                  : slowest(message, code.wires[size_t(code.hops[size_t(way.firstHop)])]);
  // The lane may still have to read what is sent: then the link begins so as to end with it.
  const double begin = std::max(now, state.laneEnd - message.bytes * usPerByte - model.overheadUs);
  push(begin + (fair ? model.overheadUs : 0), Event::Hop, agent, number);
}

/// Us per byte on a wire: a curve tells that of the narrowest of a way.
double Simulator::ownRate(const InFlight &message, const SimWire &wire) const {
  const bool narrowest = wire.usPerByte >= code.ways[size_t(message.way)].narrowest;
  return narrowest ? std::max(wire.usPerByte, message.pace.usPerByte) : wire.usPerByte;
}

/// Also with what the wire shares.
double Simulator::slowest(const InFlight &message, const SimWire &wire) const {
  return std::max(wire.slowest, ownRate(message, wire));
}

double Simulator::busyTime(double bytes, double usPerByte, double latency) const {
  const double time = model.overheadUs + bytes * usPerByte + (model.alphaOccupies ? latency : 0);
  if (!model.epochs)
    return time;
  return std::max(1.0, std::ceil(time / code.epochUs - 1e-9)) * code.epochUs;
}

void Simulator::hop(int32_t number) {
  InFlight &message = messages[size_t(number)];
  const SimWay &way = code.ways[size_t(message.way)];
  if (way.circuit)
    return hopOnCircuit(number);
  const int32_t wireNumber = code.hops[size_t(way.firstHop + message.hop)];
  const SimWire &wire = code.wires[size_t(wireNumber)];

  double begin = std::max(now, wireFree[size_t(wireNumber)]);
  for (int32_t i = wire.firstShare; i < wire.firstShare + wire.numShares; ++i)
    begin = std::max(begin, resourceFree[size_t(code.shares[size_t(i)].resource)]);
  if (model.epochs)
    begin = std::ceil(begin / code.epochUs - 1e-9) * code.epochUs;
  const double busy = busyTime(message.bytes, ownRate(message, wire), wire.latency);
  const double alpha = model.alphaOccupies ? wire.latency : 0; // of what it shares, too
  double end = begin + busy;
  wireFree[size_t(wireNumber)] = end;
  for (int32_t i = wire.firstShare; i < wire.firstShare + wire.numShares; ++i) {
    const SimShare &share = code.shares[size_t(i)];
    const double turn =
        share.usPerByte > 0 ? model.overheadUs + alpha + message.bytes * share.usPerByte : busy;
    resourceFree[size_t(share.resource)] = begin + turn;
    end = std::max(end, begin + turn);
    resourceUse[size_t(share.resource)].busyUs += turn;
    resourceUse[size_t(share.resource)].bytes += message.bytes;
  }
  recordService(message, wireNumber, begin, end, busy);
  if (message.hop == 0)
    depart(number, end);
  goOn(number, begin, end, model.alphaOccupies ? 0 : wire.latency);
}

void Simulator::hopOnCircuit(int32_t number) {
  InFlight &message = messages[size_t(number)];
  const SimWay &way = code.ways[size_t(message.way)];
  const Circuits::Circuit circuit = circuits->find(way.src, way.dst, now);
  const int32_t wire = circuit.sender;
  double begin = circuit.free;
  if (model.epochs)
    begin = std::ceil(begin / code.epochUs - 1e-9) * code.epochUs;
  const double busy =
      busyTime(message.bytes, std::max(circuit.usPerByte, message.pace.usPerByte), circuit.latency);
  const double end = begin + busy, delay = model.alphaOccupies ? 0 : circuit.latency;
  circuits->use(circuit, end, end + delay);
  if (circuit.isNew) {
    ++report.changes;
    message.changed = circuit.free - now;
    if (timeline)
      timeline->changes.push_back({wire, way.src, way.dst, circuit.changeBegin, circuit.free});
  }
  recordService(message, wire, begin, end, busy);
  depart(number, end);
  push(end + delay + way.extra + message.pace.laterUs, Event::Arrive, message.agent, number);
}

/// What a link's work for a message adds to the report.
void Simulator::recordService(InFlight &message, int32_t wire, double begin, double end,
                              double busy) {
  wireUse[size_t(wire)].busyUs += busy;
  wireUse[size_t(wire)].bytes += message.bytes;
  const double queued = begin - now;
  message.queued += queued;
  if (queued > message.longest)
    message.longest = queued, message.longestAt = wire;
  if (timeline)
    timeline->services.push_back({wire, message.flight, begin, end});
}

/// When the next link can begin, after one that is at work from `begin` to `end`.
double Simulator::nextStart(const InFlight &message, double begin, double end, double delay) const {
  const double next = end + delay;
  if (model.storesAndForwards)
    return next;
  const SimWay &way = code.ways[size_t(message.way)];
  const SimWire &after = code.wires[size_t(code.hops[size_t(way.firstHop + message.hop)])];
  return std::max(begin + delay, next - model.overheadUs - message.bytes * slowest(message, after));
}

/// After a hop.
void Simulator::goOn(int32_t number, double begin, double end, double delay) {
  InFlight &message = messages[size_t(number)];
  const SimWay &way = code.ways[size_t(message.way)];
  if (++message.hop == way.numHops)
    return push(end + delay + way.extra + message.pace.laterUs, Event::Arrive, message.agent,
                number);
  const double next = nextStart(message, begin, end, delay);
  if (message.branch >= 0 && message.kind == Message::Pull)
    return combineAt(number, next);
  if (message.branch >= 0)
    copyAt(message, begin, end, delay);
  push(std::max(now, next), Event::Hop, message.agent, number);
}

void Simulator::depart(int32_t number, double time) {
  InFlight &message = messages[size_t(number)];
  State &state = states[size_t(message.agent)];
  if (fair)
    endTree(number, time);
  if (message.kind == Message::Pull)
    return;
  if (time > state.until)
    state.until = time, state.pushLink = message.queued, state.pushChange = message.changed;
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
      state.pullLink = message.queued, state.pullChange = message.changed;
      startPushes(agent, stepOf(agent));
    }
    break;
  }
  release(number); // `message` may have moved: what was sent just now comes from the same pool
}

} // namespace ccl::model
