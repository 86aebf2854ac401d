//===- Bound.h - What no schedule on a topology can beat ------------------===//
//
// Bandwidth: exact cut bounds for all_gather, reduce_scatter, broadcast, reduce, gather and
// scatter (ForestColl, arXiv 2305.18461; Edmonds 1973 for broadcast), the tree-pair linear
// program for all_reduce, maximum concurrent flow for all_to_all. Latency: the longest of the
// shortest ways. Bounds hold for every schedule whose switches do what the topology says of
// them: forward, and copy or combine only where `multicast` or `reduce` stand.
//
// all_reduce's holds for schedules in which every byte is reduced up a tree and broadcast down
// another with the same root (a switch that combines and copies may be one). That nothing else does
// better, such as partial sums that several ranks complete, is not known to be proved.
//
// `bytes` is nccl-tests' size everywhere: the buffer of all_reduce, broadcast and reduce; the
// larger, gathered side of all_gather, reduce_scatter, gather, scatter; a rank's whole buffer of
// all_to_all. algbw is bytes / time, in GB/s of 1e9 bytes.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Fabric.h"
#include "dialect/model/Contract.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ccl::model {

/// In lowest terms, den > 0.
struct Rational {
  int64_t num = 0, den = 1;
  double value() const { return double(num) / double(den); }
  friend bool operator==(const Rational &, const Rational &) = default;
};

/// A cut of the tree-pair program, and what it counts in the proof. S is `nodes` or, `complement`,
/// all nodes but them; at least one rank is outside. Every tree whose root is in S has an arc that
/// leaves S if it broadcasts, an arc that enters S if it reduces.
struct PricedCut {
  std::vector<int32_t> nodes; ///< sorted
  bool complement = false;
  bool reduce = false;
  double weight = 0; ///< an integer
};

struct BandwidthBound {
  Collective collective = Collective::AllGather;
  int64_t root = 0;
  /// No schedule has a higher algbw.
  double algbw = 0;
  /// A schedule in fluid form has this one: equal where `exact`; otherwise the limit lies between.
  /// all_reduce and all_to_all: a part in 1e8 counts as equal.
  double attained = 0;
  bool exact = false;
  /// Cut bounds: the time of a byte of a *shard* in units of 1 / Fabric::unit (L of the paper:
  /// algbw = ranks * unit / shardTime; for broadcast and reduce a shard is the buffer, and algbw =
  /// unit / shardTime). {0, 1}: this bound is no cut bound.
  Rational shardTime;
  /// Cut bounds: the nodes of S. |shards to leave S| / capacity leaving S is `shardTime` (of the
  /// reversed fabric for reduce_scatter, reduce and gather: what enters S).
  std::vector<bool> cut;
  /// all_reduce, all_to_all: a price for every arc of the fabric, which proves `algbw`.
  /// all_to_all: the prices are integers up to 2^40; whatever is sent from s to t pays at least
  /// the least price of a way from s to t, and nobody pays for more than there is:
  /// algbw <= ranks * sum(capacity * price) / sum over pairs of ranks(least price).
  /// all_reduce: every pair of trees pays at least what `cuts` and `potentials` say, below.
  std::vector<double> prices;
  /// all_reduce: let A(e), B(e) be the weights of the cuts that arc e leaves (broadcast) and enters
  /// (reduce), p and q the potentials. Then prices[e] = max(0, A(e) + p(src) - p(dst),
  /// B(e) + q(src) - q(dst)), and algbw <= sum(capacity * price) / least weight around a root.
  /// Potentials are integers, and 0 at ranks and at switches that copy (p) or combine (q): what
  /// enters another node must leave it, so that potentials change no sum.
  std::vector<PricedCut> cuts;
  std::vector<double> broadcastPotentials, reducePotentials;
  /// Automorphisms of the fabric (node v becomes symmetries[i][v]): each of the cuts stands for
  /// the mean of what the group made of these makes of it. Prices and potentials do not change
  /// under them.
  std::vector<std::vector<int32_t>> symmetries;
  /// One sentence with the numbers: "the shards of 8 ranks leave {rank 0 to rank 7} over 400 GB/s".
  std::string certificate;
  int64_t flows = 0; ///< maximum flows (shortest ways for all_to_all) that were computed
};

struct BoundOptions {
  int64_t root = 0;
  /// all_reduce and all_to_all stop once attained / algbw is at least 1 - this; small cases are
  /// solved exactly all the same.
  double gap = 0.02;
  double seconds = 60; ///< or after that long, with what they have
};

/// Nothing for collectives without a bandwidth bound (permute, barrier, custom, all_to_allv).
std::optional<BandwidthBound> bandwidthBound(const Topology &topology, Collective collective,
                                             const BoundOptions &options = {});
/// The same on a fabric.
BandwidthBound cutBound(const Fabric &fabric, const Orbits &orbits, Collective collective,
                        int64_t root = 0);
BandwidthBound allReduceBound(const Fabric &fabric, const Orbits &orbits,
                              const BoundOptions &options = {});
BandwidthBound allToAllBound(const Fabric &fabric, const Orbits &orbits,
                             const BoundOptions &options = {});
/// Computes algbw anew from the certificate alone (the cut, or the prices), without trusting how
/// it was found: "" if it proves the bound, else what is wrong. In integers throughout; the one
/// rounding is that of the final quotient (`algbw` may be too low by a part in 1e12).
std::string verify(const Fabric &fabric, const BandwidthBound &bound);

/// Sums of Link::latency along ways, in microseconds.
struct LatencyBound {
  double us = 0;
  int32_t src = -1, dst = -1; ///< the pair of ranks that is farthest apart, or the root and a rank
  /// Whether that was looked for among all pairs: not beyond some 10^4 ranks without symmetry.
  bool exact = true;
};
LatencyBound latencyBound(const Topology &topology, Collective collective, int64_t root = 0);

/// No launch of `bytes` (more than 0) takes less, in microseconds, than the largest of
///   - bytes / algbw; with a cut, and the least latency of what crosses it on top;
///   - the latency bound;
///   - over ranks, the distance to the nearest rank, and the time of all that comes in, or goes
///   out;
///   - over pairs of ranks, their distance, and the time of what one has of the other, at the
///     smaller of what leaves the one and what enters the other.
double timeBound(const Topology &topology, const BandwidthBound &bound, int64_t bytes);

/// The same for many sizes: the largest of `us + usPerByte * bytes`. Steepest first.
struct TimeLine {
  double us = 0, usPerByte = 0;
};
std::vector<TimeLine> timeLines(const Topology &topology, const BandwidthBound &bound);
double timeBound(std::span<const TimeLine> lines, int64_t bytes);

} // namespace ccl::model
