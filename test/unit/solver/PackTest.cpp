#include "test/unit/bound/Networks.h"
#include "test/unit/solver/Cases.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace cases;
using solver::Forest;
using solver::Measure;
using solver::Network;
using solver::PackOptions;
using solver::PackProblem;
using solver::Tree;

namespace {

/// Share of the bound, and height.
std::pair<double, int32_t> quality(const std::string &name, Collective collective, int32_t k,
                                   int32_t slack) {
  const Topology t = named(name);
  const Network network(t);
  const bool up = collective == Collective::ReduceScatter;
  PackProblem problem = rootedEverywhere(network, k, up, slack);
  problem.goal = boundUs(t, collective, double(network.ranks()) * k);
  REQUIRE(problem.check(network) == "");
  const Measure measured = measure(network, pack(network, problem));
  REQUIRE(measured.error == "");
  return {problem.goal / measured.us(), measured.height};
}

/// The least time of one tree for each root, by trying all.
double bruteForce(const Network &network, const std::vector<PackProblem::Wanted> &wanted) {
  std::vector<std::vector<Tree>> all;
  for (const PackProblem::Wanted &w : wanted) {
    std::vector<Tree> &trees = all.emplace_back();
    std::vector<int32_t> ways(size_t(network.ranks()), 0);
    ways[size_t(w.root)] = -1;
    auto step = [&] {
      for (int32_t rank = 0; rank < network.ranks(); ++rank) {
        if (rank == w.root)
          continue;
        const size_t choices = (w.up ? network.out(rank) : network.in(rank)).size();
        if (size_t(++ways[size_t(rank)]) < choices)
          return true;
        ways[size_t(rank)] = 0;
      }
      return false;
    };
    do {
      Tree tree{w.root, w.up, ways};
      if (measure(network, {{tree}}).error.empty())
        trees.push_back(tree);
    } while (step());
  }
  double best = INFINITY;
  std::vector<size_t> at(all.size(), 0);
  for (bool more = true; more;) {
    Forest forest;
    for (size_t i = 0; i < all.size(); ++i)
      forest.trees.push_back(all[i][at[i]]);
    best = std::min(best, measure(network, forest).us());
    more = false;
    for (size_t i = 0; i < at.size() && !more; ++i) {
      more = ++at[i] < all[i].size();
      if (!more)
        at[i] = 0;
    }
  }
  return best;
}

} // namespace

TEST_CASE("regular networks reach the bound") {
  struct Row {
    const char *name;
    int32_t k, slack, height;
  };
  for (const Row &row : std::initializer_list<Row>{{"ring:8", 2, 1, 4},
                                                   {"torus:4x4", 4, 0, 4},
                                                   {"torus:8x8x8", 6, 0, 12},
                                                   {"mesh:4x4", 2, 1, 6},
                                                   {"cube:6", 6, 0, 6},
                                                   {"full:8", 1, 0, 1},
                                                   {"star:8", 1, 6, 7},
                                                   {"dgx1", 6, 1, 3},
                                                   {"dgxa100:4", 2, 3, 4},
                                                   {"dgxh100:2", 4, 3, 4},
                                                   {"dgx-h100:64", 1, 3, 4},
                                                   {"ndv2:2", 2, 1, 2},
                                                   {"ndv2:4", 2, 1, 2}})
    for (Collective collective : {Collective::AllGather, Collective::ReduceScatter}) {
      CAPTURE(std::string(row.name));
      CAPTURE(name(collective));
      auto [share, height] = quality(row.name, collective, row.k, row.slack);
      CHECK(share > 0.9999);
      CHECK(share <= 1 + 1e-9);
      CHECK(height <= row.height);
    }
}

TEST_CASE("where boxes and networks are both busy") {
  CHECK(quality("h800:64", Collective::AllGather, 4, 3).first > 0.999);
  CHECK(quality("gb200-nvl72:8", Collective::AllGather, 4, 3).first > 0.999);
  CHECK(quality("unwb:64", Collective::AllGather, 1, 2).first > 0.997);
  CHECK(quality("mi250:2", Collective::AllGather, 7, 8).first > 0.98);
}

TEST_CASE("broadcast and reduce: trees of one root") {
  for (std::string name : {"torus:4x4", "mesh:3x3", "dgx1", "ndv2:2"})
    for (bool up : {false, true}) {
      CAPTURE(name);
      const Topology t = named(name);
      const Network network(t, {.symmetric = false, .forbidden = {}});
      const Collective collective = up ? Collective::Reduce : Collective::Broadcast;
      double best = 0;
      for (int32_t k = 1; k <= 6; ++k) {
        PackProblem problem;
        problem.slack = -1;
        problem.trees.assign(size_t(k), {0, up});
        problem.goal = boundUs(t, collective, k);
        best = std::max(best, problem.goal / measure(network, pack(network, problem)).us());
      }
      CHECK(best > 0.999);
      CHECK(best <= 1 + 1e-9);
    }
}

TEST_CASE("tiny networks: the best there is") {
  std::mt19937_64 random(7);
  int32_t tried = 0;
  for (int32_t i = 0; i < 40; ++i) {
    const Topology t = networks::randomNetwork(random, 5, /*switches=*/i % 2 == 0, true);
    if (t.ranks() > 4)
      continue;
    const Network network(t, {.symmetric = false, .forbidden = {}});
    PackProblem problem;
    problem.slack = -1;
    problem.trees.push_back({0, false});
    problem.trees.push_back({int32_t(t.ranks()) - 1, i % 3 == 0});
    if (!problem.check(network).empty())
      continue;
    ++tried;
    CAPTURE(i);
    problem.goal = bruteForce(network, problem.trees);
    CHECK(measure(network, pack(network, problem)).us() == doctest::Approx(problem.goal));
  }
  CHECK(tried >= 10);
}

TEST_CASE("no rank is farther away than it may be") {
  const Network network(named("torus:4x4"));
  for (int32_t slack = 0; slack < 3; ++slack) {
    PackProblem problem = rootedEverywhere(network, 4, false, slack);
    CHECK(measure(network, pack(network, problem)).height <= 4 + slack);
  }
}

TEST_CASE("the same again, and another seed") {
  const Topology t = named("mi250:2");
  const Network network(t, {.symmetric = false, .forbidden = {}});
  PackProblem problem = rootedEverywhere(network, 2, false);
  problem.goal = boundUs(t, Collective::AllGather, 64) / 2; // never met: rounds are made
  PackOptions options;
  options.rounds = 3;
  const auto first = waysOf(pack(network, problem, options));
  CHECK(first == waysOf(pack(network, problem, options)));
  options.seed = 2;
  CHECK(first != waysOf(pack(network, problem, options)));
}

TEST_CASE("late or cancelled, there are trees all the same") {
  const Network network(named("mi250:2"));
  const PackProblem problem = rootedEverywhere(network, 7, false);
  PackOptions late;
  late.deadline = std::chrono::steady_clock::now();
  CHECK(measure(network, pack(network, problem, late)).error == "");
  PackOptions cancelled;
  int32_t asked = 0;
  cancelled.isCancelled = [&] { return ++asked > 3; };
  CHECK(measure(network, pack(network, problem, cancelled)).error == "");
  CHECK(asked >= 4);
  CHECK(asked < 10000); // it does not go on asking
}

TEST_CASE("measure says what is wrong") {
  const Network network(named("ring:4"), {.symmetric = false, .forbidden = {}});
  PackProblem problem;
  problem.trees = {{0, false}};
  Forest good = pack(network, problem);
  Forest forest = good;
  forest.trees[0].ways.pop_back();
  CHECK(measure(network, forest).error == "tree 0: not a tree of these ranks");
  forest = good;
  forest.trees[0].ways[2] = -1;
  CHECK(measure(network, forest).error == "tree 0: rank 2 has no parent");
  forest = good;
  forest.trees[0].ways[0] = 0;
  CHECK(measure(network, forest).error == "tree 0: the root has a parent");
  forest = good;
  auto towards = [&](int32_t rank, int32_t parent) {
    for (size_t i = 0; i < network.in(rank).size(); ++i)
      if (network.in(rank)[i].other == parent)
        forest.trees[0].ways[size_t(rank)] = int32_t(i);
  };
  towards(1, 2), towards(2, 1);
  CHECK(measure(network, forest).error == "tree 0: rank 1 is in a circle");
}

TEST_CASE("requests that make no sense") {
  const Network flat(named("ring:4"), {.symmetric = false, .forbidden = {}});
  PackProblem problem;
  CHECK(problem.check(flat) == "no trees are wanted");
  problem.trees = {{4, false}};
  CHECK(problem.check(flat) == "root 4 is no rank of 0 to 3");
  problem.trees = {{1, false}};
  CHECK(problem.check(Network(named("ring:4"))) ==
        "root 1: where all ranks are alike, only rank 0 has trees");
}
