#include "dialect/model/Topology.h"

#include <doctest/doctest.h>

using namespace ccl::model;

namespace {

/// Two nodes of two ranks; each node has a switch, and the switches a link.
Topology quad() {
  Topology t;
  t.name = "quad";
  t.axes = {{"node", 2}, {"gpu", 2}};
  t.switches = {{"sw0"}, {"sw1"}};
  auto both = [&](int32_t a, int32_t b) {
    t.links.push_back({a, b, 25, 0.7, {}});
    t.links.push_back({b, a, 25, 0.7, {}});
  };
  both(0, 4), both(1, 4), both(2, 5), both(3, 5), both(4, 5);
  return t;
}

} // namespace

TEST_CASE("ranks are row-major coordinates") {
  Topology t;
  t.axes = {{"node", 2}, {"gpu", 3}};
  CHECK(t.ranks() == 6);
  CHECK(t.coordinates(4) == std::vector<int64_t>{1, 1});
  for (int64_t rank = 0; rank < 6; ++rank)
    CHECK(t.rankAt(t.coordinates(rank)) == rank);
  CHECK(Topology().ranks() == 1);
}

TEST_CASE("nodes have names") {
  Topology t = quad();
  CHECK(t.nodes() == 6);
  CHECK(t.nodeName(3) == "rank 3");
  CHECK(t.nodeName(5) == "sw1");
  CHECK(t.nodeName(6) == "node 6");
}

TEST_CASE("check finds the first thing wrong") {
  Topology t = quad();
  CHECK(t.check() == "");
  CHECK(Topology().check() == "");
  std::string error;
  SUBCASE("axis size") { t.axes[1].size = 0, error = "axis gpu has size 0, but needs at least 1"; }
  SUBCASE("axis name") { t.axes[1].name = "node", error = "two axes are named node"; }
  SUBCASE("too many") {
    t.axes = {{"a", int64_t(1) << 40}, {"b", int64_t(1) << 40}};
    error = "the axes make more than 2147483647 ranks";
  }
  SUBCASE("switch name") { t.switches[1].name = "sw0", error = "two switches are named sw0"; }
  SUBCASE("link to nowhere") { t.links[1].dst = 6, error = "link 1: node 6 is outside [0, 6)"; }
  SUBCASE("loop") {
    t.links[0].dst = 0, error = "the link from rank 0 to rank 0 joins a node to itself";
  }
  SUBCASE("bandwidth") {
    t.links[0].bandwidth = 0;
    error = "the link from rank 0 to sw0 has bandwidth 0 GB/s, which is not positive";
  }
  SUBCASE("bandwidth beyond anything") {
    t.links[0].bandwidth = 1e300;
    error = "the link from rank 0 to sw0 has bandwidth 1e+300 GB/s, which is not from 1e-06 to "
            "1000000000";
  }
  SUBCASE("latency beyond anything") {
    t.links[0].latency = 1e12;
    error =
        "the link from rank 0 to sw0 has latency 1000000000000 us, which is more than 1000000000";
  }
  SUBCASE("resource beyond anything") {
    t.resources = {{"nic0", 1e-300}};
    error = "resource nic0 has bandwidth 1e-300 GB/s, which is not from 1e-06 to 1000000000";
  }
  SUBCASE("latency") {
    t.links[0].latency = -1;
    error = "the link from rank 0 to sw0 has latency -1 us, which is negative or not finite";
  }
  SUBCASE("resource") {
    t.resources = {{"nic0"}};
    t.links[0].resources = {1};
    error = "the link from rank 0 to sw0 shares resource 1, which is outside [0, 1)";
  }
  SUBCASE("out of reach") {
    t.links.erase(t.links.begin() + 7); // sw1 to rank 3
    error = "rank 0 cannot reach rank 3: no path of links";
  }
  SUBCASE("no way back") {
    t.links.erase(t.links.begin() + 6); // rank 3 to sw1
    error = "rank 3 cannot reach rank 0: no path of links";
  }
  CHECK(t.check() == error);
}
