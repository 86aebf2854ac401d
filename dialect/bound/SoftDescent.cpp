//===- SoftDescent.cpp - Concurrent flow for many sources -----------------===//
//
// Lowers a soft maximum of the loads, one source after the other: its flow moves towards the
// cheapest ways at prices that are the gradient (Frank and Wolfe 1956, in blocks: Lacoste-Julien
// et al. 2013), away from the dearest it took so far. The softer the maximum, the faster and the
// worse; it gets sharper as the gap closes.
//===----------------------------------------------------------------------===//

#include "dialect/bound/ConcurrentFlow.h"

#include <algorithm>
#include <cmath>

namespace ccl::model {

double softPrices(const std::vector<double> &loads, const std::vector<double> &capacity,
                  double sharpness, std::vector<double> &prices) {
  double fullest = 0;
  for (size_t kind = 0; kind < loads.size(); ++kind)
    if (capacity[kind] > 0)
      fullest = std::max(fullest, loads[kind] / capacity[kind]);
  for (size_t kind = 0; kind < loads.size(); ++kind)
    if (capacity[kind] > 0)
      prices[kind] =
          std::exp(sharpness * (loads[kind] / capacity[kind] / fullest - 1)) / capacity[kind];
  return fullest;
}

class SoftDescent {
public:
  explicit SoftDescent(ConcurrentFlow &problem);
  void run();

private:
  struct Load {
    int32_t kind;
    double amount;
  };
  /// Cheapest ways of one source at some time, and the share of the source's flow that takes them.
  struct Ways {
    double share;
    std::vector<Load> loads;
  };
  struct Change {
    int32_t kind;
    double use, change; ///< of all sources
  };
  /// How many ways a source has; then the least used are joined.
  static constexpr size_t mostWays = 12;

  void price();
  Ways cheapest(size_t source);
  double cost(const Ways &ways) const;
  void move(size_t source);
  double shift(Ways &from, const Ways &to);
  double bestStep() const;
  static void forget(std::vector<Ways> &flow);
  void sumAnew();
  void bound();

  ConcurrentFlow &problem;
  std::vector<std::vector<Ways>> flows; ///< by source
  std::vector<double> loads, prices;
  std::vector<int32_t> arcStart, arcsOf; ///< by kind
  double sharpness = 10, fullest = 1;
  bool rose = false; ///< loads have, so that prices need another scale
  // For one move.
  std::vector<double> aim;             ///< by arc
  std::vector<int32_t> touched, place; ///< place by kind, or -1
  std::vector<Change> changes;
};

SoftDescent::SoftDescent(ConcurrentFlow &problem)
    : problem(problem), flows(problem.sources.size()), loads(problem.kinds(), 0),
      prices(problem.kinds(), 0), arcStart(problem.kinds() + 1, 0),
      arcsOf(problem.fabric.arcs.size()), aim(problem.fabric.arcs.size(), 0),
      place(problem.kinds(), -1) {
  const std::vector<int32_t> &ofArc = problem.orbits.ofArc;
  for (int32_t kind : ofArc)
    ++arcStart[size_t(kind) + 1];
  for (size_t kind = 0; kind < problem.kinds(); ++kind)
    arcStart[kind + 1] += arcStart[kind];
  std::vector<int32_t> next = arcStart;
  for (size_t i = 0; i < ofArc.size(); ++i)
    arcsOf[size_t(next[size_t(ofArc[i])]++)] = int32_t(i);
}

/// All prices anew. A sixteenth of the largest possible is left for those that rise until the next
/// time.
void SoftDescent::price() {
  rose = false;
  fullest = softPrices(loads, problem.capacity, sharpness, prices);
  problem.setPrices(prices);
  for (int64_t &price : problem.integers)
    price = std::max<int64_t>(1, price / 16);
  problem.unitPrice *= 16;
  problem.ways.setPrices(problem.integers);
}

/// Where the slope of the soft maximum along `changes` is 0, by halving.
double SoftDescent::bestStep() const {
  auto slope = [&](double step) {
    double sum = 0;
    for (const Change &c : changes)
      if (double power = sharpness * (c.use + step * c.change); power > -40)
        sum += c.change * std::exp(power);
    return sum;
  };
  if (slope(1) <= 0)
    return 1;
  double low = 0, high = 1;
  for (int halving = 0; halving < 10; ++halving)
    (slope((low + high) / 2) <= 0 ? low : high) = (low + high) / 2;
  return low;
}

SoftDescent::Ways SoftDescent::cheapest(size_t source) {
  auto [rank, count] = problem.sources[source];
  problem.ways.run(rank, problem.work[0]);
  ++problem.runs;
  touched.clear();
  problem.ways.addLoads(rank, double(count), problem.work[0], aim, &touched);
  Ways ways{0, {}};
  for (int32_t arc : touched) {
    int32_t kind = problem.orbits.ofArc[size_t(arc)];
    int32_t &at = place[size_t(kind)];
    if (at < 0) {
      at = int32_t(ways.loads.size());
      ways.loads.push_back({kind, 0});
    }
    ways.loads[size_t(at)].amount += aim[size_t(arc)];
    aim[size_t(arc)] = 0;
  }
  for (auto [kind, amount] : ways.loads)
    place[size_t(kind)] = -1;
  return ways;
}

double SoftDescent::cost(const Ways &ways) const {
  double sum = 0;
  for (auto [kind, amount] : ways.loads)
    sum += prices[size_t(kind)] * amount;
  return sum;
}

/// Moves what is best of the share of `from`, and returns it.
double SoftDescent::shift(Ways &from, const Ways &to) {
  changes.clear();
  for (double sign : {1.0, -1.0})
    for (auto [kind, amount] : sign > 0 ? to.loads : from.loads) {
      int32_t &at = place[size_t(kind)];
      if (at < 0) {
        at = int32_t(changes.size());
        double most = problem.capacity[size_t(kind)] * fullest;
        changes.push_back({kind, loads[size_t(kind)] / most - 1, 0});
      }
      changes[size_t(at)].change += sign * amount;
    }
  for (Change &c : changes) {
    c.change *= from.share / (problem.capacity[size_t(c.kind)] * fullest);
    place[size_t(c.kind)] = -1;
  }
  double step = bestStep();
  if (step == 0)
    return 0;
  for (const Change &c : changes) {
    size_t kind = size_t(c.kind);
    double capacity = problem.capacity[kind], power = sharpness * (c.use + step * c.change);
    loads[kind] = (c.use + step * c.change + 1) * capacity * fullest;
    rose |= power > 2;
    prices[kind] = std::exp(std::min(power, 2.5)) / capacity;
    int64_t price = std::max<int64_t>(1, std::llround(prices[kind] / problem.unitPrice));
    for (int32_t k = arcStart[kind]; k < arcStart[kind + 1]; ++k)
      problem.ways.setPrice(arcsOf[size_t(k)], price);
  }
  double moved = step * from.share;
  from.share = step == 1 ? 0 : from.share - moved;
  return moved;
}

/// From the dearest of a source's ways to the cheapest there are now.
void SoftDescent::move(size_t source) {
  std::vector<Ways> &flow = flows[source];
  Ways next = cheapest(source);
  double least = cost(next);
  std::vector<std::pair<double, size_t>> dearest;
  for (size_t i = 0; i < flow.size(); ++i)
    if (double price = cost(flow[i]); price > least * (1 + 1e-9))
      dearest.push_back({-price, i});
  std::sort(dearest.begin(), dearest.end());
  for (size_t i = 0; i < std::min<size_t>(dearest.size(), 3); ++i)
    next.share += shift(flow[dearest[i].second], next);
  std::erase_if(flow, [](const Ways &ways) { return ways.share <= 0; });
  if (next.share > 0)
    flow.push_back(std::move(next));
  if (flow.size() > mostWays)
    forget(flow);
  if (rose)
    price();
}

/// Joins the two ways with the least shares: their mean is a flow as well.
void SoftDescent::forget(std::vector<Ways> &flow) {
  std::sort(flow.begin(), flow.end(),
            [](const Ways &one, const Ways &other) { return one.share > other.share; });
  Ways last = std::move(flow.back());
  flow.pop_back();
  Ways &joined = flow.back();
  double share = joined.share + last.share;
  std::vector<Load> all;
  for (const Ways *ways : {&joined, &last})
    for (auto [kind, amount] : ways->loads)
      all.push_back({kind, amount * ways->share / share});
  std::sort(all.begin(), all.end(),
            [](const Load &one, const Load &other) { return one.kind < other.kind; });
  joined.loads.clear();
  for (const Load &load : all)
    if (!joined.loads.empty() && joined.loads.back().kind == load.kind)
      joined.loads.back().amount += load.amount;
    else
      joined.loads.push_back(load);
  joined.share = share;
}

/// No rounding error may pile up in what is called attained.
void SoftDescent::sumAnew() {
  std::fill(loads.begin(), loads.end(), 0);
  for (std::vector<Ways> &flow : flows) {
    double sum = 0;
    for (const Ways &ways : flow)
      sum += ways.share;
    for (Ways &ways : flow) {
      ways.share /= sum;
      for (auto [kind, amount] : ways.loads)
        loads[size_t(kind)] += ways.share * amount;
    }
  }
  problem.improveLower(loads);
}

/// Tries the prices of now, and softer ones of the same loads.
void SoftDescent::bound() {
  for (double softer : {1.0, 3.0}) {
    softPrices(loads, problem.capacity, sharpness / softer, prices);
    problem.setPrices(prices);
    problem.improveUpper(prices, problem.cheapest(0, problem.sources.size()).cost);
    if (problem.closed(problem.options.gap))
      return;
  }
}

void SoftDescent::run() {
  // From cheapest ways without any load.
  std::vector<double> first = problem.uniformPrices();
  problem.setPrices(first);
  double cost = 0;
  for (size_t source = 0; source < flows.size(); ++source) {
    flows[source].push_back(cheapest(source));
    flows[source][0].share = 1;
    cost += double(problem.ways.distanceToRanks(problem.work[0])) *
            double(problem.sources[source].count);
  }
  // The soft maximum is above the maximum by up to log(kinds) / sharpness.
  const double softest = 2 * std::log(double(problem.kinds()) + 1);
  problem.improveUpper(first, cost * problem.unitPrice);
  sumAnew();
  while (!problem.closed(problem.options.gap) && !problem.late()) {
    double before = problem.attained / problem.upper;
    price();
    for (size_t source = 0; source < flows.size() && !problem.late(); ++source)
      move(source);
    sumAnew();
    bound();
    double gap = 1 - problem.attained / problem.upper;
    // Sharper only where that many steps do not help any more: sharp steps are short.
    if (problem.attained / problem.upper < before + 0.1 * gap)
      sharpness = std::min(sharpness * 1.2, std::max(sharpness, softest / gap));
  }
}

void ConcurrentFlow::descend() { SoftDescent(*this).run(); }

} // namespace ccl::model
