#include "test/unit/bound/Networks.h"
#include "test/unit/solver/Cases.h"

#include "dialect/simulate/Routes.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

using namespace cases;
using solver::Network;
using solver::Way;

TEST_CASE("ways lead where their mates come from, and those of a kind stand together") {
  for (const std::string name :
       {"torus:3x4", "mesh:3x3", "dgxa100:2", "ndv2:2", "mi250:2", "dgx1"}) {
    CAPTURE(name);
    const Topology t = named(name);
    for (bool symmetric : {true, false}) {
      const Network network(t, {.symmetric = symmetric, .forbidden = {}});
      for (int32_t rank = 0; rank < network.ranks(); ++rank) {
        std::set<int32_t> seen;
        int32_t last = -1;
        for (size_t i = 0; i < network.out(rank).size(); ++i) {
          const Way &way = network.out(rank)[i];
          const int32_t to = network.end(rank, way);
          REQUIRE(size_t(way.mate) < network.in(to).size());
          const Way &back = network.in(to)[size_t(way.mate)];
          CHECK(network.end(to, back) == rank);
          CHECK(back.uses == way.uses);
          CHECK(size_t(back.mate) == i);
          if (way.kind != last)
            CHECK(seen.insert(way.kind).second);
          last = way.kind;
        }
      }
    }
  }
}

TEST_CASE("a limit's work is that of the links, message by message") {
  // By Routes alone, without classes: with shifts the mean of the members has to come out.
  for (const std::string name : {"torus:3x4", "cube:3", "dgxh100:2", "unwb:2", "ndv2:2"}) {
    CAPTURE(name);
    const Topology t = named(name);
    const Network network(t);
    solver::PackProblem problem = rootedEverywhere(network, 2, false);
    const solver::Forest forest = pack(network, problem);
    const solver::Measure measured = measure(network, forest);
    REQUIRE(measured.error == "");
    model::Routes routes(t);
    std::map<std::pair<bool, int32_t>, double> busy; // resource or wire
    for (const solver::Tree &tree : forest.trees)
      for (int32_t by = 0; by < (network.isSymmetric() ? network.ranks() : 1); ++by)
        for (int32_t rank = 0; rank < network.ranks(); ++rank) {
          if (rank == tree.root)
            continue;
          int32_t src = solver::Forest::parent(network, tree, rank), dst = rank;
          if (network.isSymmetric())
            src = network.shifted(src, by), dst = network.shifted(dst, by);
          for (int32_t w : routes.way(src, dst)) {
            const model::Wire &wire = routes.wires()[size_t(w)];
            busy[{false, w}] += 1000 / wire.bandwidth;
            for (int32_t shared : t.links[size_t(wire.links.front())].resources) {
              const double bandwidth = t.resources[size_t(shared)].bandwidth;
              busy[{true, shared}] += 1000 / (bandwidth > 0 ? bandwidth : wire.bandwidth);
            }
          }
        }
    double most = 0;
    for (const auto &[key, us] : busy)
      most = std::max(most, us);
    CHECK(measured.us() == doctest::Approx(most));
  }
}

TEST_CASE("shifts form a group") {
  const Network network(named("torus:3x4"));
  REQUIRE(network.isSymmetric());
  for (int32_t a = 0; a < network.ranks(); ++a) {
    CHECK(network.shifted(a, network.inverse(a)) == 0);
    for (int32_t b = 0; b < network.ranks(); ++b)
      CHECK(network.shifted(a, b) == network.shifted(b, a));
  }
}

TEST_CASE("what is forbidden is not used") {
  Topology t = named("ring:4");
  std::vector<bool> forbidden(t.links.size(), false);
  for (size_t i = 0; i < t.links.size(); ++i)
    forbidden[i] = t.links[i].src == 0 && t.links[i].dst == 1;
  const Network network(t, {.symmetric = true, .forbidden = forbidden});
  CHECK(!network.isSymmetric());
  for (const Way &way : network.out(0))
    CHECK(way.other != 1);
}

TEST_CASE("one rank, two ranks, no way, one way only") {
  const Network one(networks::ranks({1}));
  solver::PackProblem alone;
  alone.trees.push_back({0, false});
  REQUIRE(alone.check(one) == "");
  CHECK(measure(one, pack(one, alone)).us() == 0);

  Topology pair = networks::ranks({2});
  CHECK(rootedEverywhere(Network(pair), 1, false).check(Network(pair)) ==
        "no way from rank 0 to rank 1");
  networks::addLink(pair, 0, 1, 10);
  const Network oneWay(pair);
  solver::PackProblem down, up, both;
  down.trees = {{0, false}}, up.trees = {{1, true}}, both.trees = {{0, false}, {1, false}};
  CHECK(down.check(oneWay) == "");
  CHECK(up.check(oneWay) == "");
  CHECK(both.check(oneWay) == "no way from rank 1 to rank 0");
  CHECK(measure(oneWay, pack(oneWay, down)).us() == doctest::Approx(100));
  CHECK(measure(oneWay, pack(oneWay, up)).us() == doctest::Approx(100));
}
