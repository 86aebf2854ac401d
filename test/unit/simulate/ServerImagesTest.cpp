#include "dialect/simulate/ServerImages.h"

#include "test/unit/simulate/Timing.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ccl::model;

namespace {

/// What rank r becomes, by r + `by`.
std::vector<int32_t> turned(int32_t ranks, int32_t by) {
  std::vector<int32_t> image;
  for (int32_t rank = 0; rank < ranks; ++rank)
    image.push_back((rank + by) % ranks);
  return image;
}

} // namespace

TEST_CASE("where shifts take wires and what they share") {
  Topology t = starTopology(4, 25, 1);
  for (int32_t rank = 0; rank < 4; ++rank)
    t.resources.push_back({"port" + std::to_string(rank), 30});
  for (Link &link : t.links)
    link.resources = {std::min(link.src, link.dst)};
  const Routes routes(t);
  const size_t wires = routes.wires().size();
  const auto images = serverImages(t, routes, {turned(4, 1), turned(4, 2)});
  REQUIRE(images);
  REQUIRE(images->size() == 2);
  for (int32_t by : {1, 2}) {
    const std::vector<int32_t> &image = (*images)[size_t(by) - 1];
    REQUIRE(image.size() == wires + 4);
    auto moved = [&](int32_t node) { return node < 4 ? (node + by) % 4 : node; };
    for (size_t w = 0; w < wires; ++w) {
      const Wire &from = routes.wires()[w], &to = routes.wires()[size_t(image[w])];
      CHECK(to.src == moved(from.src));
      CHECK(to.dst == moved(from.dst));
    }
    for (int32_t port = 0; port < 4; ++port)
      CHECK(image[wires + size_t(port)] == int32_t(wires) + moved(port));
  }
  // No automorphisms: a port that is wider, two that are one, a link that is slower.
  auto fails = [&](const Topology &other) {
    return !serverImages(other, Routes(other), {turned(4, 1)});
  };
  CHECK_FALSE(fails(t));
  Topology wider = t;
  wider.resources[2].bandwidth = 31;
  CHECK(fails(wider));
  Topology one = t;
  for (Link &link : one.links)
    if (link.resources.front() == 3)
      link.resources = {2};
  CHECK(fails(one));
  Topology late = t;
  late.links[3].latency = 2;
  CHECK(fails(late));
}
