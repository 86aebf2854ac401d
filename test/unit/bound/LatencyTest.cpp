#include "dialect/bound/Bound.h"
#include "test/unit/bound/Networks.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ccl::model;
using namespace networks;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Of all pairs of nodes (Floyd 1962).
std::vector<std::vector<double>> distances(const Fabric &fabric) {
  size_t n = size_t(fabric.nodes);
  std::vector<std::vector<double>> d(n, std::vector<double>(n, never));
  for (size_t i = 0; i < n; ++i)
    d[i][i] = 0;
  for (const Arc &arc : fabric.arcs)
    d[size_t(arc.src)][size_t(arc.dst)] = arc.latency;
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        d[i][j] = std::min(d[i][j], d[i][k] + d[k][j]);
  return d;
}

bool goesBetween(Collective c, int64_t root, size_t src, size_t dst) {
  switch (c) {
  case Collective::Broadcast:
  case Collective::Scatter: return int64_t(src) == root && src != dst;
  case Collective::Reduce:
  case Collective::Gather: return int64_t(dst) == root && src != dst;
  default: return src != dst;
  }
}

/// Bytes that rank dst needs of src, that must come in at it, and that must go out of src.
struct Needs {
  double pair, in, out;
};
Needs needs(Collective c, double bytes, double ranks) {
  switch (c) {
  case Collective::Broadcast:
  case Collective::Reduce: return {bytes, bytes, bytes};
  case Collective::ReduceScatter:
  case Collective::Scatter: return {bytes / ranks, bytes / ranks, bytes - bytes / ranks};
  default: return {bytes / ranks, bytes - bytes / ranks, bytes / ranks}; // AllGather, Gather
  }
}

/// The bound by its definition.
double plainBound(const Fabric &fabric, const BandwidthBound &bound, double bytes) {
  std::vector<std::vector<double>> d = distances(fabric);
  Collective c = bound.collective;
  size_t ranks = size_t(fabric.ranks);
  double us = bytes / (bound.algbw * 1e3);
  Needs need = needs(c, bytes, double(ranks));
  std::vector<double> in(size_t(fabric.nodes), 0), out(size_t(fabric.nodes), 0);
  for (const Arc &arc : fabric.arcs) {
    out[size_t(arc.src)] += double(arc.capacity) * fabric.unit * 1e3;
    in[size_t(arc.dst)] += double(arc.capacity) * fabric.unit * 1e3;
  }
  double across = never;
  bool enters =
      c == Collective::ReduceScatter || c == Collective::Reduce || c == Collective::Gather;
  for (const Arc &arc : fabric.arcs)
    if (bound.cut[size_t(arc.src)] == !enters && bound.cut[size_t(arc.dst)] == enters)
      for (size_t a = 0; a < ranks; ++a)
        for (size_t b = 0; b < ranks; ++b)
          if (bound.cut[a] == !enters && bound.cut[b] == enters && goesBetween(c, bound.root, a, b))
            across = std::min(across, d[a][size_t(arc.src)] + arc.latency + d[size_t(arc.dst)][b]);
  us += across;
  for (size_t a = 0; a < ranks; ++a) {
    double nearestIn = never, nearestOut = never;
    bool receives = false, sends = false;
    for (size_t b = 0; b < ranks; ++b) {
      if (a == b)
        continue;
      nearestIn = std::min(nearestIn, d[b][a]), nearestOut = std::min(nearestOut, d[a][b]);
      receives |= goesBetween(c, bound.root, b, a), sends |= goesBetween(c, bound.root, a, b);
      if (goesBetween(c, bound.root, a, b))
        us = std::max({us, d[a][b], d[a][b] + need.pair / std::min(out[a], in[b])});
    }
    if (receives)
      us = std::max(us, nearestIn + need.in / in[a]);
    if (sends)
      us = std::max(us, nearestOut + need.out / out[a]);
  }
  return us;
}

} // namespace

TEST_CASE("latency is the longest of the shortest ways") {
  std::mt19937_64 random(21);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    Topology t = randomNetwork(random, 10, i % 2, false);
    for (Link &link : t.links)
      link.latency = double(random() % 8) / 4;
    std::vector<std::vector<double>> d = distances(makeFabric(t));
    for (Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                         Collective::AllToAll, Collective::Barrier, Collective::Broadcast,
                         Collective::Scatter, Collective::Reduce, Collective::Gather}) {
      int64_t root = int64_t(random() % uint64_t(t.ranks()));
      double longest = 0;
      for (size_t a = 0; a < size_t(t.ranks()); ++a)
        for (size_t b = 0; b < size_t(t.ranks()); ++b)
          if (goesBetween(c, root, a, b))
            longest = std::max(longest, d[a][b]);
      LatencyBound bound = latencyBound(t, c, root);
      REQUIRE(bound.us == longest);
      REQUIRE(bound.exact);
      REQUIRE(d[size_t(bound.src)][size_t(bound.dst)] == longest);
      REQUIRE(goesBetween(c, root, size_t(bound.src), size_t(bound.dst)));
    }
    CHECK(latencyBound(t, Collective::Permute).us == 0);
  }
  LatencyBound far = latencyBound(torus({16, 32, 32}), Collective::AllGather);
  CHECK(far.us == 8 + 16 + 16);
  CHECK(latencyBound(boxes(256, 8, 450, 50, 1), Collective::AllGather).us == 2);
}

TEST_CASE("the time bound is what its definition says") {
  std::mt19937_64 random(22);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    Topology t = randomNetwork(random, 10, i % 2, i % 3 == 0);
    for (Link &link : t.links)
      link.latency = double(random() % 8) / 4;
    Fabric fabric = makeFabric(t);
    for (Collective c : {Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast,
                         Collective::Scatter, Collective::Reduce, Collective::Gather}) {
      BoundOptions options;
      options.root = int64_t(random() % uint64_t(t.ranks()));
      BandwidthBound bound = *bandwidthBound(t, c, options);
      for (int64_t bytes : {1, 1000, 30000, 1000000}) {
        CAPTURE(bytes);
        REQUIRE(timeBound(t, bound, bytes) ==
                doctest::Approx(plainBound(fabric, bound, double(bytes))).epsilon(1e-9));
      }
      CHECK(timeBound(t, bound, 0) == 0);
    }
  }
}

TEST_CASE("times of known schedules") {
  // Two ranks exchange halves, in one message each.
  Topology t = ranks({2});
  join(t, 0, 1, 25, 0.7);
  BandwidthBound bound = *bandwidthBound(t, Collective::AllGather);
  CHECK(timeBound(t, bound, 50000) == doctest::Approx(0.7 + 1));
  CHECK(timeBound(t, bound, 2) == doctest::Approx(0.7 + 2 / 50e3));
  // A ring of eight: at least the way to the other side, and 7/8 of all through two links.
  t = torus({8});
  bound = *bandwidthBound(t, Collective::AllGather);
  CHECK(timeBound(t, bound, 8) == doctest::Approx(4 + 1 / 2e3));
  CHECK(timeBound(t, bound, 8000000) == doctest::Approx(1 + 7e6 / 2e3));
  // A chain: the whole buffer over the last link, and all links before.
  t = mesh({5});
  bound = *bandwidthBound(t, Collective::Broadcast);
  CHECK(timeBound(t, bound, 1000000) == doctest::Approx(4 + 1e6 / 1e3));
}

TEST_CASE("lines are steepest first, and each is the largest somewhere or flat") {
  Topology t = boxes(4, 4, 100, 10, 2);
  BandwidthBound bound = *bandwidthBound(t, Collective::ReduceScatter);
  std::vector<TimeLine> lines = timeLines(t, bound);
  REQUIRE(lines.size() >= 2);
  for (size_t i = 1; i < lines.size(); ++i) {
    CHECK(lines[i].usPerByte < lines[i - 1].usPerByte);
    CHECK(lines[i].us > lines[i - 1].us);
  }
  for (int64_t bytes : {1, 100, 10000, 100000000})
    CHECK(timeBound(lines, bytes) == timeBound(t, bound, bytes));
}

TEST_CASE("without symmetry, beyond some size, latency is looked for where it seems longest") {
  std::mt19937_64 random(23);
  Topology t = mesh({96, 96});
  for (Link &link : t.links)
    link.latency = 1 + double(random() % 1000) / 1e6;
  LatencyBound bound = latencyBound(t, Collective::AllGather);
  CHECK_FALSE(bound.exact);
  CHECK(bound.us >= 190); // from corner to corner
  CHECK(bound.us < 190 * 1.001);
}
