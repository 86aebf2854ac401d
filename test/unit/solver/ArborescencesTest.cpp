// Trees of one root, exactly, through switches too.

#include "passes/synthesis/solver/Arborescences.h"
#include "passes/synthesis/solver/Junctions.h"
#include "test/unit/bound/Networks.h"
#include "test/unit/solver/Cases.h"

#include <doctest/doctest.h>

using namespace cases;
using solver::Forest;
using solver::Junctions;
using solver::Measure;
using solver::Network;
using solver::PackProblem;

namespace {

Network flat(const Topology &t) { return Network(t, {.symmetric = false, .forbidden = {}}); }

/// The share of what `count` trees of `root` can reach that they do.
double share(const Topology &t, const Network &network, int32_t root, bool up, int32_t count) {
  solver::RateProblem rate;
  rate.trees = count, rate.root = root, rate.up = up;
  PackProblem problem;
  problem.slack = -1;
  problem.goal = leastTime(t, rate);
  problem.trees.assign(size_t(count), {root, up});
  const std::optional<Forest> forest =
      packArborescences(network, problem, 1e3 * problem.goal, solver::PackOptions());
  REQUIRE(forest.has_value());
  const Measure measured = measure(network, *forest);
  REQUIRE(measured.error == "");
  REQUIRE(forest->trees.size() == size_t(count));
  CHECK(measured.us() >= problem.goal * (1 - 1e-9));
  return problem.goal / measured.us();
}

} // namespace

TEST_CASE("as many trees as links and switches have room for") {
  struct Row {
    const char *name;
    int32_t count;
  };
  for (const Row &row : std::initializer_list<Row>{{"torus:4x4", 4},
                                                   {"dgx1", 6},
                                                   {"star:5", 1},
                                                   {"star:8", 7},
                                                   {"dgxa100:2", 8},
                                                   {"dgx-h100:2", 8},
                                                   {"dgx-h100:4", 8},
                                                   {"dgx2:2", 14}})
    for (bool up : {false, true}) {
      CAPTURE(std::string(row.name));
      CAPTURE(up);
      const Topology t = named(row.name);
      CHECK(share(t, flat(t), 3, up, row.count) == doctest::Approx(1));
    }
}

TEST_CASE("trees of one root in irregular networks with a switch") {
  std::mt19937_64 random(7);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  for (int32_t round = 0; round < 20; ++round) {
    CAPTURE(round);
    const int64_t n = 6 + below(15);
    // Ranks have a switch, or links to others, not both: routes leave nothing out then.
    Topology t = networks::ranks({n});
    const int64_t switched = 2 + below(n - 3);
    const int32_t node = networks::addSwitch(t);
    for (int64_t rank = 0; rank < switched; ++rank)
      networks::join(t, rank, node, 25 * double(1 + below(2)));
    for (int64_t rank = switched; rank <= n; ++rank)
      networks::join(t, rank - 1, rank % n, 25 * double(1 + below(3)));
    const Network network = flat(t);
    for (int32_t count : {1, 2, 3})
      CHECK(share(t, network, int32_t(below(n)), below(2) > 0, count) == doctest::Approx(1));
  }
}

TEST_CASE("junctions of a network") {
  const Network star = flat(named("star:4"));
  std::optional<Junctions> found = findJunctions(star, false);
  REQUIRE(found.has_value());
  CHECK(found->links.size() == 8);
  CHECK(found->hasSwitches(4));
  CHECK(!findJunctions(flat(named("ring:4")), false)->hasSwitches(4));
  // A resource of both directions has no place.
  Topology shared = networks::ranks({2});
  networks::join(shared, 0, 1, 1);
  shared.resources.push_back({"cable", 1});
  for (model::Link &link : shared.links)
    link.resources = {0};
  CHECK(!findJunctions(flat(shared), false).has_value());
}
