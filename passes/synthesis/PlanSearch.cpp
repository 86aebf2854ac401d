//===- PlanSearch.cpp -----------------------------------------------------===//
#include "passes/synthesis/PlanSearch.h"

#include "passes/synthesis/PlanClock.h"

#include <fmt/format.h>

namespace ccl {

/// Moves that are written at most (of one rank, where all do alike), summed over pieces: as many
/// are lowered, simulated and proved in some ten seconds. And moves of a
/// program that is kept for other sizes.
static constexpr int64_t mostSteps = 8192, mostRows = int64_t(1) << 16;
static constexpr uint64_t mostKept = 1 << 16;
static constexpr int32_t mostPieces = 256, mostAgents = 4;
/// Shapes that come from the formula, and that are tried in all, for one size.
static constexpr size_t mostListed = 4, mostTried = 12;
/// And beyond those listed, if what works needs many slots only.
static constexpr size_t mostRetried = 4;
/// More pieces or agents have to be worth it, and nothing is looked for beyond so much of the
/// bound, or of what the trees allow.
static constexpr double worthIt = 0.999, goodEnough = 0.995;
/// Shapes that the formula says to be slower by more are not tried, and what is within this of the
/// best is tried first if it has fewer pieces.
static constexpr double hopeless = 1.25, nearlyAsGood = 1.02;

double PlanSearch::workUs(const Packing &packing, int64_t bytes) const {
  return packing.measure.us() * double(bytes) / 1e6 / packing.allChunks / request.model.efficiency;
}

double PlanSearch::estimate(const PlanShape &shape, int64_t bytes) const {
  const Packing &packing = packings[shape.packing];
  const model::CostModel &model = request.model;
  // No piece is less than an element.
  const double piece =
      std::max(double(bytes) / packing.allChunks / shape.pieces, double(request.elementBytes));
  const double megabytes = piece * shape.pieces / 1e6;
  const double work = packing.measure.us() * megabytes / model.efficiency;
  const double hop = packing.hopUs * megabytes / model.efficiency / shape.pieces;
  const double alpha = packing.height > 0 ? packing.latencyUs / packing.height : 0;
  const double message = model.overheadUs + (model.alphaOccupies ? alpha : 0);
  const double messages = packing.hopUs > 0 ? packing.measure.us() / packing.hopUs : 0;
  return model.launchUs + work + messages * shape.pieces * message + packing.latencyUs +
         (packing.height - 1) * (hop + message + model.syncUs);
}

/// Moves that are written.
int64_t PlanSearch::steps(const PlanShape &shape) const {
  const int64_t trees = int64_t(packings[shape.packing].forest.trees.size());
  return trees * (network.ranks() - 1) * shape.pieces;
}

bool PlanSearch::isSmall(const PlanShape &shape) const {
  return shape.pieces == 1 || steps(shape) <= (network.isSymmetric() ? mostSteps : mostRows);
}

/// Whether it should be done before the deadline, as fast as the one before. What has begun is not
/// interrupted.
bool PlanSearch::isInTime(const PlanShape &shape) const {
  if (request.deadline == std::chrono::steady_clock::time_point::max())
    return true;
  const std::chrono::duration<double> left = request.deadline - std::chrono::steady_clock::now();
  return secondsPerStep * double(steps(shape)) <= left.count();
}

/// Each packing in the fewest pieces that are about as good as any, by the formula. That takes the
/// pipeline to fill and drain while nothing else goes on: simulations are often faster.
std::vector<PlanShape> PlanSearch::shortlist(int64_t bytes) const {
  std::vector<std::pair<double, PlanShape>> list;
  const int32_t most = request.limits.pieces > 0 ? request.limits.pieces : mostPieces;
  for (size_t p = 0; p < packings.size(); ++p) {
    std::vector<PlanShape> shapes;
    double least = std::numeric_limits<double>::infinity();
    for (PlanShape shape{p}; shape.pieces <= most && isSmall(shape); shape.pieces *= 2) {
      shapes.push_back(shape);
      least = std::min(least, estimate(shape, bytes));
    }
    list.emplace_back(least, *llvm::find_if(shapes, [&](const PlanShape &shape) {
                        return estimate(shape, bytes) <= least * nearlyAsGood;
                      }));
  }
  std::sort(list.begin(), list.end());
  std::vector<PlanShape> shapes;
  for (const auto &[us, shape] : list)
    if (shapes.size() < mostListed && us <= list.front().first * hopeless)
      shapes.push_back(shape);
  return shapes;
}

std::vector<PlanShape> PlanSearch::neighbours(const PlanShape &shape) const {
  const int32_t pieces = request.limits.pieces > 0 ? request.limits.pieces : mostPieces;
  const int32_t agents = request.limits.agents > 0 ? request.limits.agents : mostAgents;
  std::vector<PlanShape> list;
  auto add = [&](PlanShape next) {
    if (next.pieces >= 1 && next.pieces <= pieces && next.agents >= 1 && next.agents <= agents &&
        isSmall(next))
      list.push_back(next);
  };
  add({shape.packing, shape.pieces * 2, shape.agents});
  add({shape.packing, shape.pieces, shape.agents * 2});
  add({shape.packing, shape.pieces / 2, shape.agents});
  return list;
}

void PlanSearch::judge(const PlanShape &shape, const std::shared_ptr<PlanProgram> &program,
                       int64_t bytes) {
  model::SimulateReport report;
  {
    PlanClock clock(seconds.simulate);
    report = program->simulate(topology, request, bytes);
    ++simulated;
  }
  if (!report.ok())
    return reject(report.faults.front().message);
  auto improves = [&](const PlanShape &best, double us) {
    const bool larger = shape.pieces * shape.agents > best.pieces * best.agents;
    return report.us < us * (larger ? worthIt : 1);
  };
  auto [mine, isFirst] = reached.try_emplace(shape.packing, Step{shape, report.us});
  if (!isFirst && improves(mine->second.shape, mine->second.us))
    mine->second = {shape, report.us};
  if (leader && !improves(leader->shape, leader->us))
    return;
  PlanClock clock(seconds.prove);
  if (const std::string &wrong = program->prove(); !wrong.empty())
    return reject(wrong);
  const bool fits = program->getMinSlots() <= request.mostSlots;
  std::optional<PlanTrial> &first = fits ? leader : greedy;
  if (first && report.us >= first->us)
    return;
  first = {shape, report.bytes,
           model::countFor(program->getContract(), bytes, request.elementBytes), report.us,
           program};
}

void PlanSearch::reject(const std::string &why) {
  ++rejected;
  if (error.empty())
    error = why;
}

/// Whether that is the best of its packing now.
bool PlanSearch::attempt(const PlanShape &shape, int64_t bytes) {
  if ((leader && !isInTime(shape)) || !tried.emplace(shape, true).second)
    return false;
  const Packing &packing = packings[shape.packing];
  request.tell(fmt::format("simulate: {} bytes, {} a root, height {}, {} pieces, {} agents a link",
                           bytes, packing.chunks, packing.height, shape.pieces, shape.agents));
  // Without latencies the best order does not depend on the size.
  std::shared_ptr<PlanProgram> &program = made[shape];
  if (!program || packing.latencyUs > 0) {
    std::string why;
    const double before = seconds.order + seconds.lower;
    std::optional<PlanProgram> fresh =
        PlanProgram::make(context, network, packing, shape, request, bytes, seconds, why);
    secondsPerStep = (seconds.order + seconds.lower - before) / double(steps(shape));
    if (!fresh) {
      reject(why);
      return false;
    }
    program = std::make_shared<PlanProgram>(std::move(*fresh));
  }
  judge(shape, program, bytes);
  dropOthers(/*sizeEnds=*/false);
  auto mine = reached.find(shape.packing);
  return mine != reached.end() && mine->second.shape == shape;
}

/// Programs that do not lead go if they are large, or their order was for the size that ends.
void PlanSearch::dropOthers(bool sizeEnds) {
  std::erase_if(made, [&](const auto &entry) {
    const auto &[shape, program] = entry;
    const bool leads =
        (leader && program == leader->program) || (greedy && program == greedy->program);
    if (!program || leads)
      return !program;
    return program->getMoves() > mostKept || (sizeEnds && packings[shape.packing].latencyUs > 0);
  });
}

/// From the best of the packing to better neighbours, while the leader could be beaten.
void PlanSearch::climb(size_t packing, int64_t bytes, double goalUs) {
  const double least = std::max(goalUs, workUs(packings[packing], bytes));
  for (bool better = reached.count(packing) > 0; better;) {
    better = false;
    for (const PlanShape &next : neighbours(reached[packing].shape)) {
      if (leader->us * goodEnough <= least || tried.size() >= mostTried || request.isOver())
        return;
      if (attempt(next, bytes)) {
        better = true;
        break;
      }
    }
  }
}

/// Nothing has passed: in other orders, and fewer pieces, something may.
void PlanSearch::retry(const std::vector<PlanShape> &list, int64_t bytes) {
  const int32_t agents = request.limits.agents > 0 ? request.limits.agents : mostAgents;
  const size_t enough = tried.size() + mostRetried;
  for (int32_t fewer : {1, 4, 16, mostPieces})
    for (PlanShape shape : list)
      for (shape.pieces = std::max(shape.pieces / fewer, 1); shape.agents <= agents;
           shape.agents *= 2) {
        if (leader || tried.size() >= mostTried ||
            (greedy && (request.isOver() || tried.size() >= enough)))
          return;
        attempt(shape, bytes);
      }
}

std::optional<PlanTrial> PlanSearch::best(int64_t bytes, double goalUs) {
  leader.reset(), greedy.reset(), reached.clear();
  tried.clear();
  const bool late = request.isOver() && !made.empty();
  for (auto &[shape, program] : made)
    if (late && program)
      judge(shape, program, bytes);
  if (late)
    return leader ? leader : greedy;
  const std::vector<PlanShape> list = shortlist(bytes);
  // In a hurry: first what is soon made.
  if (request.deadline != std::chrono::steady_clock::time_point::max() && made.empty())
    attempt({list.front().packing}, bytes);
  for (const PlanShape &shape : list)
    if (!leader || (!request.isOver() && leader->us * goodEnough > goalUs))
      attempt(shape, bytes);
  if (!leader)
    retry(list, bytes);
  for (const PlanShape &shape : list)
    if (leader)
      climb(shape.packing, bytes, goalUs);
  if (!leader)
    leader = greedy;
  dropOthers(/*sizeEnds=*/true);
  return leader;
}

} // namespace ccl
