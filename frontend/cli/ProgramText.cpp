//===- ProgramText.cpp -----------------------------------------------------------===//
#include "frontend/cli/ProgramText.h"

#include "frontend/cli/Output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace ccl::cli {

using model::Operand;
using Kind = model::Instruction::Kind;

ProgramText::ProgramText(const model::Program &program, const model::Contract &contract,
                         int64_t rank)
    : program(program), mine(program.ranks[size_t(rank)]), me(rank),
      verb(contract.reduction == model::Reduction::None ? "combination"
                                                        : model::name(contract.reduction)) {
  look();
}

void ProgramText::look() {
  for (const model::Agent &agent : mine.agents) {
    numInstructions += agent.code.size();
    for (const model::Instruction &instruction : agent.code) {
      if (instruction.kind != Kind::Transfer) {
        const model::Channel &channel = mine.channels[size_t(instruction.channel)];
        (instruction.kind == Kind::Signal ? numSignals : numWaits) += 1;
        if (channel.peer == me)
          ends.emplace(std::pair(channel.to, channel.tag), &agent);
        continue;
      }
      ++numTransfers;
      size_t remote = 0;
      for (const auto *side : {&instruction.from, &instruction.to})
        for (const Operand &operand : *side)
          remote += operand.kind != Operand::Kind::Local;
      numFused += remote > 1 || instruction.to.size() > 1;
    }
  }
}

std::string ProgramText::name(const model::Agent &agent) {
  return fmt::format("{} {}", agent.proxy ? "proxy" : "block", agent.id);
}

static std::string listed(const char *verb, const std::set<int32_t> &ranks) {
  constexpr size_t most = 8;
  std::vector<int32_t> shown(ranks.begin(), ranks.end());
  const size_t hidden = shown.size() - std::min(shown.size(), most);
  shown.resize(shown.size() - hidden);
  return fmt::format("{} rank{} {}{}", verb, ranks.size() == 1 ? "" : "s", fmt::join(shown, ", "),
                     hidden ? fmt::format(" and {} more", hidden) : "");
}

std::string ProgramText::summary() const {
  std::set<int32_t> sends, receives, reads, writes;
  for (const model::Channel &channel : mine.channels)
    if (channel.slots > 0)
      (channel.to ? sends : receives).insert(channel.peer);
  size_t proxies = 0;
  for (const model::Agent &agent : mine.agents) {
    proxies += agent.proxy;
    for (const model::Instruction &instruction : agent.code)
      for (const auto *side : {&instruction.from, &instruction.to})
        for (const Operand &operand : *side)
          if (operand.kind == Operand::Kind::Peer)
            (side == &instruction.from ? reads : writes).insert(operand.peer);
  }
  std::string text = plural(mine.agents.size() - proxies, "block");
  if (proxies)
    text += fmt::format(", {} {}", proxies, proxies == 1 ? "proxy" : "proxies");
  text += "; " + plural(numTransfers, "transfer");
  if (numSignals || numWaits)
    text += fmt::format(", {}, {}", plural(numSignals, "signal"), plural(numWaits, "wait"));
  const char *separator = "; ";
  for (auto [what, ranks] : {std::pair("sends to", &sends),
                             {"receives from", &receives},
                             {"reads memory of", &reads},
                             {"writes memory of", &writes}}) {
    if (ranks->empty())
      continue;
    text += separator + listed(what, *ranks);
    separator = ", ";
  }
  return text;
}

std::string ProgramText::channels(const model::Agent &agent) const {
  std::set<int32_t> used;
  for (const model::Instruction &instruction : agent.code)
    for (const auto *side : {&instruction.from, &instruction.to})
      for (const Operand &operand : *side)
        if (operand.kind == Operand::Kind::Channel)
          used.insert(operand.channel);
  constexpr size_t most = 8;
  std::vector<std::string> ends;
  for (int32_t number : used) {
    const model::Channel &channel = mine.channels[size_t(number)];
    if (ends.size() == most) {
      ends.push_back(fmt::format("and {} channels more", used.size() - most));
      break;
    }
    std::string tag = channel.tag ? fmt::format("tag {}, ", channel.tag) : "";
    ends.push_back(fmt::format("{} rank {} ({}{})", channel.to ? "sends to" : "receives from",
                               channel.peer, tag, plural(channel.slots, "slot")));
  }
  return fmt::format("{}", fmt::join(ends, ", "));
}

/// Whom a signal or a wait is about: a rank, or another agent of this one.
std::string ProgramText::partner(const model::Channel &channel) const {
  std::string tag = channel.tag ? fmt::format(" (tag {})", channel.tag) : "";
  if (channel.peer != me)
    return fmt::format("rank {}{}", channel.peer, tag);
  auto other = ends.find({!channel.to, channel.tag});
  return other == ends.end() ? fmt::format("itself{}", tag) : name(*other->second) + tag;
}

std::string ProgramText::describe(const Operand &operand) const {
  if (operand.kind == Operand::Kind::Channel) {
    const model::Channel &channel = mine.channels[size_t(operand.channel)];
    std::string tag = channel.tag ? fmt::format(" (tag {})", channel.tag) : "";
    return fmt::format("{} rank {}{}", channel.to ? "to" : "from", channel.peer, tag);
  }
  std::string place =
      fmt::format("{}[{}]", program.buffers[size_t(operand.buffer)].name, operand.chunk);
  return operand.kind == Operand::Kind::Peer ? fmt::format("{} of rank {}", place, operand.peer)
                                             : place;
}

std::string ProgramText::describe(const model::Instruction &instruction) const {
  if (instruction.kind != Kind::Transfer)
    return fmt::format("{} {}", instruction.kind == Kind::Signal ? "signal" : "wait for",
                       partner(mine.channels[size_t(instruction.channel)]));
  std::vector<std::string> from, to;
  for (const Operand &operand : instruction.from) {
    std::string text = describe(operand);
    from.push_back(operand.kind == Operand::Kind::Channel ? "what comes " + text : text);
  }
  for (const Operand &operand : instruction.to) {
    std::string text = describe(operand);
    to.push_back(operand.kind == Operand::Kind::Channel ? "send it " + text
                                                        : "store it in " + text);
  }
  std::string count = instruction.count > 1 ? fmt::format(", {} chunks", instruction.count) : "";
  return fmt::format("take {}{}{}, {}", instruction.reduce ? "the " + verb + " of " : "",
                     fmt::join(from, " and "), count, fmt::join(to, ", "));
}

} // namespace ccl::cli
