//===- Junctions.h - The switches of a network, and how to do without them ------===//
//
// A message's limits follow each other: where one ends the next begins, at a junction. Junctions
// that are no ranks are switches. Trees of one root are packed exactly between ranks only, so that
// what passes a switch is split off: a link in and a link out become one link from rank to rank,
// as long as every rank can still be reached by all trees (Mader 1978; Bang-Jensen, Frank and
// Jackson 1995 for what has as much in as out; ForestColl, arXiv 2402.06787, does so for
// all_gather).
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/solver/Network.h"

#include "dialect/bound/Flow.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

namespace ccl::solver {

/// Links that carry whole numbers of messages.
struct Junctions {
  struct Link {
    int32_t src, dst, limit;
  };
  int32_t nodes = 0;       ///< ranks first
  std::vector<Link> links; ///< one for each limit that a message may take

  bool hasSwitches(int32_t ranks) const {
    return std::any_of(links.begin(), links.end(),
                       [&](const Link &link) { return link.dst >= ranks; });
  }
};

/// Nothing if limits do not follow each other so: what is shared has several places, or two ranks
/// would be one. `up`: everything the other way round.
std::optional<Junctions> findJunctions(const Network &network, bool up);

/// Capacities between ranks.
using RankLinks = std::map<std::pair<int32_t, int32_t>, int64_t>;

/// Of `junctions` with capacities by link, over which `count` trees of `root` can reach all ranks;
/// they still can. Nothing if no way was found, or `isOver` says that it takes too long.
std::optional<RankLinks> splitOff(const Junctions &junctions, std::vector<int64_t> capacities,
                                  int32_t ranks, int32_t root, int64_t count,
                                  const std::function<bool()> &isOver);

} // namespace ccl::solver
