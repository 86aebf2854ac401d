//===- Network.h - What trees of ranks are made of -------------------------===//
//
// A tree's arc is a message from a rank to another that passes switches only, and takes the links
// that the simulator gives it (simulate/Routes.h). What it costs is time of *limits*: links, and
// what links share. A limit is busy for (sum of the weights of the arcs that use it) x bytes, and
// no schedule is done before its busiest limit is.
//
// If shifts of the ranks are automorphisms (bound/Fabric.h, Orbits::shifts), everything is known
// of rank 0: limits are classes then, their weights those of the mean member, and a tree of rank 0
// stands for its images.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Fabric.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ccl::solver {

/// A limit that an arc uses, and for how long: microseconds a megabyte, that is, 1 / (GB/s) x 1000.
struct Use {
  int32_t limit;
  double weight;
  double share = 1;   ///< of what keeps the limit busy a message: classes have several members
  double latency = 0; ///< microseconds of the link; of what it shares, the same
};

/// An arc between a rank and `other`; which of them sends says the list that it stands in.
struct Way {
  int32_t other;
  int32_t mate; ///< its position in the list of the rank at the other end
  int32_t uses; ///< the first of its uses
  int32_t numUses;
  int32_t exit;   ///< the limit of the link that leaves the sender
  int32_t kind;   ///< ways of one kind have the same uses
  double latency; ///< microseconds
};

class Network {
public:
  struct Options {
    /// Look for shifts. Without, or if there are none, every rank is looked at.
    bool symmetric = true;
    /// By link: whether it must not be used. Empty: none.
    std::vector<bool> forbidden;
  };
  /// Of a topology whose `check()` finds nothing.
  explicit Network(const model::Topology &topology, const Options &options);
  explicit Network(const model::Topology &topology) : Network(topology, Options{}) {}

  /// The same with weights times the factors of their limits.
  Network weighted(std::span<const double> factors) const;

  int32_t ranks() const { return numRanks; }
  bool isSymmetric() const { return !shifts.empty(); }
  /// Ranks whose trees are looked for: rank 0, or all.
  int32_t representatives() const { return isSymmetric() ? 1 : numRanks; }

  int32_t limits() const { return int32_t(limitNames.size()); }
  /// "rank 0 to nvswitch and 511 like it".
  const std::string &limitName(int32_t limit) const { return limitNames[size_t(limit)]; }
  /// By limit: the largest weight that a way has there; 0: no way uses it.
  std::vector<double> limitWeights() const;

  /// Ways into (out of) `rank`, as those of its representative: `Way::other` is relative, see
  /// `end`. Those of one kind stand together.
  std::span<const Way> in(int32_t rank) const { return list(incoming, firstIn, rank); }
  std::span<const Way> out(int32_t rank) const { return list(outgoing, firstOut, rank); }
  std::span<const Use> uses(const Way &way) const {
    return {allUses.data() + way.uses, size_t(way.numUses)};
  }
  /// The rank at the other end of a way of `rank`.
  int32_t end(int32_t rank, const Way &way) const {
    return isSymmetric() ? shifted(way.other, rank) : way.other;
  }

  /// The rank that rank 0 is taken to by the shift that takes it to `rank`, then by that which
  /// takes it to `by`.
  int32_t shifted(int32_t rank, int32_t by) const;
  /// The shift that undoes `by`.
  int32_t inverse(int32_t by) const;
  /// Sides of the grid of shifts, slowest first: rank = row-major coordinate. Empty: none.
  const std::vector<int64_t> &grid() const { return sides; }

private:
  friend class NetworkBuilder;
  std::span<const Way> list(const std::vector<Way> &ways, const std::vector<int32_t> &first,
                            int32_t rank) const {
    size_t r = isSymmetric() ? 0 : size_t(rank);
    return {ways.data() + first[r], size_t(first[r + 1] - first[r])};
  }

  int32_t numRanks = 0;
  std::vector<model::Orbits::Shift> shifts; ///< fastest first
  std::vector<int64_t> sides;
  std::vector<Way> incoming, outgoing;
  std::vector<int32_t> firstIn, firstOut;
  std::vector<Use> allUses;
  std::vector<std::string> limitNames;
};

} // namespace ccl::solver
