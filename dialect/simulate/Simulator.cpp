//===- Simulator.cpp - Agents and their instructions ----------------------===//
//
// What links do is in SimulatorLinks.cpp.
//===----------------------------------------------------------------------===//
#include "dialect/simulate/Simulator.h"

#include <algorithm>

namespace ccl::model {

void SimQueue::push(const SimEvent &event) {
  size_t at = heap.size();
  heap.push_back(event);
  while (at > 0) {
    const size_t parent = (at - 1) / 4;
    if (!event.before(heap[parent]))
      break;
    heap[at] = heap[parent];
    at = parent;
  }
  heap[at] = event;
}

SimEvent SimQueue::pop() {
  const SimEvent first = heap.front(), last = heap.back();
  heap.pop_back();
  const size_t size = heap.size();
  for (size_t at = 0; size > 0;) {
    const size_t child = 4 * at + 1;
    if (child >= size) {
      heap[at] = last;
      break;
    }
    size_t least = child;
    for (size_t other = child + 1; other < std::min(child + 4, size); ++other)
      if (heap[other].before(heap[least]))
        least = other;
    if (!heap[least].before(last)) {
      heap[at] = last;
      break;
    }
    heap[at] = heap[least];
    at = least;
  }
  return first;
}

Simulator::Simulator(const SimCode &code, const SimulateOptions &options, const Topology &topology,
                     const std::vector<Wire> &wires, SimulateReport &report)
    : wireUse(code.wires.size()), resourceUse(size_t(code.numResources)), code(code),
      options(options), model(options.model), report(report), states(code.agents.size()),
      tokens(code.capacities.size()), room(code.capacities),
      waitsForToken(code.capacities.size(), -1), waitsForRoom(code.capacities.size(), -1),
      wireFree(code.wires.size()), resourceFree(size_t(code.numResources)),
      joined(size_t(code.ranks)), members(size_t(code.ranks)), firstOfRank(size_t(code.ranks) + 1) {
  if (model.laneGBps > 0)
    laneUsPerByte = 1 / (model.laneGBps * 1000);
  if (options.sharing == Sharing::Fair)
    fair.emplace(code);
  if (code.changeUs)
    circuits.emplace(code, topology, wires);
  report.usesCircuits = circuits.has_value();
  if (options.timeline)
    timeline = &report.timeline.emplace();
  for (const SimAgent &agent : code.agents) {
    ++firstOfRank[size_t(agent.rank) + 1];
    members[size_t(agent.rank)] += agent.numSteps > 0;
    report.agents.push_back({agent.rank, agent.index});
  }
  for (size_t rank = 0; rank < members.size(); ++rank)
    firstOfRank[rank + 1] += firstOfRank[rank];
}

void Simulator::push(double time, Event kind, int32_t agent, int32_t message) {
  constexpr uint64_t most = 0xffff;
  const uint64_t causes = time > now ? 0 : std::min(depth + 1, most);
  const uint64_t index = std::min<uint64_t>(uint64_t(code.agents[size_t(agent)].index), most);
  queue.push({time, causes << 48 | index << 32 | states[size_t(agent)].events++, agent,
              uint32_t(kind) << 29 | uint32_t(message)});
}

void Simulator::run() {
  now = -1; // so that what begins at 0 has no cause
  for (size_t a = 0; a < states.size(); ++a) {
    report.agents[a].launchUs = report.agents[a].endUs = model.launchUs;
    if (code.agents[a].numSteps == 0) {
      states[a].ended = true;
      continue;
    }
    ++left;
    push(model.launchUs, Event::Start, int32_t(a));
  }
  report.us = states.empty() ? 0 : model.launchUs;
  while (!queue.empty()) {
    if (fair && fair->isDirty() && queue.top().time > now) {
      settleFair();
      continue;
    }
    const SimEvent event = queue.pop();
    now = event.time;
    depth = event.key >> 48;
    ++report.events;
    handle(event);
    for (size_t i = 0; i < ready.size(); ++i)
      advance(ready[i]);
    ready.clear();
    if (fair && queue.empty())
      settleFair();
  }
}

void Simulator::handle(const SimEvent &event) {
  const int32_t message = int32_t(event.subject & 0x1fffffff);
  switch (Event(event.subject >> 29)) {
  case Event::Start: ready.push_back(event.agent); break;
  case Event::Done: finishTransfer(event.agent); break;
  case Event::Hop: fair ? joinFair(message) : hop(message); break;
  case Event::Arrive: arrive(message); break;
  case Event::Ended: {
    // Only the last end that was computed counts: an earlier one has another number of its agent.
    const InFlight &ended = messages[size_t(message)];
    if (ended.agent == event.agent && ended.version == uint32_t(event.key))
      fair->remove(message), depart(message, now);
    break;
  }
  }
}

//===----------------------------------------------------------------------===//
// Agents
//===----------------------------------------------------------------------===//

const SimUse *Simulator::blockedUse(const SimStep &step) const {
  for (uint32_t i = step.firstUse; i < step.firstUse + uint32_t(step.numUses); ++i) {
    const SimUse &use = code.uses[i];
    if (use.adds ? room[size_t(use.link)] < use.number : tokens[size_t(use.link)] < use.number)
      return &use;
  }
  return nullptr;
}

void Simulator::wake(int32_t &waiting, Cause why, int64_t cause) {
  if (waiting < 0)
    return;
  State &state = states[size_t(waiting)];
  state.why = why, state.cause = cause;
  ready.push_back(waiting);
  waiting = -1;
}

/// Counts the time that an agent has waited.
void Simulator::settle(int32_t agent) {
  State &state = states[size_t(agent)];
  if (!state.blocked)
    return;
  state.blocked = false;
  AgentUse &use = report.agents[size_t(agent)];
  const double waited = now - state.since;
  switch (state.reason) {
  case Reason::Slot: use.slotUs += waited; break;
  case Reason::Data: use.dataUs += waited; break;
  case Reason::Signal: use.signalUs += waited; break;
  case Reason::Batch: use.batchUs += waited; break;
  }
  if (timeline && waited > 0)
    timeline->waits.push_back({agent, state.reason, state.since, now});
}

void Simulator::block(State &state, const SimUse &use, int32_t agent) {
  state.blocked = true;
  state.since = now;
  state.reason = use.adds                                ? Reason::Slot
                 : code.capacities[size_t(use.link)] > 0 ? Reason::Data
                                                         : Reason::Signal;
  (use.adds ? waitsForRoom : waitsForToken)[size_t(use.link)] = agent;
}

void Simulator::openSpan(int32_t agent) {
  State &state = states[size_t(agent)];
  if (!timeline)
    return;
  state.span = int64_t(timeline->spans.size());
  timeline->spans.push_back(
      {agent, int32_t(state.step), int32_t(state.batch), state.why, state.cause, now, now});
}

void Simulator::closeSpan(int32_t agent) {
  State &state = states[size_t(agent)];
  if (!timeline)
    return;
  timeline->spans[size_t(state.span)].end = now;
  state.why = Cause::Span, state.cause = state.span;
}

void Simulator::advance(int32_t agent) {
  State &state = states[size_t(agent)];
  settle(agent);
  for (;;) {
    if (state.step == code.agents[size_t(agent)].numSteps) {
      endBatch(agent);
      if (state.ended || state.blocked)
        return;
      continue;
    }
    const SimStep &step = stepOf(agent);
    if (const SimUse *use = blockedUse(step))
      return block(state, *use, agent);
    openSpan(agent);
    if (step.kind == SimStep::Kind::Transfer)
      return startTransfer(agent, step);
    if (step.kind == SimStep::Kind::Signal)
      signal(agent, code.sends[step.firstSend]);
    else
      --tokens[size_t(code.uses[step.firstUse].link)];
    closeSpan(agent);
    ++state.step;
  }
}

/// The next micro-batch of an agent that another one has been waited for.
void Simulator::startNext(int32_t agent, int64_t cause) {
  State &state = states[size_t(agent)];
  ++state.batch;
  state.step = 0;
  state.why = Cause::Span, state.cause = cause;
}

void Simulator::endBatch(int32_t agent) {
  State &state = states[size_t(agent)];
  if (state.batch + 1 == code.batches) {
    state.ended = true;
    --left;
    AgentUse &use = report.agents[size_t(agent)];
    use.endUs = now, use.busyUs = state.busy;
    report.us = std::max(report.us, now);
    return;
  }
  auto waitForOthers = [&] {
    state.blocked = true;
    state.reason = Reason::Batch;
    state.since = now;
  };
  if (options.batchOrder == BatchOrder::Agent)
    return startNext(agent, state.span);
  if (options.batchOrder == BatchOrder::Barrier) {
    waitForOthers();
    if (++atBarrier < left)
      return;
    atBarrier = 0;
    for (size_t a = 0; a < states.size(); ++a)
      if (code.agents[a].numSteps > 0)
        startNext(int32_t(a), state.span), push(now + model.syncUs, Event::Start, int32_t(a));
    return;
  }
  const size_t rank = size_t(code.agents[size_t(agent)].rank);
  if (++joined[rank] < members[rank])
    return waitForOthers();
  joined[rank] = 0;
  for (int32_t a = firstOfRank[rank]; a < firstOfRank[rank + 1]; ++a) {
    if (code.agents[size_t(a)].numSteps == 0)
      continue;
    startNext(a, state.span);
    if (a != agent)
      ready.push_back(a);
  }
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

void Simulator::startTransfer(int32_t agent, const SimStep &step) {
  State &state = states[size_t(agent)];
  for (uint32_t i = step.firstUse; i < step.firstUse + uint32_t(step.numUses); ++i) {
    const SimUse &use = code.uses[i];
    if (use.adds)
      room[size_t(use.link)] -= use.number;
    else
      tokens[size_t(use.link)] -= use.number;
  }
  state.begin = now;
  state.bytes = code.bytesOf(step, state.batch);
  state.laneEnd = now + step.sources * state.bytes * laneUsPerByte;
  state.pullLink = state.pushLink = state.pullChange = state.pushChange = 0;
  if (step.numPulls == 0)
    return startPushes(agent, step);
  sendAll(agent, step, 0, step.numPulls);
}

/// All pulls, or all pushes, of a transfer.
void Simulator::sendAll(int32_t agent, const SimStep &step, int32_t first, int32_t count) {
  if (step.shares)
    return sendTree(agent, step, first, count);
  states[size_t(agent)].pending = count;
  for (int32_t i = first; i < first + count; ++i)
    send(agent, code.sends[step.firstSend + uint32_t(i)], kindOf(step, i));
}

void Simulator::startPushes(int32_t agent, const SimStep &step) {
  State &state = states[size_t(agent)];
  state.until = std::max(now, state.laneEnd);
  if (step.numPushes == 0)
    return push(state.until, Event::Done, agent);
  sendAll(agent, step, step.numPulls, step.numPushes);
}

void Simulator::finishTransfer(int32_t agent) {
  State &state = states[size_t(agent)];
  const SimStep &step = stepOf(agent);
  const double link = state.pullLink + state.pushLink;
  state.busy += now - state.begin - link;
  report.agents[size_t(agent)].linkUs += link;
  report.agents[size_t(agent)].changeUs += state.pullChange + state.pushChange;
  closeSpan(agent);
  for (uint32_t i = step.firstUse; i < step.firstUse + uint32_t(step.numUses); ++i) {
    const SimUse &use = code.uses[i];
    if (use.adds)
      continue;
    room[size_t(use.link)] += use.number;
    wake(waitsForRoom[size_t(use.link)], Cause::Span, state.span);
  }
  ++state.step;
  ready.push_back(agent);
}

/// What was sent before a signal has arrived: so may the signal.
void Simulator::openGate(int32_t agent) {
  State &state = states[size_t(agent)];
  while (state.firstFence >= 0) {
    const int32_t number = state.firstFence;
    Fence &fence = fences[size_t(number)];
    if (fence.missing > 0)
      return;
    for (int32_t message = fence.firstSignal; message >= 0;) {
      const int32_t next = messages[size_t(message)].next;
      const SimWay &way = code.ways[size_t(messages[size_t(message)].way)];
      push(std::max(now, messages[size_t(message)].issue + way.signalUs) + model.syncUs,
           Event::Arrive, agent, message);
      message = next;
    }
    state.firstFence = fence.next;
    if (state.firstFence < 0)
      state.lastFence = -1;
    fence.next = freeFence;
    freeFence = number;
  }
}

void Simulator::signal(int32_t agent, const SimSend &send) {
  State &state = states[size_t(agent)];
  const int32_t number = newMessage();
  InFlight &message = messages[size_t(number)];
  message.way = send.way, message.link = send.link;
  message.agent = agent, message.kind = Message::Signal;
  message.issue = now, message.span = state.span;
  recordFlight(message, now);
  if (state.lastFence < 0)
    return push(now + code.ways[size_t(send.way)].signalUs + model.syncUs, Event::Arrive, agent,
                number);
  Fence &fence = fences[size_t(state.lastFence)];
  if (fence.firstSignal < 0)
    fence.firstSignal = number;
  else
    messages[size_t(fence.lastSignal)].next = number;
  fence.lastSignal = number;
}

} // namespace ccl::model
