//===- Network.cpp --------------------------------------------------------===//
#include "passes/synthesis/solver/Network.h"

#include "dialect/bound/Classes.h"
#include "dialect/simulate/ServerImages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace ccl::solver {

using model::Routes;
using model::Topology;
using model::Wire;

/// Limits are numbered first by wire, then by shared resource; classes join them.
class NetworkBuilder {
public:
  NetworkBuilder(Network &network, const Topology &topology)
      : network(network), topology(topology), routes(topology),
        classes(routes.wires().size() + topology.resources.size()) {}

  void build(bool symmetric) {
    network.numRanks = int32_t(topology.ranks());
    if (symmetric && network.numRanks > 1)
      findShifts();
    nameLimits();
    const int32_t ranks = network.numRanks;
    if (!network.isSymmetric()) {
      for (int32_t src = 0; src < ranks; ++src)
        for (int32_t dst = 0; dst < ranks; ++dst)
          addWay(src, dst);
    } else {
      for (int32_t dst = 1; dst < ranks; ++dst)
        addWay(0, dst);
    }
    sortWays();
  }

private:
  void findShifts() {
    model::Fabric fabric = model::makeFabric(topology);
    model::Orbits orbits = model::findOrbits(fabric, topology, /*latencies=*/true);
    if (orbits.shifts.empty())
      return;
    // Of the shifts alone: the orbits above may join limits that one tree does not use alike.
    std::vector<std::vector<int32_t>> images;
    for (const model::Orbits::Shift &shift : orbits.shifts)
      for (std::vector<int32_t> &image = images.emplace_back(); int32_t(image.size()) < ranks();)
        image.push_back(int32_t(shift(int64_t(image.size()))));
    const auto servers = model::serverImages(topology, routes, images);
    if (!servers)
      return;
    for (const std::vector<int32_t> &image : *servers)
      for (size_t i = 0; i < image.size(); ++i)
        classes.join(int32_t(i), image[i]);
    network.shifts = std::move(orbits.shifts);
    std::sort(network.shifts.begin(), network.shifts.end(),
              [](const auto &a, const auto &b) { return a.stride < b.stride; });
    for (size_t i = network.shifts.size(); i-- > 0;)
      network.sides.push_back(network.shifts[i].size);
  }

  int32_t ranks() const { return network.numRanks; }
  const std::vector<int32_t> &sharedBy(const Wire &wire) const {
    return topology.links[size_t(wire.links.front())].resources;
  }
  int32_t resource(int32_t index) const { return int32_t(routes.wires().size()) + index; }

  void nameLimits() {
    if (!network.isSymmetric())
      classes = model::Classes(routes.wires().size() + topology.resources.size());
    std::vector<int32_t> number;
    const int32_t count = classes.number(number);
    limitOf = number;
    members.assign(size_t(count), 0);
    for (int32_t limit : limitOf)
      ++members[size_t(limit)];
    network.limitNames.resize(size_t(count));
    for (size_t i = limitOf.size(); i-- > 0;) {
      const size_t limit = size_t(limitOf[i]);
      const std::vector<Wire> &wires = routes.wires();
      std::string name = i < wires.size() ? fmt::format("{} to {}", topology.nodeName(wires[i].src),
                                                        topology.nodeName(wires[i].dst))
                                          : topology.resources[i - wires.size()].name;
      if (members[limit] > 1)
        name += fmt::format(" and {} like it", members[limit] - 1);
      network.limitNames[limit] = std::move(name);
    }
  }

  void use(int32_t thing, double bandwidth, double latency, std::vector<Use> &into) const {
    const int32_t limit = limitOf[size_t(thing)];
    // All ranks send their images; each of the members carries as much as the others.
    const double share =
        network.isSymmetric() ? double(network.numRanks) / double(members[size_t(limit)]) : 1;
    const double weight = share * 1000 / bandwidth;
    for (Use &known : into)
      if (known.limit == limit) {
        known.weight += weight, known.share += share;
        return;
      }
    into.push_back({limit, weight, share, latency});
  }

  void addWay(int32_t src, int32_t dst) {
    const std::vector<int32_t> &way = routes.way(src, dst);
    if (way.empty())
      return;
    std::vector<Use> uses;
    double latency = 0;
    for (int32_t w : way) {
      const Wire &wire = routes.wires()[size_t(w)];
      latency += wire.latency;
      use(w, wire.bandwidth, wire.latency, uses);
      for (int32_t shared : sharedBy(wire)) {
        double bandwidth = topology.resources[size_t(shared)].bandwidth;
        use(resource(shared), bandwidth > 0 ? bandwidth : wire.bandwidth, wire.latency, uses);
      }
    }
    auto [known, isNew] = kinds.try_emplace(keyOf(uses), Kind{});
    if (isNew) {
      known->second = {int32_t(kinds.size()) - 1, int32_t(network.allUses.size())};
      network.allUses.insert(network.allUses.end(), uses.begin(), uses.end());
    }
    found.push_back({src, dst, known->second.uses, int32_t(uses.size()),
                     limitOf[size_t(way.front())], known->second.number, latency});
  }

  using UsesKey = std::vector<std::tuple<int32_t, double, double>>;
  static UsesKey keyOf(const std::vector<Use> &uses) {
    UsesKey key;
    for (const Use &use : uses)
      key.push_back({use.limit, use.weight, use.latency});
    return key;
  }

  void sortWays() {
    const bool symmetric = network.isSymmetric();
    const size_t rows = symmetric ? 1 : size_t(network.numRanks);
    std::sort(found.begin(), found.end(), [](const Found &a, const Found &b) {
      return std::tie(a.kind, a.src, a.dst) < std::tie(b.kind, b.src, b.dst);
    });
    network.firstIn.assign(rows + 1, 0), network.firstOut.assign(rows + 1, 0);
    for (const Found &way : found) {
      ++network.firstIn[symmetric ? 1 : size_t(way.dst) + 1];
      ++network.firstOut[symmetric ? 1 : size_t(way.src) + 1];
    }
    for (size_t r = 0; r < rows; ++r) {
      network.firstIn[r + 1] += network.firstIn[r];
      network.firstOut[r + 1] += network.firstOut[r];
    }
    network.incoming.resize(found.size()), network.outgoing.resize(found.size());
    std::vector<int32_t> fillIn = network.firstIn, fillOut = network.firstOut;
    for (const Found &way : found) {
      const size_t in = symmetric ? 0 : size_t(way.dst), out = symmetric ? 0 : size_t(way.src);
      const int32_t inAt = fillIn[in]++, outAt = fillOut[out]++;
      const int32_t inMate = outAt - network.firstOut[out], outMate = inAt - network.firstIn[in];
      // 0 -> dst is the image of -dst -> 0.
      network.incoming[size_t(inAt)] = {symmetric ? network.inverse(way.dst) : way.src,
                                        inMate,
                                        way.uses,
                                        way.numUses,
                                        way.exit,
                                        way.kind,
                                        way.latency};
      network.outgoing[size_t(outAt)] = {way.dst,  outMate,  way.uses,   way.numUses,
                                         way.exit, way.kind, way.latency};
    }
  }

  struct Found {
    int32_t src, dst, uses, numUses, exit, kind;
    double latency;
  };
  struct Kind {
    int32_t number = 0, uses = 0;
  };

  Network &network;
  const Topology &topology;
  Routes routes;
  model::Classes classes;
  std::vector<int32_t> limitOf; ///< by wire, then resource
  std::vector<int64_t> members; ///< by limit
  std::vector<Found> found;
  std::map<UsesKey, Kind> kinds;
};

Network::Network(const Topology &topology, const Options &options) {
  if (options.forbidden.empty()) {
    NetworkBuilder(*this, topology).build(options.symmetric);
    return;
  }
  Topology rest = topology;
  rest.links.clear();
  for (size_t i = 0; i < topology.links.size(); ++i)
    if (!options.forbidden[i])
      rest.links.push_back(topology.links[i]);
  NetworkBuilder(*this, rest).build(options.symmetric);
}

std::vector<double> Network::limitWeights() const {
  std::vector<double> weights(limitNames.size(), 0);
  for (int32_t rank = 0; rank < representatives(); ++rank)
    for (const Way &way : out(rank))
      for (const Use &use : uses(way))
        weights[size_t(use.limit)] = std::max(weights[size_t(use.limit)], use.weight);
  return weights;
}

Network Network::weighted(std::span<const double> factors) const {
  Network other = *this;
  for (Use &use : other.allUses)
    use.weight *= factors[size_t(use.limit)];
  return other;
}

int32_t Network::shifted(int32_t rank, int32_t by) const {
  uint32_t result = 0; // 32 bits: half the time of a division
  for (const model::Orbits::Shift &side : shifts) {
    const uint32_t stride = uint32_t(side.stride), size = uint32_t(side.size);
    result += (uint32_t(rank) / stride + uint32_t(by) / stride) % size * stride;
  }
  return int32_t(result);
}

int32_t Network::inverse(int32_t by) const {
  int64_t result = 0;
  for (const model::Orbits::Shift &side : shifts)
    result += (side.size - by / side.stride % side.size) % side.size * side.stride;
  return int32_t(result);
}

} // namespace ccl::solver
