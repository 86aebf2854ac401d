//===- PlanPackings.h - The forests that a plan may be made of --------------===//
//
// A packing is a forest for one number of chunks and one bound on heights. Which one is best
// depends on the size: low trees are soon done, many chunks balance the links. `Packings` finds
// those that no other one beats in both. For all_reduce it packs pairs, of any roots, and
// reduce_scatter with all_gather, for which every rank is a root.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/Plan.h"

#include "dialect/bound/Bound.h"
#include "passes/synthesis/solver/Pairs.h"

#include <map>
#include <set>

namespace ccl {

/// What is packed, with more and more slack.
struct PackingKind {
  int32_t chunks = 1;  ///< a shard of a root (in pairs: the buffer) is cut into so many
  bool pairs = false;  ///< all_reduce: roots are free; else every rank is one
  double mostGBps = 0; ///< no so many trees have a higher one
  const solver::PairShares *shares = nullptr; ///< as of solver::PairProblem
};

struct Packing {
  PackingKind kind;
  int32_t slack = 0; ///< as of solver::PackProblem
  /// Stars, of which a switch makes one message each: what the generator `in_switch` writes.
  bool inSwitch = false;
  /// all_reduce: all up trees, then the down trees of the same chunks. By chunk: of the root's
  /// shard where ranks do alike, else of the buffer.
  solver::Forest forest;
  solver::Measure measure;
  double hopUs = 0;     ///< longest that one arc keeps a link busy, if a chunk is a megabyte
  double allChunks = 1; ///< of the buffer
  double fluidGBps = 0; ///< algbw if time were nothing but the busiest limit's
  int32_t height = 0;   ///< messages one after the other, of all_reduce up and down
  double latencyUs = 0; ///< and their latency

  size_t upTrees() const;
};

class Packings {
public:
  /// `network` is that of the topology, symmetric only where every rank is a root.
  Packings(const model::Topology &topology, const solver::Network &network,
           const PlanRequest &request, double goalGBps);

  /// "" or why there is none. What goes through a switch that copies and adds up stands last.
  std::string find();
  /// By height, then quality: none is as low, and as good, as another. Of equal ones that of fewest
  /// chunks.
  std::vector<Packing> &best() { return kept; }
  /// Appends, once, packings about as good and as low as that one, with two to four times as many
  /// chunks: they may be better to put in order. How many there are now.
  size_t findMore(size_t like);

private:
  std::string findTrees();
  using Kind = PackingKind;
  std::vector<Kind> pairs() const;
  std::vector<Kind> equals() const;
  std::vector<int32_t> chunkCounts() const;
  bool isExact() const; ///< whether what so many trees allow is known
  double most(int32_t chunks) const;
  int32_t phases() const; ///< of trees, one after the other
  double trees(const Kind &kind) const;
  bool isSmall(const Kind &kind) const;
  solver::PackOptions options(bool thorough, double trees) const;
  solver::Forest packPairs(const Kind &kind, int32_t slack, double goalUs,
                           const solver::PackOptions &options) const;
  solver::Forest packPaths(const Kind &kind, int32_t slack, double goalUs,
                           const solver::PackOptions &options) const;
  solver::Forest packEqually(const Kind &kind, int32_t slack, double goalUs,
                             const solver::PackOptions &options) const;
  Packing pack(const Kind &kind, int32_t slack, bool thorough) const;
  void judge(Packing &packing) const;
  std::optional<Packing> stars() const;
  bool isTooLow(int32_t slack) const;
  bool isWorthIt(const Kind &kind, int32_t slack) const;
  std::string attempt(const Kind &kind, int32_t slack, bool thorough);
  std::string explore(const std::vector<Kind> &kinds);
  std::string exploreAll();
  std::string improve();
  bool isBeaten(int32_t height, double fluidGBps) const;
  void keep(Packing packing);

  const model::Topology &topology;
  const solver::Network &network;
  const PlanRequest &request;
  const double goalGBps;
  std::optional<solver::PairShares> shares;
  std::vector<Packing> kept;
  std::set<size_t> varied; ///< what `findMore` was asked for
  std::string lowest;      ///< no packing is as low as it should be
  struct Reached {
    Kind kind;
    double fluidGBps = 0;
  };
  std::map<int32_t, Reached> bySlack; ///< the best
};

/// Whether every rank has a shard of its own that one rank sends or gets.
bool isPersonal(model::Collective collective);
/// Whether one rank is the root of all trees, and all ranks have the same data.
bool isRooted(model::Collective collective);
/// Whether trees reduce; whether they copy. all_reduce does both.
bool goesUp(model::Collective collective);
bool goesDown(model::Collective collective);

} // namespace ccl
