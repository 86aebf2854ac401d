//===- PlanSearch.h - The best shape for a size --------------------------------===//
#pragma once

#include "passes/synthesis/PlanProgram.h"

#include <map>
#include <memory>
#include <set>

namespace ccl {

/// What a shape came to; proved.
struct PlanTrial {
  PlanShape shape;
  int64_t bytes = 0, count = 0;
  double us = 0;
  std::shared_ptr<PlanProgram> program;
};

/// Judges shapes by a formula, the promising ones by list schedules, and the best of these by
/// simulation.
class PlanSearch {
public:
  PlanSearch(mlir::MLIRContext &context, const model::Topology &topology,
             const solver::Network &network, Packings &packings, const PlanRequest &request,
             PlanSeconds &seconds)
      : context(context), topology(topology), network(network), packings(packings),
        request(request), seconds(seconds) {}

  /// Once the request is over nothing new is lowered, unless there is nothing yet. Stops early at
  /// `goalUs`. Nothing: `error` says what is wrong with the first one that was tried.
  std::optional<PlanTrial> best(int64_t bytes, double goalUs);

  const std::string &getError() const { return error; }
  int64_t getSimulated() const { return simulated; }
  /// Whether something was not tried because it would have taken longer than there was time.
  bool hasSkipped() const { return skipped; }
  /// Shapes that are stuck, or that the proof refuses.
  int64_t getRejected() const { return rejected; }

  /// Microseconds by formula: work of the busiest limit, and what the pipeline takes to fill.
  double estimate(const PlanShape &shape, int64_t bytes) const;

private:
  const Packing &packingOf(const PlanShape &shape) const { return packings.best()[shape.packing]; }
  bool reduces() const { return model::reduces(request.generator.collective); }
  /// Of the busiest limit.
  double workUs(const Packing &packing, int64_t bytes) const;
  std::vector<PlanShape> promising(int64_t bytes) const;
  PlanShape smallest() const;
  PlanShape scheduledBest() const;
  double costOf(const PlanShape &shape) const;
  bool isEnough(const PlanShape &shape, double us, int64_t bytes, double goalUs) const;
  std::vector<int32_t> flowAgents(const Packing &packing) const;
  struct Flow {
    double expectedUs; ///< by formula
    PlanShape shape;
  };
  std::vector<Flow> flows(int64_t bytes) const;
  double widen(const PlanShape &shape, int64_t bytes, double goalUs);
  void attemptFlows(int64_t bytes, double goalUs);
  bool isAllowedFlow(const PlanShape &shape) const;
  double attemptFlow(PlanShape shape, int32_t batches, int64_t bytes);
  void schedule(const PlanShape &shape, int64_t bytes);
  void scheduleMore(int64_t bytes, double goalUs);
  void climb(int64_t bytes, double goalUs);
  void scheduleAll(int64_t bytes, double goalUs);
  void attemptBest(int64_t bytes, double goalUs);
  std::vector<PlanShape> neighbours(const PlanShape &shape) const;
  int64_t steps(const PlanShape &shape) const;
  bool isAllowed(const PlanShape &shape) const;
  bool isInTime(const PlanShape &shape);
  double bytesOfChunk(const PlanShape &shape) const;
  /// The program of a shape, whatever its micro-batches; null: it cannot be lowered.
  std::shared_ptr<PlanProgram> programOf(PlanShape shape, int64_t bytes);
  void attempt(const PlanShape &shape, int64_t bytes);
  void retry(const std::vector<PlanShape> &list, int64_t bytes);
  /// Microseconds; infinite: refused.
  double judge(PlanShape shape, const std::shared_ptr<PlanProgram> &program, int64_t bytes);
  double judgeOnce(const PlanShape &shape, const std::shared_ptr<PlanProgram> &program,
                   int64_t bytes);
  PlanShape asLaunched(PlanShape shape, const PlanProgram &program, int64_t bytes) const;
  model::SimulateReport simulate(const PlanShape &shape, PlanProgram &program, int64_t bytes);
  void finishLeader(int64_t bytes);
  double reject(const std::string &why);
  void dropOthers(bool sizeEnds);

  mlir::MLIRContext &context;
  const model::Topology &topology;
  const solver::Network &network;
  Packings &packings;
  const PlanRequest &request;
  PlanSeconds &seconds;
  std::string error;
  int64_t simulated = 0, rejected = 0;
  int64_t size = 0; ///< bytes that are planned for
  bool skipped = false;

  std::optional<PlanTrial> leader; ///< of this size
  double secondsPerStep = 0;       ///< of the last program that was made
  /// Microseconds, for this size: by schedule, or of those that were tried as simulated.
  std::map<PlanShape, double> scheduled;
  std::set<PlanShape> tried;          ///< for this size
  std::map<PlanShape, double> judged; ///< microseconds as simulated, for this size
  std::map<PlanShape, std::shared_ptr<PlanProgram>> made;
  std::map<PlanShape, int64_t> madeFor; ///< bytes
};

} // namespace ccl
