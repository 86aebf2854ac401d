// Topologies and programs that the tests of the simulator start from.
#pragma once

#include "test/unit/model/Algorithms.h"

#include "dialect/simulate/Simulate.h"
#include "test/soak/Dice.h"

#include <map>
#include <string>
#include <tuple>

namespace ccl::model {

inline void addBoth(Topology &t, int32_t a, int32_t b, double bandwidth, double latency) {
  t.links.push_back({a, b, bandwidth, latency, {}});
  t.links.push_back({b, a, bandwidth, latency, {}});
}

inline Topology ringTopology(int64_t n, double bandwidth, double latency) {
  Topology t;
  t.name = "ring", t.axes = {{"rank", n}};
  for (int64_t r = 0; r < n; ++r)
    if (n > 2 || r == 0)
      addBoth(t, int32_t(r), int32_t((r + 1) % n), bandwidth, latency);
  return t;
}

inline Topology fullTopology(int64_t n, double bandwidth, double latency) {
  Topology t;
  t.name = "full", t.axes = {{"rank", n}};
  for (int32_t a = 0; a < n; ++a)
    for (int32_t b = 0; b < a; ++b)
      addBoth(t, a, b, bandwidth, latency);
  return t;
}

inline Topology starTopology(int64_t n, double bandwidth, double latency) {
  Topology t;
  t.name = "star", t.axes = {{"rank", n}}, t.switches = {{"sw"}};
  for (int32_t r = 0; r < n; ++r)
    addBoth(t, r, int32_t(n), bandwidth, latency);
  return t;
}

/// A rank r has a link to r + 1; link r has bandwidths[r].
inline Topology chainTopology(const std::vector<double> &bandwidths, double latency) {
  Topology t;
  t.name = "chain", t.axes = {{"rank", int64_t(bandwidths.size()) + 1}};
  for (size_t r = 0; r < bandwidths.size(); ++r)
    addBoth(t, int32_t(r), int32_t(r) + 1, bandwidths[r], latency);
  return t;
}

/// Boxes of `gpus` around a switch; all gpus have a port of a network's switch.
inline Topology boxTopology(int64_t nodes, int64_t gpus, double inside, double outside,
                            double insideLatency, double outsideLatency) {
  Topology t;
  t.name = "boxes", t.axes = {{"node", nodes}, {"gpu", gpus}};
  const int64_t ranks = nodes * gpus;
  for (int64_t node = 0; node < nodes; ++node)
    t.switches.push_back({"nv" + std::to_string(node)});
  for (int64_t gpu = 0; gpu < gpus; ++gpu)
    t.switches.push_back({"rail" + std::to_string(gpu)});
  for (int64_t r = 0; r < ranks; ++r) {
    addBoth(t, int32_t(r), int32_t(ranks + r / gpus), inside, insideLatency / 2);
    addBoth(t, int32_t(r), int32_t(ranks + nodes + r % gpus), outside, outsideLatency / 2);
  }
  return t;
}

/// Some switches in a random tree, ranks below them or linked directly, and further links.
inline Topology randomTopology(int64_t ranks, soak::Dice &dice) {
  Topology t;
  t.name = "random", t.axes = {{"rank", ranks}};
  const int64_t switches = 1 + dice.below(4);
  for (int64_t s = 0; s < switches; ++s)
    t.switches.push_back({"s" + std::to_string(s)});
  const bool equal = dice.chance(30);
  auto add = [&](int64_t a, int64_t b) {
    const double latency = dice.chance(30) ? 0 : double(dice.below(50)) / 10;
    for (auto [src, dst] : {std::pair{a, b}, {b, a}})
      t.links.push_back(
          {int32_t(src), int32_t(dst), equal ? 20 : double(1 + dice.below(100)), latency, {}});
  };
  for (int64_t s = 1; s < switches; ++s)
    add(ranks + s, ranks + dice.below(s));
  for (int64_t r = 0; r < ranks; ++r)
    add(r, ranks + dice.below(switches));
  for (int64_t more = dice.below(2 * ranks); more > 0; --more)
    if (int64_t a = dice.below(ranks + switches), b = dice.below(ranks + switches); a != b)
      add(a, b);
  for (int64_t r = dice.below(3); r > 0; --r) {
    // With no bandwidth links take turns.
    t.resources.push_back(
        {"r" + std::to_string(r), dice.chance(30) ? 0 : double(5 + dice.below(60))});
    for (int64_t l = 1 + dice.below(4); l > 0; --l) {
      std::vector<int32_t> &shared = t.links[size_t(dice.below(int64_t(t.links.size())))].resources;
      if (shared.empty())
        shared.push_back(int32_t(t.resources.size()) - 1);
    }
  }
  return t;
}

/// Programs under construction.
class ProgramMaker {
public:
  ProgramMaker(int64_t ranks, std::vector<Buffer> buffers, int32_t slots) : slots(slots) {
    program.buffers = std::move(buffers);
    program.ranks.resize(size_t(ranks));
    for (RankProgram &rank : program.ranks)
      rank.agents.emplace_back();
  }
  Operand to(int32_t rank, int32_t peer, int32_t tag = 0) {
    return channel(end(rank, true, peer, tag, slots));
  }
  Operand from(int32_t rank, int32_t peer, int32_t tag = 0) {
    return channel(end(rank, false, peer, tag, slots));
  }
  Instruction tell(int32_t rank, int32_t peer, int32_t tag = 1) {
    return signal(end(rank, true, peer, tag, 0));
  }
  Instruction hear(int32_t rank, int32_t peer, int32_t tag = 1) {
    return wait(end(rank, false, peer, tag, 0));
  }
  void add(int32_t rank, Instruction instruction, size_t agent = 0) {
    std::vector<Agent> &agents = program.ranks[size_t(rank)].agents;
    while (agents.size() <= agent)
      agents.push_back({false, int32_t(agents.size()), {}});
    agents[agent].code.push_back(std::move(instruction));
  }
  Program program;

private:
  int32_t end(int32_t rank, bool to, int32_t peer, int32_t tag, int32_t slots) {
    std::vector<Channel> &channels = program.ranks[size_t(rank)].channels;
    auto [it, added] = ends.try_emplace({rank, to, peer, tag}, int32_t(channels.size()));
    if (added)
      channels.push_back({to, peer, tag, slots});
    return it->second;
  }
  int32_t slots;
  std::map<std::tuple<int32_t, bool, int32_t, int32_t>, int32_t> ends;
};

/// The moves in their order, staged, each in two halves.
inline Program stagedProgram(const Moves &moves, int32_t slots) {
  ProgramMaker maker(moves.ranks, moves.buffers, slots);
  for (const Move &move : moves.moves) {
    Operand src = local(move.src.buffer, move.src.chunk),
            dst = local(move.dst.buffer, move.dst.chunk);
    const int32_t a = move.src.rank, b = move.dst.rank;
    const bool reduces = move.kind == MoveKind::Reduce;
    auto combined = [&](Operand from) {
      return reduces ? std::vector<Operand>{from, dst} : std::vector<Operand>{from};
    };
    if (a == b) {
      maker.add(a, transfer(combined(src), {dst}, reduces, move.count));
      continue;
    }
    maker.add(a, transfer({src}, {maker.to(a, b)}, false, move.count));
    maker.add(b, transfer(combined(maker.from(b, a)), {dst}, reduces, move.count));
  }
  return maker.program;
}

/// Broadcast of rank 0 along 0, 1, 2, ..., fused: every rank receives and sends in one.
inline Program chainProgram(int64_t n, int32_t slots) {
  ProgramMaker maker(n, {{"x", Role::InOut, 1}}, slots);
  for (int32_t r = 0; r < n; ++r) {
    std::vector<Operand> from = {r == 0 ? local(0, 0) : maker.from(r, r - 1)}, to;
    if (r > 0)
      to.push_back(local(0, 0));
    if (r + 1 < n)
      to.push_back(maker.to(r, r + 1));
    maker.add(r, transfer(from, to));
  }
  return maker.program;
}

/// All-reduce of nodes x gpus: reduce-scatter around the box, all-reduce around the nodes,
/// all-gather around the box; chunk (gpu, node) is gpu * nodes + node.
inline Program twoLevelProgram(int64_t nodes, int64_t gpus, int32_t slots) {
  ProgramMaker maker(nodes * gpus, {{"x", Role::InOut, nodes * gpus}}, slots);
  for (int64_t me = 0; me < nodes * gpus; ++me) {
    const int64_t node = me / gpus, gpu = me % gpus;
    auto wrap = [](int64_t value, int64_t n) { return (value % n + n) % n; };
    // A ring of `n`: chunk c of it is `count` chunks from `first(c)` on.
    auto ring = [&](int64_t n, int64_t at, int32_t tag, auto rankOf, auto first, int32_t count,
                    bool reduces, int64_t offset) {
      if (n == 1)
        return;
      const int32_t next = rankOf(wrap(at + 1, n)), prev = rankOf(wrap(at - 1, n));
      auto x = [&](int64_t c) { return local(0, first(wrap(c, n))); };
      const Operand to = maker.to(int32_t(me), next, tag),
                    from = maker.from(int32_t(me), prev, tag);
      auto add = [&](Instruction i) { maker.add(int32_t(me), std::move(i)); };
      int64_t c = at + offset;
      add(transfer({x(c)}, {to}, false, count));
      for (int64_t s = 1; s < n; ++s) {
        const bool last = s + 1 == n;
        std::vector<Operand> sources = {from}, targets;
        if (reduces)
          sources.push_back(x(c - s));
        if (!reduces || last)
          targets.push_back(x(c - s));
        if (!last)
          targets.push_back(to);
        add(transfer(sources, targets, reduces, count));
      }
    };
    auto inBox = [&](int64_t g) { return int32_t(node * gpus + g); };
    auto onRail = [&](int64_t k) { return int32_t(k * gpus + gpu); };
    auto whole = [&](int64_t g) { return g * nodes; };
    auto single = [&](int64_t k) { return gpu * nodes + k; };
    // A ring that begins with chunk at - 1 ends with chunk at, reduced.
    ring(gpus, gpu, 0, inBox, whole, int32_t(nodes), true, -1);
    ring(nodes, node, 1, onRail, single, 1, true, -1);
    ring(nodes, node, 2, onRail, single, 1, false, 0);
    ring(gpus, gpu, 3, inBox, whole, int32_t(nodes), false, 0);
  }
  return maker.program;
}

} // namespace ccl::model
