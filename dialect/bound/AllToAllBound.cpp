//===- AllToAllBound.cpp - Maximum concurrent flow ------------------------===//

#include "dialect/bound/ConcurrentFlow.h"
#include "dialect/bound/Lp.h"
#include "dialect/bound/PriceProof.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

namespace ccl::model {

ConcurrentFlow::ConcurrentFlow(const Fabric &fabric, const Orbits &orbits,
                               const BoundOptions &options)
    : fabric(fabric), orbits(orbits), options(options), capacity(size_t(orbits.arcOrbits), 0),
      arcsIn(size_t(orbits.arcOrbits), 0), ways(fabric), integers(fabric.arcs.size(), 1),
      work(threads), arcLoads(threads, std::vector<double>(fabric.arcs.size(), 0)) {
  std::vector<int32_t> sourceOf(size_t(orbits.nodeOrbits), -1);
  for (int32_t rank = 0; rank < fabric.ranks; ++rank) {
    int32_t &source = sourceOf[size_t(orbits.ofNode[size_t(rank)])];
    if (source < 0) {
      source = int32_t(sources.size());
      sources.push_back({rank, 0});
    }
    ++sources[size_t(source)].count;
  }
  for (size_t i = 0; i < fabric.arcs.size(); ++i) {
    capacity[size_t(orbits.ofArc[i])] += double(fabric.arcs[i].capacity);
    ++arcsIn[size_t(orbits.ofArc[i])];
  }
}

std::vector<double> ConcurrentFlow::uniformPrices() const {
  std::vector<double> result(kinds(), 0);
  for (size_t kind = 0; kind < kinds(); ++kind)
    if (capacity[kind] > 0)
      result[kind] = arcsIn[kind] / capacity[kind];
  return result;
}

double ConcurrentFlow::softPrices(const std::vector<double> &loads, double sharpness,
                                  std::vector<double> &prices) const {
  double fullest = 0;
  for (size_t kind = 0; kind < kinds(); ++kind)
    if (capacity[kind] > 0)
      fullest = std::max(fullest, loads[kind] / capacity[kind]);
  for (size_t kind = 0; kind < kinds(); ++kind)
    if (capacity[kind] > 0)
      prices[kind] = std::exp(sharpness * (loads[kind] / capacity[kind] / fullest - 1)) *
                     arcsIn[kind] / capacity[kind];
  return fullest;
}

void ConcurrentFlow::setPrices(const std::vector<double> &prices) {
  double largest = *std::max_element(prices.begin(), prices.end());
  unitPrice = largest / finest;
  for (size_t i = 0; i < integers.size(); ++i) {
    double price = prices[size_t(orbits.ofArc[i])] / unitPrice;
    integers[i] = std::max<int64_t>(1, std::llround(price));
  }
  ways.setPrices(integers);
}

double ConcurrentFlow::runAll(size_t begin, size_t end,
                              const std::function<void(size_t, const Source &)> &then) {
  // Every thread has a fixed share and sums are taken in a fixed order: always the same result.
  double cost[threads] = {};
  auto share = [&](size_t thread) {
    for (size_t s = begin + thread; s < end; s += threads) {
      ways.run(sources[s].rank, work[thread]);
      cost[thread] += double(ways.distanceToRanks(work[thread])) * double(sources[s].count);
      if (then)
        then(thread, sources[s]);
    }
  };
  if (end - begin > 1 && fabric.arcs.size() * (end - begin) > 4096) {
    std::jthread other([&] { share(1); });
    share(0);
  } else {
    share(0);
    share(1);
  }
  runs += int64_t(end - begin);
  return (cost[0] + cost[1]) * unitPrice;
}

ConcurrentFlow::Flow ConcurrentFlow::cheapest(size_t begin, size_t end) {
  Flow flow{std::vector<double>(kinds(), 0), 0};
  flow.cost = runAll(begin, end, [&](size_t thread, const Source &source) {
    ways.countWays(source.rank, work[thread]);
    ways.addLoads(source.rank, double(source.count), work[thread], arcLoads[thread]);
  });
  for (size_t thread = 0; thread < threads; ++thread) {
    for (size_t i = 0; i < fabric.arcs.size(); ++i)
      flow.loads[size_t(orbits.ofArc[i])] += arcLoads[thread][i];
    std::fill(arcLoads[thread].begin(), arcLoads[thread].end(), 0);
  }
  return flow;
}

void ConcurrentFlow::improveUpper(const std::vector<double> &prices, double cost) {
  double paid = 0;
  for (size_t i = 0; i < integers.size(); ++i)
    paid += double(integers[i]) * double(fabric.arcs[i].capacity);
  double limit = double(fabric.ranks) * paid * unitPrice / cost;
  if (limit < upper) {
    upper = limit;
    best = prices;
  }
}

void ConcurrentFlow::improveLower(const std::vector<double> &loads) {
  double fullest = 0;
  for (size_t kind = 0; kind < kinds(); ++kind)
    if (loads[kind] > 0)
      fullest = std::max(fullest, loads[kind] / capacity[kind]);
  attained = std::max(attained, double(fabric.ranks) / fullest);
}

void ConcurrentFlow::decompose() {
  // Minimize the use of the fullest arc: loads of the mixture <= use * capacity. One mixture for
  // each group of sources.
  const size_t groups = std::min<size_t>(sources.size(), 512);
  Lp lp;
  int32_t use = lp.addColumn(-1);
  std::vector<int32_t> full(kinds());
  for (size_t kind = 0; kind < kinds(); ++kind)
    full[kind] = lp.addRow(std::vector<Lp::Term>{{use, -capacity[kind]}}, -Lp::infinity, 0);
  std::vector<int32_t> whole(groups);
  for (int32_t &row : whole)
    row = lp.addRow(std::span<const Lp::Term>(), 1, 1);

  struct Column {
    int32_t number;
    std::vector<Lp::Entry> entries;
  };
  std::vector<std::vector<Column>> columns(groups);
  const double scale = 1.0 / double(fabric.ranks);
  auto addFlows = [&](const std::vector<double> &prices) {
    setPrices(prices);
    double cost = 0;
    for (size_t group = 0; group < groups; ++group) {
      Flow flow = cheapest(sources.size() * group / groups, sources.size() * (group + 1) / groups);
      cost += flow.cost;
      Column column;
      for (size_t kind = 0; kind < kinds(); ++kind)
        if (flow.loads[kind] > 0)
          column.entries.push_back({full[kind], flow.loads[kind] * scale});
      column.entries.push_back({whole[group], 1});
      column.number = lp.addColumn(0, 0, Lp::infinity, column.entries);
      column.entries.pop_back();
      columns[group].push_back(std::move(column));
    }
    improveUpper(prices, cost);
  };
  std::vector<double> at = uniformPrices(), soft(kinds(), 0), mixed(kinds());
  double smoothing = 0.5;
  for (int round = 0;; ++round) {
    addFlows(at);
    // Duals of a degenerate program may be far from all prices that prove much; prices that grow
    // with the load are not.
    if (round > 0 && !closed(options.gap)) {
      softPrices(mixed, 30, soft);
      addFlows(soft);
    }
    if (lp.solve(std::max(0.1, options.seconds - elapsed())) != Lp::Status::Optimal)
      return;
    std::fill(mixed.begin(), mixed.end(), 0);
    for (const std::vector<Column> &group : columns) {
      double sum = 0;
      for (const Column &column : group)
        sum += std::max(0.0, lp.value(column.number));
      for (const Column &column : group)
        if (double part = std::max(0.0, lp.value(column.number)); part > 0)
          for (const Lp::Entry &entry : column.entries)
            mixed[size_t(entry.row - full[0])] += part / sum * entry.coefficient / scale;
    }
    double before = attained;
    improveLower(mixed);
    // Next the duals; nearer to them the longer they brought no better flow.
    smoothing = attained > before ? 0.5 : smoothing / 2;
    bool stuck = smoothing < 1e-9; // nothing new comes any more: the solver's tolerance
    if (closed(solved) || (closed(options.gap) && runs > 20000) || stuck || late())
      return;
    double paid = 0;
    for (size_t kind = 0; kind < kinds(); ++kind)
      paid += best[kind] * capacity[kind];
    for (size_t kind = 0; kind < kinds(); ++kind)
      at[kind] =
          smoothing * best[kind] / paid + (1 - smoothing) * std::max(0.0, lp.dual(full[kind]));
  }
}

BandwidthBound ConcurrentFlow::result() {
  BandwidthBound bound;
  bound.collective = Collective::AllToAll;
  bound.flows = runs;
  bound.symmetries = orbits.generators;
  double limit = std::numeric_limits<double>::infinity();
  auto spread = [&](const std::vector<double> &byKind) {
    bound.prices.resize(fabric.arcs.size());
    for (size_t i = 0; i < fabric.arcs.size(); ++i)
      bound.prices[i] = byKind[size_t(orbits.ofArc[i])];
    limit = allToAllLimit(fabric, orbits, bound.prices, &bound.flows);
  };
  spread(integersLike(best));
  if (limit > upper * (1 + 1e-9))
    spread(integersLike(best, true));
  settle(fabric, limit, attained, bound);
  size_t priced = size_t(std::count_if(bound.prices.begin(), bound.prices.end(),
                                       [](double price) { return price > 0; }));
  bound.certificate = fmt::format(
      "prices on {} of {} arcs: what {} ranks send to each other on cheapest ways costs as much at "
      "{:.6g} GB/s as all capacity does",
      priced, fabric.arcs.size(), fabric.ranks, bound.algbw);
  return bound;
}

BandwidthBound ConcurrentFlow::solve() {
  for (const Source &source : sources) {
    ways.run(source.rank, work[0]);
    if (ways.distanceToRanks(work[0]) >= 0)
      continue;
    BandwidthBound bound;
    bound.collective = Collective::AllToAll;
    bound.exact = true;
    bound.prices.assign(fabric.arcs.size(), 1);
    bound.certificate = fmt::format("rank {} does not reach every rank", source.rank);
    return bound;
  }
  if (sources.size() * kinds() <= 70000)
    decompose();
  // Without any time there is a bound still.
  if (best.empty() || (!closed(std::max(options.gap, solved)) && !late()))
    descend();
  return result();
}

BandwidthBound allToAllBound(const Fabric &fabric, const Orbits &orbits,
                             const BoundOptions &options) {
  if (fabric.ranks >= 2)
    return ConcurrentFlow(fabric, orbits, options).solve();
  BandwidthBound bound;
  bound.collective = Collective::AllToAll;
  settle(fabric, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(),
         bound);
  bound.certificate = "one rank has nothing to move";
  return bound;
}

} // namespace ccl::model
