// L2: all ranks together, in one order that may happen.

#include "dialect/model/ProgramCheck.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace ccl::model {

ProgramCheck::ProgramCheck(const Program &program, const Contract &contract,
                           const ProgramCheckOptions &options)
    : ProgramCheck(program, contract, options, int64_t(program.ranks.size()), Network(program)) {}

ProgramCheck::ProgramCheck(const Program &program, const Contract &contract,
                           const ProgramCheckOptions &options, int64_t ranks, Network network)
    : options(options), network(std::move(network)),
      execution(
          program.buffers, ranks, contract, options.inPlace, options.maxFaults,
          [this](int32_t event) { return describe(event); }, int64_t(program.ranks.size())) {}

ProgramReport ProgramCheck::run() {
  ProgramReport report;
  if (std::string error = execution.check(); !error.empty()) {
    Fault fault;
    fault.kind = FaultKind::OutOfRange;
    fault.message = std::move(error);
    report.faults.push_back(std::move(fault));
    return report;
  }
  network.build(report.faults, std::max<size_t>(options.maxFaults, 1));
  report.instructions = network.numEvents();
  if (!report.ok())
    return report;

  report.minSlots = network.leastSlots();
  execution.enter(network.numEvents());
  slots.resize(network.links().size());
  if (!prepare())
    return report;
  std::vector<int32_t> stops = network.run(options.slots, [&](int32_t agent, int32_t i) {
    ++execution.now;
    fire(agent, i);
  });
  ++execution.now;
  if (network.isStuck(stops)) {
    Fault fault = network.deadlock(stops, options.slots);
    if (report.minSlots > 0)
      fault.notes.push_back(
          {-1, fmt::format("with {} slots a channel none would get stuck", report.minSlots)});
    execution.report(std::move(fault));
  } else {
    execution.leave();
    if (races) {
      races->finish();
      report.exitBarrier = races->exitBarrier;
      report.tooLate = unguarded(races->tooLate);
      report.tooEarly = unguarded(races->tooEarly);
      report.batchBarrier = races->batchBarrier;
      report.entryBarrier = races->entryBarrier;
    }
  }
  execution.sortFaults();
  report.faults = std::move(execution.faults);
  report.divisible = execution.divisible;
  report.unevenSafe = report.ok() && execution.isUnevenSafe();
  return report;
}

std::optional<Unguarded>
ProgramCheck::unguarded(const std::optional<Races::Foreign> &foreign) const {
  if (!foreign)
    return std::nullopt;
  const NetworkAgent &agent = network.agents()[size_t(foreign->access.agent)];
  const Event event = describe(int32_t(agent.firstEvent) + int32_t(foreign->access.instruction));
  return Unguarded{foreign->owner, event.site.loc, event.text};
}

Site ProgramCheck::siteOf(int32_t number, int32_t instruction) const {
  const NetworkAgent &agent = network.agents()[size_t(number)];
  return {int32_t(agent.firstEvent) + instruction, agent.index, instruction,
          agent.agent->code[size_t(instruction)].loc};
}

Event ProgramCheck::describe(int32_t event) const {
  int32_t number = network.agentOf(size_t(event));
  const NetworkAgent &agent = network.agents()[size_t(number)];
  int32_t instruction = event - int32_t(agent.firstEvent);
  return {siteOf(number, instruction), agent.rank, network.strOfAny(number, instruction)};
}

Place ProgramCheck::placeOf(const NetworkAgent &agent, const Operand &operand) const {
  return {ownerOf(agent, operand), operand.buffer, operand.chunk};
}

bool ProgramCheck::exist(const NetworkAgent &agent, const Instruction &instruction,
                         const Site &site) {
  bool all = true;
  for (const std::vector<Operand> *operands : {&instruction.from, &instruction.to})
    for (const Operand &operand : *operands)
      if (operand.kind != Operand::Kind::Channel)
        all &= execution.exists(placeOf(agent, operand), instruction.count, site);
  return all;
}

// Chunks of one instruction go in no particular order.
bool ProgramCheck::overlaps(const NetworkAgent &agent, const Instruction &instruction,
                            const Site &site) {
  for (const Operand &from : instruction.from)
    for (const Operand &to : instruction.to) {
      if (from.kind == Operand::Kind::Channel || to.kind == Operand::Kind::Channel ||
          ownerOf(agent, from) != ownerOf(agent, to))
        continue;
      Place src = placeOf(agent, from), dst = placeOf(agent, to);
      int64_t distance = int64_t(execution.at(src)) - int64_t(execution.at(dst));
      if (distance == 0 || std::abs(distance) >= instruction.count)
        continue;
      Fault fault = execution.makeFault(FaultKind::Conflict, dst, site);
      fault.have = "a read and a write by one instruction";
      fault.want = "separate chunks";
      fault.message = fmt::format("{}: source and destination of {} chunks overlap",
                                  execution.placeName(dst), instruction.count);
      execution.report(std::move(fault));
      return true;
    }
  return false;
}

std::vector<Contents> ProgramCheck::take(const NetworkAgent &agent, const Operand &operand,
                                         const Instruction &instruction, const Site &site,
                                         int32_t &writer) {
  if (operand.kind == Operand::Kind::Channel)
    return receive(agent, operand, instruction, site, writer);
  std::vector<Contents> values(size_t(instruction.count));
  Place place = placeOf(agent, operand);
  writer = execution.writer(place);
  for (Contents &value : values) {
    value = execution.read(place, site);
    if (operand.kind == Operand::Kind::Peer)
      value = fromPeer(operand.peer, value);
    ++place.chunk;
  }
  return values;
}

std::vector<Contents> ProgramCheck::receive(const NetworkAgent &agent, const Operand &operand,
                                            const Instruction &instruction, const Site &site,
                                            int32_t &writer) {
  size_t count = size_t(instruction.count);
  int32_t link = network.linkOf(agent.rank, operand.channel);
  Slot slot = std::move(slots[size_t(link)].front());
  slots[size_t(link)].pop_front();
  writer = slot.writer;
  const NetworkLink &ends = network.links()[size_t(link)];
  auto [src, dst] = network.ranksOf(ends, /*asReceiver=*/true);
  if (slot.chunks.size() == count) {
    for (Contents &value : slot.chunks)
      value = fromPeer(src, value);
    return std::move(slot.chunks);
  }
  Event sender = describe(slot.writer);
  Fault fault = execution.makeFault(FaultKind::Mismatch, {agent.rank, -1, -1}, site);
  auto chunks = [](size_t n) { return fmt::format("{} chunk{}", n, n == 1 ? "" : "s"); };
  fault.have = chunks(slot.chunks.size());
  fault.want = chunks(count);
  fault.message = fmt::format("rank {} takes {} from rank {}, tag {}, but the slot holds {}", dst,
                              fault.want, src, ends.tag, fault.have);
  fault.notes.push_back({sender.site.loc, fmt::format("sent by {}", sender.text)});
  execution.report(std::move(fault));
  return std::vector<Contents>(count, Multisets::poison);
}

void ProgramCheck::put(const NetworkAgent &agent, const Operand &operand,
                       const std::vector<Contents> &values, const Site &site) {
  if (operand.kind == Operand::Kind::Channel) {
    int32_t link = network.linkOf(agent.rank, operand.channel);
    slots[size_t(link)].push_back({site.event, values});
    return;
  }
  Place place = placeOf(agent, operand);
  bool peers = operand.kind == Operand::Kind::Peer;
  for (size_t i = 0; i < values.size(); ++i, ++place.chunk)
    execution.write(place, peers ? toPeer(operand.peer, values[i]) : values[i], site);
}

//===----------------------------------------------------------------------===//
// Races
//===----------------------------------------------------------------------===//

/// Whether a destination is the only source: in place, a rank's own chunk is often copied to
/// where it is. Whoever reads it meanwhile finds the same; but what another writes may be undone,
/// as with any read that comes too early.
bool ProgramCheck::isItself(const NetworkAgent &agent, const Instruction &instruction,
                            const Operand &destination) const {
  const Operand &source = instruction.from.front();
  if (instruction.reduce || source.kind == Operand::Kind::Channel ||
      ownerOf(agent, source) != ownerOf(agent, destination))
    return false;
  Place place = placeOf(agent, source);
  return execution.isPlace(place, instruction.count) &&
         execution.at(place) == execution.at(placeOf(agent, destination));
}

bool ProgramCheck::prepare() {
  races.emplace(network, execution.numPlaces());
  for (size_t number = 0; number < network.agents().size(); ++number) {
    const NetworkAgent &agent = network.agents()[number];
    for (const Instruction &instruction : agent.agent->code)
      for (bool writes : {false, true})
        forEachAccess(agent, instruction, writes, [&](const Operand &, const Place &place) {
          races->touch(execution.at(place), place.rank, int32_t(number));
        });
  }
  races->findsEarly = options.findsEarly;
  if (!races->prepare())
    races.reset();
  return true;
}

void ProgramCheck::follow(int32_t number, int32_t index, const Site &site) {
  struct Order {
    ProgramCheck &check;
    const Site &site;
    bool isScratch(const Place &place) const {
      return check.network.buffers()[size_t(place.buffer)].role == Role::Scratch;
    }
    void takes(int32_t link) { check.races->receive(link); }
    void sends(int32_t link) { check.races->send(link); }
    void reads(const Operand &, const Place &place) {
      if (auto conflict =
              check.races->read(check.execution.at(place), place.rank, isScratch(place)))
        check.reportRace(*conflict, /*writes=*/false, place, site);
    }
    void writes(const Operand &, const Place &place) {
      if (auto conflict =
              check.races->write(check.execution.at(place), place.rank, isScratch(place)))
        check.reportRace(*conflict, /*writes=*/true, place, site);
    }
  };
  races->begin(number, index, execution.now);
  tell(network.agents()[size_t(number)], index, Order{*this, site});
}

void ProgramCheck::reportRace(const Races::Conflict &conflict, bool writes, const Place &place,
                              const Site &site) {
  const Races::Access &first = conflict.first;
  Event before = describe(int32_t(network.agents()[size_t(first.agent)].firstEvent) +
                          int32_t(first.instruction));
  // What was read too early in this order may come in time in another.
  execution.retractUninitialized(place, before.site);
  if (!writes)
    execution.spoil(place);
  if (!races->isNews(conflict))
    return;
  Fault fault = execution.makeFault(FaultKind::Conflict, place, site);
  std::string_view firstDoes = conflict.firstWrites ? "writes" : "reads";
  std::string_view secondDoes = writes ? "writes" : "reads";
  fault.have =
      fmt::format("an access that {} and one that {}, in any order", firstDoes, secondDoes);
  fault.want = "a signal from one to the other";
  fault.message = fmt::format("race: {}: {} {} it, and {} {} it; nothing says which comes first",
                              execution.placeName(place), before.text, firstDoes,
                              describe(site.event).text, secondDoes);
  fault.notes.push_back({before.site.loc, fmt::format("the other access: {}", before.text)});
  execution.report(std::move(fault), first.order);
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

void ProgramCheck::fire(int32_t number, int32_t index) {
  const NetworkAgent &agent = network.agents()[size_t(number)];
  const Instruction &instruction = agent.agent->code[size_t(index)];
  Site site = siteOf(number, index);
  if (races)
    follow(number, index, site);
  if (instruction.kind != Instruction::Kind::Transfer)
    return;
  bool sound = exist(agent, instruction, site) && !overlaps(agent, instruction, site);

  // Messages name the place that the result goes to, if there is one.
  Place target{agent.rank, -1, -1};
  for (const Operand &operand : instruction.to)
    if (sound && target.buffer < 0 && operand.kind != Operand::Kind::Channel)
      target = placeOf(agent, operand);

  std::vector<Contents> values;
  int32_t causes[2] = {-1, -1};
  for (size_t i = 0; i < instruction.from.size(); ++i) {
    const Operand &operand = instruction.from[i];
    if (!sound && operand.kind != Operand::Kind::Channel)
      continue;
    int32_t writer = -1;
    std::vector<Contents> taken = take(agent, operand, instruction, site, writer);
    if (i < 2)
      causes[i] = writer;
    if (values.empty()) {
      values = std::move(taken);
      continue;
    }
    for (size_t c = 0; c < values.size(); ++c) {
      Place chunk = target;
      chunk.chunk += int64_t(c);
      values[c] = execution.combine(values[c], taken[c], chunk, site);
    }
  }
  execution.setCauses(site.event, causes[0], causes[1]);
  if (!sound)
    values.assign(size_t(instruction.count), Multisets::poison);
  for (const Operand &operand : instruction.to)
    if (sound || operand.kind == Operand::Kind::Channel)
      put(agent, operand, values, site);
    else if (Place place = placeOf(agent, operand); execution.isPlace(place, instruction.count))
      for (int32_t c = 0; c < instruction.count; ++c, ++place.chunk)
        execution.spoil(place);
}

ProgramReport check(const Program &program, const Contract &contract,
                    const ProgramCheckOptions &options) {
  return ProgramCheck(program, contract, options).run();
}

} // namespace ccl::model
