//===- CutBound.cpp - Exact bounds whose proof is a cut -------------------===//

#include "dialect/bound/CutBound.h"

#include "dialect/bound/CutSearch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ccl::model {
namespace {

/// Whether what counts is what enters S, and not what leaves it.
bool isReversed(Collective c) {
  return c == Collective::ReduceScatter || c == Collective::Reduce || c == Collective::Gather;
}

bool isOneRoot(Collective c) { return c == Collective::Broadcast || c == Collective::Reduce; }
bool isSpread(Collective c) { return c == Collective::Scatter || c == Collective::Gather; }

Cut search(const CutProblem &problem, Collective collective, int64_t root, int64_t &flows) {
  if (isOneRoot(collective))
    return broadcastCut(problem, int32_t(root), flows);
  if (isSpread(collective))
    return scatterCut(problem, int32_t(root), flows);
  return allGatherCut(problem, flows);
}

double algbwOf(const Fabric &fabric, Collective collective, double shardTime) {
  return (isOneRoot(collective) ? 1 : fabric.ranks) * fabric.unit / shardTime;
}

/// The longest time of a shard that some schedule is known to need no more than, as a fraction of
/// `cut`'s: 1 if that is tight, infinity if nothing is known. What decides are the switches that
/// cannot copy. Where as much goes in as out, or more, paths through them can be split off without
/// loss (Bang-Jensen, Frank, Jackson 1995), and trees pack in what is left (Edmonds 1973). A
/// switch that copies is as good as a rank if all data can reach it.
double attainedTime(const Fabric &fabric, const Orbits &orbits, Collective collective, int64_t root,
                    const Cut &cut, int64_t &flows) {
  if (isSpread(collective))
    return 1; // a flow, no copies
  if (isPreflow(fabric, {}))
    return 1;
  std::vector<int32_t> copying;
  for (int32_t node = fabric.ranks; node < fabric.nodes; ++node)
    if (fabric.copies[size_t(node)])
      copying.push_back(node);
  // What each rank needs to come in is tight at the bound; switches pass things on.
  std::vector<int64_t> spare(size_t(fabric.nodes), allSpare), equal(size_t(fabric.nodes), 0);
  const Orbits none;
  std::vector<int64_t> in = inCapacities(fabric);
  double needed =
      double(cut.capacity) / double(cut.shards) * (isOneRoot(collective) ? 1 : fabric.ranks - 1);
  for (int32_t rank = 0; rank < fabric.ranks; ++rank)
    spare[size_t(rank)] =
        int64_t(double(allSpare) * std::max(0.0, 1 - needed / double(in[size_t(rank)])));
  if (isOneRoot(collective))
    spare[size_t(root)] = allSpare;

  double best = std::numeric_limits<double>::infinity();
  auto attempt = [&](std::span<const int32_t> copies, const std::vector<int64_t> &spareOf) {
    if (best == 1)
      return;
    int64_t scale = 1;
    bool isSymmetric = true;
    Fabric part = isPreflow(fabric, copies)
                      ? fabric
                      : preflowPart(fabric, copies, spareOf, scale, isSymmetric);
    Cut known = cut;
    known.capacity = capacityLeaving(part, cut.side);
    known.shards = cut.shards * (capacityLeaving(fabric, cut.side) / cut.capacity);
    Cut found =
        search({part, isSymmetric ? orbits : none, copies, &known}, collective, root, flows);
    if (found.capacity == 0)
      return;
    // In lowest terms up to 2^31 and 2^60, the scale up to 2^20: all products fit.
    __int128 slow = __int128(found.shards) * scale * cut.capacity;
    __int128 fast = __int128(cut.shards) * found.capacity;
    double ratio = slow == fast ? 1 : std::max(double(slow) / double(fast), std::nextafter(1.0, 2));
    best = std::min(best, ratio);
  };
  attempt(copying, spare);
  attempt(copying, equal);
  if (!copying.empty()) {
    attempt({}, spare);
    attempt({}, equal);
  }
  return best;
}

/// "{rank 0 to rank 7, 3 switches}", shortened to a few ranges.
std::string describe(const Fabric &fabric, const std::vector<bool> &side) {
  constexpr int maxRanges = 4;
  std::string text;
  int ranges = 0;
  int64_t more = 0, switches = 0;
  for (int32_t rank = 0; rank < fabric.ranks; ++rank) {
    if (!side[size_t(rank)])
      continue;
    int32_t last = rank;
    while (last + 1 < fabric.ranks && side[size_t(last) + 1])
      ++last;
    if (++ranges <= maxRanges)
      text += fmt::format("{}rank {}", text.empty() ? "" : ", ", rank) +
              (last > rank ? fmt::format(" to rank {}", last) : "");
    else
      more += last - rank + 1;
    rank = last;
  }
  for (int32_t node = fabric.ranks; node < fabric.nodes; ++node)
    switches += side[size_t(node)];
  if (more > 0)
    text += fmt::format(", {} more", more);
  if (switches > 0)
    text += fmt::format(", {} switch{}", switches, switches > 1 ? "es" : "");
  return "{" + text + "}";
}

/// Ranks of S, and what has to cross its border.
struct Demand {
  int64_t inside = 0, shards = 0;
};

Demand demandOf(const Fabric &fabric, Collective collective, int64_t root,
                const std::vector<bool> &cut) {
  Demand demand;
  demand.inside = std::count(cut.begin(), cut.begin() + fabric.ranks, true);
  bool splits = demand.inside > 0 && demand.inside < fabric.ranks;
  bool rootIn = !hasRoot(collective) || cut[size_t(root)];
  if (!splits || !rootIn)
    return demand;
  demand.shards = isOneRoot(collective)  ? 1
                  : isSpread(collective) ? fabric.ranks - demand.inside
                                         : demand.inside;
  return demand;
}

int64_t capacityOf(const Fabric &fabric, Collective collective, const std::vector<bool> &cut) {
  if (!isReversed(collective))
    return capacityLeaving(fabric, cut);
  std::vector<bool> others = cut;
  others.flip();
  return capacityLeaving(fabric, others);
}

std::string sentence(const Fabric &fabric, const BandwidthBound &bound) {
  Demand demand = demandOf(fabric, bound.collective, bound.root, bound.cut);
  double capacity = double(capacityOf(fabric, bound.collective, bound.cut)) * fabric.unit;
  std::string what;
  std::string ranks = demand.shards == 1 ? "1 rank" : fmt::format("{} ranks", demand.shards);
  switch (bound.collective) {
  case Collective::Broadcast: what = fmt::format("the buffer of rank {} leaves", bound.root); break;
  case Collective::Reduce: what = fmt::format("the sum for rank {} enters", bound.root); break;
  case Collective::Scatter: what = fmt::format("the shards for {} leave", ranks); break;
  case Collective::Gather: what = fmt::format("the shards of {} enter", ranks); break;
  case Collective::ReduceScatter: what = fmt::format("the sums for {} enter", ranks); break;
  default: what = fmt::format("the shards of {} leave", ranks); break;
  }
  std::string over =
      capacity > 0 ? fmt::format("over {:.6g} GB/s", capacity) : std::string("but no link does");
  int64_t outside = fabric.ranks - demand.inside;
  if (outside == 1 && demand.inside > 1) {
    int64_t one = std::find(bound.cut.begin(), bound.cut.end(), false) - bound.cut.begin();
    std::vector<bool> rest = bound.cut;
    rest[size_t(one)] = true;
    if (std::find(rest.begin(), rest.end(), false) == rest.end())
      return fmt::format("{} all nodes but rank {} {}", what, one, over);
  }
  return fmt::format("{} {} {}", what, describe(fabric, bound.cut), over);
}

} // namespace

bool hasCutBound(Collective c) {
  return c == Collective::AllGather || isReversed(c) || c == Collective::Broadcast ||
         c == Collective::Scatter;
}

BandwidthBound cutBound(const Fabric &fabric, const Orbits &orbits, Collective collective,
                        int64_t root) {
  BandwidthBound bound;
  bound.collective = collective;
  bound.root = root;
  bound.shardTime = {0, 1};
  if (!hasCutBound(collective) || (hasRoot(collective) && (root < 0 || root >= fabric.ranks))) {
    bound.algbw = std::numeric_limits<double>::infinity();
    bound.certificate = "no cut bounds this";
    return bound;
  }
  if (fabric.ranks < 2) {
    bound.algbw = bound.attained = std::numeric_limits<double>::infinity();
    bound.exact = true;
    bound.certificate = "one rank has nothing to move";
    return bound;
  }
  std::optional<Fabric> reversed;
  if (isReversed(collective))
    reversed = fabric.reversed();
  const Fabric &forward = reversed ? *reversed : fabric;

  Cut cut = search({forward, orbits}, collective, root, bound.flows);
  bound.cut = cut.side;
  if (cut.capacity == 0) {
    bound.exact = true;
    bound.certificate = sentence(fabric, bound);
    return bound;
  }
  bound.shardTime = {cut.shards, cut.capacity};
  bound.algbw = algbwOf(fabric, collective, bound.shardTime.value());
  if (!fabric.relaxed) {
    double time = attainedTime(forward, orbits, collective, root, cut, bound.flows);
    bound.attained = bound.algbw / time / (1 + fabric.rounding);
    bound.exact = time == 1 && fabric.exact;
  }
  bound.certificate = sentence(fabric, bound);
  return bound;
}

std::string verifyCut(const Fabric &fabric, const BandwidthBound &bound) {
  if (!hasCutBound(bound.collective))
    return fmt::format("no cut bounds {}", name(bound.collective));
  if (fabric.ranks < 2)
    return "";
  if (hasRoot(bound.collective) && (bound.root < 0 || bound.root >= fabric.ranks))
    return fmt::format("root {} is outside [0, {})", bound.root, fabric.ranks);
  if (bound.cut.size() != size_t(fabric.nodes))
    return fmt::format("the cut has {} nodes, but the fabric {}", bound.cut.size(), fabric.nodes);
  Demand demand = demandOf(fabric, bound.collective, bound.root, bound.cut);
  if (demand.shards == 0)
    return hasRoot(bound.collective)
               ? fmt::format("the cut does not separate rank {} from another rank", bound.root)
               : "the cut does not separate one rank from another";
  int64_t capacity = capacityOf(fabric, bound.collective, bound.cut);
  if (capacity == 0)
    return bound.algbw == 0 ? ""
                            : fmt::format("nothing crosses the cut, but algbw is {}", bound.algbw);
  Rational time = bound.shardTime;
  if (time.den <= 0 || __int128(time.num) * capacity != __int128(demand.shards) * time.den)
    return fmt::format("{} shards cross the cut over {}, which is not the time {} / {}",
                       demand.shards, capacity, time.num, time.den);
  double algbw = algbwOf(fabric, bound.collective, double(demand.shards) / double(capacity));
  constexpr double tolerance = 1e-12; // divisions in another order
  if (!(std::abs(bound.algbw - algbw) <= tolerance * algbw))
    return fmt::format("the cut proves algbw {} GB/s, not {}", algbw, bound.algbw);
  return "";
}

} // namespace ccl::model
