//===- Decompositions.cpp -------------------------------------------------===//
#include "passes/synthesis/solver/Decompositions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ccl::solver {

using model::Collective;

std::string Decomposition::text(const model::Topology &topology) const {
  std::string text;
  for (const DecomposedStage &stage : stages)
    text += fmt::format("{}{}[{}]", text.empty() ? "" : "; ", model::name(stage.collective),
                        axisNames(topology, stage.axes));
  return text;
}

Decomposer::Decomposer(const model::Topology &topology, Collective collective, int64_t root,
                       int64_t bytes)
    : topology(topology), collective(collective), root(topology.coordinates(root)), bytes(bytes) {
  for (const model::Axis &axis : topology.axes)
    all.push_back(axis.size > 1);
}

bool Decomposer::handles(Collective collective) {
  return collective == Collective::AllReduce || collective == Collective::AllGather ||
         collective == Collective::ReduceScatter || collective == Collective::Broadcast ||
         collective == Collective::Reduce;
}

/// Sets of axes that are not empty, and not all there are.
std::vector<AxisSet> Decomposer::blocks(const AxisSet &left) const {
  std::vector<size_t> axes; // few: those of one rank are in no set
  for (size_t a = 0; a < left.size(); ++a)
    if (left[a])
      axes.push_back(a);
  std::vector<AxisSet> list;
  for (uint64_t bits = 1; bits < uint64_t(1) << axes.size(); ++bits) {
    AxisSet block(left.size());
    for (size_t i = 0; i < axes.size(); ++i)
      block[axes[i]] = bits >> i & 1;
    if (block != all)
      list.push_back(block);
  }
  return list;
}

double Decomposer::ranksOf(const AxisSet &axes) const {
  double ranks = 1;
  for (size_t a = 0; a < axes.size(); ++a)
    ranks *= axes[a] ? double(topology.axes[a].size) : 1;
  return ranks;
}

int64_t Decomposer::rootIn(const AxisSet &axes) const {
  int64_t number = 0;
  for (size_t a = 0; a < axes.size(); ++a)
    if (axes[a])
      number = number * topology.axes[a].size + root[a];
  return number;
}

double Decomposer::cost(Collective kind, const AxisSet &axes, const std::vector<int64_t> &only,
                        int64_t from, double share) {
  auto [it, isNew] = costs.try_emplace(Key{kind, axes, only, from, share}, 0);
  if (!isNew)
    return it->second;
  auto [part, isNewPart] = groups.try_emplace({axes, only});
  if (isNewPart)
    part->second = findGroups(topology, axes, only);
  const int64_t each = std::max<int64_t>(int64_t(std::llround(double(bytes) * share)), 1);
  for (size_t representative : part->second.representatives) {
    const RankGroup &group = part->second.groups[representative];
    if (std::string wrong = group.topology.check(); !wrong.empty()) {
      if (obstacle.empty())
        obstacle =
            fmt::format("along {} ranks {} and {} are not joined: {}", axisNames(topology, axes),
                        group.ranks.front(), group.ranks.back(), wrong);
      return it->second = std::numeric_limits<double>::infinity();
    }
    model::BoundOptions options;
    options.root = from;
    options.seconds = 10;
    const auto bound = model::bandwidthBound(group.topology, kind, options);
    it->second = std::max(it->second, model::timeBound(group.topology, *bound, each));
  }
  return it->second;
}

bool Decomposer::addStage(Stages &stages, Collective kind, const AxisSet &axes, const State &state,
                          double share) {
  const int64_t from = model::hasRoot(kind) ? rootIn(axes) : 0;
  const double us = cost(kind, axes, state.only, from, share);
  if (std::isfinite(us))
    stages.push_back({kind, axes, from, us});
  return std::isfinite(us);
}

void Decomposer::take(const Stages &before, const Stages &after) {
  Decomposition one;
  one.number = found.size();
  one.stages = before;
  one.stages.insert(one.stages.end(), after.rbegin(), after.rend());
  for (const DecomposedStage &stage : one.stages)
    one.us += stage.us;
  found.push_back(std::move(one));
}

/// What goes down comes up in the opposite order: `after` is from the last stage back.
void Decomposer::allReduce(const State &state, Stages &before, Stages &after) {
  for (const AxisSet &block : blocks(state.left)) {
    State rest = state;
    for (size_t a = 0; a < block.size(); ++a)
      rest.left[a] = rest.left[a] && !block[a];
    const bool isLast = ranksOf(rest.left) == 1;
    auto attempt = [&](Collective down, std::optional<Collective> up, const State &next) {
      const size_t sizes[] = {before.size(), after.size()};
      if (addStage(before, down, block, state, state.share) &&
          (!up || addStage(after, *up, block, state, state.share))) {
        if (isLast)
          take(before, after);
        else
          allReduce(next, before, after);
      }
      before.resize(sizes[0]), after.resize(sizes[1]);
    };
    attempt(Collective::AllReduce, std::nullopt, rest);
    if (isLast)
      continue;
    State scattered = rest, rooted = rest;
    scattered.share /= ranksOf(block);
    rooted.only.resize(block.size(), -1);
    for (size_t a = 0; a < block.size(); ++a)
      if (block[a])
        rooted.only[a] = root[a];
    attempt(Collective::ReduceScatter, Collective::AllGather, scattered);
    attempt(Collective::Reduce, Collective::Broadcast, rooted);
  }
}

/// One kind of stages, one after the other. reduce_scatter and reduce from what all have; the
/// others the other way round, so that their last stage comes first here.
void Decomposer::along(const State &state, Stages &before) {
  const bool gathers = collective == Collective::AllGather;
  const bool shares = gathers || collective == Collective::ReduceScatter;
  const bool isReversed = gathers || collective == Collective::Broadcast;
  for (const AxisSet &block : blocks(state.left)) {
    State rest = state;
    for (size_t a = 0; a < block.size(); ++a)
      rest.left[a] = rest.left[a] && !block[a];
    if (shares)
      rest.share /= ranksOf(block);
    if (!shares) {
      rest.only.resize(block.size(), -1);
      for (size_t a = 0; a < block.size(); ++a)
        if (block[a])
          rest.only[a] = root[a];
    }
    const size_t size = before.size();
    if (addStage(before, collective, block, state, state.share)) {
      if (ranksOf(rest.left) > 1)
        along(rest, before);
      else if (isReversed)
        take({}, before);
      else
        take(before, {});
    }
    before.resize(size);
  }
}

std::vector<Decomposition> Decomposer::run(std::string &why) {
  State start;
  start.left = all;
  Stages before, after;
  if (collective == Collective::AllReduce)
    allReduce(start, before, after);
  else
    along(start, before);
  auto isBetter = [](const Decomposition &a, const Decomposition &b) {
    return std::tuple(a.us, a.stages.size(), a.number) <
           std::tuple(b.us, b.stages.size(), b.number);
  };
  std::sort(found.begin(), found.end(), isBetter);
  why = found.empty() ? obstacle : "";
  return std::move(found);
}

} // namespace ccl::solver
