//===- Links.cpp ----------------------------------------------------------===//
#include "frontend/picture/Links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace ccl::picture {

std::vector<double> linkShares(const model::Topology &topology,
                               const model::SimulateReport &report) {
  std::vector<double> shares(topology.links.size());
  for (size_t l = 0; l < std::min(shares.size(), report.links.size()); ++l) {
    const double share = report.us > 0 ? report.links[l].busyUs / report.us : 0;
    shares[l] = std::isfinite(share) ? std::max(share, 0.0) : 0;
  }
  return shares;
}

std::vector<LinkClass> linkClasses(const model::Topology &topology,
                                   const model::SimulateReport &report) {
  std::vector<bool> served(topology.links.size());
  if (report.timeline)
    for (const model::Timeline::Service &service : report.timeline->services)
      if (service.link >= 0 && size_t(service.link) < served.size())
        served[size_t(service.link)] = true;
  auto kindOf = [&](int32_t node) {
    return node < topology.ranks() ? -1
                                   : int(topology.switches[size_t(node - topology.ranks())].kind);
  };
  // Sums of the same numbers in another order differ in their last bits.
  auto rounded = [](double value, double whole) {
    const double part = whole > 0 && std::isfinite(value) ? value / whole : 0;
    return std::llround(std::clamp(part, -1e6, 1e6) * 1e9);
  };
  double mostBytes = 0;
  for (const model::LinkUse &use : report.links)
    mostBytes = std::max(mostBytes, use.bytes);
  using Key = std::tuple<long long, long long, int, int, double>;
  std::map<Key, LinkClass> classes;
  for (size_t l = 0; l < std::min(topology.links.size(), report.links.size()); ++l) {
    const model::Link &link = topology.links[l];
    const model::LinkUse &use = report.links[l];
    const Key key(-rounded(use.busyUs, report.us), -rounded(use.bytes, mostBytes), kindOf(link.src),
                  kindOf(link.dst), -link.bandwidth);
    auto [it, isNew] = classes.try_emplace(key, LinkClass{int32_t(l), 0, use});
    ++it->second.size;
    if (served[l] && !served[size_t(it->second.link)])
      it->second.link = int32_t(l), it->second.use = use;
  }
  std::vector<LinkClass> result;
  for (const auto &[key, linkClass] : classes)
    result.push_back(linkClass);
  return result;
}

std::string linkName(const model::Topology &topology, int32_t link) {
  const model::Link &l = topology.links[size_t(link)];
  return topology.nodeName(l.src) + " → " + topology.nodeName(l.dst);
}

} // namespace ccl::picture
