//===- Pairs.cpp ----------------------------------------------------------===//
#include "passes/synthesis/solver/Pairs.h"

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

std::vector<int32_t> pairChunks(const Network &network, double algbw, int32_t most, int32_t count) {
  std::vector<double> weights(size_t(network.limits()), 0);
  for (int32_t rank = 0; rank < network.representatives(); ++rank)
    for (const Way &way : network.out(rank))
      for (const Use &use : network.uses(way))
        weights[size_t(use.limit)] = use.weight;
  std::vector<std::pair<double, int32_t>> losses;
  for (int32_t chunks = 1; chunks <= most; ++chunks) {
    const double time = chunks * 1000 / algbw;
    double loss = 0;
    for (double weight : weights)
      if (weight > 0)
        loss += 1 - std::floor(time / weight + 1e-6) * weight / time;
    losses.push_back({std::max(0.0, std::round(loss * 1e6) / 1e6), chunks});
  }
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

Forest packPairs(const Network &network, const PairProblem &problem, const PackOptions &options) {
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
