#include "dialect/model/SymmetricOrder.h"

#include <algorithm>

namespace ccl::model {
namespace {

/// Calls f(channel, adds) for each channel that an instruction uses.
template <typename F>
void forEachUse(const Instruction &instruction, F f) {
  if (instruction.kind != Instruction::Kind::Transfer)
    return f(instruction.channel, instruction.kind == Instruction::Kind::Signal);
  for (const Operand &operand : instruction.from)
    if (operand.kind == Operand::Kind::Channel)
      f(operand.channel, false);
  for (const Operand &operand : instruction.to)
    if (operand.kind == Operand::Kind::Channel)
      f(operand.channel, true);
}

} // namespace

//===----------------------------------------------------------------------===//
// Sweeps
//===----------------------------------------------------------------------===//

bool SweepOrder::contains(size_t index, int32_t event) const {
  const Sweep &sweep = symmetry.sweeps[index];
  int64_t begin = int64_t(network.agents()[size_t(sweep.agent)].firstEvent) + sweep.begin;
  return event >= begin && event < begin + int64_t(sweep.length) * sweep.trips;
}

int32_t SweepOrder::iteration(size_t index, int32_t event) const {
  const Sweep &sweep = symmetry.sweeps[index];
  int32_t begin = int32_t(network.agents()[size_t(sweep.agent)].firstEvent) + sweep.begin;
  return (event - begin) / sweep.length;
}

bool SweepOrder::separates(int32_t a, int32_t b) const {
  for (int32_t s = innermost[size_t(a)]; s >= 0; s = parents[size_t(s)])
    if (contains(size_t(s), b) && iteration(size_t(s), a) != iteration(size_t(s), b))
      return true;
  return false;
}

int32_t SweepOrder::firstLike(int32_t event) const {
  for (int32_t s = innermost[size_t(event)]; s >= 0; s = parents[size_t(s)])
    event -= iteration(size_t(s), event) * symmetry.sweeps[size_t(s)].length;
  return event;
}

int32_t SweepOrder::lastLike(int32_t event) const {
  for (int32_t s = innermost[size_t(event)]; s >= 0; s = parents[size_t(s)]) {
    const Sweep &sweep = symmetry.sweeps[size_t(s)];
    event += (sweep.trips - 1 - iteration(size_t(s), event)) * sweep.length;
  }
  return event;
}

/// Finds the sweeps of every event. Inner ones must lie in one iteration of outer ones.
bool SweepOrder::isNested(const Program &rankZero) {
  innermost.assign(network.numEvents(), -1);
  for (size_t s = 0; s < symmetry.sweeps.size(); ++s) {
    const Sweep &sweep = symmetry.sweeps[s];
    const std::vector<Agent> &agents = rankZero.ranks[0].agents;
    if (sweep.agent < 0 || size_t(sweep.agent) >= agents.size() || sweep.begin < 0 ||
        sweep.length < 1 || sweep.trips < 1)
      return false;
    size_t end = size_t(sweep.begin) + size_t(sweep.length) * size_t(sweep.trips);
    if (end > agents[size_t(sweep.agent)].code.size())
      return false;
    size_t first = network.agents()[size_t(sweep.agent)].firstEvent;
    int32_t parent = innermost[first + size_t(sweep.begin)];
    parents.push_back(parent);
    for (size_t event = first + size_t(sweep.begin); event < first + end; ++event) {
      if (innermost[event] != parent ||
          (parent >= 0 && iteration(size_t(parent), int32_t(event)) !=
                              iteration(size_t(parent), int32_t(first) + sweep.begin)))
        return false;
      innermost[event] = int32_t(s);
    }
  }
  return true;
}

/// A peer must execute the iterations in the order of this rank.
std::string SweepOrder::checkPeers(const Program &rankZero) const {
  for (const NetworkAgent &agent : network.agents())
    for (size_t i = 0; i < agent.agent->code.size(); ++i) {
      const Instruction &instruction = agent.agent->code[i];
      bool same = true;
      for (int32_t s = innermost[agent.firstEvent + i]; s >= 0; s = parents[size_t(s)]) {
        const std::vector<ShiftedAxis> &digits = symmetry.sweeps[size_t(s)].digits;
        forEachUse(instruction, [&](int32_t channel, bool) {
          same &= group.fixes(rankZero.ranks[0].channels[size_t(channel)].peer, digits);
        });
        for (const std::vector<Operand> *operands : {&instruction.from, &instruction.to})
          for (const Operand &operand : *operands)
            if (operand.kind == Operand::Kind::Peer)
              same &= group.fixes(operand.peer, digits);
      }
      if (!same)
        return network.str(agent.index, int64_t(i)) +
               " is in a loop that the peer executes in another order";
    }
  return "";
}

/// Data that is sent in an iteration must be taken in the iteration of the same number.
std::string SweepOrder::checkLinks() {
  std::map<std::vector<int64_t>, int32_t> labels;
  std::vector<size_t> kinds; // of every sweep: the first that is like it
  for (const Sweep &sweep : symmetry.sweeps)
    kinds.push_back(
        size_t(std::find_if(symmetry.sweeps.begin(), symmetry.sweeps.end(),
                            [&](const Sweep &other) { return other.digits == sweep.digits; }) -
               symmetry.sweeps.begin()));
  auto labelOf = [&](size_t event) {
    std::vector<int64_t> path;
    for (int32_t s = innermost[event]; s >= 0; s = parents[size_t(s)]) {
      path.push_back(int64_t(kinds[size_t(s)]));
      path.push_back(iteration(size_t(s), int32_t(event)));
    }
    return labels.try_emplace(std::move(path), int32_t(labels.size())).first->second;
  };
  std::vector<std::vector<int32_t>> sent(network.links().size()), taken(network.links().size());
  for (const NetworkAgent &agent : network.agents())
    for (size_t i = 0; i < agent.agent->code.size(); ++i) {
      int32_t label = labelOf(agent.firstEvent + i);
      forEachUse(agent.agent->code[i], [&](int32_t channel, bool adds) {
        (adds ? sent : taken)[size_t(network.linkOf(0, channel))].push_back(label);
      });
    }
  std::string why;
  for (size_t link = 0; link < sent.size(); ++link) {
    aligned[link] = sent[link] == taken[link];
    if (!aligned[link] && network.links()[link].slots > 0)
      why = "what is sent in a loop over all chunks is received in another order";
  }
  return why;
}

std::string SweepOrder::checkPlaces(const Program &rankZero, size_t index) const {
  constexpr int32_t none = -1, several = -2;
  struct Use {
    int32_t written = none, read = none; ///< iteration
  };
  std::unordered_map<size_t, Use> used;
  const Sweep &sweep = symmetry.sweeps[index];
  const NetworkAgent &agent = network.agents()[size_t(sweep.agent)];
  bool independent = true;
  auto use = [&](const Operand &operand, int32_t count, int32_t iteration, bool writes) {
    Place place =
        operand.kind == Operand::Kind::Channel ? Place{-1, -1, 0} : placeOf(agent, operand);
    if (!execution.isPlace(place, count))
      return;
    for (int32_t c = 0; c < count; ++c, ++place.chunk) {
      Use &u = used[execution.at(place)];
      if (writes) {
        independent &= (u.written == none || u.written == iteration) &&
                       (u.read == none || u.read == iteration);
        u.written = iteration;
      } else {
        independent &= u.written == none || u.written == iteration;
        u.read = u.read == none || u.read == iteration ? iteration : several;
      }
    }
  };
  for (int32_t i = 0; i < sweep.length * sweep.trips; ++i) {
    const Instruction &instruction =
        rankZero.ranks[0].agents[size_t(sweep.agent)].code[size_t(sweep.begin + i)];
    for (const Operand &operand : instruction.from)
      use(operand, instruction.count, i / sweep.length, false);
    for (const Operand &operand : instruction.to)
      use(operand, instruction.count, i / sweep.length, true);
  }
  return independent ? ""
                     : network.str(sweep.agent, sweep.begin) +
                           " begins a loop whose iterations use each other's results";
}

std::string SweepOrder::check(const Program &rankZero) {
  if (!isNested(rankZero))
    return "loops are not nested";
  aligned.assign(network.links().size(), true);
  if (symmetry.sweeps.empty())
    return "";
  std::string why = checkPeers(rankZero);
  if (why.empty())
    why = checkLinks();
  for (size_t s = 0; s < symmetry.sweeps.size() && why.empty(); ++s)
    why = checkPlaces(rankZero, s);
  return why;
}

//===----------------------------------------------------------------------===//
// Peers
//===----------------------------------------------------------------------===//

uint64_t PeerOrder::key(int32_t receiver, int32_t sender, int64_t rank) const {
  uint64_t agents = network.agents().size();
  return (uint64_t(rank) * agents + uint64_t(receiver)) * agents + uint64_t(sender);
}

void PeerOrder::receive(int32_t link, int32_t event) {
  int32_t cause = sent[size_t(link)].front();
  sent[size_t(link)].pop_front();
  auto [src, dst] = network.ranksOf(network.links()[size_t(link)], /*asReceiver=*/true);
  bool aligned = sweeps.isAligned(link);
  if (!aligned) {
    // Another rank may have had the message of any iteration here; the first is the least.
    int32_t first = sweeps.firstLike(event);
    cause = causes.try_emplace({link, first}, cause).first->second;
  }
  if (aligned && sweeps.isFixed(event))
    paths.add({src, cause}, {0, event}, DataPaths::By::Message);
  uint64_t to = key(network.agentOf(size_t(event)), network.agentOf(size_t(cause)), src);
  std::vector<Message> &messages = heard[to];
  // Of an agent without loops what it did last says all.
  if (!sweeps.hasLoops() && !messages.empty()) {
    if (messages.back().cause >= cause)
      return;
    messages.clear();
  }
  messages.push_back({cause, event, aligned});
}

bool PeerOrder::isOrdered(const Access &first, bool writes, const Access &second) {
  if (first.event < 0 || isHeard(first, writes, second))
    return true;
  // One that is in no order is enough to give up; to find that out may take long.
  lost = lost || !sweeps.isFixed(first.event) || !sweeps.isFixed(second.event) ||
         !paths.lead(first, writes, second);
  return !lost;
}

/// Whether the second rank, or its agent, has it from the first.
bool PeerOrder::isHeard(const Access &first, bool writes, const Access &second) const {
  int32_t firstAgent = network.agentOf(size_t(first.event));
  int32_t secondAgent = network.agentOf(size_t(second.event));
  if (first.rank == second.rank && firstAgent == secondAgent)
    return true;
  // As the second rank sees the first.
  int64_t peer = group.moveRank(group.inverse(second.rank), first.rank);
  auto it = heard.find(key(secondAgent, firstAgent, peer));
  if (it == heard.end())
    return false;
  for (auto message = it->second.rbegin(); message != it->second.rend(); ++message) {
    // Elsewhere it may come after the second access, which lies in another iteration.
    if (sweeps.separates(message->event, second.event))
      continue;
    // If both ends number iterations alike, the message of an iteration tells about that
    // iteration everywhere, else about all iterations that end before.
    int32_t event = message->aligned ? first.event : sweeps.lastLike(first.event);
    // A transfer that sends has read before, but need not have written.
    bool later = writes ? message->cause > event : message->cause >= event;
    if (later && !(message->aligned && sweeps.separates(event, message->cause)))
      return true;
  }
  return false;
}

bool PeerOrder::read(size_t place, int64_t rank, int32_t event) {
  History &history = places[place];
  Access access{rank, event};
  if (history.reads.empty() || history.reads.back().rank != rank ||
      network.agentOf(size_t(history.reads.back().event)) != network.agentOf(size_t(event)))
    history.reads.push_back(access);
  else
    history.reads.back() = access;
  const Access &write = history.write;
  if (!isOrdered(write, true, access))
    return false;
  if (write.event >= 0 && sweeps.isFixed(write.event) && sweeps.isFixed(event))
    paths.add(write, access, DataPaths::By::Place);
  return true;
}

bool PeerOrder::write(size_t place, int64_t rank, int32_t event) {
  History &history = places[place];
  Access access{rank, event};
  // Reads came after the last write themselves.
  bool ordered = !history.reads.empty() || isOrdered(history.write, true, access);
  for (const Access &read : history.reads)
    ordered &= isOrdered(read, false, access);
  history = {access, {}};
  return ordered;
}

} // namespace ccl::model
