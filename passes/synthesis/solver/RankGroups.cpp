//===- RankGroups.cpp -----------------------------------------------------===//
#include "passes/synthesis/solver/RankGroups.h"

#include "dialect/simulate/Routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace ccl::solver {

namespace {

using model::Link;
using model::Topology;

/// Renames nodes and resources of a group's part so that equal parts become equal.
class PartBuilder {
public:
  PartBuilder(const Topology &topology, const std::vector<int32_t> &ranks,
              const std::vector<int32_t> &links)
      : topology(topology), ranks(ranks), links(links) {
    for (size_t i = 0; i < ranks.size(); ++i)
      place[ranks[i]] = int32_t(i);
    for (int32_t link : links)
      for (int32_t node : {at(link).src, at(link).dst})
        if (node >= topology.ranks() && !colors.count(node))
          colors[node] = colorOf(node);
  }

  /// `users` of links and of resources: how many groups take them.
  Topology build(const std::vector<int32_t> &linkUsers, const std::vector<int32_t> &resourceUsers) {
    refine();
    Topology part;
    std::vector<std::pair<std::string, int32_t>> order;
    for (const auto &[node, color] : colors)
      order.emplace_back(color, node);
    std::sort(order.begin(), order.end());
    for (const auto &[color, node] : order) {
      place[node] = int32_t(ranks.size() + part.switches.size());
      model::Switch copy = topology.switches[size_t(node - topology.ranks())];
      copy.name = fmt::format("s{}", part.switches.size());
      part.switches.push_back(std::move(copy));
    }
    addLinks(part, linkUsers, resourceUsers);
    return part;
  }

private:
  const Link &at(int32_t link) const { return topology.links[size_t(link)]; }

  std::string colorOf(int32_t node) const {
    const model::Switch &s = topology.switches[size_t(node - topology.ranks())];
    return fmt::format("{} {} {}", model::name(s.kind), s.multicast, s.reduce);
  }

  std::string nameOf(int32_t node) const {
    auto color = colors.find(node);
    return color == colors.end() ? std::to_string(place.at(node)) : "(" + color->second + ")";
  }

  /// Switches are told apart by what they are joined with, some rounds deep.
  void refine() {
    constexpr int32_t rounds = 3;
    for (int32_t round = 0; round < rounds; ++round) {
      std::map<int32_t, std::vector<std::string>> around;
      for (int32_t link : links) {
        const Link &l = at(link);
        const std::string what = fmt::format("{} {}", l.bandwidth, l.latency);
        if (colors.count(l.src))
          around[l.src].push_back("to " + nameOf(l.dst) + what);
        if (colors.count(l.dst))
          around[l.dst].push_back("from " + nameOf(l.src) + what);
      }
      std::map<std::string, int32_t> numbers;
      std::map<int32_t, std::string> next;
      for (auto &[node, list] : around) {
        std::sort(list.begin(), list.end());
        std::string text = colors[node];
        for (const std::string &one : list)
          text += "; " + one;
        numbers[text] = 0;
        next[node] = std::move(text);
      }
      int32_t number = 0;
      for (auto &[text, value] : numbers)
        value = number++;
      for (auto &[node, text] : next)
        colors[node] = fmt::format("{:06}", numbers[text]);
    }
  }

  void addLinks(Topology &part, const std::vector<int32_t> &linkUsers,
                const std::vector<int32_t> &resourceUsers) const {
    std::vector<std::pair<Link, int32_t>> sorted; // and the original's number
    for (int32_t link : links) {
      const Link &l = at(link);
      int32_t users = linkUsers[size_t(link)];
      for (int32_t resource : l.resources)
        if (topology.resources[size_t(resource)].bandwidth == 0) // its links take turns
          users = std::max(users, resourceUsers[size_t(resource)]);
      sorted.push_back(
          {{place.at(l.src), place.at(l.dst), l.bandwidth / users, l.latency, {}}, link});
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) {
      auto key = [](const auto &x) {
        return std::tuple(x.first.src, x.first.dst, x.first.bandwidth, x.first.latency, x.second);
      };
      return key(a) < key(b);
    });
    std::map<int32_t, int32_t> numbers;
    for (auto &[link, original] : sorted) {
      for (int32_t resource : at(original).resources) {
        auto [it, isNew] = numbers.try_emplace(resource, int32_t(part.resources.size()));
        if (isNew)
          part.resources.push_back(
              {fmt::format("r{}", it->second),
               topology.resources[size_t(resource)].bandwidth / resourceUsers[size_t(resource)]});
        link.resources.push_back(it->second);
      }
      part.links.push_back(std::move(link));
    }
  }

  const Topology &topology;
  const std::vector<int32_t> &ranks, &links;
  std::map<int32_t, int32_t> place;      ///< node here to node there
  std::map<int32_t, std::string> colors; ///< of switches
};

class GroupFinder {
public:
  GroupFinder(const Topology &topology, const AxisSet &axes, const std::vector<int64_t> &only)
      : topology(topology), axes(axes), only(only) {}

  RankGroups run() {
    listRanks();
    std::vector<std::vector<int32_t>> links = findLinks();
    std::vector<int32_t> linkUsers(topology.links.size()), resourceUsers(topology.resources.size());
    for (const std::vector<int32_t> &mine : links) {
      std::vector<int32_t> resources;
      for (int32_t link : mine) {
        ++linkUsers[size_t(link)];
        const std::vector<int32_t> &list = topology.links[size_t(link)].resources;
        resources.insert(resources.end(), list.begin(), list.end());
      }
      std::sort(resources.begin(), resources.end());
      resources.erase(std::unique(resources.begin(), resources.end()), resources.end());
      for (int32_t resource : resources)
        ++resourceUsers[size_t(resource)];
    }
    for (size_t g = 0; g < found.groups.size(); ++g)
      addPart(found.groups[g], links[g], linkUsers, resourceUsers);
    return std::move(found);
  }

private:
  void listRanks() {
    std::map<int64_t, std::vector<int32_t>> byNumber;
    for (int64_t rank = 0; rank < topology.ranks(); ++rank) {
      const std::vector<int64_t> at = topology.coordinates(rank);
      int64_t number = 0;
      bool takesPart = true;
      for (size_t a = 0; a < at.size(); ++a) {
        if (axes[a])
          continue;
        number = number * topology.axes[a].size + at[a];
        takesPart &= only.empty() || only[a] < 0 || only[a] == at[a];
      }
      if (takesPart)
        byNumber[number].push_back(int32_t(rank));
    }
    for (auto &[number, ranks] : byNumber)
      found.groups.push_back({number, std::move(ranks), {}, 0});
  }

  /// By group: the links that the messages among its ranks take.
  std::vector<std::vector<int32_t>> findLinks() const {
    model::Routes routes(topology);
    std::vector<std::vector<int32_t>> all;
    for (const RankGroup &group : found.groups) {
      std::vector<bool> taken(routes.wires().size());
      for (int32_t src : group.ranks)
        for (int32_t dst : group.ranks)
          if (src != dst)
            for (int32_t wire : routes.way(src, dst))
              taken[size_t(wire)] = true;
      std::vector<int32_t> &links = all.emplace_back();
      for (size_t wire = 0; wire < taken.size(); ++wire)
        if (taken[wire])
          links.insert(links.end(), routes.wires()[wire].links.begin(),
                       routes.wires()[wire].links.end());
    }
    return all;
  }

  void addPart(RankGroup &group, const std::vector<int32_t> &links,
               const std::vector<int32_t> &linkUsers, const std::vector<int32_t> &resourceUsers) {
    group.topology = PartBuilder(topology, group.ranks, links).build(linkUsers, resourceUsers);
    group.topology.name = topology.name;
    for (size_t a = 0; a < axes.size(); ++a)
      if (axes[a])
        group.topology.axes.push_back(topology.axes[a]);
    const auto [known, isNew] =
        classes.try_emplace(topologyKey(group.topology), found.representatives.size());
    group.classNumber = known->second;
    if (isNew)
      found.representatives.push_back(size_t(&group - found.groups.data()));
  }

  const Topology &topology;
  const AxisSet &axes;
  const std::vector<int64_t> &only;
  RankGroups found;
  std::map<std::string, size_t> classes; ///< by key of their parts
};

} // namespace

RankGroups findGroups(const Topology &topology, const AxisSet &axes,
                      const std::vector<int64_t> &only) {
  return GroupFinder(topology, axes, only).run();
}

std::string topologyKey(const Topology &t) {
  std::string text;
  for (const model::Axis &axis : t.axes)
    text += fmt::format("{} ", axis.size);
  for (const model::Switch &s : t.switches)
    text += fmt::format("s{}{}{} ", s.multicast, s.reduce, model::name(s.kind));
  for (const model::Resource &r : t.resources)
    text += fmt::format("r{} ", r.bandwidth);
  for (const Link &l : t.links) {
    text += fmt::format("{}>{} {} {}", l.src, l.dst, l.bandwidth, l.latency);
    for (int32_t resource : l.resources)
      text += fmt::format(" r{}", resource);
    text += "; ";
  }
  return text;
}

std::string axisNames(const Topology &topology, const AxisSet &axes) {
  std::string names;
  for (size_t a = 0; a < axes.size(); ++a)
    if (axes[a])
      names += (names.empty() ? "" : ", ") + topology.axes[a].name;
  return names;
}

} // namespace ccl::solver
