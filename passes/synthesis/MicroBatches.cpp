//===- MicroBatches.cpp ---------------------------------------------------===//
#include "passes/synthesis/MicroBatches.h"

#include "dialect/model/Sizes.h"
#include "passes/Pipelines.h"
#include "passes/lowering/StageAgents.h"

#include <limits>

using namespace mlir;

namespace ccl {

/// Of what is about as good by the formula, so many are simulated: those of fewest micro-batches,
/// and the best.
static constexpr size_t mostSimulated = 3;
/// Micro-batches that tell the steady interval.
static constexpr int64_t few = 2, more = 4;
static constexpr double aboutAsGood = 1.02, asGood = 1.01;

namespace {
/// What a link, or a resource, does for a micro-batch.
struct Work {
  struct Stage {
    double beforeUs = 0, us = 0, intervalUs = 0;
    MicroBatches::StageLatency latency;
  };

  double us = 0;
  int32_t stages = 0;            ///< that use it
  double headUs = 0, tailUs = 0; ///< of the stages before the first of these, after the last
  double first = 0, last = 0;    ///< latencies of these
  double longest = 0, sum = 0;   ///< of their agents' waiting

  void add(const model::LinkUse &use, const Stage &stage) {
    tailUs += stage.us;
    if (use.busyUs == 0)
      return;
    if (stages++ == 0)
      headUs = stage.beforeUs, first = stage.latency.us;
    us += use.busyUs, tailUs = 0, last = stage.latency.us;
    // Waiting that its own messages do not cover, and that comes of no other link.
    const double waits =
        std::clamp(stage.intervalUs - use.busyUs, 0.0, std::max(stage.latency.intervalUs, 0.0));
    sum += waits, longest = std::max(longest, waits);
  }
  double all(int64_t batches) const {
    const double idle = std::max(2 * longest - sum, 0.0);
    return double(batches) * us + headUs + tailUs + first + last + double(batches - 2) * idle;
  }
};
} // namespace

std::vector<int64_t> batchCounts(int64_t most) {
  std::vector<int64_t> counts;
  for (int64_t m = 1; m <= most; m += std::max<int64_t>(m / 2, 1))
    counts.push_back(m);
  return counts;
}

std::optional<MicroBatches> MicroBatches::make(OwningOpRef<ModuleOp> pipeline,
                                               const model::Topology &topology,
                                               const PlanRequest &request, std::string &why) {
  MicroBatches made(topology, request);
  OwningOpRef<ModuleOp> expanded(pipeline->clone());
  made.whole = PlanProgram::wrap(std::move(pipeline), request.slots, /*isWhole=*/true, why);
  if (!made.whole)
    return std::nullopt;
  LoweringOptions options;
  if (failed(runPipeline(*expanded, buildAlgorithmPipeline, options)) ||
      !made.addStages(*expanded, why))
    return std::nullopt;
  return made;
}

bool MicroBatches::addStages(ModuleOp expanded, std::string &why) {
  auto algorithm = *expanded.getOps<AlgorithmOp>().begin();
  auto agents = algorithm->getAttrOfType<DenseI64ArrayAttr>(stageAgentsAttr);
  if (!agents) {
    why = "it is no pipeline";
    return false;
  }
  for (size_t s = 0; s + 1 < agents.asArrayRef().size(); ++s)
    if (!addStage(expanded, agents[s], agents[s + 1], why))
      return false;
  return true;
}

/// Moves of other agents go, and the loops that are empty then.
bool MicroBatches::addStage(ModuleOp expanded, int64_t firstAgent, int64_t endAgent,
                            std::string &why) {
  OwningOpRef<ModuleOp> part(expanded.clone());
  auto algorithm = *part->getOps<AlgorithmOp>().begin();
  // A part finds its data anywhere, and is as large as the whole.
  const ReductionKind reduction = algorithm.getContract().getReduction();
  algorithm.setContractAttr(
      ContractAttr::get(part->getContext(), CollectiveKind::AllReduce,
                        reduction == ReductionKind::None ? ReductionKind::Sum : reduction));
  algorithm.getBody().walk([&](Operation *op) {
    int64_t agent = firstAgent;
    if (std::optional<MoveRef> move = getMove(op))
      agent = move->srcAgent;
    else if (auto schedule = dyn_cast<ScheduleOp>(op); schedule && !schedule.getRows().empty())
      agent = schedule.getAgentsOf(0).front();
    else if (isa<affine::AffineForOp, affine::AffineParallelOp>(op) &&
             op->getRegion(0).front().without_terminator().empty())
      agent = -1;
    if (agent < firstAgent || agent >= endAgent)
      op->erase();
  });
  std::optional<PlanProgram> program =
      PlanProgram::wrap(std::move(part), request.slots, /*isWhole=*/false, why);
  if (!program)
    return false;
  auto simulated = [&](int64_t count) { return program->simulate(topology, request, 1, count).us; };
  latencies.push_back({simulated(1), (simulated(more) - simulated(few)) / (more - few)});
  parts.push_back(std::move(*program));
  return true;
}

MicroBatches::Formula MicroBatches::formula(int64_t batches) {
  const int64_t slice = std::max<int64_t>(request.bytes.front() / batches, 1);
  Formula result;
  const model::SimulateReport all = whole->simulate(topology, request, slice);
  result.fillUs = all.ok() ? all.us : std::numeric_limits<double>::infinity();
  if (batches == 1)
    return result;
  std::vector<Work> work(topology.links.size() + topology.resources.size());
  double before = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    auto simulated = [&](int64_t count) {
      return parts[part].simulate(topology, request, slice * count, count);
    };
    const model::SimulateReport once = simulated(1), first = simulated(few),
                                second = simulated(more);
    if (!once.ok() || !first.ok() || !second.ok())
      return {std::numeric_limits<double>::infinity(), 0, 0};
    const double interval = (second.us - first.us) / (more - few);
    result.intervalUs = std::max(result.intervalUs, interval);
    for (size_t i = 0; i < work.size(); ++i)
      work[i].add(i < once.links.size() ? once.links[i] : once.resources[i - once.links.size()],
                  {before, once.us, interval, latencies[part]});
    before += once.us;
  }
  for (const Work &one : work)
    if (one.stages > 1)
      result.sharedUs = std::max(result.sharedUs, one.all(batches));
  return result;
}

double MicroBatches::simulate(int64_t batches) {
  const model::SimulateReport report =
      whole->simulate(topology, request, request.bytes.front(), batches);
  return report.ok() ? report.us : std::numeric_limits<double>::infinity();
}

int64_t MicroBatches::mostSlices(int64_t most) const {
  const int64_t count =
      model::countFor(whole->getContract(), request.bytes.front(), request.elementBytes);
  const int64_t chunk = model::longestChunk(count, whole->getContract().chunks);
  return std::min(most,
                  std::max<int64_t>(chunk * request.elementBytes / model::leastSliceBytes, 1));
}

MicroBatches::Choice MicroBatches::choose(int64_t most) {
  Choice best;
  most = mostSlices(most);
  double least = std::numeric_limits<double>::infinity();
  for (int64_t batches : batchCounts(most)) {
    best.estimated.emplace_back(batches, formula(batches).us(batches));
    least = std::min(least, best.estimated.back().second);
  }
  std::vector<std::pair<int64_t, double>> simulated;
  best.us = std::numeric_limits<double>::infinity();
  for (auto [batches, us] : best.estimated) {
    const bool isBest = us == least;
    if (!isBest && (us > least * aboutAsGood || simulated.size() >= mostSimulated))
      continue;
    simulated.emplace_back(batches, simulate(batches));
    best.us = std::min(best.us, simulated.back().second);
  }
  for (auto [batches, us] : simulated)
    if (us <= best.us * asGood) {
      best.batches = batches, best.us = us;
      break;
    }
  return best;
}

} // namespace ccl
