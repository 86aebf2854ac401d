#include "test/unit/bound/Networks.h"
#include "test/unit/solver/Cases.h"

#include <doctest/doctest.h>

using namespace cases;
using solver::leastTime;
using solver::Network;
using solver::RateProblem;

TEST_CASE("a mesh of 2 x 3: one tree a root needs whole messages") {
  // The corner has 2 links and takes in 5 shards: with one tree each 3 messages on one of them.
  const Topology t = named("mesh:2x3");
  RateProblem problem;
  CHECK(leastTime(t, problem) == doctest::Approx(3000));
  problem.trees = 2;
  CHECK(leastTime(t, problem) == doctest::Approx(5000));
}

TEST_CASE("classes carry whole numbers each") {
  // 15 arcs of a tree over 4 classes of links, 16 links each: 4 of them at least.
  RateProblem problem;
  CHECK(leastTime(named("torus:4x4"), problem) == doctest::Approx(4000));
  problem.trees = 4;
  CHECK(leastTime(named("torus:4x4"), problem) == doctest::Approx(15000));
}

TEST_CASE("a sweep comes to the bound, and never beyond") {
  for (const std::string name : {"mesh:3x3", "dgxa100:2", "dgx1", "mi250:2", "ndv2:2"}) {
    CAPTURE(name);
    for (bool up : {false, true}) {
      RateProblem problem;
      problem.up = up;
      const auto rows = solver::sweep(named(name), problem, 8);
      REQUIRE(rows.size() == 8);
      double best = 0;
      for (const solver::RateRow &row : rows) {
        CHECK(row.share <= 1 + 1e-9);
        best = std::max(best, row.share);
        // Twice the trees can do what these do.
        if (row.trees <= 4)
          CHECK(rows[size_t(2 * row.trees) - 1].share >= row.share - 1e-9);
      }
      CHECK(best > 0.98);
    }
  }
}

TEST_CASE("what is packed is never faster than the rate") {
  std::mt19937_64 random(3);
  int32_t reached = 0, tried = 0;
  for (int32_t i = 0; i < 30; ++i) {
    const Topology t = networks::randomNetwork(random, 9, i % 2 == 0, /*balanced=*/true);
    for (bool symmetric : {false, true}) {
      const Network network(t, {.symmetric = symmetric, .forbidden = {}});
      for (int32_t k = 1; k <= 3; ++k) {
        CAPTURE(i);
        CAPTURE(k);
        RateProblem rate;
        rate.trees = k, rate.symmetric = symmetric, rate.up = i % 3 == 0;
        solver::PackProblem problem = rootedEverywhere(network, k, rate.up);
        problem.goal = leastTime(t, rate);
        const double us = measure(network, pack(network, problem)).us();
        CHECK(us >= problem.goal * (1 - 1e-9));
        ++tried;
        reached += us <= problem.goal * (1 + 1e-9);
      }
    }
  }
  // What it is good for: most of the time there is nothing left to look for.
  CHECK(reached * 10 >= tried * 7);
}

TEST_CASE("a deadline leaves a bound that holds") {
  const Topology t = named("mi250:2");
  RateProblem problem;
  problem.symmetric = false;
  const double exact = leastTime(t, problem);
  problem.deadline = std::chrono::steady_clock::now();
  CHECK(leastTime(t, problem) < exact);
  CHECK(leastTime(t, problem) > 0);
}

TEST_CASE("requests that make no sense") {
  RateProblem problem;
  CHECK(problem.check(named("ring:4")) == "");
  problem.trees = 0;
  CHECK(problem.check(named("ring:4")) == "0 trees: there can be 1 to 4096");
  problem.trees = 1, problem.root = 4;
  CHECK(problem.check(named("ring:4")) == "root 4 is no rank of 0 to 3");
  CHECK(problem.check(networks::ranks({1})) == "one rank needs no trees");
}

TEST_CASE("speeds that are far apart") {
  for (double slow : {1.0, 1e-6})
    for (double fast : {1e3, 1e6, 1e9}) {
      CAPTURE(slow);
      CAPTURE(fast);
      Topology t;
      t.axes = {{"x", 2}};
      t.switches.resize(2); // one on each way
      t.links = {
          {0, 2, slow, 0, {}}, {2, 1, fast, 0, {}}, {1, 3, fast, 0, {}}, {3, 0, fast, 0, {}}};
      RateProblem problem;
      problem.symmetric = false;
      CHECK(leastTime(t, problem) == doctest::Approx(1000 / slow));
    }
}
