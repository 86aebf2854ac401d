// Networks without symmetry: mixed speeds, switches that relay, links that are missing.

#include "passes/synthesis/solver/Pairs.h"
#include "test/unit/bound/Networks.h"
#include "test/unit/solver/Cases.h"

#include <doctest/doctest.h>

using namespace cases;
using solver::Measure;
using solver::Network;

namespace {

constexpr uint64_t seeds = 30;

Topology irregular(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  const int64_t n = 8 + below(57);
  Topology t = networks::ranks({n});
  const double speeds[] = {25, 50, 100};
  auto speed = [&] { return speeds[below(3)]; };
  for (int64_t rank = 0; rank < n; ++rank)
    networks::join(t, rank, (rank + 1) % n, speed());
  for (int64_t i = 0; i < n; ++i) {
    const int64_t a = below(n), b = below(n);
    if (a != b)
      networks::join(t, a, b, speed());
  }
  for (int64_t switches = below(3); switches > 0; --switches) {
    const int32_t node = networks::addSwitch(t);
    const double port = speed();
    for (int64_t rank = below(4); rank < n; rank += 1 + below(8))
      networks::join(t, rank, node, port);
  }
  return networks::withFailures(std::move(t), n / 8, random);
}

/// The best share of the bound with at most eight trees a rank.
double bestGather(const Topology &t, const Network &network) {
  double best = 0;
  const double one = boundUs(t, Collective::AllGather, double(network.ranks()));
  solver::RateProblem rate;
  rate.symmetric = false;
  for (const solver::RateRow &row : solver::sweep(t, rate, 8)) {
    if (row.share <= best || best >= 0.99)
      continue;
    solver::PackProblem problem = rootedEverywhere(network, row.trees, false);
    problem.goal = row.us;
    const Measure measured = measure(network, pack(network, problem));
    CHECK(measured.error == "");
    CHECK(measured.us() >= row.us * (1 - 1e-9));
    best = std::max(best, one * row.trees / measured.us());
  }
  return best;
}

/// The best share of the bound by pairs: roots near to all, else as the linear program has them.
double bestPairs(const Topology &t, const Network &network, double bound) {
  double best = 0;
  auto attempt = [&](int32_t chunks, const solver::PairShares *shares) {
    if (best > 0.99)
      return;
    const solver::PairProblem problem{chunks, -1, chunks * 1000 / bound, shares};
    const Measure measured = measure(network, packPairs(network, problem));
    CHECK(measured.error == "");
    CHECK(measured.us() >= problem.goal * (1 - 1e-9));
    best = std::max(best, problem.goal / measured.us());
  };
  for (int32_t chunks : solver::pairChunks(network, bound, 128))
    attempt(chunks, nullptr);
  if (best >= 0.99)
    return best;
  const std::optional<solver::PairShares> shares = solver::pairShares(t, network, 60);
  REQUIRE(shares.has_value());
  for (int32_t chunks : solver::pairChunks(*shares, 128))
    attempt(chunks, &*shares);
  return best;
}

} // namespace

TEST_CASE("all_gather of irregular networks") {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const Topology t = irregular(seed);
    const Network network(t);
    const double best = bestGather(t, network);
    CAPTURE(t.ranks());
    CHECK(best >= 0.98);
  }
}

TEST_CASE("all_reduce of irregular networks") {
  double gain = 0; // over reduce_scatter and all_gather at their bound
  int32_t good = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const Topology t = irregular(seed);
    const double bound = model::bandwidthBound(t, Collective::AllReduce)->algbw;
    const double halves = model::bandwidthBound(t, Collective::AllGather)->algbw / 2;
    const Network network(t, {.symmetric = false, .forbidden = {}});
    const double best = bestPairs(t, network, bound);
    CHECK(best >= 0.93);
    good += best >= 0.98;
    gain += best * bound / halves / double(seeds);
  }
  CHECK(good >= 29);
  CHECK(gain > 1.8);
}
