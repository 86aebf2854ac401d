#include "passes/synthesis/solver/Pairs.h"
#include "test/unit/solver/Cases.h"

#include <doctest/doctest.h>

using namespace cases;
using solver::Forest;
using solver::Measure;
using solver::Network;
using solver::PairProblem;

TEST_CASE("meshes: what the linear program says") {
  struct Row {
    const char *name;
    int64_t side;
    int32_t chunks, slack;
  };
  for (const Row &row : std::initializer_list<Row>{{"mesh:3x3", 3, 3, 4},
                                                   {"mesh:4x4", 4, 8, 4},
                                                   {"mesh:6x6", 6, 12, 6},
                                                   {"mesh:16x16", 16, 32, 8}}) {
    CAPTURE(std::string(row.name));
    const Network network(named(row.name), {.symmetric = false, .forbidden = {}});
    // All links are busy all the time: 2 n / (n + 1) GB/s.
    const double algbw = 2 * double(row.side) / double(row.side + 1);
    PairProblem problem{row.chunks, row.slack, row.chunks * 1000 / algbw};
    REQUIRE(problem.check(network) == "");
    const Forest forest = packPairs(network, problem);
    const Measure measured = measure(network, forest);
    REQUIRE(measured.error == "");
    CHECK(measured.us() == doctest::Approx(problem.goal));
    REQUIRE(forest.trees.size() == size_t(2 * row.chunks));
    for (size_t i = 0; i < forest.trees.size(); i += 2) {
      CHECK(forest.trees[i].up);
      CHECK(!forest.trees[i + 1].up);
      CHECK(forest.trees[i].root == forest.trees[i + 1].root);
    }
  }
}

TEST_CASE("requests that make no sense") {
  const Network network(named("mesh:3x3"), {.symmetric = false, .forbidden = {}});
  CHECK(PairProblem{0, 1, 0}.check(network) == "0 chunks: there has to be one");
  CHECK(PairProblem{1, 1, 0}.check(Network(named("ring:4"))) ==
        "where all ranks are alike, reduce_scatter and all_gather are as good");
}
