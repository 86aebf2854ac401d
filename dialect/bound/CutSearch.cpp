//===- CutSearch.cpp - The cuts that bound a collective -------------------===//

#include "dialect/bound/CutSearch.h"

#include "dialect/bound/Flow.h"

#include <algorithm>
#include <numeric>

namespace ccl::model {
namespace {

int64_t ranksIn(const Fabric &fabric, const std::vector<bool> &side) {
  return std::count(side.begin(), side.begin() + fabric.ranks, true);
}

Cut makeCut(const Fabric &fabric, std::vector<bool> side, int64_t shards) {
  side.resize(size_t(fabric.nodes));
  int64_t capacity = capacityLeaving(fabric, side);
  int64_t divisor = std::max<int64_t>(1, std::gcd(shards, capacity));
  return {shards / divisor, capacity / divisor, std::move(side)};
}

std::vector<bool> allBut(const Fabric &fabric, int32_t node) {
  std::vector<bool> side(size_t(fabric.nodes), true);
  side[size_t(node)] = false;
  return side;
}

std::vector<bool> only(const Fabric &fabric, int32_t node) {
  std::vector<bool> side(size_t(fabric.nodes), false);
  side[size_t(node)] = true;
  return side;
}

/// The ranks, the nodes of `copying`, and switches with many arcs, each before those that are
/// farther from `start`, so that a flow to one of them comes from near by.
std::vector<int32_t> nearestFirst(const CutProblem &problem, int32_t start) {
  constexpr int32_t manyArcs = 64;
  const Fabric &fabric = problem.fabric;
  std::vector<int32_t> first(size_t(fabric.nodes) + 1);
  for (const Arc &arc : fabric.arcs)
    ++first[size_t(arc.src) + 1], ++first[size_t(arc.dst) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<int32_t> fill(first.begin(), first.end() - 1), other(2 * fabric.arcs.size());
  for (const Arc &arc : fabric.arcs) {
    other[size_t(fill[size_t(arc.src)]++)] = arc.dst;
    other[size_t(fill[size_t(arc.dst)]++)] = arc.src;
  }
  std::vector<bool> wanted(size_t(fabric.nodes)), seen(size_t(fabric.nodes));
  std::fill(wanted.begin(), wanted.begin() + fabric.ranks, true);
  for (int32_t node : problem.copying)
    wanted[size_t(node)] = true;
  for (size_t node = size_t(fabric.ranks); node < wanted.size(); ++node)
    if (first[node + 1] - first[node] > manyArcs)
      wanted[node] = true;
  std::vector<int32_t> queue = {start}, result;
  seen[size_t(start)] = true;
  for (size_t at = 0; at < queue.size(); ++at) {
    int32_t node = queue[at];
    if (wanted[size_t(node)])
      result.push_back(node);
    for (int32_t i = first[size_t(node)]; i < first[size_t(node) + 1]; ++i) {
      if (seen[size_t(other[size_t(i)])])
        continue;
      seen[size_t(other[size_t(i)])] = true;
      queue.push_back(other[size_t(i)]);
    }
  }
  for (int32_t node = 0; node < fabric.nodes; ++node)
    if (wanted[size_t(node)] && !seen[size_t(node)])
      result.push_back(node);
  return result;
}

/// Whether `side` is S of a cut: something outside has to have all data.
bool separates(const CutProblem &problem, const std::vector<bool> &side) {
  auto isOutside = [&](int32_t node) { return !side[size_t(node)]; };
  return std::any_of(problem.copying.begin(), problem.copying.end(), isOutside) ||
         ranksIn(problem.fabric, side) < problem.fabric.ranks;
}

/// A fabric with a node more that has an arc to every node: the source of what there is to send.
class Sourced {
public:
  explicit Sourced(const Fabric &fabric)
      : fabric(fabric), graph(fabric.nodes, fabric.arcs), source(graph.addNode()) {
    for (int32_t node = 0; node < fabric.nodes; ++node)
      graph.addArc(source, node, 0);
  }
  void supply(int32_t node, int64_t amount) {
    graph.setCapacity(int32_t(fabric.arcs.size()) + node, amount);
  }
  /// Capacities times `factor`, or `most` where that is less: nobody asks for more.
  void multiply(int64_t factor, int64_t most) {
    for (size_t i = 0; i < fabric.arcs.size(); ++i)
      graph.setCapacity(int32_t(i), int64_t(std::min<__int128>(most, __int128(factor) *
                                                                         fabric.arcs[i].capacity)));
  }

  const Fabric &fabric;
  FlowGraph graph;
  int32_t source;
};

/// The flow that is largest from and to the nodes that `may` make and take any amount: the others
/// pass on what comes in.
Fabric throughSwitches(Fabric fabric, const std::vector<bool> &may) {
  FlowGraph graph(fabric.nodes);
  int32_t source = graph.addNode(), sink = graph.addNode();
  for (const Arc &arc : fabric.arcs)
    graph.addArc(may[size_t(arc.src)] ? source : arc.src, may[size_t(arc.dst)] ? sink : arc.dst,
                 arc.capacity);
  graph.run(source, sink);
  for (size_t i = 0; i < fabric.arcs.size(); ++i)
    fabric.arcs[i].capacity = graph.flow(int32_t(i));
  return fabric;
}

} // namespace

std::vector<int64_t> outCapacities(const Fabric &fabric) {
  std::vector<int64_t> result(size_t(fabric.nodes));
  for (const Arc &arc : fabric.arcs)
    result[size_t(arc.src)] += arc.capacity;
  return result;
}

std::vector<int64_t> inCapacities(const Fabric &fabric) {
  std::vector<int64_t> result(size_t(fabric.nodes));
  for (const Arc &arc : fabric.arcs)
    result[size_t(arc.dst)] += arc.capacity;
  return result;
}

int64_t capacityLeaving(const Fabric &fabric, const std::vector<bool> &side) {
  int64_t sum = 0;
  for (const Arc &arc : fabric.arcs)
    if (side[size_t(arc.src)] && !side[size_t(arc.dst)])
      sum += arc.capacity;
  return sum;
}

// For a sink t: no cut without t exceeds p / q if and only if q from each rank can flow to t
// at once, with capacities times p. If it cannot, the least cut exceeds p / q, and is the next
// p / q. A cut that exceeds the final p / q must then contain every sink that has passed: such
// sinks may supply any amount, and flows to the sinks beside them are short. A switch may pass,
// too: it need not, but then all that is behind it is near a source.
Cut allGatherCut(const CutProblem &problem, int64_t &flows) {
  const Fabric &fabric = problem.fabric;
  int64_t ranks = fabric.ranks;
  std::vector<int64_t> in = inCapacities(fabric);
  int32_t start = int32_t(std::min_element(in.begin(), in.begin() + ranks) - in.begin());
  Cut worst = problem.known ? *problem.known : makeCut(fabric, allBut(fabric, start), ranks - 1);
  if (worst.capacity == 0)
    return worst;

  std::vector<std::vector<int32_t>> members;
  if (!problem.orbits.ofNode.empty()) {
    members.resize(size_t(problem.orbits.nodeOrbits));
    for (int32_t node = 0; node < fabric.nodes; ++node)
      members[size_t(problem.orbits.ofNode[size_t(node)])].push_back(node);
  }
  Sourced sourced(fabric);
  std::vector<bool> passed(size_t(fabric.nodes));
  auto setSupplies = [&] {
    for (int32_t node = 0; node < fabric.nodes; ++node)
      if (passed[size_t(node)])
        sourced.supply(node, ranks * worst.capacity);
      else if (fabric.isRank(node))
        sourced.supply(node, worst.capacity);
    sourced.multiply(worst.shards, ranks * worst.capacity);
  };
  setSupplies();
  for (int32_t sink : nearestFirst(problem, start)) {
    if (passed[size_t(sink)])
      continue;
    auto passes = [&] {
      int64_t enough = ranks * worst.capacity;
      ++flows;
      return sourced.graph.run(sourced.source, sink, enough) == enough;
    };
    bool isKnown = passes();
    while (!isKnown) {
      std::vector<bool> side = sourced.graph.sourceSide();
      if (!separates(problem, side))
        break;
      worst = makeCut(fabric, side, ranksIn(fabric, side));
      if (worst.capacity == 0)
        return worst;
      setSupplies();
      isKnown = passes();
    }
    if (!isKnown)
      continue;
    std::vector<int32_t> alone = {sink};
    for (int32_t node :
         members.empty() ? alone : members[size_t(problem.orbits.ofNode[size_t(sink)])]) {
      passed[size_t(node)] = true;
      sourced.supply(node, ranks * worst.capacity);
    }
  }
  return worst;
}

// The least of the maximum flows from the root to each rank. Once a sink is known to get as much
// as the least so far, it may stand for the root. With commuting shifts that take any rank to any
// other, the ranks that one of them takes the root to are enough: a set of ranks that is neither
// empty nor all has a member that one of the shifts takes out of it, and that flow is as large.
Cut broadcastCut(const CutProblem &problem, int32_t root, int64_t &flows) {
  const Fabric &fabric = problem.fabric;
  std::vector<int64_t> in = inCapacities(fabric);
  Cut worst = problem.known ? *problem.known : makeCut(fabric, only(fabric, root), 1);
  for (int32_t rank = 0; rank < fabric.ranks; ++rank)
    if (rank != root && in[size_t(rank)] < worst.capacity)
      worst = makeCut(fabric, allBut(fabric, rank), 1);
  std::vector<int32_t> sinks;
  for (const Orbits::Shift &shift : problem.orbits.shifts)
    sinks.push_back(int32_t(shift(root)));
  if (sinks.empty())
    sinks = nearestFirst(problem, root);
  else
    sinks.insert(sinks.end(), problem.copying.begin(), problem.copying.end());
  Sourced sourced(fabric);
  sourced.supply(root, worst.capacity);
  for (int32_t sink : sinks) {
    if (worst.capacity == 0)
      break;
    if (sink == root)
      continue;
    ++flows;
    if (sourced.graph.run(sourced.source, sink, worst.capacity) < worst.capacity) {
      std::vector<bool> side = sourced.graph.sourceSide();
      if (!separates(problem, side))
        continue;
      worst = makeCut(fabric, std::move(side), 1);
    }
    sourced.supply(sink, worst.capacity);
  }
  return worst;
}

// No cut exceeds p / q if and only if q can flow from the root to each other rank at once, with
// capacities times p. Searched backwards: from all ranks to the root.
Cut scatterCut(const CutProblem &problem, int32_t root, int64_t &flows) {
  const Fabric &fabric = problem.fabric;
  int64_t others = fabric.ranks - 1;
  Cut worst = makeCut(fabric, only(fabric, root), others);
  Fabric backwards = fabric.reversed();
  Sourced sourced(backwards);
  while (worst.capacity != 0) {
    int64_t enough = others * worst.capacity;
    sourced.multiply(worst.shards, enough);
    for (int32_t rank = 0; rank < fabric.ranks; ++rank)
      sourced.supply(rank, rank == root ? 0 : worst.capacity);
    ++flows;
    if (sourced.graph.run(sourced.source, root, enough) == enough)
      break;
    std::vector<bool> side = sourced.graph.sourceSide();
    side.flip();
    worst = makeCut(fabric, side, fabric.ranks - ranksIn(fabric, side));
  }
  return worst;
}

bool isPreflow(const Fabric &fabric, std::span<const int32_t> copying) {
  std::vector<int64_t> in = inCapacities(fabric), out = outCapacities(fabric);
  for (int32_t node : copying)
    out[size_t(node)] = 0;
  for (int32_t node = fabric.ranks; node < fabric.nodes; ++node)
    if (in[size_t(node)] < out[size_t(node)])
      return false;
  return true;
}

Fabric preflowPart(const Fabric &fabric, std::span<const int32_t> copying,
                   const std::vector<int64_t> &spare, int64_t &scale, bool &isSymmetric) {
  constexpr int maxPasses = 64; // more than chains of switches are long; cycles may take forever
  isSymmetric = true;
  Fabric part = fabric;
  std::vector<bool> may(size_t(fabric.nodes));
  std::fill(may.begin(), may.begin() + fabric.ranks, true);
  for (int32_t node : copying)
    may[size_t(node)] = true;

  // A multiple of what capacities are likely to be divided by, if it fits.
  __int128 sum = 0;
  for (const Arc &arc : fabric.arcs)
    sum += arc.capacity;
  scale = 1;
  for (int64_t candidate : {720720, 5040, 60})
    if (scale == 1 && sum * fabric.ranks * candidate < (__int128(1) << 60))
      scale = candidate;
  std::vector<int64_t> spareOf; // by arc: what it can give
  for (Arc &arc : part.arcs) {
    arc.capacity *= scale;
    spareOf.push_back(int64_t(__int128(arc.capacity) * spare[size_t(arc.dst)] / allSpare));
  }

  for (int pass = 0; pass < maxPasses; ++pass) {
    std::vector<int64_t> in = inCapacities(part), out = outCapacities(part);
    std::vector<int64_t> canGive(size_t(fabric.nodes));
    for (size_t i = 0; i < part.arcs.size(); ++i)
      canGive[size_t(part.arcs[i].src)] += spareOf[i];
    bool changed = false;
    for (size_t i = 0; i < part.arcs.size(); ++i) {
      int64_t &capacity = part.arcs[i].capacity;
      size_t node = size_t(part.arcs[i].src);
      int64_t over = out[node] - in[node];
      if (may[node] || over <= 0)
        continue;
      int64_t gives = spareOf[i];
      if (canGive[node] >= over) // rounded up
        gives = int64_t((__int128(over) * spareOf[i] + canGive[node] - 1) / canGive[node]);
      else if (canGive[node] == 0) // all must give, in proportion
        gives = capacity - int64_t(__int128(capacity) * in[node] / out[node]);
      capacity -= gives;
      spareOf[i] = std::max<int64_t>(0, spareOf[i] - gives);
      changed = true;
    }
    if (!changed)
      return part;
  }
  isSymmetric = false;
  return throughSwitches(part, may);
}

} // namespace ccl::model
