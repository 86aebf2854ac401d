//===- DirectProgram.cpp --------------------------------------------------===//
#include "frontend/mscclpp/DirectProgram.h"

#include "dialect/model/Network.h"
#include "frontend/mscclpp/ChannelMaker.h"
#include "frontend/mscclpp/Json.h"
#include "frontend/mscclpp/Plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

namespace ccl::mscclpp {

using interchange::Diagnostic;
using model::Agent;
using model::Instruction;
using model::Operand;
using model::Program;
using model::RankProgram;

namespace {

using LinkKey = std::tuple<int32_t, int32_t, int32_t>; ///< from, to, tag

/// A data channel of the old program.
struct Staged {
  int32_t slots = 0;
  std::vector<int32_t> counts;    ///< chunks of each transfer, as sent
  int32_t loc = -1;               ///< of the first transfer, sent if there is one
  int64_t sent = 0, received = 0; ///< while the new program is made
  int64_t firstSlot = 0;          ///< chunk in the receiver's new buffer
  int32_t width = 1;
  int32_t full[2] = {-1, -1}, free[2] = {-1, -1}; ///< new channels: `to` end, `from` end
};

class Unstager {
public:
  Unstager(const Program &program, std::vector<Diagnostic> &diagnostics)
      : program(program), diagnostics(diagnostics) {}
  std::optional<Program> run();

private:
  void findLinks();
  void countUses();
  void layOut();
  void rewrite(int32_t rank, const Instruction &source, Agent &agent);
  Operand slotOf(const Staged &link, int32_t from, int32_t to, int64_t number) const;
  void refuse(int32_t loc, std::string text);
  LinkKey keyOf(int32_t rank, int32_t channel) const;

  const Program &program;
  std::vector<Diagnostic> &diagnostics;
  Program result;
  std::map<LinkKey, Staged> links;
  std::vector<std::vector<int32_t>> newChannel; ///< by rank and old channel
  int32_t slotBuffer = -1;
  bool failed = false;
};

} // namespace

static Instruction makeSync(Instruction::Kind kind, int32_t channel, int32_t loc) {
  Instruction sync;
  sync.kind = kind;
  sync.channel = channel;
  sync.loc = loc;
  return sync;
}

std::optional<std::pair<int32_t, std::string>> findMissing(const Program &program,
                                                           int64_t contractRanks) {
  int64_t ranks = int64_t(program.ranks.size());
  if (ranks == 0 || ranks != contractRanks || ranks > maxRanks)
    return std::pair(-1, fmt::format("a plan has 1 to {} ranks", maxRanks));
  for (const model::RankProgram &rank : program.ranks) {
    for (const model::Channel &channel : rank.channels)
      if (channel.peer < 0 || channel.peer >= ranks || channel.slots < 0)
        return std::pair(-1, fmt::format("a channel goes to rank {} of {}", channel.peer, ranks));
    for (const Agent &agent : rank.agents)
      for (const Instruction &instruction : agent.code) {
        auto isChannel = [&](int32_t channel, bool slots) {
          return channel >= 0 && size_t(channel) < rank.channels.size() &&
                 (rank.channels[size_t(channel)].slots > 0) == slots;
        };
        bool transfer = instruction.kind == Instruction::Kind::Transfer;
        bool fine =
            transfer ? !instruction.from.empty() && !instruction.to.empty() && instruction.count > 0
                     : isChannel(instruction.channel, false);
        for (const std::vector<Operand> *side : {&instruction.from, &instruction.to})
          for (const Operand &operand : *side) {
            if (operand.kind == Operand::Kind::Channel) {
              fine &= isChannel(operand.channel, true);
              continue;
            }
            fine &= operand.buffer >= 0 && size_t(operand.buffer) < program.buffers.size();
            fine &=
                operand.kind == Operand::Kind::Local || (operand.peer >= 0 && operand.peer < ranks);
            fine =
                fine && operand.chunk >= 0 &&
                operand.chunk <= program.buffers[size_t(operand.buffer)].chunks - instruction.count;
          }
        if (!fine)
          return std::pair(instruction.loc, std::string("this names a chunk, rank or channel that "
                                                        "does not exist"));
      }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Data channels
//===----------------------------------------------------------------------===//

void Unstager::refuse(int32_t loc, std::string text) {
  failed = true;
  report(diagnostics, Diagnostic::Kind::Unsupported, {}, std::move(text)).loc = loc;
}

LinkKey Unstager::keyOf(int32_t rank, int32_t channel) const {
  const model::Channel &c = program.ranks[size_t(rank)].channels[size_t(channel)];
  return c.to ? LinkKey{rank, c.peer, c.tag} : LinkKey{c.peer, rank, c.tag};
}

void Unstager::findLinks() {
  newChannel.resize(program.ranks.size());
  for (int32_t rank = 0; size_t(rank) < program.ranks.size(); ++rank) {
    const RankProgram &source = program.ranks[size_t(rank)];
    RankProgram &target = result.ranks.emplace_back();
    newChannel[size_t(rank)].assign(source.channels.size(), -1);
    for (int32_t c = 0; size_t(c) < source.channels.size(); ++c) {
      const model::Channel &channel = source.channels[size_t(c)];
      if (channel.slots == 0) {
        newChannel[size_t(rank)][size_t(c)] = int32_t(target.channels.size());
        target.channels.push_back(channel);
        continue;
      }
      Staged &link = links[keyOf(rank, c)];
      link.slots = std::max(link.slots, channel.slots);
    }
  }
}

void Unstager::countUses() {
  std::map<LinkKey, int64_t> received;
  auto forEachUse = [&](bool sends, auto &&f) {
    for (int32_t rank = 0; size_t(rank) < program.ranks.size(); ++rank)
      for (const Agent &agent : program.ranks[size_t(rank)].agents)
        for (const Instruction &instruction : agent.code)
          for (const Operand &operand : sends ? instruction.to : instruction.from)
            if (operand.kind == Operand::Kind::Channel)
              f(keyOf(rank, operand.channel), instruction);
  };
  forEachUse(true, [&](const LinkKey &key, const Instruction &instruction) {
    Staged &link = links[key];
    if (link.counts.empty())
      link.loc = instruction.loc;
    link.counts.push_back(instruction.count);
    link.width = std::max(link.width, instruction.count);
  });
  forEachUse(false, [&](const LinkKey &key, const Instruction &instruction) {
    Staged &link = links[key];
    if (link.loc < 0)
      link.loc = instruction.loc;
    int64_t number = received[key]++;
    if (failed || size_t(number) >= link.counts.size() ||
        link.counts[size_t(number)] == instruction.count)
      return;
    refuse(instruction.loc,
           fmt::format("rank {} takes {} chunks from rank {}, which sends {}", std::get<1>(key),
                       instruction.count, std::get<0>(key), link.counts[size_t(number)]));
  });
  for (const auto &[key, link] : links) {
    if (failed || link.counts.size() == size_t(received[key]))
      continue;
    refuse(link.loc,
           fmt::format("rank {} sends {} times to rank {}, which receives {} times",
                       std::get<0>(key), link.counts.size(), std::get<1>(key), received[key]));
  }
}

void Unstager::layOut() {
  std::vector<int64_t> used(program.ranks.size(), 0);
  ChannelMaker channels(result.ranks);
  for (auto &[key, link] : links) {
    auto [from, to, tag] = key;
    link.firstSlot = used[size_t(to)];
    // More slots than transfers are never used.
    link.slots = int32_t(std::min<int64_t>(link.slots, int64_t(link.counts.size())));
    used[size_t(to)] += int64_t(link.slots) * link.width;
    if (link.counts.empty())
      continue;
    std::tie(link.full[0], link.full[1]) = channels.add(from, to);
    if (link.counts.size() > size_t(link.slots))
      std::tie(link.free[0], link.free[1]) = channels.add(to, from);
  }
  result.buffers = program.buffers;
  int64_t most = *std::max_element(used.begin(), used.end());
  if (most > 0) {
    slotBuffer = int32_t(result.buffers.size());
    result.buffers.push_back({"slots", model::Role::Scratch, most, -1});
  }
}

Operand Unstager::slotOf(const Staged &link, int32_t from, int32_t to, int64_t number) const {
  Operand operand;
  operand.kind = from == to ? Operand::Kind::Local : Operand::Kind::Peer;
  operand.peer = from == to ? -1 : to;
  operand.buffer = slotBuffer;
  operand.chunk = link.firstSlot + number % link.slots * link.width;
  return operand;
}

void Unstager::rewrite(int32_t rank, const Instruction &source, Agent &agent) {
  Instruction transfer = source;
  if (source.kind != Instruction::Kind::Transfer) {
    transfer.channel = newChannel[size_t(rank)][size_t(source.channel)];
    agent.code.push_back(std::move(transfer));
    return;
  }
  std::vector<Instruction> after;
  constexpr auto signal = Instruction::Kind::Signal, wait = Instruction::Kind::Wait;
  for (Operand &operand : transfer.from) {
    if (operand.kind != Operand::Kind::Channel)
      continue;
    LinkKey key = keyOf(rank, operand.channel);
    Staged &link = links[key];
    agent.code.push_back(makeSync(wait, link.full[1], source.loc));
    int64_t number = link.received++;
    if (size_t(number + link.slots) < link.counts.size())
      after.push_back(makeSync(signal, link.free[0], source.loc));
    operand = slotOf(link, rank, rank, number);
  }
  for (Operand &operand : transfer.to) {
    if (operand.kind != Operand::Kind::Channel)
      continue;
    LinkKey key = keyOf(rank, operand.channel);
    Staged &link = links[key];
    int64_t number = link.sent++;
    if (number >= link.slots)
      agent.code.push_back(makeSync(wait, link.free[1], source.loc));
    after.push_back(makeSync(signal, link.full[0], source.loc));
    operand = slotOf(link, rank, std::get<1>(key), number);
  }
  agent.code.push_back(std::move(transfer));
  agent.code.insert(agent.code.end(), after.begin(), after.end());
}

std::optional<Program> Unstager::run() {
  findLinks();
  countUses();
  if (failed)
    return std::nullopt;
  layOut();
  for (int32_t rank = 0; size_t(rank) < program.ranks.size(); ++rank)
    for (const Agent &source : program.ranks[size_t(rank)].agents) {
      Agent &agent = result.ranks[size_t(rank)].agents.emplace_back();
      agent.proxy = source.proxy;
      agent.id = source.id;
      for (const Instruction &instruction : source.code)
        rewrite(rank, instruction, agent);
    }
  return std::move(result);
}

std::optional<Program> withoutDataChannels(const Program &program,
                                           std::vector<Diagnostic> &diagnostics) {
  return Unstager(program, diagnostics).run();
}

//===----------------------------------------------------------------------===//
// Entry and exit
//===----------------------------------------------------------------------===//

/// Who touches whose memory, both ways.
static std::vector<std::set<int32_t>> findNeighbours(const Program &program) {
  std::vector<std::set<int32_t>> neighbours(program.ranks.size());
  for (int32_t rank = 0; size_t(rank) < program.ranks.size(); ++rank)
    for (const Agent &agent : program.ranks[size_t(rank)].agents)
      for (const Instruction &instruction : agent.code)
        for (const std::vector<Operand> *side : {&instruction.from, &instruction.to})
          for (const Operand &operand : *side)
            if (operand.kind == Operand::Kind::Peer) {
              neighbours[size_t(rank)].insert(operand.peer);
              neighbours[size_t(operand.peer)].insert(rank);
            }
  return neighbours;
}

/// The first block of a rank; makes one if there is none.
static size_t mainAgent(RankProgram &program) {
  for (size_t i = 0; i < program.agents.size(); ++i)
    if (!program.agents[i].proxy)
      return i;
  program.agents.emplace_back();
  return program.agents.size() - 1;
}

/// Whether every access to a peer comes after something that the peer has done.
static bool entryIsGuarded(const Program &program) {
  model::Network network(program);
  std::vector<model::Fault> faults;
  network.build(faults, 1);
  if (!faults.empty())
    return false;
  // A bit for every rank that is known to have begun.
  size_t words = (program.ranks.size() + 63) / 64;
  using Known = std::vector<uint64_t>;
  std::vector<Known> known(network.agents().size(), Known(words, 0));
  std::vector<std::deque<Known>> tokens(network.links().size());
  for (size_t i = 0; i < known.size(); ++i)
    known[i][size_t(network.agents()[i].rank) / 64] |= uint64_t(1)
                                                       << (network.agents()[i].rank % 64);
  bool guarded = true;
  network.run(0, [&](int32_t number, int32_t index) {
    const model::NetworkAgent &agent = network.agents()[size_t(number)];
    const Instruction &instruction = agent.agent->code[size_t(index)];
    Known &mine = known[size_t(number)];
    if (instruction.kind == Instruction::Kind::Transfer) {
      for (const std::vector<Operand> *side : {&instruction.from, &instruction.to})
        for (const Operand &operand : *side)
          if (operand.kind == Operand::Kind::Peer)
            guarded &= (mine[size_t(operand.peer) / 64] >> (operand.peer % 64) & 1) != 0;
      return;
    }
    std::deque<Known> &queue = tokens[size_t(network.linkOf(agent.rank, instruction.channel))];
    if (instruction.kind == Instruction::Kind::Signal) {
      queue.push_back(mine);
      return;
    }
    for (size_t w = 0; w < words; ++w)
      mine[w] |= queue.front()[w];
    queue.pop_front();
  });
  return guarded;
}

namespace {

/// Signals that a barrier among neighbours takes, by rank and agent.
struct Guards {
  explicit Guards(Program &program) : program(program), channels(program.ranks) {}

  /// `atExit`: blocks tell their rank's first, ranks tell each other; else the other way.
  void add(bool atExit) {
    std::vector<std::set<int32_t>> neighbours = findNeighbours(program);
    std::vector<size_t> mains;
    for (size_t rank = 0; rank < program.ranks.size(); ++rank)
      mains.push_back(neighbours[rank].empty() ? 0 : mainAgent(program.ranks[rank]));
    code.resize(program.ranks.size());
    for (size_t rank = 0; rank < program.ranks.size(); ++rank)
      code[rank].resize(program.ranks[rank].agents.size());
    for (size_t rank = 0; rank < program.ranks.size(); ++rank)
      if (atExit)
        joinBlocks(rank, mains[rank], neighbours[rank].empty(), atExit);
    for (size_t rank = 0; rank < program.ranks.size(); ++rank)
      for (int32_t peer : neighbours[rank]) {
        auto [out, in] = channels.add(int32_t(rank), peer);
        at(rank, mains[rank]).push_back(makeSync(Instruction::Kind::Signal, out, -1));
        later.push_back({size_t(peer), makeSync(Instruction::Kind::Wait, in, -1)});
      }
    for (auto &[rank, wait] : later)
      at(rank, mains[rank]).push_back(wait);
    for (size_t rank = 0; rank < program.ranks.size(); ++rank)
      if (!atExit)
        joinBlocks(rank, mains[rank], neighbours[rank].empty(), atExit);
    insert(atExit);
  }

private:
  std::vector<Instruction> &at(size_t rank, size_t agent) { return code[rank][agent]; }

  void joinBlocks(size_t rank, size_t main, bool alone, bool atExit) {
    for (size_t other = 0; other < program.ranks[rank].agents.size() && !alone; ++other) {
      if (other == main || program.ranks[rank].agents[other].proxy)
        continue;
      auto [out, in] = channels.add(int32_t(rank), int32_t(rank));
      size_t from = atExit ? other : main, to = atExit ? main : other;
      at(rank, from).push_back(makeSync(Instruction::Kind::Signal, out, -1));
      at(rank, to).push_back(makeSync(Instruction::Kind::Wait, in, -1));
    }
  }

  void insert(bool atExit) {
    for (size_t rank = 0; rank < program.ranks.size(); ++rank)
      for (size_t i = 0; i < code[rank].size(); ++i) {
        std::vector<Instruction> &all = program.ranks[rank].agents[i].code;
        all.insert(atExit ? all.end() : all.begin(), code[rank][i].begin(), code[rank][i].end());
      }
  }

  Program &program;
  ChannelMaker channels;
  std::vector<std::vector<std::vector<Instruction>>> code;
  std::vector<std::pair<size_t, Instruction>> later;
};

} // namespace

void guardEntry(Program &program) {
  if (!entryIsGuarded(program))
    Guards(program).add(/*atExit=*/false);
}

void guardExit(Program &program) { Guards(program).add(/*atExit=*/true); }

} // namespace ccl::mscclpp
