//===- TreeCuts.cpp - Cuts that trees cannot pass -------------------------===//

#include "dialect/bound/TreeCuts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ccl::model {

// What a linear program calls feasible may lack this share of what is wanted.
static constexpr double loose = 1e-7;
// What rounding to integers leaves open.
static constexpr double tight = 1e-11;

static std::vector<Arc> directed(const Fabric &fabric, bool reduce) {
  std::vector<Arc> arcs = fabric.arcs;
  for (Arc &arc : arcs) {
    arc.capacity = 0;
    if (reduce)
      std::swap(arc.src, arc.dst);
  }
  return arcs;
}

TreeCuts::TreeCuts(const Fabric &fabric, bool reduce)
    : fabric(fabric), reduce(reduce), graph(fabric.nodes, directed(fabric, reduce)),
      source(graph.addNode()), firstRootArc(int32_t(fabric.arcs.size())),
      // No capacity is above 1, so that sums stay below 2^61.
      perUnit(std::exp2(std::min(50.0, 60 - std::ceil(std::log2(double(firstRootArc) + 2))))) {
  for (int32_t node = 0; node < fabric.nodes; ++node)
    graph.addArc(source, node, 0);
  arcStart.assign(size_t(fabric.nodes) + 1, 0);
  auto head = [&](const Arc &arc) { return size_t(reduce ? arc.src : arc.dst); };
  for (const Arc &arc : fabric.arcs)
    ++arcStart[head(arc) + 1];
  std::partial_sum(arcStart.begin(), arcStart.end(), arcStart.begin());
  std::vector<int32_t> next = arcStart;
  arcAt.resize(fabric.arcs.size());
  for (size_t i = 0; i < fabric.arcs.size(); ++i)
    arcAt[size_t(next[head(fabric.arcs[i])]++)] = int32_t(i);
}

void TreeCuts::load(const TreeRates &rates, double factor) {
  const std::vector<double> &capacities = reduce ? rates.reduce : rates.broadcast;
  for (size_t i = 0; i < capacities.size(); ++i)
    graph.setCapacity(int32_t(i), int64_t(std::max(0.0, capacities[i]) * perUnit));
  loadRoots(rates, factor);
}

void TreeCuts::loadRoots(const TreeRates &rates, double factor) {
  wanted = 0;
  for (size_t node = 0; node < rates.root.size(); ++node) {
    int64_t rate = int64_t(std::max(0.0, rates.root[node]) * factor * perUnit);
    graph.setCapacity(firstRootArc + int32_t(node), rate);
    wanted += rate;
  }
}

bool TreeCuts::violated(int32_t terminal, double tolerance) {
  ++runs;
  return double(graph.run(source, terminal)) < double(wanted) * (1 - tolerance);
}

bool TreeCuts::separate(int32_t terminal, std::vector<PricedCut> &cuts) {
  if (!violated(terminal, loose))
    return false;
  append(graph.sourceSide(), cuts);
  append(widestSide(terminal), cuts);
  return true;
}

double TreeCuts::scale(const TreeRates &rates, int32_t terminal, double factor,
                       std::vector<PricedCut> &cuts) {
  loadRoots(rates, factor);
  while (violated(terminal, tight)) {
    std::vector<bool> side = widestSide(terminal);
    double leaving = 0, inside = 0;
    const std::vector<double> &capacities = reduce ? rates.reduce : rates.broadcast;
    for (size_t i = 0; i < fabric.arcs.size(); ++i) {
      size_t src = size_t(fabric.arcs[i].src), dst = size_t(fabric.arcs[i].dst);
      if (side[src] != side[dst] && side[reduce ? dst : src])
        leaving += capacities[i];
    }
    for (size_t node = 0; node < rates.root.size(); ++node)
      if (side[node])
        inside += rates.root[node];
    append(side, cuts);
    // Newton's step; the cut is violated, so that this is less than before.
    double next = leaving / inside;
    if (!(next < factor))
      break;
    factor = next;
    loadRoots(rates, factor);
  }
  return factor;
}

void TreeCuts::limit(int32_t terminal, std::vector<double> &attained) {
  violated(terminal, 0);
  for (size_t node = 0; node < attained.size(); ++node) {
    double reached = double(graph.flow(firstRootArc + int32_t(node))) / perUnit;
    attained[node] = std::min(attained[node], reached);
  }
}

/// All but the nodes from which the terminal could still get something: of all least cuts the one
/// with the most nodes on the source's side.
std::vector<bool> TreeCuts::widestSide(int32_t terminal) {
  std::vector<bool> side(size_t(fabric.nodes), true);
  std::vector<std::vector<int32_t>> backward; // arcs that carry flow, by tail
  backward.resize(size_t(fabric.nodes));
  for (size_t i = 0; i < fabric.arcs.size(); ++i)
    if (graph.flow(int32_t(i)) > 0)
      backward[size_t(reduce ? fabric.arcs[i].dst : fabric.arcs[i].src)].push_back(int32_t(i));
  std::vector<int32_t> stack{terminal};
  side[size_t(terminal)] = false;
  auto visit = [&](int32_t node) {
    if (side[size_t(node)]) {
      side[size_t(node)] = false;
      stack.push_back(node);
    }
  };
  while (!stack.empty()) {
    size_t node = size_t(stack.back());
    stack.pop_back();
    for (int32_t k = arcStart[node]; k < arcStart[node + 1]; ++k) {
      const Arc &arc = fabric.arcs[size_t(arcAt[size_t(k)])];
      if (graph.flow(arcAt[size_t(k)]) < graph.capacity(arcAt[size_t(k)]))
        visit(reduce ? arc.dst : arc.src);
    }
    for (int32_t i : backward[node])
      visit(reduce ? fabric.arcs[size_t(i)].src : fabric.arcs[size_t(i)].dst);
  }
  return side;
}

void TreeCuts::append(const std::vector<bool> &side, std::vector<PricedCut> &cuts) {
  PricedCut cut;
  cut.reduce = reduce;
  size_t inside = size_t(std::count(side.begin(), side.begin() + fabric.nodes, true));
  cut.complement = 2 * inside > size_t(fabric.nodes);
  for (int32_t node = 0; node < fabric.nodes; ++node)
    if (side[size_t(node)] != cut.complement)
      cut.nodes.push_back(node);
  if (inside > 0 && known.insert({cut.complement, cut.nodes}).second)
    cuts.push_back(std::move(cut));
}

} // namespace ccl::model
