#include "dialect/model/Network.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace ccl::model {

void Network::build(std::vector<Fault> &out, size_t limit) {
  faults = &out;
  maxFaults = limit;
  addLinks();
  addAgents();
  if (!out.empty())
    return;
  for (const NetworkLink &link : allLinks)
    checkLink(link);
  if (!out.empty())
    return;
  for (size_t i = 0; i < allLinks.size(); ++i)
    checkBalance(allLinks[i], i);
}

void Network::report(FaultKind kind, const NetworkAgent &agent, int32_t instruction,
                     std::string message, std::vector<Note> notes) {
  if (faults->size() >= maxFaults)
    return;
  Fault fault;
  fault.kind = kind;
  fault.rank = agent.rank;
  if (agent.agent) {
    fault.agent = agent.index;
    fault.instruction = instruction;
    if (instruction >= 0)
      fault.loc = agent.agent->code[size_t(instruction)].loc;
  }
  fault.message = std::move(message);
  fault.notes = std::move(notes);
  faults->push_back(std::move(fault));
}

void Network::report(FaultKind kind, int32_t rank, const Channel &channel, std::string message) {
  if (faults->size() >= maxFaults)
    return;
  Fault &fault = faults->emplace_back();
  fault.kind = kind;
  fault.rank = rank;
  fault.loc = channel.loc;
  fault.message = std::move(message);
}

void Network::addLinks() {
  struct Entry {
    int32_t src, dst, tag, rank, channel;
  };
  std::vector<Entry> entries;
  channelLinks.resize(program.ranks.size());
  for (int32_t rank = 0; size_t(rank) < program.ranks.size(); ++rank) {
    const std::vector<Channel> &channels = program.ranks[size_t(rank)].channels;
    channelLinks[size_t(rank)].assign(channels.size(), -1);
    for (int32_t c = 0; c < int32_t(channels.size()); ++c) {
      const Channel &channel = channels[size_t(c)];
      if (channel.peer < 0 || channel.peer >= ranks) {
        report(FaultKind::OutOfRange, rank, channel,
               fmt::format("rank {}: a channel {} peer {}, which is outside [0, {})", rank,
                           channel.to ? "to" : "from", channel.peer, ranks));
      } else if (channel.slots < 0) {
        report(FaultKind::OutOfRange, rank, channel,
               fmt::format("rank {}: a channel with {} slots", rank, channel.slots));
      } else if (inverse) {
        entries.push_back(
            {rank, channel.to ? channel.peer : inverse(channel.peer), channel.tag, rank, c});
      } else {
        entries.push_back({channel.to ? rank : channel.peer, channel.to ? channel.peer : rank,
                           channel.tag, rank, c});
      }
    }
  }
  auto key = [](const Entry &e) { return std::tuple(e.src, e.dst, e.tag); };
  std::sort(entries.begin(), entries.end(), [&](const Entry &a, const Entry &b) {
    return std::tuple(key(a), a.rank, a.channel) < std::tuple(key(b), b.rank, b.channel);
  });
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry &entry = entries[i];
    if (i == 0 || key(entries[i - 1]) != key(entry))
      allLinks.push_back({entry.src, entry.dst, entry.tag, 0, {}, {}});
    NetworkLink &link = allLinks.back();
    const Channel &channel = program.ranks[size_t(entry.rank)].channels[size_t(entry.channel)];
    NetworkLink::End &end = channel.to ? link.to : link.from;
    if (end.exists && end.slots != channel.slots)
      report(FaultKind::Unpaired, entry.rank, channel,
             fmt::format("rank {}: two channels {} rank {}, tag {}, with {} and {} slots",
                         entry.rank, channel.to ? "to" : "from", channel.peer, channel.tag,
                         end.slots, channel.slots));
    end.exists = true;
    end.slots = link.slots = channel.slots;
    channelLinks[size_t(entry.rank)][size_t(entry.channel)] = int32_t(allLinks.size() - 1);
  }
}

void Network::addAgents() {
  for (size_t rank = 0; rank < program.ranks.size(); ++rank)
    for (size_t index = 0; index < program.ranks[rank].agents.size(); ++index) {
      const Agent &agent = program.ranks[rank].agents[index];
      allAgents.push_back({int32_t(rank), int32_t(index), &agent, events});
      events += agent.code.size();
    }
  if (events > size_t(std::numeric_limits<int32_t>::max()))
    return report(FaultKind::OutOfRange, {}, -1, "more than 2147483647 instructions");
  firstUse.reserve(events + 1);
  for (const NetworkAgent &agent : allAgents)
    for (size_t i = 0; i < agent.agent->code.size(); ++i) {
      firstUse.push_back(uses.size());
      checkInstruction(agent, int32_t(i));
    }
  firstUse.push_back(uses.size());
}

void Network::checkInstruction(const NetworkAgent &agent, int32_t index) {
  const Instruction &instruction = agent.agent->code[size_t(index)];
  if (instruction.kind != Instruction::Kind::Transfer) {
    addUse(agent, index, instruction.channel, instruction.kind == Instruction::Kind::Signal);
    return;
  }
  auto malformed = [&](std::string_view what) {
    report(FaultKind::OutOfRange, agent, index,
           fmt::format("{}: a transfer {}", str(int32_t(&agent - allAgents.data()), index), what));
  };
  if (instruction.from.empty() || instruction.to.empty())
    malformed("needs a source and a destination");
  else if (!instruction.reduce && instruction.from.size() > 1)
    malformed("that does not reduce has one source");
  else if (instruction.count < 1)
    malformed("moves at least one chunk");
  else if (std::all_of(program.buffers.begin(), program.buffers.end(),
                       [&](const Buffer &b) { return instruction.count > b.chunks; }))
    malformed(fmt::format("of {} chunks is larger than any buffer", instruction.count));
  for (const Operand &operand : instruction.from)
    checkOperand(agent, index, operand, /*destination=*/false);
  for (const Operand &operand : instruction.to)
    checkOperand(agent, index, operand, /*destination=*/true);
}

void Network::checkOperand(const NetworkAgent &agent, int32_t instruction, const Operand &operand,
                           bool destination) {
  if (operand.kind == Operand::Kind::Channel)
    return addUse(agent, instruction, operand.channel, destination);
  if (operand.kind == Operand::Kind::Peer && (operand.peer < 0 || operand.peer >= ranks))
    report(FaultKind::OutOfRange, agent, instruction,
           fmt::format("{}: peer {} is outside [0, {})",
                       str(int32_t(&agent - allAgents.data()), instruction), operand.peer, ranks));
}

void Network::addUse(const NetworkAgent &agent, int32_t index, int32_t channel, bool adds) {
  const std::vector<Channel> &channels = program.ranks[size_t(agent.rank)].channels;
  int32_t number = int32_t(&agent - allAgents.data());
  auto malformed = [&](std::string what) {
    report(FaultKind::OutOfRange, agent, index, fmt::format("{}: {}", str(number, index), what));
  };
  if (channel < 0 || size_t(channel) >= channels.size())
    return malformed(fmt::format("channel {} is outside [0, {})", channel, channels.size()));
  if (channelLinks[size_t(agent.rank)][size_t(channel)] < 0)
    return; // its peer does not exist, which was reported
  const Channel &end = channels[size_t(channel)];
  std::string_view direction = end.to ? "to" : "from";
  if (end.to != adds)
    return malformed(fmt::format("{} a channel `{}` rank {}", adds ? "sends on" : "takes from",
                                 direction, end.peer));
  bool data = agent.agent->code[size_t(index)].kind == Instruction::Kind::Transfer;
  if (data != (end.slots > 0))
    return malformed(fmt::format("{} the channel {} rank {}, tag {}, which carries {}",
                                 data ? "transfers on" : "signals on", direction, end.peer, end.tag,
                                 data ? "signals" : "data"));
  int32_t link = channelLinks[size_t(agent.rank)][size_t(channel)];
  NetworkLink::End &used = adds ? allLinks[size_t(link)].to : allLinks[size_t(link)].from;
  if (used.agent >= 0 && used.agent != number)
    report(FaultKind::Conflict, agent, index,
           fmt::format("{}: the channel {} rank {}, tag {}, is used by another agent, too ({})",
                       str(number, index), direction, end.peer, end.tag,
                       str(used.agent, useOf(used.agent, link, adds, 0))));
  used.agent = number;
  ++used.uses;
  uses.push_back({link, adds});
}

void Network::checkLink(const NetworkLink &link) {
  const NetworkLink::End &used = link.to.uses ? link.to : link.from;
  const NetworkLink::End &partner = link.to.uses ? link.from : link.to;
  if (!used.uses)
    return;
  auto [src, dst] = ranksOf(link, /*asReceiver=*/!link.to.uses);
  int32_t user = link.to.uses ? src : dst, peer = link.to.uses ? dst : src;
  std::string_view mine = link.to.uses ? "to" : "from", other = link.to.uses ? "from" : "to";
  std::string message;
  if (!partner.exists)
    message = fmt::format("the channel {} rank {} of rank {}, tag {}, has no partner: rank {} has "
                          "no channel {} rank {} with this tag",
                          mine, peer, user, link.tag, peer, other, user);
  else if (partner.slots != used.slots)
    message = fmt::format("the channel {} rank {} of rank {}, tag {}, has {} slots, but its "
                          "partner on rank {} has {}",
                          mine, peer, user, link.tag, used.slots, peer, partner.slots);
  if (message.empty())
    return;
  report(FaultKind::Unpaired, allAgents[size_t(used.agent)],
         useOf(used.agent, int32_t(&link - allLinks.data()), link.to.uses > 0, 0),
         std::move(message));
}

void Network::checkBalance(const NetworkLink &link, size_t index) {
  int64_t sent = link.to.uses, taken = link.from.uses;
  if (sent == taken)
    return;
  bool data = link.slots > 0, over = sent > taken;
  const NetworkLink::End &more = over ? link.to : link.from, &less = over ? link.from : link.to;
  auto [src, dst] = ranksOf(link, /*asReceiver=*/!over);
  std::string channel = fmt::format("rank {} to rank {}, tag {}", src, dst, link.tag);
  std::string_view what = data ? "transfers" : "signals";
  std::string message = over ? fmt::format("{} of {} {} from {}, are never {}", sent - taken, sent,
                                           what, channel, data ? "received" : "waited for")
                             : fmt::format("{} of {} {} from {}, are waited for, but never sent",
                                           taken - sent, taken, what, channel);
  std::vector<Note> notes;
  if (less.agent >= 0) {
    int32_t last = useOf(less.agent, int32_t(index), !over, less.uses - 1);
    const NetworkAgent &agent = allAgents[size_t(less.agent)];
    notes.push_back({agent.agent->code[size_t(last)].loc,
                     fmt::format("{} is the last at the other end", strOfAny(less.agent, last))});
  }
  report(FaultKind::Unpaired, allAgents[size_t(more.agent)],
         useOf(more.agent, int32_t(index), over, less.uses), std::move(message), std::move(notes));
}

std::pair<const Network::Use *, const Network::Use *> Network::usesOf(const NetworkAgent &agent,
                                                                      int64_t instruction) const {
  size_t event = agent.firstEvent + size_t(instruction);
  size_t end = event + 1 < firstUse.size() ? firstUse[event + 1] : uses.size();
  return {uses.data() + firstUse[event], uses.data() + end};
}

int32_t Network::useOf(int32_t number, int32_t link, bool adds, int64_t n) const {
  const NetworkAgent &agent = allAgents[size_t(number)];
  for (size_t i = 0; i < agent.agent->code.size(); ++i) {
    auto [use, end] = usesOf(agent, int64_t(i));
    for (; use != end; ++use)
      if (use->link == link && use->adds == adds && n-- == 0)
        return int32_t(i);
  }
  return 0;
}

int32_t Network::agentOf(size_t event) const {
  auto it = std::upper_bound(
      allAgents.begin(), allAgents.end(), event,
      [](size_t event, const NetworkAgent &agent) { return event < agent.firstEvent; });
  return int32_t(it - allAgents.begin()) - 1;
}

std::string Network::str(int32_t number, int64_t instruction) const {
  const NetworkAgent &agent = allAgents[size_t(number)];
  return fmt::format("rank {}, {} {}, instruction {}", agent.rank,
                     agent.agent->proxy ? "proxy" : "block", agent.agent->id, instruction);
}

std::string Network::strOfAny(int32_t number, int64_t instruction) const {
  if (!inverse)
    return str(number, instruction);
  const NetworkAgent &agent = allAgents[size_t(number)];
  return fmt::format("{} {}, instruction {}", agent.agent->proxy ? "proxy" : "block",
                     agent.agent->id, instruction);
}

std::pair<int32_t, int32_t> Network::ranksOf(const NetworkLink &link, bool asReceiver) const {
  if (inverse && asReceiver)
    return {inverse(link.dst), link.src};
  return {link.src, link.dst};
}

} // namespace ccl::model
