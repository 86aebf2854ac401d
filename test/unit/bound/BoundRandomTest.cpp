// Cut bounds of random small networks against all cuts there are, and against a linear program
// that knows nothing of cuts.

#include "dialect/bound/Bound.h"
#include "dialect/bound/Lp.h"
#include "test/unit/bound/Networks.h"

#include <doctest/doctest.h>

#include <numeric>
#include <optional>

using namespace ccl::model;
using namespace networks;

namespace {

/// The longest time of a shard over all sets of nodes.
Rational bySets(const Fabric &fabric, Collective collective, int64_t root) {
  int64_t shards = 0, capacity = 1;
  for (uint32_t set = 1; set < 1u << fabric.nodes; ++set) {
    auto has = [&](int32_t node) { return (set >> node & 1) != 0; };
    int64_t inside = 0, leaving = 0, entering = 0;
    for (int32_t rank = 0; rank < fabric.ranks; ++rank)
      inside += has(rank);
    for (const Arc &arc : fabric.arcs) {
      leaving += has(arc.src) && !has(arc.dst) ? arc.capacity : 0;
      entering += !has(arc.src) && has(arc.dst) ? arc.capacity : 0;
    }
    if (inside == 0 || inside == fabric.ranks || (hasRoot(collective) && !has(int32_t(root))))
      continue;
    int64_t demand = 0, over = 0;
    switch (collective) {
    case Collective::AllGather: demand = inside, over = leaving; break;
    case Collective::ReduceScatter: demand = inside, over = entering; break;
    case Collective::Broadcast: demand = 1, over = leaving; break;
    case Collective::Reduce: demand = 1, over = entering; break;
    case Collective::Scatter: demand = fabric.ranks - inside, over = leaving; break;
    default: demand = fabric.ranks - inside, over = entering; break;
    }
    if (demand * capacity > shards * over)
      shards = demand, capacity = over;
  }
  int64_t divisor = std::gcd(shards, capacity);
  return {shards / divisor, capacity / divisor};
}

/// The best rate of a shard (of the root's, or of every rank's) if switches only forward: paths of
/// data from each rank through switches to the next rank are variables, and in the graph that
/// these make there must be a flow to each rank. By Edmonds' theorem (1973) trees exist then.
double byPaths(const Fabric &fabric, std::optional<int64_t> root) {
  Lp lp;
  size_t ranks = size_t(fabric.ranks), arcs = fabric.arcs.size();
  int32_t rate = lp.addColumn(1);
  auto row = [&](const std::vector<Lp::Term> &terms, double lower, double upper) {
    lp.addRow(terms, lower, upper);
  };
  // What leaves rank u and has not reached another rank yet, by arc.
  std::vector<std::vector<int32_t>> path(ranks, std::vector<int32_t>(arcs, -1));
  for (size_t u = 0; u < ranks; ++u)
    for (size_t e = 0; e < arcs; ++e)
      if (fabric.arcs[e].src == int32_t(u) || !fabric.isRank(fabric.arcs[e].src))
        path[u][e] = lp.addColumn(0);
  for (size_t e = 0; e < arcs; ++e) {
    std::vector<Lp::Term> sum;
    for (size_t u = 0; u < ranks; ++u)
      if (path[u][e] >= 0)
        sum.push_back({path[u][e], 1});
    row(sum, -Lp::infinity, double(fabric.arcs[e].capacity));
  }
  for (size_t u = 0; u < ranks; ++u)
    for (int32_t s = fabric.ranks; s < fabric.nodes; ++s) {
      std::vector<Lp::Term> balance;
      for (size_t e = 0; e < arcs; ++e) {
        if (path[u][e] >= 0 && fabric.arcs[e].dst == s)
          balance.push_back({path[u][e], 1});
        if (path[u][e] >= 0 && fabric.arcs[e].src == s)
          balance.push_back({path[u][e], -1});
      }
      row(balance, 0, 0);
    }
  for (size_t t = 0; t < ranks; ++t) {
    if (root && int64_t(t) == *root)
      continue;
    std::vector<std::vector<int32_t>> flow(ranks, std::vector<int32_t>(ranks, -1));
    for (size_t u = 0; u < ranks; ++u)
      for (size_t v = 0; v < ranks; ++v) {
        if (u == v)
          continue;
        flow[u][v] = lp.addColumn(0);
        std::vector<Lp::Term> within = {{flow[u][v], 1}};
        for (size_t e = 0; e < arcs; ++e)
          if (path[u][e] >= 0 && fabric.arcs[e].dst == int32_t(v))
            within.push_back({path[u][e], -1});
        row(within, -Lp::infinity, 0);
      }
    for (size_t v = 0; v < ranks; ++v) {
      if (v == t)
        continue;
      std::vector<Lp::Term> balance;
      for (size_t u = 0; u < ranks; ++u)
        if (u != v) {
          balance.push_back({flow[v][u], 1});
          balance.push_back({flow[u][v], -1});
        }
      if (!root || int64_t(v) == *root)
        balance.push_back({rate, -1});
      row(balance, 0, 0);
    }
  }
  REQUIRE(lp.solve() == Lp::Status::Optimal);
  return lp.objective();
}

} // namespace

TEST_CASE("cut bounds are those of all cuts, for every collective and root") {
  std::mt19937_64 random(11);
  int withSwitches = 0, exact = 0, open = 0;
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    Topology t = randomNetwork(random, 12, i % 2, i % 4 < 2);
    Fabric fabric = makeFabric(t);
    Orbits orbits = findOrbits(fabric, t);
    withSwitches += fabric.nodes > fabric.ranks;
    for (Collective collective :
         {Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast,
          Collective::Reduce, Collective::Scatter, Collective::Gather}) {
      int64_t root = int64_t(random() % uint64_t(fabric.ranks));
      BandwidthBound bound = cutBound(fabric, orbits, collective, root);
      REQUIRE(bound.shardTime == bySets(fabric, collective, root));
      REQUIRE(verify(fabric, bound) == "");
      REQUIRE(bound.attained > 0);
      REQUIRE((bound.exact ? bound.attained == bound.algbw : bound.attained < bound.algbw));
      (bound.exact ? exact : open) += 1;
      // With as much out of every switch as into it there is always a schedule.
      if (i % 4 < 2)
        REQUIRE(bound.exact);
    }
  }
  CHECK(withSwitches > 150);
  CHECK(exact > 2000);
  CHECK(open > 50);
}

TEST_CASE("what is attained is attained, by paths and trees") {
  std::mt19937_64 random(13);
  int exact = 0, open = 0;
  for (int i = 0; i < 150; ++i) {
    CAPTURE(i);
    Topology t = randomNetwork(random, 7, true, i % 5 == 0);
    Fabric fabric = makeFabric(t);
    if (fabric.ranks > 5)
      continue;
    Orbits orbits = findOrbits(fabric, t);
    auto compare = [&](Collective collective, const Fabric &forward, std::optional<int64_t> root) {
      BandwidthBound bound = cutBound(fabric, orbits, collective, root.value_or(0));
      double algbw = byPaths(forward, root) * fabric.unit * double(root ? 1 : fabric.ranks);
      constexpr double tolerance = 1e-6;
      CHECK(bound.attained <= algbw * (1 + tolerance));
      CHECK(algbw <= bound.algbw * (1 + tolerance));
      (bound.exact ? exact : open) += 1;
    };
    int64_t root = int64_t(random() % uint64_t(fabric.ranks));
    compare(Collective::AllGather, fabric, std::nullopt);
    compare(Collective::ReduceScatter, fabric.reversed(), std::nullopt);
    compare(Collective::Broadcast, fabric, root);
    compare(Collective::Reduce, fabric.reversed(), root);
  }
  CHECK(exact > 100);
  CHECK(open > 20);
}
