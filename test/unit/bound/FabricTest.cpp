#include "dialect/bound/Fabric.h"
#include "test/unit/bound/Networks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace ccl::model;
using namespace networks;

namespace {

int64_t capacity(const Fabric &fabric, int32_t src, int32_t dst) {
  int32_t arc = fabric.find(src, dst);
  return arc < 0 ? 0 : fabric.arcs[size_t(arc)].capacity;
}

Topology pair(double there, double back) {
  Topology t = ranks({2});
  addLink(t, 0, 1, there), addLink(t, 1, 0, back);
  return t;
}

/// Rank 0 sends to ranks 1 to 3, which answer.
Topology fan(double bandwidth) {
  Topology t = ranks({4});
  for (int64_t rank = 1; rank < 4; ++rank)
    join(t, 0, rank, bandwidth);
  return t;
}

int32_t addResource(Topology &t, double bandwidth, const std::vector<size_t> &links) {
  int32_t number = int32_t(t.resources.size());
  t.resources.push_back({"r" + std::to_string(number), bandwidth});
  for (size_t link : links)
    t.links[link].resources.push_back(number);
  return number;
}

} // namespace

TEST_CASE("capacities are whole multiples of the unit, to the last digit") {
  struct {
    double a, b;
    int64_t x, y;
    double unit;
  } cases[] = {{25, 50, 1, 2, 25},
               {12.5, 50, 1, 4, 12.5},
               {45.5, 180, 91, 360, 0.5},
               {0.1, 0.3, 1, 3, 0.1},
               {1e-7, 2.5, 1, 25000000, 1e-7},
               {370.8, 47.619, 370800, 47619, 9e-3},
               {1e15, 3e15, 1, 3, 1e15},
               {53.6870912, 1, 536870912, 10000000, 1.28e-5}};
  for (auto [a, b, x, y, unit] : cases) {
    CAPTURE(a);
    CAPTURE(b);
    Fabric fabric = makeFabric(pair(a, b));
    CHECK(fabric.exact);
    CHECK(fabric.rounding == 0);
    CHECK(capacity(fabric, 0, 1) * y == capacity(fabric, 1, 0) * x);
    CHECK(double(capacity(fabric, 0, 1)) * fabric.unit == doctest::Approx(a).epsilon(1e-15));
    CHECK(fabric.unit == unit);
  }
}

TEST_CASE("capacities that do not fit are rounded up, by as much as it says") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-7, 6);
  int rounded = 0;
  for (int i = 0; i < 100; ++i) {
    Topology t = full(6);
    for (Link &link : t.links)
      link.bandwidth = std::pow(10.0, exponent(random));
    Fabric fabric = makeFabric(t);
    double worst = 0;
    int64_t sum = 0;
    for (const Link &link : t.links) {
      double real = double(capacity(fabric, link.src, link.dst)) * fabric.unit;
      REQUIRE(real >= link.bandwidth);
      worst = std::max(worst, real / link.bandwidth - 1);
      sum += capacity(fabric, link.src, link.dst);
    }
    CHECK(sum < (int64_t(1) << 60) / 6);
    CHECK(fabric.exact == (fabric.rounding == 0));
    CHECK(fabric.rounding == doctest::Approx(worst).epsilon(1e-6));
    CHECK(worst < 1e-2);
    rounded += !fabric.exact;
  }
  CHECK(rounded > 90);
}

TEST_CASE("any positive bandwidths make a fabric") {
  for (double a : {5e-324, 1e-310, 1e-300, 1.0, 1e300, 1.7e308})
    for (double b : {5e-324, 1e-17, 3.0, 1e300, 1.7e308}) {
      CAPTURE(a);
      CAPTURE(b);
      Fabric fabric = makeFabric(pair(a, b));
      CHECK(fabric.unit > 0);
      CHECK(std::isfinite(fabric.unit));
      for (auto [src, bandwidth] : {std::pair(0, a), std::pair(1, b)}) {
        int64_t there = capacity(fabric, src, 1 - src);
        CHECK(there >= 1);
        CHECK(there < int64_t(1) << 59);
        if (bandwidth == std::max(a, b))
          CHECK(double(there) * fabric.unit == doctest::Approx(bandwidth));
      }
    }
}

TEST_CASE("parallel links are one arc, of the least latency") {
  Topology t = pair(10, 10);
  addLink(t, 0, 1, 5, 0.25);
  Fabric fabric = makeFabric(t);
  CHECK(fabric.arcs.size() == 2);
  CHECK(capacity(fabric, 0, 1) == 3);
  CHECK(capacity(fabric, 1, 0) == 2);
  CHECK(fabric.unit == 5);
  CHECK(fabric.arcs[0].latency == 0.25);
  CHECK(fabric.arcs[1].latency == 1);
}

TEST_CASE("a fabric the other way round") {
  Topology t = ranks({2});
  int32_t s = addSwitch(t, true, false);
  addLink(t, 0, s, 2, 7), addLink(t, s, 1, 3), addLink(t, 1, 0, 1);
  Fabric fabric = makeFabric(t), back = fabric.reversed();
  CHECK(capacity(back, s, 0) == 2);
  CHECK(back.arcs[size_t(back.find(s, 0))].latency == 7);
  CHECK(capacity(back, 1, s) == 3);
  CHECK(capacity(back, 0, 1) == 1);
  CHECK(back.find(0, s) == -1);
  CHECK_FALSE(back.copies[size_t(s)]);
  CHECK(back.combines[size_t(s)]);
}

TEST_CASE("what links share is an arc behind the node they leave, or before the one they enter") {
  std::vector<std::string> ignored;
  Topology t = fan(10);
  SUBCASE("leave") {
    addResource(t, 12, {0, 2, 4}); // 0 to 1, 2, 3
    Fabric fabric = makeFabric(t, &ignored);
    CHECK(fabric.nodes == 5);
    CHECK(capacity(fabric, 0, 4) * fabric.unit == 12);
    CHECK(capacity(fabric, 4, 2) * fabric.unit == 10);
    CHECK(fabric.find(0, 1) == -1);
    CHECK(fabric.arcs[size_t(fabric.find(0, 4))].latency == 0);
    CHECK(fabric.arcs[size_t(fabric.find(4, 1))].latency == 1);
    CHECK_FALSE(fabric.relaxed);
  }
  SUBCASE("enter") {
    addResource(t, 12, {1, 3, 5});
    Fabric fabric = makeFabric(t, &ignored);
    CHECK(capacity(fabric, 4, 0) * fabric.unit == 12);
    CHECK(capacity(fabric, 3, 4) * fabric.unit == 10);
    CHECK_FALSE(fabric.relaxed);
  }
  SUBCASE("one within another, and one at each end") {
    addResource(t, 25, {0, 2, 4});
    addResource(t, 12, {2, 4});
    addLink(t, 1, 3, 10);
    addResource(t, 15, {4, 6}); // enter rank 3
    Fabric fabric = makeFabric(t, &ignored);
    CHECK(fabric.nodes == 7);
    CHECK(capacity(fabric, 0, 4) * fabric.unit == 25);
    CHECK(capacity(fabric, 4, 1) * fabric.unit == 10);
    CHECK(capacity(fabric, 4, 5) * fabric.unit == 12);
    CHECK(capacity(fabric, 5, 6) * fabric.unit == 10);
    CHECK(capacity(fabric, 6, 3) * fabric.unit == 15);
    CHECK_FALSE(fabric.relaxed);
  }
  SUBCASE("a single link") {
    addResource(t, 4, {0});
    Fabric fabric = makeFabric(t, &ignored);
    CHECK(fabric.nodes == 4);
    CHECK(capacity(fabric, 0, 1) * fabric.unit == 4);
  }
  SUBCASE("never felt") {
    addResource(t, 30, {0, 2, 4});
    CHECK(makeFabric(t, &ignored).nodes == 4);
  }
  SUBCASE("turns") {
    addResource(t, 0, {0, 2, 4});
    Fabric fabric = makeFabric(t, &ignored);
    CHECK(capacity(fabric, 0, 4) * fabric.unit == 10);
    CHECK_FALSE(fabric.relaxed);
  }
  CHECK(ignored.empty());
}

TEST_CASE("sharing that no arc can stand for is left out, and named") {
  std::vector<std::string> ignored;
  Topology t = fan(10);
  std::string expected;
  SUBCASE("both directions") {
    addResource(t, 12, {0, 1, 2, 3, 4, 5});
    expected = "resource r0: its links have no node in common; each of 2 groups is limited alone";
    Fabric fabric = makeFabric(t, &ignored);
    CHECK(fabric.nodes == 6);
    CHECK(capacity(fabric, 0, 5) + capacity(fabric, 4, 0) == 2 * 12 / fabric.unit);
    CHECK(fabric.relaxed);
  }
  SUBCASE("crossing") {
    addResource(t, 12, {0, 2});
    addResource(t, 13, {2, 4});
    expected =
        "resource r1: at rank 0 it shares some of its links, not all, with another resource; "
        "it is left out there";
    Fabric fabric = makeFabric(t, &ignored);
    CHECK(fabric.nodes == 5);
    CHECK(fabric.relaxed);
  }
  SUBCASE("unequal turns") {
    t.links[2].bandwidth = 5;
    addResource(t, 0, {0, 2, 4});
    expected = "resource r0: its links take turns with unequal bandwidths; they are given 10 GB/s "
               "together";
    Fabric fabric = makeFabric(t, &ignored);
    CHECK(capacity(fabric, 0, 4) * fabric.unit == 10);
    CHECK(fabric.relaxed);
  }
  REQUIRE(ignored.size() == 1);
  CHECK(ignored[0] == expected);
}
