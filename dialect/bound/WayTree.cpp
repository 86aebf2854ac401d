//===- WayTree.cpp - What the ranks get from one of them, way by way ------===//

#include "dialect/bound/WayTree.h"

#include <algorithm>
#include <unordered_map>

namespace ccl::model {

WayTree::WayTree(const Fabric &fabric, const ShortestWays &cheapest, const ShortestWays::Work &work,
                 int32_t source, int most, std::mt19937_64 &random)
    : steps{{-1, -1}}, first{0} {
  std::unordered_map<uint64_t, int32_t> known; // steps by the one before and the arc
  std::vector<int32_t> arcs;                   // of one way, the last first
  auto endOf = [&](int32_t rank, double at) {
    arcs.clear();
    for (int32_t node = rank; node != source; node = fabric.arcs[size_t(arcs.back())].src)
      arcs.push_back(cheapest.lastArc(node, work, at));
    int32_t end = root;
    for (size_t i = arcs.size(); i-- > 0;) {
      auto [it, isNew] = known.try_emplace(uint64_t(end) << 32 | uint64_t(arcs[i]), 0);
      if (isNew)
        it->second = add(end, arcs[i]);
      end = it->second;
    }
    return end;
  };
  for (int32_t rank = 0; rank < fabric.ranks; ++rank) {
    int parts = rank == source ? 0 : int(std::min(double(most), work.ways[size_t(rank)]));
    double offset = double(random() >> 11) * 0x1p-53;
    for (int part = 0; part < parts; ++part) {
      int32_t end = endOf(rank, (part + offset) / parts);
      if (ways.size() > size_t(first.back()) && ways.back().end == end)
        ways.back().share += 1.0 / parts;
      else
        ways.push_back({end, 1.0 / parts});
    }
    first.push_back(int32_t(ways.size()));
  }
}

void WayTree::replace(std::vector<Way> &&all, std::vector<int32_t> &&firsts) {
  ways = std::move(all);
  first = std::move(firsts);
  constexpr int32_t unused = -1, used = -2;
  std::vector<int32_t> now(steps.size(), unused);
  now[root] = root;
  for (const Way &way : ways)
    for (int32_t step = way.end; now[size_t(step)] == unused; step = steps[size_t(step)].before)
      now[size_t(step)] = used;
  int32_t count = 1;
  for (size_t step = 1; step < steps.size(); ++step)
    if (now[step] == used) {
      steps[size_t(count)] = {now[size_t(steps[step].before)], steps[step].arc};
      now[step] = count++;
    }
  steps.resize(size_t(count));
  for (Way &way : ways)
    way.end = now[size_t(way.end)];
}

void WayTree::addLoads(double amount, std::span<const int32_t> kindOf, std::span<double> loads) {
  std::vector<double> through(steps.size(), 0);
  for (size_t rank = 0; rank + 1 < first.size(); ++rank) {
    auto begin = ways.begin() + first[rank], end = ways.begin() + first[rank + 1];
    double sum = 0;
    for (auto way = begin; way != end; ++way)
      sum += way->share;
    for (auto way = begin; way != end; ++way) {
      way->share /= sum;
      through[size_t(way->end)] += way->share * amount;
    }
  }
  for (size_t step = steps.size(); step-- > 1;) {
    through[size_t(steps[step].before)] += through[step];
    loads[size_t(kindOf[size_t(steps[step].arc)])] += through[step];
  }
}

} // namespace ccl::model
