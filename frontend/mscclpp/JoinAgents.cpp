//===- JoinAgents.cpp - Channels for what agents wait for -----------------===//
//
// A channel of the program has one agent at either end. A counter of the plan may have
// several; then who takes which signal has to be the same in every order that may happen.
//===----------------------------------------------------------------------===//
#include "frontend/mscclpp/ChannelMaker.h"
#include "frontend/mscclpp/Trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::mscclpp {

using interchange::TextPlace;
using model::Instruction;

namespace {

class Joiner {
public:
  Joiner(Trace &trace, int64_t ranks, Log &log)
      : trace(trace), log(log), programs(size_t(ranks)), channels(programs),
        waits(trace.agents.size()), signals(trace.agents.size()) {}
  std::vector<model::RankProgram> run();

private:
  using Uses = std::map<int32_t, std::vector<Use>>; ///< by agent

  void joinCounter(Counter &counter);
  void spendInitial(Counter &counter);
  bool checkLoops(const Counter &counter);
  void joinPair(const Counter &counter, const std::vector<Use> &from, const std::vector<Use> &to);
  void joinSeveral(const Counter &counter, Uses &from, Uses &to);
  bool isOneRun(const std::vector<Use> &uses, Instruction::Kind kind) const;
  bool isSeen(const Item &written, int32_t from, const Use &wait);
  void tellRelaxed(const Counter &counter, const std::vector<Use> &from,
                   const std::vector<Use> &to);

  void addPacketDependences();
  void joinDependences();

  void setChannels(const std::vector<Use> &uses, int32_t channel);
  void assemble();

  Item &itemOf(const Use &use) { return trace.agents[size_t(use.agent)].items[size_t(use.item)]; }
  const Item &itemOf(const Use &use) const {
    return trace.agents[size_t(use.agent)].items[size_t(use.item)];
  }
  TextPlace placeOf(const Use &use) const {
    return trace.places[size_t(itemOf(use).instruction.loc)];
  }
  std::string agentName(int32_t number) const {
    const AgentTrace &agent = trace.agents[size_t(number)];
    return fmt::format("{} {}", agent.proxy ? "proxy" : "thread block", agent.id);
  }

  Trace &trace;
  Log &log;
  std::vector<model::RankProgram> programs;
  ChannelMaker channels;
  /// Comparisons that the search for relaxed signals may still make.
  int64_t looks = int64_t(1) << 25;
  /// Channels to wait on before (to signal after) an item, by agent and item.
  std::vector<std::map<int32_t, std::vector<int32_t>>> waits, signals;
};

} // namespace

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

void Joiner::setChannels(const std::vector<Use> &uses, int32_t channel) {
  for (const Use &use : uses)
    itemOf(use).instruction.channel = channel;
}

//===----------------------------------------------------------------------===//
// Counters
//===----------------------------------------------------------------------===//

// A semaphore ends as it began, so as many releases as are there at the beginning are left
// over for the next launch, which comes after a barrier anyway.
void Joiner::spendInitial(Counter &counter) {
  size_t spent = size_t(std::min<int64_t>(
      counter.initial, int64_t(std::min(counter.signals.size(), counter.waits.size()))));
  if (spent == 0)
    return;
  for (size_t i = 0; i < spent; ++i) {
    itemOf(counter.waits[i]).isInstruction = false;
    itemOf(counter.signals[counter.signals.size() - 1 - i]).isInstruction = false;
  }
  counter.waits.erase(counter.waits.begin(), counter.waits.begin() + int64_t(spent));
  counter.signals.resize(counter.signals.size() - spent);
}

// How often a pipeline repeats depends on the size of a message.
bool Joiner::checkLoops(const Counter &counter) {
  if (counter.signals.size() != counter.waits.size())
    return true; // never in balance
  std::map<int32_t, int64_t> balance;
  for (const Use &use : counter.signals)
    ++balance[itemOf(use).loop];
  for (const Use &use : counter.waits)
    --balance[itemOf(use).loop];
  for (auto [loop, difference] : balance) {
    if (loop == 0 || difference == 0)
      continue;
    const Use &use = counter.signals.front();
    log.unsupported(placeOf(use),
                    fmt::format("{}: a pipeline signals and waits unequally often; whether that "
                                "comes out even depends on the size of the message",
                                counter.name));
    return false;
  }
  return true;
}

/// Nothing happens between them that could depend on how many of them are over.
bool Joiner::isOneRun(const std::vector<Use> &uses, Instruction::Kind kind) const {
  const std::vector<Item> &items = trace.agents[size_t(uses.front().agent)].items;
  for (int32_t i = uses.front().item; i <= uses.back().item; ++i) {
    const Item &item = items[size_t(i)];
    if (item.isInstruction && (item.instruction.kind != kind || !item.reads.empty()))
      return false;
  }
  return true;
}

void Joiner::joinPair(const Counter &counter, const std::vector<Use> &from,
                      const std::vector<Use> &to) {
  if (from.empty() || to.empty()) {
    // Nobody at the other end: an end without partner says where.
    bool out = !from.empty();
    setChannels(out ? from : to, channels.addLone(counter.from, counter.to, out));
    return;
  }
  auto [out, in] = channels.add(counter.from, counter.to);
  setChannels(from, out);
  setChannels(to, in);
  tellRelaxed(counter, from, to);
}

void Joiner::joinSeveral(const Counter &counter, Uses &from, Uses &to) {
  bool manyWait = to.size() > 1;
  const Use &at = manyWait ? to.rbegin()->second.front() : from.rbegin()->second.front();
  auto refuse = [&](std::string why) {
    log.unsupported(placeOf(at),
                    fmt::format("{}: {} and {} {} it; {}", counter.name,
                                agentName(manyWait ? to.begin()->first : from.begin()->first),
                                agentName(at.agent), manyWait ? "wait on" : "signal", why));
  };
  if (manyWait && from.size() > 1)
    return refuse("who takes which signal is not determined");
  if (counter.signals.size() != counter.waits.size())
    return refuse(fmt::format("it is signalled {} times and waited for {} times",
                              counter.signals.size(), counter.waits.size()));
  std::vector<Use> &single = manyWait ? from.begin()->second : to.begin()->second;
  if (!isOneRun(single, manyWait ? Instruction::Kind::Signal : Instruction::Kind::Wait))
    return refuse("who takes which signal is not determined");
  // All of the single agent's uses come at once: any assignment means the same.
  size_t next = 0;
  for (auto &[other, uses] : manyWait ? to : from) {
    std::vector<Use> part(single.begin() + int64_t(next),
                          single.begin() + int64_t(next + uses.size()));
    next += uses.size();
    manyWait ? joinPair(counter, part, uses) : joinPair(counter, uses, part);
  }
}

void Joiner::joinCounter(Counter &counter) {
  if (!checkLoops(counter))
    return;
  auto byAgent = [](const std::vector<Use> &uses) {
    Uses result;
    for (const Use &use : uses)
      result[use.agent].push_back(use);
    return result;
  };
  size_t signallers = byAgent(counter.signals).size(), waiters = byAgent(counter.waits).size();
  size_t waits = counter.waits.size();
  spendInitial(counter);
  Uses from = byAgent(counter.signals), to = byAgent(counter.waits);
  bool spent = counter.waits.size() < waits;
  if (spent && !to.empty() && (signallers > 1 || waiters > 1)) {
    log.unsupported(placeOf(counter.waits.front()),
                    fmt::format("{} begins with {}, and several thread blocks share it; who takes "
                                "which release is not determined",
                                counter.name, counter.initial));
    return;
  }
  if (from.size() <= 1 && to.size() <= 1)
    return joinPair(counter, counter.signals, counter.waits);
  if (!from.empty() && !to.empty())
    return joinSeveral(counter, from, to);
  for (auto &[agent, uses] : from) // nobody at the other end
    joinPair(counter, uses, {});
  for (auto &[agent, uses] : to)
    joinPair(counter, {}, uses);
}

/// Whether what `written` writes is in the memory of rank `to`, or is read from rank `from`
/// by what an agent of rank `to` does after `wait`.
bool Joiner::isSeen(const Item &written, int32_t from, const Use &wait) {
  const AgentTrace &waiter = trace.agents[size_t(wait.agent)];
  auto owner = [](const model::Operand &operand, int32_t rank) {
    return operand.kind == model::Operand::Kind::Peer ? operand.peer : rank;
  };
  for (const model::Operand &target : written.instruction.to) {
    int32_t at = owner(target, from);
    if (at == waiter.rank)
      return true;
    for (size_t i = size_t(wait.item); i < waiter.items.size() && looks > 0; ++i, --looks)
      for (const model::Operand &source : waiter.items[i].instruction.from)
        if (owner(source, waiter.rank) == at && source.buffer == target.buffer &&
            source.chunk < target.chunk + written.instruction.count &&
            target.chunk < source.chunk + waiter.items[i].instruction.count)
          return true;
  }
  return false;
}

// Relaxed signals tell that something happened, but what was written before need not be
// visible. That matters if it is looked at, and no other signal has followed it.
void Joiner::tellRelaxed(const Counter &counter, const std::vector<Use> &from,
                         const std::vector<Use> &to) {
  auto relaxed = [&](const Use &use) { return itemOf(use).relaxed; };
  if (looks <= 0 || (std::none_of(from.begin(), from.end(), relaxed) &&
                     std::none_of(to.begin(), to.end(), relaxed)))
    return;
  const AgentTrace &signaller = trace.agents[size_t(from.front().agent)];
  size_t item = 0;
  std::vector<const Item *> written;
  for (size_t k = 0; k < std::min(from.size(), to.size()); ++k) {
    for (; item < size_t(from[k].item); ++item, --looks)
      if (signaller.items[item].isInstruction && signaller.items[item].writes.empty() &&
          signaller.items[item].instruction.kind == Instruction::Kind::Transfer)
        written.push_back(&signaller.items[item]);
    if (!relaxed(from[k]) && !relaxed(to[k])) {
      written.clear();
      continue;
    }
    auto seen = std::find_if(written.begin(), written.end(), [&](const Item *candidate) {
      return isSeen(*candidate, signaller.rank, to[k]);
    });
    if (seen == written.end()) {
      written.clear(); // what is not looked at from here on is not looked at later
      continue;
    }
    log.warn(placeOf(relaxed(from[k]) ? from[k] : to[k]),
             fmt::format("{}: MSCCL++ does not order data by a relaxed signal, and here nothing "
                         "else follows a write that is looked at",
                         counter.name))
        .notes.push_back({trace.places[size_t((*seen)->instruction.loc)], -1, "the write"});
    return;
  }
}

//===----------------------------------------------------------------------===//
// Dependences
//===----------------------------------------------------------------------===//

void Joiner::addPacketDependences() {
  // The first that writes a packet; a second one races with it or with its readers.
  std::vector<std::vector<Use>> writers(programs.size());
  auto forEachItem = [&](auto &&f) {
    for (size_t agent = 0; agent < trace.agents.size(); ++agent)
      for (size_t item = 0; item < trace.agents[agent].items.size(); ++item)
        f(Use{int32_t(agent), int32_t(item)}, trace.agents[agent].items[item]);
  };
  forEachItem([&](const Use &use, const Item &item) {
    for (const PacketRange &range : item.writes) {
      std::vector<Use> &ofRank = writers[size_t(range.rank)];
      if (ofRank.size() < size_t(range.chunk + range.count))
        ofRank.resize(size_t(range.chunk + range.count));
      for (int64_t chunk = range.chunk; chunk < range.chunk + range.count; ++chunk)
        if (ofRank[size_t(chunk)].agent < 0)
          ofRank[size_t(chunk)] = use;
    }
  });
  forEachItem([&](const Use &use, const Item &item) {
    for (const PacketRange &range : item.reads)
      for (int64_t chunk = range.chunk; chunk < range.chunk + range.count; ++chunk) {
        const std::vector<Use> &ofRank = writers[size_t(range.rank)];
        Use writer = size_t(chunk) < ofRank.size() ? ofRank[size_t(chunk)] : Use();
        if (trace.dependences.empty() || trace.dependences.back().writer.agent != writer.agent ||
            trace.dependences.back().writer.item != writer.item ||
            trace.dependences.back().reader.agent != use.agent ||
            trace.dependences.back().reader.item != use.item)
          trace.dependences.push_back({use, writer});
      }
  });
}

// An agent does its items in order, so only a later writer than all before matters.
void Joiner::joinDependences() {
  auto key = [](const Dependence &d) {
    return std::tuple(d.writer.agent, d.reader.agent, d.reader.item, d.writer.item);
  };
  std::vector<Dependence> &all = trace.dependences;
  std::sort(all.begin(), all.end(),
            [&](const Dependence &a, const Dependence &b) { return key(a) < key(b); });
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    const Use reader = all[begin].reader, writer = all[begin].writer;
    while (end < all.size() && all[end].writer.agent == writer.agent &&
           all[end].reader.agent == reader.agent)
      ++end;
    int32_t to = trace.agents[size_t(reader.agent)].rank;
    if (writer.agent < 0) { // a packet that nobody writes
      int32_t in = channels.addLone(to, to, /*out=*/false);
      for (size_t i = begin; i < end; ++i)
        if (i == begin || all[i].reader.item != all[i - 1].reader.item)
          waits[size_t(reader.agent)][all[i].reader.item].push_back(in);
      continue;
    }
    int32_t last = -1, out = -1, in = -1;
    for (size_t i = begin; i < end; ++i) {
      const Dependence &d = all[i];
      // The latest writer that this reader waits for.
      bool isLatest = i + 1 == end || all[i + 1].reader.item != d.reader.item;
      bool inOrder = d.writer.agent == d.reader.agent && d.writer.item < d.reader.item;
      if (!isLatest || inOrder || d.writer.item <= last)
        continue;
      if (out < 0)
        std::tie(out, in) = channels.add(trace.agents[size_t(writer.agent)].rank, to);
      last = d.writer.item;
      waits[size_t(d.reader.agent)][d.reader.item].push_back(in);
      signals[size_t(d.writer.agent)][d.writer.item].push_back(out);
    }
  }
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

void Joiner::assemble() {
  for (size_t number = 0; number < trace.agents.size(); ++number) {
    AgentTrace &source = trace.agents[number];
    model::Agent &agent = programs[size_t(source.rank)].agents.emplace_back();
    agent.proxy = source.proxy;
    agent.id = source.id;
    for (size_t item = 0; item < source.items.size(); ++item) {
      Item &current = source.items[item];
      auto addSyncs = [&](const std::map<int32_t, std::vector<int32_t>> &all,
                          Instruction::Kind kind) {
        auto it = all.find(int32_t(item));
        if (it == all.end())
          return;
        for (int32_t channel : it->second) {
          Instruction &sync = agent.code.emplace_back();
          sync.kind = kind;
          sync.channel = channel;
          sync.loc = current.instruction.loc;
        }
      };
      addSyncs(waits[number], Instruction::Kind::Wait);
      if (current.isInstruction)
        agent.code.push_back(std::move(current.instruction));
      addSyncs(signals[number], Instruction::Kind::Signal);
    }
  }
}

std::vector<model::RankProgram> Joiner::run() {
  for (Counter &counter : trace.counters)
    joinCounter(counter);
  if (looks <= 0)
    log.warn({}, "this plan has so many relaxed signals that not all were looked at; MSCCL++ does "
                 "not order data by them");
  addPacketDependences();
  joinDependences();
  if (!log.failed())
    assemble();
  return std::move(programs);
}

std::vector<model::RankProgram> joinAgents(Trace &trace, int64_t ranks, Log &log) {
  return Joiner(trace, ranks, log).run();
}

} // namespace ccl::mscclpp
