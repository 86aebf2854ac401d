//===- AllReduceBound.cpp - Pairs of trees --------------------------------===//

#include "dialect/bound/PriceProof.h"
#include "dialect/bound/TreePairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

namespace ccl::model {

/// Reduce_scatter and all_gather with half of the capacity each, or as much of it as goes through
/// switches that do not have as much in as out.
TreeRates TreePairs::halves() const {
  TreeRates rates = center;
  for (int32_t rank = 0; rank < fabric.ranks; ++rank)
    rates.root[size_t(rank)] = 1 / double(fabric.ranks);
  Lp fill;
  std::vector<Share> shares;
  for (int32_t arc : arcOf) {
    double half = double(fabric.arcs[size_t(arc)].capacity) / largest / 2;
    shares.push_back({0, 1, fill.addColumn(1, 0, half)});
  }
  for (size_t orbit = 0; orbit < nodesIn.size(); ++orbit) {
    if (fabric.isRank(nodeOf[orbit]))
      continue;
    fill.addRow(balance(orbit, shares), 0, 0);
  }
  bool filled = fill.solve(std::max(left(), 0.1)) == Lp::Status::Optimal;
  for (size_t i = 0; i < fabric.arcs.size(); ++i)
    rates.broadcast[i] = rates.reduce[i] =
        filled ? std::max(0.0, fill.value(shares[size_t(orbits.ofArc[i])].column)) : 0;
  return rates;
}

void TreePairs::startFromHalves() {
  TreeRates rates = halves();
  double factor = scale(rates, double(fabric.arcs.size() + 1));
  if (late())
    return;
  for (double &root : rates.root)
    root *= factor;
  center = std::move(rates);
  best = factor;
}

/// The smaller result of `work` for trees that broadcast and, if these are not the same the other
/// way round, for trees that reduce: at the same time where that pays. Adds the cuts found.
double TreePairs::bothWays(const std::function<double(Half &)> &work) {
  Half halves[] = {{broadcast, broadcastTo, {}}, {reduce, reduceFrom, {}}};
  double results[2];
  auto run = [&](size_t half) { results[half] = work(halves[half]); };
  if (!mirror.empty()) {
    run(0);
    results[1] = results[0];
  } else if (fabric.arcs.size() * broadcastTo.size() <= 4096) {
    run(0);
    run(1);
  } else {
    std::jthread other([&] { run(1); });
    run(0);
  }
  for (Half &half : halves)
    for (PricedCut &cut : half.found)
      addCut(std::move(cut));
  return late() ? 0 : std::min(results[0], results[1]);
}

/// The largest factor for the root rates, at most `most`.
double TreePairs::scale(const TreeRates &rates, double most) {
  return bothWays([&](Half &half) {
    half.cuts.load(rates);
    double factor = most;
    for (int32_t terminal : half.terminals)
      if (!late())
        factor = half.cuts.scale(rates, terminal, factor, half.found);
    return factor;
  });
}

/// The share of its root rates for which there is room. Less than 1: some cut is violated.
double TreePairs::roomFor(const TreeRates &rates) {
  return bothWays([&](Half &half) {
    half.cuts.load(rates);
    std::vector<int32_t> violated;
    for (int32_t terminal : half.terminals)
      if (!late() && half.cuts.separate(terminal, half.found))
        violated.push_back(terminal);
    double factor = violated.empty() ? 1 : 1 - 1e-15;
    for (int32_t terminal : violated)
      if (!late())
        factor = half.cuts.scale(rates, terminal, factor, half.found);
    return factor;
  });
}

void TreePairs::keepDuals() {
  provenCuts = cuts.size();
  cutDual.clear();
  for (int32_t row : cutRow)
    cutDual.push_back(std::max(0.0, lp.dual(row)));
  auto duals = [&](const std::vector<int32_t> &rows) {
    std::vector<double> result(rows.size(), 0);
    for (size_t orbit = 0; orbit < rows.size(); ++orbit)
      if (rows[orbit] >= 0)
        result[orbit] = lp.dual(rows[orbit]) / double(nodesIn[orbit]);
    return result;
  };
  broadcastDual = duals(broadcastBalance);
  reduceDual = duals(reduceBalance);
  if (!mirror.empty())
    for (size_t orbit = 0; orbit < reduceDual.size(); ++orbit)
      reduceDual[orbit] = -broadcastDual[orbit];
}

/// A bound without any program: all cuts around single ranks count the same.
void TreePairs::startFromRanks() {
  provenCuts = cuts.size();
  for (const PricedCut &cut : cuts)
    cutDual.push_back(double(nodesIn[size_t(orbits.ofNode[size_t(cut.nodes[0])])]));
  broadcastDual.assign(nodesIn.size(), 0);
  reduceDual.assign(nodesIn.size(), 0);
  BandwidthBound bound;
  value = prove(bound) / largest;
}

void TreePairs::solve() {
  // Every rank is reached, and gives: the cuts around single ranks.
  for (int32_t node : nodeOf)
    if (fabric.isRank(node)) {
      addCut({{node}, true, false, 0});
      if (mirror.empty())
        addCut({{node}, true, true, 0});
    }
  startFromRanks();
  startFromHalves();
  const bool small = fabric.arcs.size() * broadcastTo.size() <= 20000;
  const double enough = 1 - std::max(gap, 1e-9);
  size_t solvedWith = 0;
  bool all = small;
  while (!late()) {
    if (best >= value * enough)
      break;
    if (solvedWith < cuts.size()) {
      if (lp.solve(std::max(left(), 0.1)) != Lp::Status::Optimal)
        break;
      solvedWith = cuts.size();
      value = lp.objective();
      keepDuals();
    }
    if (best >= value * enough)
      break;
    // Near the end nothing is gained by steps in between.
    const double step = all || best >= value * (1 - 1e-4) ? 1 : 0.75;
    TreeRates next = solution();
    auto mix = [&](std::vector<double> &to, const std::vector<double> &from) {
      for (size_t i = 0; i < to.size(); ++i)
        to[i] = step * to[i] + (1 - step) * from[i];
    };
    mix(next.root, center.root);
    mix(next.broadcast, center.broadcast);
    mix(next.reduce, center.reduce);
    const double room = roomFor(next), reached = room * (best + step * (value - best));
    const bool fits = room == 1;
    if (reached > best) {
      for (double &root : next.root)
        root *= room;
      center = std::move(next);
      best = reached;
    }
    if (step == 1 && (fits || solvedWith == cuts.size()))
      break; // solved, or as near as the solver's tolerance is
    // What is violated may be known, and a matter of tolerance.
    all = small || (!fits && solvedWith == cuts.size());
  }
  finish();
}

/// What was within tolerances so far is attained by roots that have what reaches all terminals.
void TreePairs::finish() {
  if (best <= 0)
    return;
  // A billionth less, for the digits that rounding to integers takes.
  constexpr double factor = 1 - 1e-9;
  std::vector<double> roots = center.root;
  broadcast.load(center, factor);
  for (int32_t terminal : broadcastTo)
    broadcast.limit(terminal, roots);
  if (mirror.empty()) {
    reduce.load(center, factor);
    for (int32_t terminal : reduceFrom)
      reduce.limit(terminal, roots);
  }
  // Terminals stand for their orbits, so that roots must, too.
  std::vector<double> least(nodesIn.size(), std::numeric_limits<double>::infinity());
  for (size_t node = 0; node < roots.size(); ++node) {
    double &orbit = least[size_t(orbits.ofNode[node])];
    orbit = std::min(orbit, roots[node]);
  }
  best = 0;
  for (size_t orbit = 0; orbit < least.size(); ++orbit)
    best += least[orbit] * double(nodesIn[orbit]);
}

double TreePairs::prove(BandwidthBound &bound) const {
  // Cuts and potentials by one measure.
  std::vector<double> weights = cutDual;
  for (const std::vector<double> *duals : {&broadcastDual, &reduceDual})
    for (double dual : *duals)
      weights.push_back(std::abs(dual));
  double limit = proveWith(integersLike(weights), bound);
  return limit <= value * largest * (1 + 1e-9) ? limit
                                               : proveWith(integersLike(weights, true), bound);
}

double TreePairs::proveWith(const std::vector<double> &integers, BandwidthBound &bound) const {
  bound.cuts.clear();
  for (size_t i = 0; i < provenCuts; ++i) {
    if (integers[i] == 0)
      continue;
    bound.cuts.push_back(cuts[i]);
    bound.cuts.back().weight = integers[i];
    if (mirror.empty())
      continue;
    bound.cuts.push_back(bound.cuts.back());
    bound.cuts.back().reduce = true;
  }
  auto potentials = [&](const std::vector<double> &duals, size_t offset) {
    std::vector<double> result(size_t(fabric.nodes), 0);
    for (size_t node = 0; node < result.size(); ++node) {
      size_t orbit = size_t(orbits.ofNode[node]);
      if (duals[orbit] != 0)
        result[node] = std::copysign(integers[offset + orbit], duals[orbit]);
    }
    return result;
  };
  bound.broadcastPotentials = potentials(broadcastDual, provenCuts);
  bound.reducePotentials = potentials(reduceDual, provenCuts + broadcastDual.size());
  std::string error;
  return allReduceLimit(fabric, orbits, bound, bound.prices, error);
}

BandwidthBound allReduceBound(const Fabric &fabric, const Orbits &orbits,
                              const BoundOptions &options) {
  using Clock = TreePairs::Clock;
  Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(std::min(options.seconds, 1e6)));
  BandwidthBound bound;
  bound.collective = Collective::AllReduce;
  if (fabric.ranks < 2) {
    double none = std::numeric_limits<double>::infinity();
    settle(fabric, none, none, bound);
    bound.certificate = "one rank has nothing to move";
    return bound;
  }
  bound.symmetries = orbits.generators;
  TreePairs free(fabric, orbits, Switches::Free, options.gap, end);
  free.solve();
  double limit = free.prove(bound);
  bound.flows = free.flows();
  double attained = free.attained();
  bool helping = std::count(fabric.copies.begin(), fabric.copies.end(), true) +
                     std::count(fabric.combines.begin(), fabric.combines.end(), true) >
                 0;
  if (helping) {
    attained = 0;
    for (Switches switches : {Switches::Terminal, Switches::Forward}) {
      if (attained >= limit * (1 - options.gap))
        break;
      TreePairs pairs(fabric, orbits, switches, options.gap, end);
      pairs.solve();
      bound.flows += pairs.flows();
      attained = std::max(attained, pairs.attained());
    }
  }
  settle(fabric, limit, attained, bound);
  bound.certificate = fmt::format(
      "{} cuts: every pair of trees, up and down, costs at least as much of the {} arcs "
      "as {:.6g} GB/s pay for",
      bound.cuts.size(), fabric.arcs.size(), bound.algbw);
  return bound;
}

} // namespace ccl::model
