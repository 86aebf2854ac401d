//===- Decompositions.h - A collective as stages along axes -----------------------===//
//
// Every order and kind of stages is listed and costed by what no schedule of a stage beats on the
// part of the topology that a group of its ranks has, all groups at once.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/solver/RankGroups.h"

#include <map>

namespace ccl::solver {

struct DecomposedStage {
  model::Collective collective;
  AxisSet axes;
  int64_t root = 0; ///< of broadcast and reduce, in its group
  double us = 0;
};

struct Decomposition {
  std::vector<DecomposedStage> stages;
  double us = 0;
  size_t number = 0; ///< in the order in which they are found
  /// "reduce_scatter[gpu]; all_reduce[node]; all_gather[gpu]"
  std::string text(const model::Topology &topology) const;
};

class Decomposer {
public:
  /// The topology's `check()` finds nothing. `bytes` as in dialect/bound/Bound.h.
  Decomposer(const model::Topology &topology, model::Collective collective, int64_t root,
             int64_t bytes);

  /// The collectives that it knows.
  static bool handles(model::Collective collective);
  static constexpr size_t mostAxes = 5;

  /// All that can be done, best first; of equal ones that with fewer stages. Axes of one rank take
  /// no part. Empty: `why` says so.
  std::vector<Decomposition> run(std::string &why);

private:
  using Stages = std::vector<DecomposedStage>;
  /// What a stage begins with.
  struct State {
    AxisSet left;              ///< axes that no stage was along
    double share = 1;          ///< of the bytes, in a group
    std::vector<int64_t> only; ///< as of findGroups
  };

  void allReduce(const State &state, Stages &before, Stages &after);
  void along(const State &state, Stages &before);
  void take(const Stages &before, const Stages &after);
  bool addStage(Stages &stages, model::Collective collective, const AxisSet &axes,
                const State &state, double share);
  double cost(model::Collective collective, const AxisSet &axes, const std::vector<int64_t> &only,
              int64_t root, double share);
  std::vector<AxisSet> blocks(const AxisSet &left) const;
  double ranksOf(const AxisSet &axes) const;
  int64_t rootIn(const AxisSet &axes) const;

  const model::Topology &topology;
  const model::Collective collective;
  const std::vector<int64_t> root; ///< coordinates
  const int64_t bytes;
  AxisSet all; ///< axes that take part
  std::vector<Decomposition> found;
  std::string obstacle;
  using Key = std::tuple<model::Collective, AxisSet, std::vector<int64_t>, int64_t, double>;
  std::map<Key, double> costs;
  std::map<std::pair<AxisSet, std::vector<int64_t>>, RankGroups> groups;
};

} // namespace ccl::solver
