//===- PriceProof.cpp - What prices of arcs prove -------------------------===//

#include "dialect/bound/PriceProof.h"

#include "dialect/bound/Classes.h"
#include "dialect/bound/ShortestWays.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ccl::model {

namespace {
using Int128 = __int128;

constexpr double largestPrice = double(int64_t(1) << 40);
constexpr double noLimit = std::numeric_limits<double>::infinity();
// What the last quotient, in doubles, may be off by.
constexpr double tolerance = 1e-12;

bool has(const std::vector<bool> &flags, int32_t node) {
  return size_t(node) < flags.size() && flags[size_t(node)];
}

bool isPrice(double value) {
  return value >= 0 && value <= largestPrice && value == std::floor(value);
}

std::string joinImages(const Fabric &fabric, const std::vector<int32_t> &map, Classes &nodes,
                       Classes &arcs) {
  if (map.size() != size_t(fabric.nodes))
    return fmt::format("a symmetry names {} nodes of {}", map.size(), fabric.nodes);
  std::vector<bool> taken(map.size());
  for (int32_t node = 0; node < fabric.nodes; ++node) {
    int32_t image = map[size_t(node)];
    if (image < 0 || image >= fabric.nodes || taken[size_t(image)])
      return fmt::format("a symmetry takes node {} to {}, which is no other node's", node, image);
    taken[size_t(image)] = true;
    if (fabric.isRank(node) != fabric.isRank(image) ||
        has(fabric.copies, node) != has(fabric.copies, image) ||
        has(fabric.combines, node) != has(fabric.combines, image))
      return fmt::format("a symmetry takes node {} to {}, which is of another kind", node, image);
    nodes.join(node, image);
  }
  for (size_t i = 0; i < fabric.arcs.size(); ++i) {
    const Arc &arc = fabric.arcs[i];
    int32_t image = fabric.find(map[size_t(arc.src)], map[size_t(arc.dst)]);
    if (image < 0 || fabric.arcs[size_t(image)].capacity != arc.capacity)
      return fmt::format(
          "a symmetry takes the arc {} -> {} to {} -> {}, which has not its capacity", arc.src,
          arc.dst, map[size_t(arc.src)], map[size_t(arc.dst)]);
    arcs.join(int32_t(i), image);
  }
  return "";
}

std::vector<int64_t> sizes(const std::vector<int32_t> &numbers, int32_t count) {
  std::vector<int64_t> result(size_t(count), 0);
  for (int32_t number : numbers)
    ++result[size_t(number)];
  return result;
}

/// By node, the numbers of the arcs that start or end there.
struct Incidence {
  std::vector<int32_t> start, arcs;
  explicit Incidence(const Fabric &fabric) : start(size_t(fabric.nodes) + 1) {
    for (const Arc &arc : fabric.arcs) {
      ++start[size_t(arc.src) + 1];
      ++start[size_t(arc.dst) + 1];
    }
    std::partial_sum(start.begin(), start.end(), start.begin());
    std::vector<int32_t> next = start;
    arcs.resize(size_t(start.back()));
    for (size_t i = 0; i < fabric.arcs.size(); ++i) {
      arcs[size_t(next[size_t(fabric.arcs[i].src)]++)] = int32_t(i);
      arcs[size_t(next[size_t(fabric.arcs[i].dst)]++)] = int32_t(i);
    }
  }
};

/// Sums over orbits: how often cuts are around nodes, left and entered by arcs.
struct Cover {
  std::vector<Int128> around, left, entered;
  Int128 everywhere = 0; ///< around every node, to be added to `around`
};

std::string addCut(const Fabric &fabric, const Orbits &orbits, const Incidence &incidence,
                   const PricedCut &cut, std::vector<bool> &member, Cover &cover) {
  if (!isPrice(cut.weight))
    return fmt::format("a cut has weight {}, which is no integer from 0 to 2^40", cut.weight);
  int64_t weight = int64_t(cut.weight);
  int32_t ranksInside = 0;
  for (size_t i = 0; i < cut.nodes.size(); ++i) {
    int32_t node = cut.nodes[i];
    if (node < 0 || node >= fabric.nodes || (i > 0 && cut.nodes[i - 1] >= node))
      return fmt::format("a cut names node {}, which is unknown or out of order", node);
    ranksInside += fabric.isRank(node);
  }
  if (ranksInside == (cut.complement ? 0 : fabric.ranks))
    return "a cut has no rank outside";
  for (int32_t node : cut.nodes)
    member[size_t(node)] = true;
  std::vector<Int128> &leaving = cut.reduce ? cover.entered : cover.left;
  for (int32_t node : cut.nodes) {
    cover.around[size_t(orbits.ofNode[size_t(node)])] += cut.complement ? -weight : weight;
    for (int32_t k = incidence.start[size_t(node)]; k < incidence.start[size_t(node) + 1]; ++k) {
      const Arc &arc = fabric.arcs[size_t(incidence.arcs[size_t(k)])];
      bool leaves = arc.src == node; // the listed nodes, that is
      if (member[size_t(leaves ? arc.dst : arc.src)])
        continue;
      // Out of S is into what is not S; a tree that reduces runs the other way.
      if (leaves == (cut.complement == cut.reduce))
        leaving[size_t(orbits.ofArc[size_t(incidence.arcs[size_t(k)])])] += weight;
    }
  }
  for (int32_t node : cut.nodes)
    member[size_t(node)] = false;
  if (cut.complement)
    cover.everywhere += weight;
  return "";
}
} // namespace

bool canBeRoot(const Fabric &fabric, int32_t node) {
  return fabric.isRank(node) || (has(fabric.copies, node) && has(fabric.combines, node));
}

std::string orbitsOf(const Fabric &fabric, const std::vector<std::vector<int32_t>> &generators,
                     Orbits &orbits) {
  Classes nodes(size_t(fabric.nodes)), arcs(fabric.arcs.size());
  for (const std::vector<int32_t> &map : generators)
    if (std::string error = joinImages(fabric, map, nodes, arcs); !error.empty())
      return error;
  orbits = makeOrbits(fabric, nodes, arcs, generators);
  return "";
}

std::vector<double> integersLike(std::span<const double> weights, bool fine) {
  double largest = 0;
  for (double weight : weights)
    largest = std::max(largest, weight);
  std::vector<double> result(weights.size(), 0);
  if (largest <= 0)
    return result;
  auto scale = [&](double factor, double slack) {
    for (size_t i = 0; i < weights.size(); ++i) {
      double value = weights[i] / largest * factor;
      result[i] = std::max(0.0, std::round(value));
      if (std::abs(result[i] - value) > slack)
        return false;
    }
    return true;
  };
  for (int factor = 1; factor <= 720 && !fine; ++factor)
    if (scale(factor, 1e-6))
      return result;
  scale(largestPrice, 1);
  return result;
}

double allToAllLimit(const Fabric &fabric, const Orbits &orbits, std::span<const double> prices,
                     int64_t *flows) {
  std::vector<int64_t> integers(prices.size());
  Int128 paid = 0, owed = 0;
  for (size_t i = 0; i < prices.size(); ++i) {
    if (!isPrice(prices[i]))
      return noLimit;
    integers[i] = int64_t(prices[i]);
    paid += Int128(integers[i]) * fabric.arcs[i].capacity;
  }
  ShortestWays ways(fabric);
  ways.setPrices(integers);
  ShortestWays::Work work;
  std::vector<int64_t> orbitSize = sizes(orbits.ofNode, orbits.nodeOrbits);
  std::vector<bool> done(size_t(orbits.nodeOrbits));
  for (int32_t rank = 0; rank < fabric.ranks; ++rank) {
    size_t orbit = size_t(orbits.ofNode[size_t(rank)]);
    if (done[orbit])
      continue;
    done[orbit] = true;
    ways.run(rank, work);
    if (flows)
      ++*flows;
    Int128 distance = ways.distanceToRanks(work);
    if (distance < 0)
      return 0;
    owed += distance * orbitSize[orbit];
  }
  return owed == 0 ? noLimit : double(fabric.ranks) * (double(paid) / double(owed));
}

double allReduceLimit(const Fabric &fabric, const Orbits &orbits, const BandwidthBound &bound,
                      std::vector<double> &prices, std::string &error) {
  std::vector<int64_t> nodesIn = sizes(orbits.ofNode, orbits.nodeOrbits);
  std::vector<int64_t> arcsIn = sizes(orbits.ofArc, orbits.arcOrbits);
  Incidence incidence(fabric);
  Cover cover{std::vector<Int128>(nodesIn.size()), std::vector<Int128>(arcsIn.size()),
              std::vector<Int128>(arcsIn.size())};
  std::vector<bool> member(size_t(fabric.nodes));
  for (const PricedCut &cut : bound.cuts)
    if (error = addCut(fabric, orbits, incidence, cut, member, cover); !error.empty())
      return noLimit;

  const std::vector<double> &p = bound.broadcastPotentials, &q = bound.reducePotentials;
  std::vector<double> first[2] = {std::vector<double>(nodesIn.size(), NAN),
                                  std::vector<double>(nodesIn.size(), NAN)};
  if (p.size() != size_t(fabric.nodes) || q.size() != size_t(fabric.nodes)) {
    error = "a potential is needed for every node";
    return noLimit;
  }
  for (int32_t node = 0; node < fabric.nodes; ++node)
    for (int which : {0, 1}) {
      double value = which == 0 ? p[size_t(node)] : q[size_t(node)];
      bool free = !fabric.isRank(node) && !has(which == 0 ? fabric.copies : fabric.combines, node);
      double &same = first[which][size_t(orbits.ofNode[size_t(node)])];
      if (std::isnan(same))
        same = value;
      if (!isPrice(std::abs(value)) || (value != 0 && !free) || value != same) {
        error = fmt::format("node {} has a potential of {}, which it may not have", node, value);
        return noLimit;
      }
    }

  // Price times members, so that it stays an integer.
  std::vector<Int128> price(arcsIn.size());
  for (size_t i = 0; i < fabric.arcs.size(); ++i) {
    const Arc &arc = fabric.arcs[i];
    size_t orbit = size_t(orbits.ofArc[i]), src = size_t(arc.src), dst = size_t(arc.dst);
    Int128 broadcast = cover.left[orbit] + Int128(arcsIn[orbit]) * int64_t(p[src] - p[dst]);
    Int128 reduce = cover.entered[orbit] + Int128(arcsIn[orbit]) * int64_t(q[src] - q[dst]);
    price[orbit] = std::max({Int128(0), broadcast, reduce});
  }
  prices.resize(fabric.arcs.size());
  std::vector<bool> done(arcsIn.size());
  Int128 paid = 0;
  for (size_t i = 0; i < fabric.arcs.size(); ++i) {
    size_t orbit = size_t(orbits.ofArc[i]);
    prices[i] = double(price[orbit]) / double(arcsIn[orbit]);
    // All arcs of an orbit have the same capacity.
    if (!done[orbit])
      paid += price[orbit] * fabric.arcs[i].capacity;
    done[orbit] = true;
  }
  double least = noLimit;
  for (int32_t node = 0; node < fabric.nodes; ++node) {
    size_t orbit = size_t(orbits.ofNode[size_t(node)]);
    if (canBeRoot(fabric, node))
      least = std::min(least, double(cover.around[orbit] + cover.everywhere * nodesIn[orbit]) /
                                  double(nodesIn[orbit]));
  }
  if (least <= 0) {
    error = "no weight is around some root: the cuts prove nothing";
    return noLimit;
  }
  return double(paid) / least;
}

void settle(const Fabric &fabric, double limit, double attained, BandwidthBound &bound) {
  bool met = attained >= limit * (1 - 1e-8);
  bound.algbw = limit * fabric.unit;
  bound.exact = met && fabric.exact && !fabric.relaxed;
  // Capacities may be above the topology's, and some of its limits may be missing.
  double real = fabric.relaxed ? 0 : 1 / (1 + fabric.rounding);
  bound.attained = (met ? limit : attained) * fabric.unit * real;
}

std::string verifyPrices(const Fabric &fabric, const BandwidthBound &bound) {
  if (fabric.ranks < 2)
    return "";
  Orbits orbits;
  if (std::string error = orbitsOf(fabric, bound.symmetries, orbits); !error.empty())
    return error;
  if (bound.prices.size() != fabric.arcs.size())
    return fmt::format("{} prices for {} arcs", bound.prices.size(), fabric.arcs.size());
  for (size_t i = 0; i < bound.prices.size(); ++i)
    if (double price = bound.prices[i];
        bound.collective == Collective::AllToAll ? !isPrice(price) : !std::isfinite(price))
      return fmt::format("the price of the arc {} -> {} is {}: no integer from 0 to 2^40",
                         fabric.arcs[i].src, fabric.arcs[i].dst, price);
  std::vector<size_t> firstOf(size_t(orbits.arcOrbits), bound.prices.size());
  for (size_t i = 0; i < bound.prices.size(); ++i) {
    size_t &first = firstOf[size_t(orbits.ofArc[i])];
    first = std::min(first, i);
    if (bound.prices[i] != bound.prices[first])
      return fmt::format("the arcs {} -> {} and {} -> {} are alike, but their prices are not",
                         fabric.arcs[i].src, fabric.arcs[i].dst, fabric.arcs[first].src,
                         fabric.arcs[first].dst);
  }
  double limit;
  if (bound.collective == Collective::AllReduce) {
    std::string error;
    std::vector<double> prices;
    limit = allReduceLimit(fabric, orbits, bound, prices, error);
    if (!error.empty())
      return error;
    for (size_t i = 0; i < prices.size(); ++i)
      if (std::abs(prices[i] - bound.prices[i]) > tolerance * prices[i])
        return fmt::format("the price of the arc {} -> {} is {}, but {} follows from the cuts",
                           fabric.arcs[i].src, fabric.arcs[i].dst, bound.prices[i], prices[i]);
  } else {
    limit = allToAllLimit(fabric, orbits, bound.prices);
  }
  limit *= fabric.unit;
  if (!(bound.algbw >= limit * (1 - tolerance)))
    return fmt::format("the prices prove {} GB/s, not {}", limit, bound.algbw);
  return "";
}

} // namespace ccl::model
