//===- KeepStep.cpp -------------------------------------------------------===//
#include "dialect/simulate/KeepStep.h"

#include "dialect/simulate/ServerImages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ccl::model {

/// Images of ways that are looked at one by one.
static constexpr int64_t mostImages = int64_t(1) << 23;

/// The wires of a way, and behind each what it shares.
template <typename Visit>
void KeepStep::visitServers(const SimWay &way, Visit visit) const {
  for (int32_t h = 0; h < way.numHops; ++h) {
    const int32_t wire = code.hops[size_t(way.firstHop + h)];
    visit(wire);
    const SimWire &numbers = code.wires[size_t(wire)];
    for (int32_t i = 0; i < numbers.numShares; ++i)
      visit(int32_t(wires.size()) + code.shares[size_t(numbers.firstShare + i)].resource);
  }
}

std::string KeepStep::nameOf(int32_t server) const {
  if (size_t(server) >= wires.size())
    return fmt::format("resource {}", topology.resources[size_t(server) - wires.size()].name);
  const Wire &wire = wires[size_t(server)];
  return fmt::format("the link from {} to {}", topology.nodeName(wire.src),
                     topology.nodeName(wire.dst));
}

std::string KeepStep::check() { return joinOrbits() ? checkOrbits() : joinImages(); }

std::vector<int32_t> KeepStep::classes() {
  std::vector<int32_t> first(wires.size() + topology.resources.size(), -1); // by class
  for (const SimWay &way : code.ways)
    visitServers(way, [&](int32_t server) {
      int32_t &stands = first[size_t(joined.find(server))];
      if (stands < 0)
        stands = server;
    });
  std::vector<int32_t> result(first.size());
  for (size_t server = 0; server < result.size(); ++server) {
    const int32_t stands = first[size_t(joined.find(int32_t(server)))];
    result[server] = stands < 0 ? int32_t(server) : stands;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// By automorphisms
//===----------------------------------------------------------------------===//

KeepStep::Images KeepStep::imagesOfRanks() const {
  Images result;
  for (int64_t shift : group.generators()) {
    std::vector<int32_t> &image = result.emplace_back();
    for (int64_t rank = 0; rank < group.numRanks(); ++rank)
      image.push_back(int32_t(group.moveRank(shift, rank)));
  }
  return result;
}

/// Whether the switches behind two wires are of one kind; with ranks it is the same.
bool KeepStep::endsAlike(int32_t wire, int32_t other) const {
  const Switch *a = switchAt(wires[size_t(wire)].dst), *b = switchAt(wires[size_t(other)].dst);
  return !a == !b && (!a || a->kind == b->kind);
}

/// What SimCodeBuilder::kindOf looks at.
bool KeepStep::keepsKinds(const Images &ranks, const Images &servers) const {
  if (!options.model.latencies && options.curves.empty())
    return true;
  if (std::any_of(options.curves.begin(), options.curves.end(),
                  [](const WayCurve &c) { return c.of == WayCurve::Of::Pair; }))
    return false;
  for (const std::vector<int32_t> &image : servers)
    for (size_t w = 0; w < wires.size(); ++w)
      if (!endsAlike(int32_t(w), image[w]))
        return false;
  for (const Axis &axis : topology.axes) {
    const size_t index = size_t(&axis - topology.axes.data());
    if (axis.name != "node")
      continue;
    for (const std::vector<int32_t> &image : ranks) {
      std::map<int64_t, int64_t> to, from;
      for (size_t rank = 0; rank < image.size(); ++rank) {
        const int64_t node = topology.coordinates(int64_t(rank))[index];
        const int64_t there = topology.coordinates(image[rank])[index];
        if (to.try_emplace(node, there).first->second != there ||
            from.try_emplace(there, node).first->second != node)
          return false;
      }
    }
  }
  return true;
}

/// Joins what shifts take to each other; false if they do not take ways to ways for certain.
bool KeepStep::joinOrbits() {
  if (!std::all_of(code.ways.begin(), code.ways.end(),
                   [](const SimWay &way) { return way.only && !way.circuit; }))
    return false;
  const Images ranks = imagesOfRanks();
  const auto servers = serverImages(topology, routes, ranks);
  if (!servers || !keepsKinds(ranks, *servers))
    return false;
  for (const std::vector<int32_t> &image : *servers)
    for (size_t i = 0; i < image.size(); ++i)
      joined.join(int32_t(i), image[i]);
  return true;
}

std::string KeepStep::checkOrbits() {
  std::vector<int32_t> orbit;
  std::vector<int64_t> size(size_t(joined.number(orbit)));
  for (int32_t number : orbit)
    ++size[size_t(number)];
  std::string why;
  for (const SimWay &way : code.ways)
    visitServers(way, [&](int32_t server) {
      if (size[size_t(orbit[size_t(server)])] != group.numRanks() && why.empty())
        why = fmt::format("{} carries the same message of several ranks", nameOf(server));
    });
  return why;
}

//===----------------------------------------------------------------------===//
// One by one
//===----------------------------------------------------------------------===//

std::string KeepStep::addImage(int64_t shift, int32_t wayNumber, int64_t firstHop, Routes &all) {
  const SimWay &way = code.ways[size_t(wayNumber)];
  const int32_t src = int32_t(group.moveRank(shift, way.src));
  const int32_t dst = int32_t(group.moveRank(shift, way.dst));
  const std::vector<int32_t> &image = all.way(src, dst);
  bool same = int32_t(image.size()) == way.numHops;
  if (same && (options.model.latencies || !options.curves.empty())) {
    const WayCurve::Of kind = SimCodeBuilder::kindOf(topology, routes, image, src, dst);
    same = way.curve == SimCodeBuilder::curveOf(options.curves, kind, src, dst) &&
           (!options.model.latencies ||
            way.extra == SimCodeBuilder::latencyOf(*options.model.latencies, kind));
  }
  for (int32_t h = 0; same && h < way.numHops; ++h) {
    const int32_t wire = image[size_t(h)], mine = code.hops[size_t(way.firstHop + h)];
    const SimWire &numbers = code.wires[size_t(wire)], &own = code.wires[size_t(mine)];
    const Switch *there = switchAt(wires[size_t(wire)].dst);
    const Switch *here = switchAt(wires[size_t(mine)].dst);
    same = numbers.usPerByte == own.usPerByte && numbers.latency == own.latency &&
           numbers.numShares == own.numShares && !there == !here &&
           (!there || (there->multicast == here->multicast && there->reduce == here->reduce));
    // Hops of all ways are numbered through; those of shared resources come between.
    int64_t hop = firstHop + h * 64;
    hopsOf[size_t(wire)].push_back(hop);
    for (int32_t i = 0; same && i < numbers.numShares; ++i) {
      const SimShare &share = code.shares[size_t(numbers.firstShare + i)];
      same = share.usPerByte == code.shares[size_t(own.firstShare + i)].usPerByte;
      hopsOf[wires.size() + size_t(share.resource)].push_back(++hop);
    }
  }
  return same
             ? ""
             : fmt::format("the ways from rank {} to rank {} and from rank {} to rank {} differ in "
                           "links, bandwidth or latency",
                           way.src, way.dst, src, dst);
}

/// Joins servers that have a hop in common.
std::string KeepStep::joinHops() {
  std::vector<std::pair<int64_t, int32_t>> byHop; ///< every hop on every server
  for (size_t server = 0; server < hopsOf.size(); ++server) {
    std::sort(hopsOf[server].begin(), hopsOf[server].end());
    if (std::adjacent_find(hopsOf[server].begin(), hopsOf[server].end()) != hopsOf[server].end())
      return fmt::format("{} carries the same message of several ranks", nameOf(int32_t(server)));
    for (int64_t hop : hopsOf[server])
      byHop.push_back({hop, int32_t(server)});
  }
  std::sort(byHop.begin(), byHop.end());
  for (size_t i = 1; i < byHop.size(); ++i) {
    if (byHop[i].first != byHop[i - 1].first)
      continue;
    const int32_t a = byHop[i - 1].second, b = byHop[i].second;
    if (hopsOf[size_t(a)] != hopsOf[size_t(b)])
      return fmt::format("{} and {} carry different messages", nameOf(a), nameOf(b));
    joined.join(a, b);
  }
  return "";
}

std::string KeepStep::joinImages() {
  for (const SimWire &wire : code.wires)
    if (wire.numShares >= 63)
      return "a link shares more than 62 resources";
  if (group.numRanks() > mostImages / std::max<int64_t>(int64_t(code.ways.size()), 1))
    return fmt::format("{} ways of {} ranks are too many to compare them", code.ways.size(),
                       group.numRanks());
  hopsOf.resize(wires.size() + topology.resources.size());
  struct Image {
    int32_t src, way;
    int64_t shift;
  };
  std::vector<Image> images; // by source, as Routes wants them
  std::vector<int64_t> firstHops;
  int64_t hops = 0;
  for (size_t w = 0; w < code.ways.size(); ++w) {
    firstHops.push_back(hops);
    hops += int64_t(code.ways[w].numHops) * 64;
    for (int64_t shift = 0; shift < group.numRanks(); ++shift)
      images.push_back({int32_t(group.moveRank(shift, code.ways[w].src)), int32_t(w), shift});
  }
  std::sort(images.begin(), images.end(), [](const Image &a, const Image &b) {
    return std::pair(a.src, a.way) < std::pair(b.src, b.way);
  });
  Routes all(topology);
  for (const Image &image : images)
    if (std::string why = addImage(image.shift, image.way, firstHops[size_t(image.way)], all);
        !why.empty())
      return why;
  return joinHops();
}

} // namespace ccl::model
