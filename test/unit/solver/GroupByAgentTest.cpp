#include "passes/synthesis/solver/GroupByAgent.h"
#include "passes/synthesis/solver/Pairs.h"
#include "test/unit/solver/Cases.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

using namespace cases;
using solver::Forest;
using solver::Hop;
using solver::Network;
using solver::OrderProblem;

TEST_CASE("grouped by agent, each does the same in the same order") {
  struct Case {
    const char *topology;
    bool up;
  };
  for (auto [topology, up] : {Case{"torus:4x4", false}, Case{"torus:4x4", true},
                              Case{"dgx1", false}, Case{"dgxa100:4", false}}) {
    CAPTURE(topology);
    const Network network(named(topology));
    Pieces p = inPieces(pack(network, rootedEverywhere(network, 2, up, 1)), 3);
    const std::vector<Hop> hops = order(network, p.forest, p.problem);
    const std::vector<Hop> grouped = groupByAgent(network, p.forest, p.problem, hops);
    REQUIRE(grouped.size() == hops.size());
    auto parent = [&](const Hop &hop) {
      return Forest::parent(network, p.forest.trees[size_t(hop.tree)], hop.rank);
    };
    auto agent = [&](const Hop &hop) {
      const solver::Tree &tree = p.forest.trees[size_t(hop.tree)];
      const solver::Way &way = Forest::way(network, tree, hop.rank);
      return std::pair(network.isSymmetric() ? 0 : tree.up ? hop.rank : parent(hop), way.exit);
    };
    using Key = std::pair<int32_t, int32_t>;
    std::map<Key, std::vector<Key>> sent, expected;
    for (const Hop &hop : hops)
      expected[agent(hop)].emplace_back(hop.tree, hop.rank);
    std::set<Key> done;
    size_t changes = 0, changesBefore = 0;
    for (size_t i = 0; i < grouped.size(); ++i) {
      const Hop &hop = grouped[i];
      sent[agent(hop)].emplace_back(hop.tree, hop.rank);
      // What it needs: the hop to its sender, or those of all that send to it.
      for (const Hop &other : hops)
        if (other.tree == hop.tree && (up ? parent(other) == hop.rank : other.rank == parent(hop)))
          CHECK(done.count({other.tree, other.rank}) == 1);
      done.insert({hop.tree, hop.rank});
      changes += i && agent(grouped[i - 1]) != agent(hop);
      changesBefore += i && agent(hops[i - 1]) != agent(hops[i]);
    }
    CHECK(sent == expected);
    if (up)
      CHECK(changes == changesBefore);
    else
      CHECK(changes < changesBefore);
  }
}

TEST_CASE("grouped pairs go down after they came up") {
  const Network network(named("mesh:4x4"), {.symmetric = false, .forbidden = {}});
  Forest forest = packPairs(network, {8, 4, 0});
  OrderProblem problem;
  for (int32_t tree = 0; tree < 16; ++tree)
    problem.after.push_back(tree % 2 ? tree - 1 : -1);
  REQUIRE(problem.check(forest) == "");
  const std::vector<Hop> hops = order(network, forest, problem);
  std::map<int32_t, int32_t> up;
  for (const Hop &hop : groupByAgent(network, forest, problem, hops)) {
    if (hop.tree % 2 == 0)
      ++up[hop.tree];
    else
      CHECK(up[hop.tree - 1] == network.ranks() - 1);
  }
  CHECK(up.size() == 8);
}
