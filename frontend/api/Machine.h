//===- Machine.h - What the handles of <ccl/topology.h> share --------------------===//
#pragma once

#include <ccl/topology.h>

#include "frontend/api/Lowered.h"

#include "dialect/bound/Bound.h"
#include "frontend/cli/Lengths.h"
#include "frontend/interchange/Topologies.h"

#include <map>
#include <tuple>

namespace ccl {
inline namespace jit {

struct [[gnu::visibility("hidden")]] Bound::Impl {
  /// `best`: the same, or with the links that the fabric can make of its own.
  Impl(const model::Topology &of, const model::Topology &best, model::BandwidthBound found);

  const model::BandwidthBound bound;
  const std::vector<int> cut;
  const std::vector<model::TimeLine> lines;
};

struct [[gnu::visibility("hidden")]] Topology::Impl {
  Impl(interchange::TopologyInput input, std::string remarks);

  /// Nothing: the collective has no bound, or there is one rank. Options are checked here.
  /// `anyCircuits`: of the best that the fabric can make of its links.
  Result<std::shared_ptr<const Bound::Impl>>
  findBound(Collective collective, const BoundOptions &options, bool anyCircuits = false) const;

  const interchange::TopologyInput input; ///< has a topology
  const model::Topology &model;
  const std::string remarks;
  const int ranks;
  std::vector<Axis> axes;
  std::vector<Switch> switches;
  std::vector<Link> links;

private:
  using Key = std::tuple<Collective, int, double, int64_t, bool>;
  mutable std::mutex mutex;
  mutable std::map<Key, std::shared_ptr<const Bound::Impl>> bounds;
};

struct [[gnu::visibility("hidden")]] Simulator::Impl {
  std::shared_ptr<const Topology::Impl> topology;
  std::shared_ptr<const Lowered> lowered;

  /// The simulator of what `lowerSource` gives.
  static Result<Simulator> make(std::shared_ptr<const Topology::Impl> topology,
                                const Source &source, const ProgramOptions &options);
  Result<Simulation> run(const cli::Lengths &lengths, const SimulationOptions &options) const;
};

} // namespace jit
} // namespace ccl
