//===- Automorphisms.cpp - Symmetries of a fabric, found and verified -----===//

#include "dialect/bound/Automorphisms.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace ccl::model {
namespace {

// Labels are hashes. Two that are equal by chance cost a symmetry, no more: all are verified.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

size_t countDistinct(std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  return size_t(std::unique(values.begin(), values.end()) - values.begin());
}

} // namespace

Automorphisms::Automorphisms(const Fabric &fabric, bool latencies)
    : fabric(fabric), latencies(latencies), nodes(size_t(fabric.nodes)), arcs(fabric.arcs.size()) {
  size_t count = size_t(fabric.nodes);
  firstOut.assign(count + 1, 0), firstStep.assign(count + 1, 0);
  for (const Arc &arc : fabric.arcs) {
    ++firstOut[size_t(arc.src) + 1];
    ++firstStep[size_t(arc.src) + 1], ++firstStep[size_t(arc.dst) + 1];
  }
  std::partial_sum(firstOut.begin(), firstOut.end(), firstOut.begin());
  std::partial_sum(firstStep.begin(), firstStep.end(), firstStep.begin());
  allSteps.resize(2 * fabric.arcs.size());
  std::vector<int32_t> fill(firstStep.begin(), firstStep.end() - 1);
  for (const Arc &arc : fabric.arcs) {
    const uint64_t weight = weightOf(arc);
    allSteps[size_t(fill[size_t(arc.src)]++)] = {arc.dst, weight};
    allSteps[size_t(fill[size_t(arc.dst)]++)] = {arc.src, ~weight};
  }
  image.resize(count);
  std::iota(image.begin(), image.end(), 0);
  delta.assign(count, 0), label.assign(count, 0), isTouched.assign(count, false);
  differs.assign(count, false);
  refineColours();
  nodeColours = countDistinct(colours), arcColours = countArcColours();
  labelSwitches();
}

uint64_t Automorphisms::weightOf(const Arc &arc) const {
  const uint64_t weight = mix(uint64_t(arc.capacity));
  return latencies ? mix(weight ^ std::bit_cast<uint64_t>(arc.latency)) : weight;
}

size_t Automorphisms::countArcColours() const {
  std::vector<uint64_t> of;
  for (const Arc &arc : fabric.arcs)
    of.push_back(mix(mix(colours[size_t(arc.src)] ^ weightOf(arc)) ^ colours[size_t(arc.dst)]));
  return countDistinct(std::move(of));
}

bool Automorphisms::isComplete() const {
  return nodes.count() == nodeColours && arcs.count() == arcColours;
}

std::span<const Automorphisms::Step> Automorphisms::steps(int32_t node) const {
  size_t begin = size_t(firstStep[size_t(node)]), end = size_t(firstStep[size_t(node) + 1]);
  return std::span(allSteps).subspan(begin, end - begin);
}

int32_t Automorphisms::findArc(int32_t src, int32_t dst) const {
  auto begin = fabric.arcs.begin() + firstOut[size_t(src)];
  auto end = fabric.arcs.begin() + firstOut[size_t(src) + 1];
  auto it =
      std::lower_bound(begin, end, dst, [](const Arc &arc, int32_t d) { return arc.dst < d; });
  return it != end && it->dst == dst ? int32_t(it - fabric.arcs.begin()) : -1;
}

bool Automorphisms::sameKind(int32_t arc, int32_t other) const {
  const Arc &a = fabric.arcs[size_t(arc)], &b = fabric.arcs[size_t(other)];
  return a.capacity == b.capacity && (!latencies || a.latency == b.latency);
}

/// What a node is like, without names: nodes of different colours are in no orbit together.
void Automorphisms::refineColours() {
  constexpr int maxRounds = 24;
  size_t count = size_t(fabric.nodes);
  colours.resize(count);
  for (size_t node = 0; node < count; ++node)
    colours[node] = mix(fabric.isRank(int32_t(node))
                            ? 1
                            : 2 + uint64_t(fabric.copies[node]) + 2 * fabric.combines[node]);
  size_t distinct = countDistinct(colours);
  for (int round = 0; round < maxRounds; ++round) {
    std::vector<uint64_t> next(count);
    for (size_t node = 0; node < count; ++node) {
      uint64_t sum = mix(colours[node]);
      for (const Step &step : steps(int32_t(node)))
        sum += mix(step.weight ^ colours[size_t(step.other)]);
      next[node] = mix(sum);
    }
    colours = std::move(next);
    size_t now = countDistinct(colours);
    if (now == distinct)
      return;
    distinct = now;
  }
}

/// The same of switches, with the names of all ranks: round after round from one switch farther.
void Automorphisms::labelSwitches() {
  constexpr int maxRounds = 16;
  if (fabric.nodes == fabric.ranks)
    return;
  size_t count = size_t(fabric.nodes), ranks = size_t(fabric.ranks);
  std::vector<uint64_t> now(count);
  for (size_t node = 0; node < count; ++node)
    now[node] = mix(node < ranks ? node + 1000 : colours[node]);
  size_t distinct = countDistinct(now);
  for (int round = 0; round < maxRounds; ++round) {
    std::vector<uint64_t> sum(count), next = now;
    for (size_t node = ranks; node < count; ++node) {
      for (const Step &step : steps(int32_t(node)))
        sum[node] += mix(step.weight ^ now[size_t(step.other)]);
      next[node] = mix(mix(now[node]) + sum[node]);
    }
    labels.push_back(std::move(now)), sums.push_back(std::move(sum));
    now = std::move(next);
    size_t counted = countDistinct(now);
    if (counted == distinct)
      break;
    distinct = counted;
  }
  labels.push_back(std::move(now));
}

/// Adds to `all`, which has the ranks, the switches that must move with them: renames the ranks,
/// and sees which labels the switches would have then.
bool Automorphisms::moveSwitches(const Moves &ranks, Moves &all) {
  if (labels.empty())
    return true;
  std::vector<int32_t> moved; // nodes whose label differs, by the round
  for (auto [from, to] : ranks) {
    label[size_t(from)] = labels[0][size_t(to)];
    moved.push_back(from);
  }
  std::vector<int32_t> touched;
  bool balanced = true; // of an automorphism there are the same labels, on other nodes
  for (size_t round = 0; balanced && round + 1 < labels.size(); ++round) {
    touched.clear();
    auto touch = [&](int32_t node) {
      if (!isTouched[size_t(node)])
        isTouched[size_t(node)] = true, touched.push_back(node);
    };
    for (int32_t node : moved) {
      uint64_t before = labels[round][size_t(node)], after = label[size_t(node)];
      for (const Step &step : steps(node)) {
        if (fabric.isRank(step.other))
          continue;
        // Seen from the other end the arc goes the other way.
        uint64_t weight = ~step.weight;
        delta[size_t(step.other)] += mix(weight ^ after) - mix(weight ^ before);
        touch(step.other);
      }
      if (!fabric.isRank(node))
        touch(node);
    }
    std::vector<std::pair<int32_t, uint64_t>> next;
    uint64_t gone = 0, come = 0;
    for (int32_t node : touched) {
      size_t n = size_t(node);
      uint64_t own = differs[n] ? label[n] : labels[round][n];
      uint64_t value = mix(mix(own) + sums[round][n] + delta[n]);
      if (value != labels[round + 1][n])
        next.push_back({node, value}), gone += mix(labels[round + 1][n]), come += mix(value);
      delta[n] = 0, isTouched[n] = false;
    }
    for (size_t i = ranks.size(); i < moved.size(); ++i)
      differs[size_t(moved[i])] = false;
    moved.resize(ranks.size()); // ranks keep their labels
    for (auto [node, value] : next)
      label[size_t(node)] = value, differs[size_t(node)] = true, moved.push_back(node);
    balanced = gone == come;
  }
  for (int32_t node : moved)
    differs[size_t(node)] = false;
  if (!balanced)
    return false;

  std::vector<std::pair<uint64_t, int32_t>> from, to;
  for (size_t i = ranks.size(); i < moved.size(); ++i) {
    from.push_back({label[size_t(moved[i])], moved[i]});
    to.push_back({labels.back()[size_t(moved[i])], moved[i]});
  }
  std::sort(from.begin(), from.end()), std::sort(to.begin(), to.end());
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].first != to[i].first)
      return false;
    all.push_back({from[i].second, to[i].second});
  }
  return true;
}

/// Where the arcs at nodes that move go to; false if one goes nowhere.
bool Automorphisms::mapArcs(const Moves &all, Moves &mapped) {
  for (auto [from, to] : all) {
    if (fabric.isRank(from) != fabric.isRank(to) ||
        fabric.copies[size_t(from)] != fabric.copies[size_t(to)] ||
        fabric.combines[size_t(from)] != fabric.combines[size_t(to)])
      return false;
    if (firstStep[size_t(from) + 1] - firstStep[size_t(from)] !=
        firstStep[size_t(to) + 1] - firstStep[size_t(to)])
      return false;
    for (int32_t arc = firstOut[size_t(from)]; arc < firstOut[size_t(from) + 1]; ++arc) {
      int32_t there = findArc(to, image[size_t(fabric.arcs[size_t(arc)].dst)]);
      if (there < 0 || !sameKind(arc, there))
        return false;
      if (there != arc)
        mapped.push_back({arc, there});
    }
    for (const Step &step : steps(from)) {
      if (image[size_t(step.other)] != step.other)
        continue; // seen from there, or there is only the way out
      int32_t arc = findArc(step.other, from);
      if (arc < 0)
        continue;
      int32_t there = findArc(step.other, to);
      if (there < 0 || !sameKind(arc, there))
        return false;
      mapped.push_back({arc, there});
    }
  }
  return true;
}

bool Automorphisms::attempt(const Moves &moves, std::vector<int32_t> *where) {
  constexpr size_t maxEntries = size_t(1) << 23; // of all generators together
  if (isFull)
    return false;
  for (auto [from, to] : moves)
    if (colours[size_t(from)] != colours[size_t(to)])
      return false;
  Moves all = moves, mapped;
  bool found = moveSwitches(moves, all);
  if (found) {
    for (auto [from, to] : all)
      image[size_t(from)] = to;
    found = mapArcs(all, mapped);
  }
  if (found) {
    bool joins = false;
    for (auto [from, to] : all)
      joins |= nodes.join(from, to);
    for (auto [from, to] : mapped)
      joins |= arcs.join(from, to);
    if (joins)
      generators.push_back(image);
    isFull = (generators.size() + 1) * image.size() > maxEntries;
    if (where)
      *where = image;
  }
  for (auto [from, to] : all)
    image[size_t(from)] = from;
  return found;
}

Orbits Automorphisms::orbits() { return makeOrbits(fabric, nodes, arcs, std::move(generators)); }

} // namespace ccl::model
