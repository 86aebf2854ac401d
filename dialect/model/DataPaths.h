//===- DataPaths.h - What comes before what, along the way of the data -----------===//
//
// Of a program that all ranks execute alike, shifted: a node is a rank and an event, an edge
// leads from who sent or wrote something to who took or read it. Edges are those of one rank; on
// all others they are the same, shifted. So a path from rank r to rank s is one from 0 to the rank
// that r sees as s, and nothing here depends on how many ranks there are.
//
// Where a reduced chunk comes back to a rank, a path leads from the rank's part up to the root and
// down to who writes the result: both ends have few ways to go, so they are searched from both.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Network.h"
#include "dialect/model/Symmetry.h"

#include <unordered_map>
#include <unordered_set>

namespace ccl::model {

/// Rank `rank` executes `event`.
struct RankEvent {
  int64_t rank = 0;
  int32_t event = -1; ///< -1: none
};

class DataPaths {
public:
  DataPaths(const ShiftGroup &group, const Network &network)
      : group(group), network(network), uses(network.numEvents()), sources(network.numEvents()) {}

  enum class By { Message, Place };
  /// `to` took what `from` sent, or read what it wrote and is known to come after it. Of the same
  /// edge several times in a row one is kept.
  void add(RankEvent from, RankEvent to, By by);
  /// Whether a path leads from where `first` has accessed its place (`writes`: has written it) to
  /// where `second` begins. It goes on with any later event of an agent that it comes to; from a
  /// write, with what the event wrote, or with a later event: what it sends may leave before. False
  /// also if that takes long to find out.
  bool lead(RankEvent first, bool writes, RankEvent second) const;

private:
  struct Edge {
    int64_t shift; ///< the other rank, as this one sees it
    int32_t event;
    By by;
    bool operator==(const Edge &) const = default;
  };
  class Side;
  uint64_t key(int64_t rank, int64_t number) const {
    return uint64_t(rank) * (network.numEvents() + 1) + uint64_t(number);
  }

  const ShiftGroup &group;
  const Network &network;
  std::vector<std::vector<Edge>> uses, sources; ///< of every event
};

} // namespace ccl::model
