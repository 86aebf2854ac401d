//===- Pairs.cpp ----------------------------------------------------------===//
#include "passes/synthesis/solver/Pairs.h"

#include "dialect/bound/TreePairs.h"
#include "dialect/simulate/Routes.h"
#include "passes/synthesis/solver/MovingTrees.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ccl::solver {
namespace {

/// Messages from `rank` to the farthest, and to all together.
std::pair<int64_t, int64_t> remoteness(const Network &network, int32_t rank) {
  const std::vector<int32_t> away = messages(network, rank, /*up=*/false);
  return {*std::max_element(away.begin(), away.end()),
          std::accumulate(away.begin(), away.end(), int64_t(0))};
}

/// Those that are nearest to all others; each once, before any twice.
std::vector<int32_t> centralRoots(const Network &network, int32_t count) {
  std::vector<std::pair<std::pair<int64_t, int64_t>, int32_t>> order;
  for (int32_t rank = 0; rank < network.ranks(); ++rank)
    order.push_back({remoteness(network, rank), rank});
  std::sort(order.begin(), order.end());
  std::vector<int32_t> roots;
  for (int32_t i = 0; i < count; ++i)
    roots.push_back(order[size_t(i % network.ranks())].second);
  return roots;
}

std::vector<int32_t> spreadRoots(const Network &network, int32_t count) {
  std::vector<int32_t> roots;
  for (int64_t i = 0; i < count; ++i)
    roots.push_back(int32_t((2 * i + 1) * network.ranks() / (2 * int64_t(count))));
  return roots;
}

PackProblem packing(const PairProblem &problem, const std::vector<int32_t> &roots) {
  PackProblem result;
  for (int32_t root : roots) {
    result.trees.push_back({root, true});
    result.trees.push_back({root, false});
  }
  result.slack = problem.slack;
  result.goal = problem.goal;
  return result;
}

} // namespace

std::string PairProblem::check(const Network &network) const {
  if (chunks < 1)
    return fmt::format("{} chunks: there has to be one", chunks);
  if (network.isSymmetric())
    return "where all ranks are alike, reduce_scatter and all_gather are as good";
  return packing(*this, {0}).check(network);
}

/// Numbers of chunks at which `loss` is least.
static std::vector<int32_t> leastLosses(int32_t most, int32_t count,
                                        const std::function<double(int32_t)> &loss) {
  std::vector<std::pair<double, int32_t>> losses;
  for (int32_t chunks = 1; chunks <= most; ++chunks)
    losses.push_back({std::max(0.0, std::round(loss(chunks) * 1e6) / 1e6), chunks});
  std::sort(losses.begin(), losses.end());
  std::vector<int32_t> result;
  double last = -1;
  for (auto [loss, chunks] : losses) {
    // Of equally good ones some small, some large.
    if (int32_t(result.size()) == count || (loss == last && 2 * chunks < 3 * result.back()))
      continue;
    last = loss;
    result.push_back(chunks);
  }
  return result;
}

/// What is lost where `wanted` is not a whole number.
static double lossOf(double wanted) {
  return wanted > 0 ? 1 - std::floor(wanted + 1e-6) / wanted : 0;
}

std::vector<int32_t> pairChunks(const Network &network, double algbw, int32_t most, int32_t count) {
  return leastLosses(most, count, [&, weights = network.limitWeights()](int32_t chunks) {
    double loss = 0;
    for (double weight : weights)
      loss += weight > 0 ? lossOf(chunks * 1000 / algbw / weight) : 0;
    return loss;
  });
}

std::vector<int32_t> pairChunks(const PairShares &shares, int32_t most, int32_t count) {
  return leastLosses(most, count, [&](int32_t chunks) {
    double loss = 0;
    for (double root : shares.roots)
      loss += lossOf(chunks * root);
    for (const std::vector<double> *part : {&shares.up, &shares.down})
      for (size_t limit = 0; limit < part->size(); ++limit)
        loss += lossOf(chunks * (*part)[limit] * shares.limits[limit] / shares.algbw);
    return loss;
  });
}

std::optional<PairShares> pairShares(const model::Topology &topology, const Network &network,
                                     double seconds) {
  using Clock = model::TreePairs::Clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  const model::Fabric fabric = model::makeFabric(topology);
  const model::Orbits orbits = model::trivialOrbits(fabric);
  model::TreePairs program(fabric, orbits, model::Switches::Forward, 0, end);
  program.solve();
  if (program.attained() <= 0)
    return std::nullopt;
  double largest = 0;
  for (const model::Arc &arc : fabric.arcs)
    largest = std::max(largest, double(arc.capacity));
  const model::TreeRates &rates = program.rates();
  PairShares shares;
  shares.algbw = program.attained() * fabric.unit;
  const double sum = std::accumulate(rates.root.begin(), rates.root.end(), 0.0);
  for (int32_t rank = 0; rank < network.ranks(); ++rank)
    shares.roots.push_back(rates.root[size_t(rank)] / sum);
  for (double weight : network.limitWeights())
    shares.limits.push_back(weight > 0 ? 1000 / weight : 0);
  shares.up.assign(shares.limits.size(), 0.5), shares.down = shares.up;
  const model::Routes routes(topology);
  for (size_t wire = 0; wire < routes.wires().size(); ++wire) {
    const int32_t arc = fabric.find(routes.wires()[wire].src, routes.wires()[wire].dst);
    if (arc < 0)
      continue; // what is shared is an arc of its own
    const double capacity = double(fabric.arcs[size_t(arc)].capacity) / largest;
    shares.up[wire] = rates.reduce[size_t(arc)] / capacity;
    shares.down[wire] = rates.broadcast[size_t(arc)] / capacity;
  }
  return shares;
}

/// By largest remainders.
static std::vector<int32_t> sharedRoots(const PairShares &shares, int32_t count) {
  std::vector<std::pair<double, int32_t>> rest;
  std::vector<int32_t> roots;
  for (size_t rank = 0; rank < shares.roots.size(); ++rank) {
    const double wanted = shares.roots[rank] * count, whole = std::floor(wanted + 1e-6);
    roots.insert(roots.end(), size_t(whole), int32_t(rank));
    rest.push_back({whole - wanted, int32_t(rank)});
  }
  std::sort(rest.begin(), rest.end());
  for (size_t i = 0; int32_t(roots.size()) < count; ++i)
    roots.push_back(rest[i].second);
  roots.resize(size_t(count));
  return roots;
}

static Forest packShares(const Network &network, const PairProblem &problem,
                         const PackOptions &options) {
  constexpr double least = 1e-4; // of a limit: dear, not forbidden
  const PackProblem both = packing(problem, sharedRoots(*problem.shares, problem.chunks));
  Forest halves[2], pairs;
  for (size_t half : {0, 1}) {
    std::vector<double> factors;
    for (double share : half == 0 ? problem.shares->up : problem.shares->down)
      factors.push_back(1 / std::max(share, least));
    PackProblem wanted = both;
    std::erase_if(wanted.trees, [&](const auto &tree) { return tree.up != (half == 0); });
    halves[half] = pack(network.weighted(factors), wanted, options);
  }
  for (size_t i = 0; i < halves[0].trees.size(); ++i)
    for (Forest &half : halves)
      pairs.trees.push_back(std::move(half.trees[i]));
  return pairs;
}

Forest packPairs(const Network &network, const PairProblem &problem, const PackOptions &options) {
  if (problem.shares)
    return packShares(network, problem, options);
  Forest best;
  double bestUs = 0;
  for (auto *choose : {centralRoots, spreadRoots}) {
    Forest forest = pack(network, packing(problem, choose(network, problem.chunks)), options);
    const double us = measure(network, forest).us();
    if (best.trees.empty() || us < bestUs)
      best = std::move(forest), bestUs = us;
    if (bestUs <= problem.goal * (1 + 1e-9))
      break;
  }
  return best;
}

} // namespace ccl::solver
