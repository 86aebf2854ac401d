// Scatter and gather: a path for every chunk.

#include "passes/synthesis/solver/Paths.h"
#include "passes/synthesis/solver/Order.h"
#include "test/unit/bound/Networks.h"
#include "test/unit/solver/Cases.h"

#include <doctest/doctest.h>

using namespace cases;
using solver::Forest;
using solver::Measure;
using solver::Network;
using solver::PathProblem;
using solver::Tree;

namespace {

Network flat(const Topology &t) { return Network(t, {.symmetric = false, .forbidden = {}}); }

double fluidShare(const Topology &t, const Network &network, const PathProblem &problem) {
  model::BoundOptions options;
  options.root = problem.root;
  const double bound =
      model::bandwidthBound(t, problem.up ? Collective::Gather : Collective::Scatter, options)
          ->algbw;
  const Forest forest = packPaths(network, problem);
  const Measure measured = measure(network, forest);
  REQUIRE(measured.error == "");
  REQUIRE(forest.trees.size() == size_t(problem.chunks) * size_t(network.ranks()));
  for (size_t t = 0; t < forest.trees.size(); ++t)
    CHECK(forest.trees[t].leaf == int32_t(t) / problem.chunks);
  return solver::algbw(double(forest.trees.size()), measured.us()) / bound;
}

/// A ring with chords, links of two speeds, one switch, some links missing.
Topology irregular(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  const int64_t n = 8 + below(25);
  Topology t = networks::ranks({n});
  for (int64_t rank = 0; rank < n; ++rank) {
    networks::join(t, rank, (rank + 1) % n, 50);
    if (const int64_t other = below(n); other != rank)
      networks::join(t, rank, other, below(2) ? 25 : 50);
  }
  const int32_t node = networks::addSwitch(t);
  for (int64_t rank = below(3); rank < n; rank += 2 + below(4))
    networks::join(t, rank, node, 25);
  return networks::withFailures(std::move(t), n / 8, random);
}

} // namespace

TEST_CASE("paths reach the bound where chunks divide it") {
  struct Row {
    const char *name;
    int32_t root, chunks;
  };
  for (const Row &row : std::initializer_list<Row>{{"ring:4", 0, 2},
                                                   {"torus:4x4", 3, 4},
                                                   {"mesh:4x4", 0, 2},
                                                   {"star:6", 2, 1},
                                                   {"dgx1", 1, 6},
                                                   {"ndv2:2", 9, 1}})
    for (bool up : {false, true}) {
      CAPTURE(std::string(row.name));
      CAPTURE(up);
      const Topology t = named(row.name);
      const Network network = flat(t);
      const PathProblem problem{row.root, up, row.chunks, false, 0};
      REQUIRE(problem.check(network) == "");
      CHECK(fluidShare(t, network, problem) == doctest::Approx(1));
    }
}

TEST_CASE("paths of irregular networks") {
  for (uint64_t seed = 1; seed <= 30; ++seed)
    for (bool up : {false, true}) {
      CAPTURE(seed);
      CAPTURE(up);
      const Topology t = irregular(seed);
      const Network network = flat(t);
      double best = 0;
      for (int32_t chunks = 1; chunks <= 12 && best < 0.98; ++chunks)
        best = std::max(best, fluidShare(t, network, {int32_t(seed % 8), up, chunks, false, 0}));
      CHECK(best >= 0.98);
      CHECK(best <= 1 + 1e-9);
    }
}

TEST_CASE("the shortest paths only") {
  const Topology t = named("mesh:4x4");
  const Network network = flat(t);
  const Measure low = measure(network, packPaths(network, {1, false, 2, true, 0}));
  const Measure free = measure(network, packPaths(network, {1, false, 2, false, 0}));
  CHECK(low.height == 5);
  CHECK(low.us() >= free.us());
}

TEST_CASE("what is measured of paths") {
  const Network network = flat(named("ring:4"));
  Forest forest = packPaths(network, {0, false, 1, false, 0});
  REQUIRE(measure(network, forest).error == "");
  Tree &path = forest.trees[2]; // to the other side
  path.ways[3] = path.ways[1] = 0;
  CHECK(measure(network, forest).error.find("beside the path") != std::string::npos);
  path.leaf = 7;
  CHECK(measure(network, forest).error == "tree 2: a path to no rank");
}

TEST_CASE("paths in order") {
  const Network network = flat(named("torus:4x4"));
  for (bool up : {false, true}) {
    const Forest forest = packPaths(network, {5, up, 4, false, 0});
    solver::OrderProblem problem;
    const std::vector<solver::Hop> hops = order(network, forest, problem);
    CHECK(verify(network, forest, problem, hops) == "");
    CHECK(finish(hops) >= measure(network, forest).us() * (1 - 1e-9));
  }
}

TEST_CASE("requests for paths that make no sense") {
  const Network network = flat(named("ring:4"));
  CHECK(PathProblem{0, false, 0, false, 0}.check(network) == "0 chunks: there has to be one");
  CHECK(PathProblem{4, false, 1, false, 0}.check(network) == "root 4 is no rank of 0 to 3");
  CHECK(PathProblem{}.check(Network(named("ring:4"))) ==
        "paths of one root are looked for without shifts");
}
