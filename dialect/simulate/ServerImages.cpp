//===- ServerImages.cpp ---------------------------------------------------===//
#include "dialect/simulate/ServerImages.h"

#include "dialect/bound/Automorphisms.h"

#include <algorithm>

namespace ccl::model {
namespace {

/// Of one automorphism.
class Images {
public:
  Images(const Topology &topology, const Routes &routes, const std::vector<int32_t> &nodes)
      : topology(topology), wires(routes.wires()), routes(routes), nodes(nodes),
        image(wires.size() + topology.resources.size(), -1) {}

  bool find() {
    for (size_t w = 0; w < wires.size(); ++w) {
      const int32_t other = imageOf(wires[w]);
      if (other < 0 || !join(int32_t(w), other))
        return false;
    }
    std::vector<bool> taken(image.size());
    for (size_t i = 0; i < image.size(); ++i) {
      if (image[i] < 0)
        image[i] = int32_t(i); // a resource of no link
      if (taken[size_t(image[i])])
        return false;
      taken[size_t(image[i])] = true;
    }
    return true;
  }

  std::vector<int32_t> take() { return std::move(image); }

private:
  const std::vector<int32_t> &sharedBy(const Wire &wire) const {
    return topology.links[size_t(wire.links.front())].resources;
  }
  bool isAlike(const Wire &a, const Wire &b) const {
    return a.bandwidth == b.bandwidth && a.latency == b.latency &&
           sharedBy(a).size() == sharedBy(b).size();
  }

  /// Of parallel wires that are alike the first goes to the first, and so on.
  int32_t imageOf(const Wire &wire) const {
    size_t before = 0;
    for (const Wire &other : routes.between(wire.src, wire.dst)) {
      if (&other == &wire)
        break;
      before += isAlike(other, wire);
    }
    for (const Wire &other : routes.between(nodes[size_t(wire.src)], nodes[size_t(wire.dst)]))
      if (isAlike(other, wire) && before-- == 0)
        return int32_t(&other - wires.data());
    return -1;
  }

  bool join(int32_t wire, int32_t other) {
    image[size_t(wire)] = other;
    const std::vector<int32_t> &mine = sharedBy(wires[size_t(wire)]);
    const std::vector<int32_t> &its = sharedBy(wires[size_t(other)]);
    for (size_t i = 0; i < mine.size(); ++i) {
      if (topology.resources[size_t(mine[i])].bandwidth !=
          topology.resources[size_t(its[i])].bandwidth)
        return false;
      int32_t &there = image[wires.size() + size_t(mine[i])];
      const int32_t here = int32_t(wires.size()) + its[i];
      if (there >= 0 && there != here)
        return false;
      there = here;
    }
    return true;
  }

  const Topology &topology;
  const std::vector<Wire> &wires;
  const Routes &routes;
  const std::vector<int32_t> &nodes;
  std::vector<int32_t> image;
};

} // namespace

std::optional<std::vector<std::vector<int32_t>>>
serverImages(const Topology &topology, const Routes &routes,
             const std::vector<std::vector<int32_t>> &ranks) {
  const Fabric fabric = makeFabric(topology);
  Automorphisms automorphisms(fabric, /*latencies=*/true);
  std::vector<std::vector<int32_t>> result;
  for (const std::vector<int32_t> &to : ranks) {
    Automorphisms::Moves moves;
    for (int32_t rank = 0; rank < int32_t(to.size()); ++rank)
      if (to[size_t(rank)] != rank)
        moves.push_back({rank, to[size_t(rank)]});
    std::vector<int32_t> nodes;
    if (!automorphisms.attempt(moves, &nodes))
      return std::nullopt;
    Images images(topology, routes, nodes);
    if (!images.find())
      return std::nullopt;
    result.push_back(images.take());
  }
  return result;
}

} // namespace ccl::model
