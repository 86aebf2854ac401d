// Executing a network: tokens only, or with what the caller does at each instruction.

#include "dialect/model/Network.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>

namespace ccl::model {

int64_t Network::capacity(int32_t link, int32_t slots) const {
  int64_t written = allLinks[size_t(link)].slots;
  if (written == 0)
    return std::numeric_limits<int64_t>::max(); // a signal never blocks
  return slots > 0 ? slots : written;
}

const Network::Use *Network::blockedUse(const Use *use, const Use *end,
                                        const std::vector<int64_t> &tokens, int32_t slots) const {
  for (const Use *u = use; u != end; ++u) {
    // An instruction may name one link more than once; all its uses happen together.
    int64_t needed = std::count_if(use, u + 1, [&](const Use &other) {
      return other.link == u->link && other.adds == u->adds;
    });
    int64_t held = tokens[size_t(u->link)];
    if (u->adds ? needed > capacity(u->link, slots) - held : needed > held)
      return u;
  }
  return nullptr;
}

std::vector<int32_t> Network::run(int32_t slots, const Fire &fire) const {
  std::vector<int32_t> stops(allAgents.size());
  std::vector<int64_t> tokens(allLinks.size());
  std::vector<int32_t> waitsForToken(allLinks.size(), -1), waitsForSlot(allLinks.size(), -1);
  std::deque<int32_t> ready;
  for (size_t i = 0; i < allAgents.size(); ++i)
    ready.push_back(int32_t(i));
  auto wake = [&](int32_t &waiting) {
    if (waiting >= 0)
      ready.push_back(waiting);
    waiting = -1;
  };
  while (!ready.empty()) {
    int32_t number = ready.front();
    ready.pop_front();
    const NetworkAgent &agent = allAgents[size_t(number)];
    int32_t &pc = stops[size_t(number)];
    for (; size_t(pc) < agent.agent->code.size(); ++pc) {
      auto [use, end] = usesOf(agent, pc);
      if (const Use *blocked = blockedUse(use, end, tokens, slots)) {
        (blocked->adds ? waitsForSlot : waitsForToken)[size_t(blocked->link)] = number;
        break;
      }
      if (fire)
        fire(number, pc);
      for (; use != end; ++use) {
        tokens[size_t(use->link)] += use->adds ? 1 : -1;
        wake((use->adds ? waitsForToken : waitsForSlot)[size_t(use->link)]);
      }
    }
  }
  return stops;
}

bool Network::isStuck(const std::vector<int32_t> &stops) const {
  for (size_t i = 0; i < stops.size(); ++i)
    if (size_t(stops[i]) < allAgents[i].agent->code.size())
      return true;
  return false;
}

int32_t Network::leastSlots() const {
  int64_t most = 0; // with a slot for every transfer none ever waits for one
  for (const NetworkLink &link : allLinks)
    if (link.slots > 0)
      most = std::max(most, link.to.uses);
  auto enough = [&](int64_t slots) { return !isStuck(run(int32_t(slots))); };
  if (most == 0)
    return 0;
  int64_t tooFew = 0, k = 1;
  while (!enough(k)) {
    if (k == most)
      return 0;
    tooFew = k;
    k = std::min(2 * k, most);
  }
  while (k - tooFew > 1) {
    int64_t middle = tooFew + (k - tooFew) / 2;
    (enough(middle) ? k : tooFew) = middle;
  }
  return int32_t(k);
}

Fault Network::deadlock(const std::vector<int32_t> &stops, int32_t slots) const {
  std::vector<int64_t> tokens(allLinks.size());
  int32_t first = -1;
  for (size_t i = 0; i < allAgents.size(); ++i) {
    for (int32_t pc = 0; pc < stops[i]; ++pc)
      for (auto [use, end] = usesOf(allAgents[i], pc); use != end; ++use)
        tokens[size_t(use->link)] += use->adds ? 1 : -1;
    if (first < 0 && size_t(stops[i]) < allAgents[i].agent->code.size())
      first = int32_t(i);
  }
  auto blocked = [&](int32_t agent) {
    auto [use, end] = usesOf(allAgents[size_t(agent)], stops[size_t(agent)]);
    return *blockedUse(use, end, tokens, slots);
  };
  auto waitsFor = [&](int32_t agent) {
    Use use = blocked(agent);
    const NetworkLink &link = allLinks[size_t(use.link)];
    return use.adds ? link.from.agent : link.to.agent;
  };
  // Links are balanced, so who waits, waits for one that is stuck: a cycle follows.
  std::vector<bool> seen(allAgents.size());
  for (; !seen[size_t(first)]; first = waitsFor(first))
    seen[size_t(first)] = true;

  Fault fault;
  fault.kind = FaultKind::Deadlock;
  fault.rank = allAgents[size_t(first)].rank;
  fault.agent = allAgents[size_t(first)].index;
  fault.instruction = stops[size_t(first)];
  std::string waits;
  int32_t agent = first;
  do {
    const NetworkAgent &who = allAgents[size_t(agent)];
    int32_t stop = stops[size_t(agent)];
    Use use = blocked(agent);
    const NetworkLink &link = allLinks[size_t(use.link)];
    auto [src, dst] = ranksOf(link, /*asReceiver=*/!use.adds);
    std::string text = use.adds
                           ? fmt::format("{} waits for a free slot to rank {}, tag {} (of {})",
                                         str(agent, stop), dst, link.tag, capacity(use.link, slots))
                           : fmt::format("{} waits for {} from rank {}, tag {}", str(agent, stop),
                                         link.slots > 0 ? "data" : "a signal", src, link.tag);
    if (agent == first)
      waits = text;
    fault.notes.push_back({who.agent->code[size_t(stop)].loc, std::move(text)});
    agent = waitsFor(agent);
  } while (agent != first);
  fault.loc = fault.notes.front().loc;
  if (inverse) {
    fault.message = fmt::format("deadlock: {}, and so does every rank, for another", waits);
    return fault;
  }
  fault.message = fault.notes.size() == 1
                      ? fmt::format("deadlock: {}, which it would have to serve itself", waits)
                      : fmt::format("deadlock: {}, in a cycle of {} agents that wait for "
                                    "each other",
                                    waits, fault.notes.size());
  return fault;
}

} // namespace ccl::model
