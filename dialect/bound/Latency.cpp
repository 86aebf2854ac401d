//===- Latency.cpp - How long the way is, and how long with all its bytes -===//

#include "dialect/bound/Bound.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>

namespace ccl::model {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Least sums of latencies (Dijkstra 1959).
class Distances {
public:
  explicit Distances(const Fabric &fabric) : fabric(fabric) {
    first.assign(size_t(fabric.nodes) + 1, 0);
    for (const Arc &arc : fabric.arcs)
      ++first[size_t(arc.src) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
  }

  /// To every node from the nearest of `sources`.
  std::vector<double> from(const std::vector<int32_t> &sources) const {
    std::vector<double> distance(size_t(fabric.nodes), never);
    using Entry = std::pair<double, int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (int32_t source : sources)
      distance[size_t(source)] = 0, queue.push({0, source});
    while (!queue.empty()) {
      auto [reached, node] = queue.top();
      queue.pop();
      if (reached > distance[size_t(node)])
        continue;
      // Arcs are sorted by their source.
      for (int32_t i = first[size_t(node)]; i < first[size_t(node) + 1]; ++i) {
        const Arc &arc = fabric.arcs[size_t(i)];
        if (reached + arc.latency < distance[size_t(arc.dst)]) {
          distance[size_t(arc.dst)] = reached + arc.latency;
          queue.push({distance[size_t(arc.dst)], arc.dst});
        }
      }
    }
    return distance;
  }

  /// To each rank from the nearest other rank: every node learns of the two nearest.
  std::vector<double> fromNearestRank() const {
    struct Nearest {
      int32_t rank = -1;
      double distance = never;
    };
    std::vector<std::pair<Nearest, Nearest>> nearest(size_t(fabric.nodes));
    struct Entry {
      double distance;
      int32_t node, rank;
      bool operator>(const Entry &o) const {
        return std::tie(distance, node, rank) > std::tie(o.distance, o.node, o.rank);
      }
    };
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (int32_t rank = 0; rank < fabric.ranks; ++rank)
      queue.push({0, rank, rank});
    while (!queue.empty()) {
      Entry entry = queue.top();
      queue.pop();
      auto &[one, two] = nearest[size_t(entry.node)];
      if (one.rank < 0)
        one = {entry.rank, entry.distance};
      else if (two.rank < 0 && one.rank != entry.rank)
        two = {entry.rank, entry.distance};
      else
        continue;
      for (int32_t i = first[size_t(entry.node)]; i < first[size_t(entry.node) + 1]; ++i) {
        const Arc &arc = fabric.arcs[size_t(i)];
        if (nearest[size_t(arc.dst)].second.rank < 0)
          queue.push({entry.distance + arc.latency, arc.dst, entry.rank});
      }
    }
    std::vector<double> result(size_t(fabric.ranks));
    for (size_t rank = 0; rank < result.size(); ++rank) // it is its own nearest, or as near
      result[rank] = nearest[rank].first.rank == int32_t(rank) ? nearest[rank].second.distance
                                                               : nearest[rank].first.distance;
    return result;
  }

private:
  const Fabric &fabric;
  std::vector<int32_t> first;
};

enum class Pairs { None, FromRoot, ToRoot, All };

Pairs pairsOf(Collective c) {
  switch (c) {
  case Collective::Broadcast:
  case Collective::Scatter: return Pairs::FromRoot;
  case Collective::Reduce:
  case Collective::Gather: return Pairs::ToRoot;
  case Collective::AllReduce:
  case Collective::AllGather:
  case Collective::ReduceScatter:
  case Collective::AllToAll:
  case Collective::Barrier: return Pairs::All;
  default: return Pairs::None;
  }
}

/// Calls visit(src, dst, distance) for pairs of ranks that data has to go between: each, or of
/// pairs that an automorphism takes to each other at least one. False: so many that only the
/// sources were looked at that seemed to be farthest from the others.
template <typename Visit>
bool forPairs(const Fabric &fabric, const Topology &topology, Collective collective, int64_t root,
              Visit visit) {
  constexpr int64_t maxSteps = int64_t(1) << 25; // a second or so
  constexpr int64_t minSources = 8;
  auto ranksBut = [&](int64_t one, auto what) {
    for (int32_t rank = 0; rank < fabric.ranks; ++rank)
      if (rank != one)
        what(rank);
  };
  Pairs pairs = pairsOf(collective);
  bool rooted = pairs == Pairs::FromRoot || pairs == Pairs::ToRoot;
  if (pairs == Pairs::None || (rooted && (root < 0 || root >= fabric.ranks)))
    return true;
  if (rooted) {
    bool fromRoot = pairs == Pairs::FromRoot;
    Fabric way = fromRoot ? fabric : fabric.reversed();
    std::vector<double> distance = Distances(way).from({int32_t(root)});
    ranksBut(root, [&](int32_t rank) {
      visit(fromRoot ? int32_t(root) : rank, fromRoot ? rank : int32_t(root),
            distance[size_t(rank)]);
    });
    return true;
  }

  Orbits orbits = findOrbits(fabric, topology, /*latencies=*/true);
  std::vector<int32_t> sources;
  std::vector<bool> seen(size_t(orbits.nodeOrbits));
  for (int32_t rank = 0; rank < fabric.ranks; ++rank)
    if (!seen[size_t(orbits.ofNode[size_t(rank)])]) {
      seen[size_t(orbits.ofNode[size_t(rank)])] = true;
      sources.push_back(rank);
    }
  int64_t affordable = std::max(minSources, maxSteps / std::max<int64_t>(1, fabric.arcs.size()));
  bool all = int64_t(sources.size()) <= affordable;
  Distances distances(fabric);
  std::vector<double> farthest(size_t(fabric.ranks), 0); // from a source so far
  std::vector<bool> done(size_t(fabric.ranks));
  for (int64_t i = 0; i < (all ? int64_t(sources.size()) : affordable); ++i) {
    int32_t source = sources[size_t(i)];
    if (!all)
      for (int32_t rank : sources)
        if (done[size_t(source)] ||
            (!done[size_t(rank)] && farthest[size_t(rank)] > farthest[size_t(source)]))
          source = rank;
    done[size_t(source)] = true;
    std::vector<double> distance = distances.from({source});
    ranksBut(source, [&](int32_t rank) {
      farthest[size_t(rank)] = std::max(farthest[size_t(rank)], distance[size_t(rank)]);
      visit(source, rank, distance[size_t(rank)]);
    });
  }
  return all;
}

/// What of `bytes` has to come in at a rank, to go out of one, and to go from one to another, as
/// a share; with a root, at ranks that receive, that send.
struct Shares {
  double in = 0, out = 0, pair = 0;
};

Shares sharesOf(Collective c, int64_t ranks) {
  double one = 1.0 / double(ranks), rest = 1 - one;
  switch (c) {
  case Collective::AllReduce:
  case Collective::Broadcast:
  case Collective::Reduce: return {1, 1, 1};
  case Collective::AllGather: return {rest, one, one};
  case Collective::ReduceScatter: return {one, rest, one};
  case Collective::Gather: return {rest, one, one};  // in at the root, out of others
  case Collective::Scatter: return {one, rest, one}; // out of the root, in at others
  case Collective::AllToAll: return {rest, rest, one};
  default: return {};
  }
}

/// The least latency of what crosses the cut: to an arc of it from a rank that has what must
/// cross, and on to one that needs it.
double latencyAcross(const Fabric &fabric, const BandwidthBound &bound) {
  bool enters = bound.collective == Collective::ReduceScatter ||
                bound.collective == Collective::Reduce || bound.collective == Collective::Gather;
  Pairs pairs = pairsOf(bound.collective);
  std::vector<int32_t> sources, sinks;
  for (int32_t rank = 0; rank < fabric.ranks; ++rank) {
    bool near = bound.cut[size_t(rank)] != enters; // the side that sends
    bool isRoot = rank == bound.root;
    if (near && (pairs != Pairs::FromRoot || isRoot))
      sources.push_back(rank);
    if (!near && (pairs != Pairs::ToRoot || isRoot))
      sinks.push_back(rank);
  }
  Fabric back = fabric.reversed();
  std::vector<double> to = Distances(fabric).from(sources), onward = Distances(back).from(sinks);
  double least = never;
  for (const Arc &arc : fabric.arcs) {
    bool srcIn = bound.cut[size_t(arc.src)], dstIn = bound.cut[size_t(arc.dst)];
    if (srcIn != dstIn && srcIn != enters)
      least = std::min(least, to[size_t(arc.src)] + arc.latency + onward[size_t(arc.dst)]);
  }
  return least;
}

} // namespace

LatencyBound latencyBound(const Topology &topology, Collective collective, int64_t root) {
  LatencyBound bound;
  Fabric fabric = makeFabric(topology);
  bound.exact =
      forPairs(fabric, topology, collective, root, [&](int32_t src, int32_t dst, double distance) {
        if (bound.src >= 0 && distance <= bound.us)
          return;
        bound = {distance, src, dst, true};
      });
  return bound;
}

std::vector<TimeLine> timeLines(const Topology &topology, const BandwidthBound &bound) {
  constexpr double bytesPerUs = 1e3; // of 1 GB/s
  Fabric fabric = makeFabric(topology);
  std::map<double, double> steepest; // us per byte -> us
  auto add = [&](double us, double usPerByte) {
    if (us == never)
      return;
    auto [it, added] = steepest.try_emplace(usPerByte, us);
    it->second = std::max(it->second, us);
  };
  add(0, bound.algbw > 0 ? 1 / (bound.algbw * bytesPerUs) : never);
  if (bound.algbw > 0 && bound.cut.size() == size_t(fabric.nodes))
    add(latencyAcross(fabric, bound), 1 / (bound.algbw * bytesPerUs));

  std::vector<int64_t> in(size_t(fabric.nodes)), out(size_t(fabric.nodes));
  for (const Arc &arc : fabric.arcs)
    in[size_t(arc.dst)] += arc.capacity, out[size_t(arc.src)] += arc.capacity;
  Shares shares = sharesOf(bound.collective, fabric.ranks);
  auto usPerByte = [&](double share, int64_t capacity) {
    return share / (double(capacity) * fabric.unit * bytesPerUs);
  };
  forPairs(fabric, topology, bound.collective, bound.root,
           [&](int32_t src, int32_t dst, double distance) {
             add(distance, 0);
             int64_t narrow = std::min(out[size_t(src)], in[size_t(dst)]);
             add(distance, usPerByte(shares.pair, narrow));
           });
  // What comes in at a rank, or goes out, all together.
  Pairs pairs = pairsOf(bound.collective);
  if (pairs == Pairs::None)
    return {};
  std::vector<double> before = Distances(fabric).fromNearestRank();
  Fabric back = fabric.reversed();
  std::vector<double> after = Distances(back).fromNearestRank();
  for (int32_t rank = 0; rank < fabric.ranks && fabric.ranks > 1; ++rank) {
    bool isRoot = rank == bound.root;
    if (pairs == Pairs::All || (pairs == Pairs::FromRoot) != isRoot)
      add(before[size_t(rank)], usPerByte(shares.in, in[size_t(rank)]));
    if (pairs == Pairs::All || (pairs == Pairs::FromRoot) == isRoot)
      add(after[size_t(rank)], usPerByte(shares.out, out[size_t(rank)]));
  }

  // Steeper lines that start higher hide the others.
  std::vector<TimeLine> lines;
  double highest = -1;
  for (auto it = steepest.rbegin(); it != steepest.rend(); ++it)
    if (it->second > highest) {
      highest = it->second;
      lines.push_back({it->second, it->first});
    }
  return lines;
}

double timeBound(std::span<const TimeLine> lines, int64_t bytes) {
  double us = 0;
  if (bytes > 0)
    for (const TimeLine &line : lines)
      us = std::max(us, line.us + line.usPerByte * double(bytes));
  return us;
}

double timeBound(const Topology &topology, const BandwidthBound &bound, int64_t bytes) {
  return timeBound(timeLines(topology, bound), bytes);
}

} // namespace ccl::model
