//===- RandomProgram.h - Programs of instructions, written short and at random ---===//
//
// Random programs are right by construction: one agent acts after the other. They take
// every kind of operand: local, of a peer, a slot; combined and stored in any number.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <tuple>

namespace ccl::interchange::test {

using model::Instruction;
using model::Operand;

inline Operand local(int32_t buffer, int64_t chunk) {
  Operand operand;
  operand.buffer = buffer;
  operand.chunk = chunk;
  return operand;
}
inline Operand peer(int32_t rank, int32_t buffer, int64_t chunk) {
  Operand operand = local(buffer, chunk);
  operand.kind = Operand::Kind::Peer;
  operand.peer = rank;
  return operand;
}
inline Operand slot(int32_t channel) {
  Operand operand;
  operand.kind = Operand::Kind::Channel;
  operand.channel = channel;
  return operand;
}
inline Instruction transfer(std::vector<Operand> from, std::vector<Operand> to, int32_t count = 1) {
  Instruction result;
  result.from = std::move(from);
  result.to = std::move(to);
  result.reduce = result.from.size() > 1;
  result.count = count;
  return result;
}
inline Instruction sync(Instruction::Kind kind, int32_t channel) {
  Instruction result;
  result.kind = kind;
  result.channel = channel;
  return result;
}

/// A program with `in` (0) and `out` (1), and ranks without agents.
inline Foreign emptyProgram(std::string name, model::Collective collective, int32_t ranks,
                            int64_t in, int64_t out,
                            model::Reduction reduction = model::Reduction::None) {
  Foreign foreign;
  foreign.name = std::move(name);
  foreign.contract.collective = collective;
  foreign.contract.reduction = reduction;
  foreign.contract.ranks = ranks;
  if (collective == model::Collective::Custom) {
    foreign.contract.customInChunks = in;
    foreign.contract.customOutChunks = out;
  }
  foreign.program.buffers = {{"in", model::Role::In, in, -1}, {"out", model::Role::Out, out, -1}};
  foreign.program.ranks.resize(size_t(ranks));
  return foreign;
}

/// A program that does one thing after the other: who has the baton acts, and hands it on
/// by a signal. What ends up in `out` becomes the rows of its contract.
class RandomProgram {
public:
  explicit RandomProgram(uint32_t seed) : random(seed) {}

  Foreign make() {
    ranks = pick(1, 5);
    chunks = pick(1, 4);
    foreign = emptyProgram("random", model::Collective::Custom, ranks, chunks, chunks,
                           model::Reduction::Sum);
    for (const char *scratch : {"a", "b"})
      foreign.program.buffers.push_back({scratch, model::Role::Scratch, chunks, -1});
    for (model::RankProgram &rank : foreign.program.ranks)
      for (int32_t i = pick(1, 3); i > 0; --i)
        rank.agents.emplace_back().id = i;
    for (int32_t rank = 0; rank < ranks; ++rank)
      for (int32_t chunk = 0; chunk < chunks; ++chunk)
        held[{rank, 0, chunk}] = {{{rank, chunk}, 1}};
    for (int32_t i = pick(5, 80); i > 0; --i)
      pick(0, 3) == 0 && ranks > 1 ? addStaged() : addDirect();
    addRows();
    return std::move(foreign);
  }

private:
  using Key = std::array<int32_t, 3>; ///< rank, buffer, chunk
  using Sum = std::map<std::pair<int32_t, int32_t>, int32_t>;

  int32_t pick(int32_t low, int32_t high) { // the library's distributions differ
    return low + int32_t(random() % uint32_t(high - low + 1));
  }

  std::pair<int32_t, int32_t> pickAgent(int32_t rank) {
    return {rank, pick(0, int32_t(foreign.program.ranks[size_t(rank)].agents.size()) - 1)};
  }

  model::Agent &agent(std::pair<int32_t, int32_t> at) {
    return foreign.program.ranks[size_t(at.first)].agents[size_t(at.second)];
  }

  /// A channel of its own for two agents, as (to, from).
  std::pair<int32_t, int32_t> channel(std::pair<int32_t, int32_t> from,
                                      std::pair<int32_t, int32_t> to, int32_t slots) {
    auto [it, isNew] = known.try_emplace({from, to, slots});
    if (isNew) {
      int32_t tag = int32_t(known.size());
      auto add = [&](int32_t rank, bool out, int32_t other) {
        std::vector<model::Channel> &all = foreign.program.ranks[size_t(rank)].channels;
        all.push_back({out, other, tag, slots});
        return int32_t(all.size()) - 1;
      };
      it->second.first = add(from.first, true, to.first);
      it->second.second = add(to.first, false, from.first);
    }
    return it->second;
  }

  void handTo(std::pair<int32_t, int32_t> next) {
    if (holder.first >= 0 && holder != next) {
      auto [to, from] = channel(holder, next, 0);
      agent(holder).code.push_back(sync(Instruction::Kind::Signal, to));
      agent(next).code.push_back(sync(Instruction::Kind::Wait, from));
    }
    holder = next;
  }

  Operand at(int32_t me, const Key &key) {
    return key[0] == me ? local(key[1], key[2]) : peer(key[0], key[1], key[2]);
  }

  std::vector<Key> pickSources() {
    std::vector<Key> all, result;
    for (const auto &[key, sum] : held)
      all.push_back(key);
    for (int32_t i = pick(1, 4); i > 0; --i)
      result.push_back(all[size_t(pick(0, int32_t(all.size()) - 1))]);
    return result;
  }
  Key pickTarget(int32_t rank) { return {rank, pick(1, 3), pick(0, chunks - 1)}; }

  Sum sumOf(const std::vector<Key> &keys) {
    Sum sum;
    for (const Key &key : keys)
      for (auto [atom, count] : held[key])
        sum[atom] += count;
    return sum;
  }
  /// What adds something to itself is no proof's business.
  static bool countsOnce(const Sum &sum) {
    return std::all_of(sum.begin(), sum.end(), [](auto &entry) { return entry.second == 1; });
  }

  void addDirect() {
    auto who = pickAgent(pick(0, ranks - 1));
    std::vector<Key> sources = pickSources(), targets;
    for (int32_t i = pick(1, 3); i > 0; --i)
      if (Key target = pickTarget(pick(0, ranks - 1));
          std::find(targets.begin(), targets.end(), target) == targets.end())
        targets.push_back(target);
    Sum sum = sumOf(sources);
    if (!countsOnce(sum))
      return;
    handTo(who);
    std::vector<Operand> from, to;
    for (const Key &key : sources)
      from.push_back(at(who.first, key));
    for (const Key &key : targets)
      to.push_back(at(who.first, key));
    agent(who).code.push_back(transfer(from, to));
    for (const Key &key : targets)
      held[key] = sum;
  }

  void addStaged() {
    int32_t src = pick(0, ranks - 1), dst = (src + pick(1, ranks - 1)) % ranks;
    auto sender = pickAgent(src), receiver = pickAgent(dst);
    std::vector<Key> sources = pickSources();
    Key target = pickTarget(dst);
    bool adds = held.count(target) && pick(0, 1);
    Sum sum = sumOf(sources);
    if (adds)
      for (auto [atom, count] : held[target])
        sum[atom] += count;
    if (!countsOnce(sum))
      return;
    auto [to, from] = channel(sender, receiver, pick(1, 2));
    handTo(sender);
    std::vector<Operand> operands;
    for (const Key &key : sources)
      operands.push_back(at(src, key));
    agent(sender).code.push_back(transfer(operands, {slot(to)}));
    handTo(receiver);
    std::vector<Operand> received = {slot(from)};
    if (adds)
      received.push_back(at(dst, target));
    agent(receiver).code.push_back(transfer(received, {at(dst, target)}));
    held[target] = sum;
  }

  void addRows() {
    for (int32_t rank = 0; rank < ranks; ++rank)
      for (int32_t chunk = 0; chunk < chunks; ++chunk)
        if (auto it = held.find({rank, 1, chunk}); it != held.end())
          for (auto [atom, count] : it->second)
            foreign.contract.rows.push_back({rank, chunk, atom.first, atom.second});
  }

  std::mt19937 random;
  Foreign foreign;
  int32_t ranks = 0, chunks = 0;
  std::map<Key, Sum> held;
  std::map<std::tuple<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>, int32_t>,
           std::pair<int32_t, int32_t>>
      known;
  std::pair<int32_t, int32_t> holder{-1, -1};
};

} // namespace ccl::interchange::test
