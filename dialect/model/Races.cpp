#include "dialect/model/Races.h"

#include <algorithm>

namespace ccl::model {

Races::Races(const Network &network, size_t places)
    : network(network), toucher(places, untouched), chains(network.agents().size(), -1) {}

void Races::touch(size_t place, int32_t owner, int32_t agent) {
  int32_t &who = toucher[place];
  bool alone = (who == untouched || who == agent) && rankOf(agent) == owner;
  if (alone) {
    who = agent;
    return;
  }
  if (who >= 0)
    chains[size_t(who)] = 0;
  chains[size_t(agent)] = 0;
  who = shared;
}

bool Races::prepare() {
  int32_t next = 0;
  for (int32_t &who : toucher)
    who = who == shared ? next++ : -1;
  if (next == 0)
    return false;
  histories.resize(size_t(next));
  for (size_t i = 0; i < chains.size(); ++i)
    if (chains[i] == 0) {
      chains[i] = int32_t(chainRank.size());
      chainRank.push_back(rankOf(int32_t(i)));
    }
  // Of the other agents of a rank all that matters is that one of them was heard.
  for (size_t i = 0; i < chains.size(); ++i) {
    if (chains[i] >= 0)
      continue;
    size_t rank = size_t(rankOf(int32_t(i)));
    if (rank >= bystanders.size())
      bystanders.resize(rank + 1, -1);
    if (bystanders[rank] < 0) {
      bystanders[rank] = int32_t(chainRank.size());
      chainRank.push_back(int32_t(rank));
    }
  }
  clocks.emplace(int64_t(chainRank.size()));
  known.resize(chains.size());
  sent.resize(network.links().size());
  return true;
}

void Races::begin(int32_t theAgent, int32_t theInstruction, uint64_t theOrder) {
  agent = theAgent;
  instruction = uint32_t(theInstruction);
  order = theOrder;
}

void Races::receive(int32_t link) {
  std::deque<Clocks::Clock> &queue = sent[size_t(link)];
  clocks->join(known[size_t(agent)], queue.front());
  queue.pop_front();
}

void Races::send(int32_t link) {
  Clocks::Clock told = known[size_t(agent)];
  if (int32_t chain = chains[size_t(agent)]; chain >= 0)
    clocks->set(told, chain, instruction + 1);
  else if (chain = bystanders[size_t(rankOf(agent))]; clocks->at(told, chain) == 0)
    clocks->set(told, chain, 1);
  sent[size_t(link)].push_back(std::move(told));
}

Races::History *Races::historyOf(size_t place, int32_t owner, bool scratch) {
  int32_t index = toucher[place];
  if (index < 0)
    return nullptr;
  History &history = histories[size_t(index)];
  history.owner = owner;
  history.scratch = scratch;
  history.foreign |= rankOf(agent) != owner;
  if (rankOf(agent) != owner && (!entryBarrier || (findsEarly && !tooEarly && !scratch)))
    noteEarly(history);
  return &history;
}

void Races::noteEarly(const History &history) {
  if (heardOf.count({agent, history.owner}))
    return;
  const bool heard = clocks->any(known[size_t(agent)], [&](int64_t chain) {
    return chainRank[size_t(chain)] == history.owner;
  });
  if (heard) {
    heardOf.insert({agent, history.owner});
    return;
  }
  entryBarrier = true;
  if (findsEarly && !tooEarly && !history.scratch)
    tooEarly = Foreign{{agent, instruction, order}, history.owner};
}

/// Of an agent the first access says most: later ones know more.
void Races::addEarly(History &history, bool writes) {
  if (!history.scratch || history.write.agent >= 0)
    return;
  for (const Early &early : history.early)
    if (early.agent == agent && !writes)
      return;
  history.early.push_back({agent, writes, known[size_t(agent)]});
}

std::optional<Races::Conflict> Races::read(size_t place, int32_t owner, bool scratch) {
  History *history = historyOf(place, owner, scratch);
  if (!history)
    return std::nullopt;
  addEarly(*history, /*writes=*/false);
  auto same = std::find_if(history->reads.begin(), history->reads.end(),
                           [&](const Access &access) { return access.agent == agent; });
  Access now{agent, instruction, order};
  same == history->reads.end() ? history->reads.push_back(now) : void(*same = now);
  if (isOrdered(history->write))
    return std::nullopt;
  return Conflict{history->write, true};
}

std::optional<Races::Conflict> Races::write(size_t place, int32_t owner, bool scratch) {
  History *history = historyOf(place, owner, scratch);
  if (!history)
    return std::nullopt;
  addEarly(*history, /*writes=*/true);
  std::optional<Conflict> conflict;
  for (const Access &read : history->reads)
    if (!isOrdered(read) && (!conflict || read.order < conflict->first.order))
      conflict = Conflict{read, false};
  if (!isOrdered(history->write))
    conflict = Conflict{history->write, true};
  history->reads.clear();
  history->write = {agent, instruction, order};
  return conflict;
}

bool Races::isNews(const Conflict &conflict) {
  return reported.insert({{conflict.first.agent, conflict.first.instruction}, {agent, instruction}})
      .second;
}

std::optional<Races::Access> Races::leftBehind(const History &history) const {
  std::optional<Access> first;
  auto look = [&](const Access &access) {
    if (access.agent >= 0 && rankOf(access.agent) != history.owner &&
        !isKnown(access, leaving[size_t(history.owner)]) && (!first || access.order < first->order))
      first = access;
  };
  look(history.write);
  for (const Access &read : history.reads)
    look(read);
  return first;
}

/// Whether an access of one micro-batch comes before an access of the next: if that one
/// has heard anything of this micro-batch from a rank that knew of the first when it began it.
bool Races::repeatsInTime(const Access &last, const Early &early) const {
  auto knew = [&](int32_t rank) {
    return rankOf(last.agent) == rank || isKnown(last, leaving[size_t(rank)]);
  };
  return knew(rankOf(early.agent)) ||
         clocks->any(early.known, [&](int64_t chain) { return knew(chainRank[size_t(chain)]); });
}

bool Races::repeatsInTime(const History &history) const {
  for (const Early &early : history.early) {
    if (history.write.agent >= 0 && !repeatsInTime(history.write, early))
      return false;
    for (const Access &read : history.reads)
      if (early.writes && !repeatsInTime(read, early))
        return false;
  }
  return true;
}

void Races::finish() {
  size_t ranks = 0;
  for (const NetworkAgent &each : network.agents())
    ranks = std::max(ranks, size_t(each.rank) + 1);
  for (const History &history : histories)
    ranks = std::max(ranks, size_t(history.owner) + 1);
  leaving.resize(ranks);
  // What agents know shares much; what is their own comes after it, or it would share nothing.
  for (size_t i = 0; i < chains.size(); ++i)
    clocks->join(leaving[size_t(network.agents()[i].rank)], known[i]);
  for (size_t i = 0; i < chains.size(); ++i)
    if (const NetworkAgent &each = network.agents()[i]; chains[i] >= 0)
      clocks->set(leaving[size_t(each.rank)], chains[i], uint32_t(each.agent->code.size()));
  for (const History &history : histories) {
    if (!history.foreign)
      continue;
    if (std::optional<Access> access = leftBehind(history);
        access && (!tooLate || access->order < tooLate->access.order))
      tooLate = Foreign{*access, history.owner};
    batchBarrier = batchBarrier || (history.scratch && !repeatsInTime(history));
  }
  exitBarrier = tooLate.has_value();
}

} // namespace ccl::model
