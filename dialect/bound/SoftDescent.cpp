//===- SoftDescent.cpp - Concurrent flow for many sources -----------------===//
//
// Lowers a soft maximum of the loads, one pair of ranks after the other: what goes from one to the
// other moves from its dearer ways to the cheapest, at prices that are the gradient (gradient
// projection on ways, as in traffic assignment: Jayakrishnan et al. 1994). The softer the maximum,
// the faster and the worse.
//
// The prices of now prove what the flow attains, but for two factors. One is how uneven the loads
// are where prices are not 0: sharper helps. The other is how much dearer the flow is than its
// cheapest ways: to go on helps.
//===----------------------------------------------------------------------===//

#include "dialect/bound/ConcurrentFlow.h"
#include "dialect/bound/WayTree.h"

#include <algorithm>
#include <cmath>

namespace ccl::model {

class SoftDescent {
public:
  explicit SoftDescent(ConcurrentFlow &problem);
  void run();

private:
  using Way = WayTree::Way;
  struct Priced {
    double cost;
    Way way;
  };
  struct Change {
    int32_t kind;
    double growth; ///< of the exponent, for all of the share
  };
  /// Ways that differ by less in their cost are as good as each other.
  static constexpr double alike = 1e-3;
  static constexpr double leastShare = 1e-9;

  bool start();
  void visit(size_t source);
  void addCheapest(WayTree &tree, int32_t rank);
  int32_t cheapestEnd(WayTree &tree, int32_t node);
  void equalize(const WayTree &tree, double amount);
  double shift(const WayTree &tree, const Way &from, const Way &to, double amount);
  double priceOf(int32_t arc) const { return prices[size_t(kindOf[size_t(arc)])]; }
  void sumAnew();
  double tryPrices(double softer);
  void bound();

  ConcurrentFlow &problem;
  const std::vector<int32_t> &kindOf;
  std::vector<WayTree> trees;         ///< by source
  std::vector<double> loads, prices;  ///< by kind
  double sharpness = 10, fullest = 1; ///< of the prices
  // For one visit.
  ShortestWays::Work &work;
  std::vector<int32_t> endOf; ///< by node: the step of the cheapest way there, or -1
  std::vector<Priced> here;   ///< the ways to one rank
  std::vector<int32_t> taken; ///< by kind: 0 but within `shift`
  std::vector<Change> changes;
};

SoftDescent::SoftDescent(ConcurrentFlow &problem)
    : problem(problem), kindOf(problem.orbits.ofArc), loads(problem.kinds(), 0),
      prices(problem.kinds(), 0), work(problem.work[0]), endOf(size_t(problem.fabric.nodes)),
      taken(problem.kinds(), 0) {}

/// Some of the cheapest ways without any load; false if there is no time or room for them. The
/// mean of all these is a flow already.
bool SoftDescent::start() {
  constexpr size_t mostPairs = size_t(1) << 25, mostWays = size_t(1) << 23;
  constexpr int mostOfPair = 4;
  std::vector<double> first = problem.uniformPrices();
  problem.setPrices(first);
  ConcurrentFlow::Flow mean = problem.cheapest(0, problem.sources.size());
  problem.improveUpper(first, mean.cost);
  problem.improveLower(mean.loads);
  const size_t pairs = problem.sources.size() * size_t(problem.fabric.ranks);
  if (pairs > mostPairs)
    return false;
  const int most = std::clamp(int(mostWays / pairs), 1, mostOfPair);
  std::mt19937_64 random;
  for (const ConcurrentFlow::Source &source : problem.sources) {
    if (problem.late())
      return false;
    problem.ways.run(source.rank, work);
    ++problem.runs;
    problem.ways.countWays(source.rank, work);
    trees.emplace_back(problem.fabric, problem.ways, work, source.rank, most, random);
  }
  return true;
}

/// All ways from one source.
void SoftDescent::visit(size_t source) {
  auto [rank, count] = problem.sources[source];
  WayTree &tree = trees[source];
  problem.setPrices(prices);
  problem.ways.run(rank, work);
  ++problem.runs;
  std::fill(endOf.begin(), endOf.end(), -1);
  endOf[size_t(rank)] = WayTree::root;
  std::vector<Way> all;
  std::vector<int32_t> firsts{0};
  for (int32_t to = 0; to < problem.fabric.ranks; ++to) {
    here.clear();
    for (const Way &way : tree.to(to)) {
      double cost = 0;
      tree.eachArc(way.end, [&](int32_t arc) { cost += priceOf(arc); });
      here.push_back({cost, way});
    }
    if (to != rank) {
      addCheapest(tree, to);
      equalize(tree, double(count));
    }
    for (const Priced &priced : here)
      if (priced.way.share > leastShare)
        all.push_back(priced.way);
    firsts.push_back(int32_t(all.size()));
  }
  tree.replace(std::move(all), std::move(firsts));
}

/// The cheapest way there was at the begin of the visit, if it is cheaper than all `here`.
void SoftDescent::addCheapest(WayTree &tree, int32_t rank) {
  double cost = 0, least = std::numeric_limits<double>::infinity();
  for (int32_t node = rank; work.last[size_t(node)] >= 0;) {
    cost += priceOf(work.last[size_t(node)]);
    node = problem.fabric.arcs[size_t(work.last[size_t(node)])].src;
  }
  for (const Priced &priced : here)
    least = std::min(least, priced.cost);
  if (cost < least * (1 - alike))
    here.push_back({cost, {cheapestEnd(tree, rank), 0}});
}

int32_t SoftDescent::cheapestEnd(WayTree &tree, int32_t node) {
  std::vector<int32_t> arcs;
  for (; endOf[size_t(node)] < 0; node = problem.fabric.arcs[size_t(arcs.back())].src)
    arcs.push_back(work.last[size_t(node)]);
  int32_t end = endOf[size_t(node)];
  for (size_t i = arcs.size(); i-- > 0;)
    end = endOf[size_t(problem.fabric.arcs[size_t(arcs[i])].dst)] = tree.add(end, arcs[i]);
  return end;
}

/// Moves to the cheapest of the ways `here`, the dearest first.
void SoftDescent::equalize(const WayTree &tree, double amount) {
  std::sort(here.begin(), here.end(),
            [](const Priced &one, const Priced &other) { return one.cost > other.cost; });
  Way &best = here.back().way;
  for (Priced &priced : here)
    if (priced.cost > here.back().cost * (1 + alike)) {
      double moved = shift(tree, priced.way, best, amount);
      priced.way.share -= moved;
      best.share += moved;
    }
}

/// Loads and prices of what is best of the share of `from`, which is returned.
double SoftDescent::shift(const WayTree &tree, const Way &from, const Way &to, double amount) {
  tree.eachArc(from.end, [&](int32_t arc) { --taken[size_t(kindOf[size_t(arc)])]; });
  tree.eachArc(to.end, [&](int32_t arc) { ++taken[size_t(kindOf[size_t(arc)])]; });
  changes.clear();
  double less = 0, more = 0, lessGrowth = 0, moreGrowth = 0;
  auto collect = [&](int32_t arc) {
    size_t kind = size_t(kindOf[size_t(arc)]);
    double times = taken[kind];
    if (times == 0)
      return;
    taken[kind] = 0;
    double growth = times * amount * sharpness / (problem.capacity[kind] * fullest);
    changes.push_back({int32_t(kind), growth});
    double price = prices[kind] * std::abs(times);
    (times > 0 ? more : less) += price;
    (times > 0 ? moreGrowth : lessGrowth) += price * std::abs(growth);
  };
  tree.eachArc(from.end, collect);
  tree.eachArc(to.end, collect);
  if (more >= less)
    return 0;
  double step = from.share;
  // Both sums are nearly exponential in the share: where straight lines of the logarithms meet.
  if (more > 0)
    step = std::min(step, std::log(less / more) / (lessGrowth / less + moreGrowth / more));
  for (auto [kind, growth] : changes) {
    loads[size_t(kind)] += growth * step / sharpness * problem.capacity[size_t(kind)] * fullest;
    prices[size_t(kind)] *= std::exp(growth * step);
  }
  return step;
}

/// No rounding error may pile up in what is called attained.
void SoftDescent::sumAnew() {
  std::fill(loads.begin(), loads.end(), 0);
  for (size_t source = 0; source < trees.size(); ++source)
    trees[source].addLoads(double(problem.sources[source].count), kindOf, loads);
  problem.improveLower(loads);
}

/// What prices of the loads of now, that much softer, prove. What the cheapest flow costs then.
double SoftDescent::tryPrices(double softer) {
  fullest = problem.softPrices(loads, sharpness / softer, prices);
  problem.setPrices(prices);
  double cost = problem.runAll(0, problem.sources.size());
  problem.improveUpper(prices, cost);
  return cost;
}

void SoftDescent::bound() {
  double cheapest = tryPrices(1), paid = 0, cost = 0;
  for (size_t kind = 0; kind < prices.size(); ++kind) {
    paid += prices[kind] * problem.capacity[kind];
    cost += prices[kind] * loads[kind];
  }
  double uneven = 1 - cost / (fullest * paid), dear = 1 - cheapest / cost;
  // As long as the flow is dear, softer prices prove more.
  if (dear > uneven / 2)
    tryPrices(3);
  double gap = 1 - double(problem.fabric.ranks) / fullest / problem.upper;
  if (uneven > std::min(dear, 0.4 * gap))
    sharpness *= uneven > 8 * dear ? 2 : 1.4;
}

void SoftDescent::run() {
  if (!start())
    return;
  sumAnew();
  const double gap = std::max(problem.options.gap, ConcurrentFlow::solved);
  while (!problem.closed(gap) && !problem.late()) {
    fullest = problem.softPrices(loads, sharpness, prices);
    for (size_t source = 0; source < trees.size() && !problem.late(); ++source)
      visit(source);
    sumAnew();
    bound();
  }
}

void ConcurrentFlow::descend() { SoftDescent(*this).run(); }

} // namespace ccl::model
