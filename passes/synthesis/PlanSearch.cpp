//===- PlanSearch.cpp -----------------------------------------------------===//
#include "passes/synthesis/PlanSearch.h"

#include "dialect/model/Sizes.h"
#include "passes/synthesis/PlanClock.h"

#include <fmt/format.h>

namespace ccl {

/// Moves that are written at most (of one rank, where all do alike), summed over pieces: as many
/// are lowered, simulated and proved in some ten seconds. And moves of a
/// program that is kept for other sizes.
static constexpr int64_t mostSteps = 16384, mostRows = int64_t(1) << 16;
static constexpr uint64_t mostKept = 1 << 16;
static constexpr int32_t mostPieces = 256, mostAgents = 4;
/// Flows that are tried for a size. The next one is only if this one takes no longer than expected.
static constexpr size_t mostFlows = 4;
static constexpr double asExpected = 1.03;
/// Of flows: agents of a link, micro-batches, moves in all of these that are simulated, and moves
/// of a program.
/// What launches give channels that ask for no more.
static constexpr int32_t leastSlots = 2;
static constexpr int32_t mostFlowAgents = 256, mostBatches = 1024;
static constexpr int64_t mostFlowMoves = int64_t(1) << 22, mostFlowSteps = int64_t(1) << 16;
/// For one size: packings that the formula lets through, schedules, programs, and more programs
/// while all were stuck or refused.
static constexpr size_t mostListed = 4, mostScheduled = 24, mostTried = 6, mostRetried = 12;
/// Hops of all runs of a schedule that shapes are ranked by: a tenth of a second.
static constexpr int64_t mostHops = int64_t(1) << 19;
/// More pieces or agents have to be worth it, more so another program, and nothing is looked for
/// beyond so much of the bound, or of what the trees allow.
static constexpr double worthIt = 0.999, goodEnough = 0.995, worthAProgram = 0.995;
/// Shapes that the formula says to be slower by more are not scheduled, and what is within this of
/// the best is scheduled first if it has fewer pieces.
static constexpr double hopeless = 1.25, nearlyAsGood = 1.02;

static constexpr double never = std::numeric_limits<double>::infinity();

double PlanSearch::workUs(const Packing &packing, int64_t bytes) const {
  return packing.measure.us() * double(bytes) / 1e6 / packing.allChunks / request.model.efficiency;
}

double PlanSearch::estimate(const PlanShape &shape, int64_t bytes) const {
  const Packing &packing = packingOf(shape);
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

double PlanSearch::bytesOfChunk(const PlanShape &shape) const {
  return double(size) / packingOf(shape).allChunks;
}

/// Moves that are written.
int64_t PlanSearch::steps(const PlanShape &shape) const {
  const int64_t trees = int64_t(packingOf(shape).forest.trees.size());
  return trees * (network.ranks() - 1) * shape.pieces;
}

bool PlanSearch::isAllowed(const PlanShape &shape) const {
  const PlanLimits &limits = request.limits;
  return shape.pieces >= 1 && shape.agents >= 1 &&
         (reduces() ? shape.slots >= std::min(leastSlots, request.slots) : shape.slots == 0) &&
         shape.pieces <= (limits.pieces > 0 ? limits.pieces : mostPieces) &&
         shape.agents <= (limits.agents > 0 ? limits.agents : mostAgents) &&
         (shape.pieces == 1 ||
          bytesOfChunk(shape) >= double(shape.pieces * request.elementBytes)) &&
         (shape.pieces == 1 || steps(shape) <= (network.isSymmetric() ? mostSteps : mostRows));
}

/// Whether it should be done before the deadline, as fast as the one before. What has begun is not
/// interrupted.
bool PlanSearch::isInTime(const PlanShape &shape) {
  if (request.deadline == std::chrono::steady_clock::time_point::max())
    return true;
  const std::chrono::duration<double> left = request.deadline - std::chrono::steady_clock::now();
  const bool fits = secondsPerStep * double(steps(shape)) <= left.count();
  skipped |= !fits;
  return fits;
}

/// Each packing in the fewest pieces that are about as good as any, by the formula. That takes the
/// pipeline to fill and drain while nothing else goes on: schedules are often faster.
std::vector<PlanShape> PlanSearch::promising(int64_t bytes) const {
  std::vector<std::pair<double, PlanShape>> list;
  for (size_t p = 0; p < packings.best().size(); ++p) {
    if (packings.best()[p].inSwitch)
      continue;
    std::vector<PlanShape> shapes;
    double least = std::numeric_limits<double>::infinity();
    for (PlanShape shape{p, 1, 1, reduces() ? request.slots : 0}; isAllowed(shape);
         shape.pieces *= 2) {
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

void PlanSearch::schedule(const PlanShape &shape, int64_t bytes) {
  if (!isAllowed(shape) || scheduled.count(shape) || scheduled.size() >= mostScheduled ||
      (!scheduled.empty() && request.isOver()))
    return;
  PlanClock clock(seconds.order);
  const PlanOrder order(network, packingOf(shape), shape, request, bytes, mostHops);
  scheduled[shape] = request.model.launchUs + solver::finish(order.hops);
}

/// Of what is nearly equal the smaller: it is sooner made, and takes less memory.
double PlanSearch::costOf(const PlanShape &shape) const {
  const double size = double(steps(shape)) * shape.agents * std::max(shape.slots, 1);
  return scheduled.at(shape) * (1 + (1 - worthIt) * std::log2(size));
}

PlanShape PlanSearch::scheduledBest() const {
  return std::min_element(
             scheduled.begin(), scheduled.end(),
             [&](const auto &a, const auto &b) { return costOf(a.first) < costOf(b.first); })
      ->first;
}

bool PlanSearch::isEnough(const PlanShape &shape, double us, int64_t bytes, double goalUs) const {
  return us * goodEnough <= std::max(goalUs, workUs(packingOf(shape), bytes));
}

std::vector<PlanShape> PlanSearch::neighbours(const PlanShape &shape) const {
  std::vector<PlanShape> list(6, shape);
  list[0].pieces *= 2;
  list[1].agents *= 2;
  list[2].pieces /= 2;
  list[3].pieces /= 2, list[3].agents *= 2;
  list[4].agents /= 2;
  list[5].slots /= 2;
  return list;
}

/// From the best schedule to better ones beside it.
void PlanSearch::climb(int64_t bytes, double goalUs) {
  for (;;) {
    const PlanShape best = scheduledBest();
    for (const PlanShape &next : neighbours(best)) {
      if (isEnough(best, scheduled[best], bytes, goalUs))
        return;
      schedule(next, bytes);
      if (scheduledBest() != best)
        break;
    }
    if (scheduledBest() == best)
      return;
  }
}

/// Other numbers of trees, as good in the fluid, may be better to put in order.
void PlanSearch::scheduleMore(int64_t bytes, double goalUs) {
  const PlanShape best = scheduledBest();
  if (isEnough(best, scheduled[best], bytes, goalUs))
    return;
  const size_t before = packings.best().size();
  {
    PlanClock clock(seconds.pack);
    packings.findMore(best.packing);
  }
  for (size_t p = before; p < packings.best().size(); ++p) {
    const int32_t times = packings.best()[p].kind.chunks / packingOf(best).kind.chunks;
    schedule({p, std::max(best.pieces / times, 1), best.agents, best.slots}, bytes);
  }
}

/// The schedules that programs may be made of.
void PlanSearch::scheduleAll(int64_t bytes, double goalUs) {
  for (const PlanShape &shape : promising(bytes)) {
    request.tell(fmt::format("order: {} bytes, {} a root, {} pieces", bytes,
                             packingOf(shape).kind.chunks, shape.pieces));
    schedule(shape, bytes);
  }
  climb(bytes, goalUs);
  scheduleMore(bytes, goalUs);
  climb(bytes, goalUs);
  for (PlanShape best = scheduledBest(); best.slots > 1; best = scheduledBest()) {
    schedule({best.packing, best.pieces, best.agents, best.slots / 2}, bytes);
    if (scheduledBest() == best)
      break;
  }
}

/// Programs of the best schedules, which then count for what they take.
void PlanSearch::attemptBest(int64_t bytes, double goalUs) {
  scheduleAll(bytes, goalUs);
  while (tried.size() < mostTried && !(leader && request.isOver())) {
    const PlanShape best = scheduledBest();
    if (tried.count(best) || (leader && scheduled[best] >= leader->us * worthAProgram))
      return;
    attempt(best, bytes);
    if (leader && isEnough(leader->shape, leader->us, bytes, goalUs))
      return;
    climb(bytes, goalUs);
  }
}

/// As a launch cuts at least; of what is too much to simulate, as it stands.
PlanShape PlanSearch::asLaunched(PlanShape shape, const PlanProgram &program, int64_t bytes) const {
  const int64_t least = program.leastBatches(request, bytes);
  if (least > shape.batches && steps(shape) * least <= mostFlowMoves)
    shape.batches = int32_t(least);
  return shape;
}

static bool chargesMessages(const model::CostModel &model) {
  return model.overheadUs > 0 || model.syncUs > 0 || model.alphaOccupies || model.epochs;
}

double PlanSearch::judge(PlanShape shape, const std::shared_ptr<PlanProgram> &program,
                         int64_t bytes) {
  // Else slices of pieces hardly matter, until one has won.
  if (shape.pieces == 1 || chargesMessages(request.model))
    shape = asLaunched(shape, *program, bytes);
  const auto [known, isNew] = judged.try_emplace(shape, never);
  if (isNew)
    known->second = judgeOnce(shape, program, bytes);
  return known->second;
}

model::SimulateReport PlanSearch::simulate(const PlanShape &shape, PlanProgram &program,
                                           int64_t bytes) {
  PlanClock clock(seconds.simulate);
  ++simulated;
  return program.simulate(topology, request, bytes, shape.batches);
}

double PlanSearch::judgeOnce(const PlanShape &shape, const std::shared_ptr<PlanProgram> &program,
                             int64_t bytes) {
  const model::SimulateReport report = simulate(shape, *program, bytes);
  if (!report.ok())
    return reject(report.faults.front().message);
  auto improves = [&](const PlanTrial &best) {
    auto size = [](const PlanShape &s) { return int64_t(s.pieces) * s.agents * s.batches; };
    const bool larger = size(shape) > size(best.shape);
    return report.us < best.us * (larger ? worthIt : 1);
  };
  if (leader && !improves(*leader))
    return report.us;
  PlanClock clock(seconds.prove);
  if (const std::string &wrong = program->prove(); !wrong.empty())
    return reject(wrong);
  leader = {shape, report.bytes,
            model::countFor(program->getContract(), bytes, request.elementBytes), report.us,
            program};
  return report.us;
}

/// What it takes when it is launched.
void PlanSearch::finishLeader(int64_t bytes) {
  if (!leader)
    return;
  const PlanShape shape = asLaunched(leader->shape, *leader->program, bytes);
  if (shape == leader->shape)
    return;
  if (const model::SimulateReport report = simulate(shape, *leader->program, bytes); report.ok())
    leader->shape = shape, leader->us = report.us;
}

double PlanSearch::reject(const std::string &why) {
  ++rejected;
  if (error.empty())
    error = why;
  return std::numeric_limits<double>::infinity();
}

void PlanSearch::attempt(const PlanShape &shape, int64_t bytes) {
  if (!tried.insert(shape).second)
    return;
  // Until it says what it takes.
  double &us = scheduled[shape];
  us = std::numeric_limits<double>::infinity();
  if (leader && !isInTime(shape))
    return;
  const Packing &packing = packingOf(shape);
  request.tell(fmt::format("simulate: {} bytes, {} a root, height {}, {} pieces, {} agents a link",
                           bytes, packing.kind.chunks, packing.height, shape.pieces, shape.agents));
  if (std::shared_ptr<PlanProgram> program = programOf(shape, bytes))
    us = judge(shape, program, bytes);
  dropOthers(/*sizeEnds=*/false);
}

std::shared_ptr<PlanProgram> PlanSearch::programOf(PlanShape shape, int64_t bytes) {
  shape.batches = 1;
  const Packing &packing = packingOf(shape);
  // Without latencies the best order does not depend on the size.
  std::shared_ptr<PlanProgram> &program = made[shape];
  if (program && (packing.latencyUs == 0 || madeFor[shape] == bytes))
    return program;
  madeFor[shape] = bytes;
  std::string why;
  const double before = seconds.order + seconds.lower;
  std::optional<PlanProgram> fresh =
      PlanProgram::make(context, network, packing, shape, request, bytes, seconds, why);
  secondsPerStep = (seconds.order + seconds.lower - before) / double(steps(shape));
  if (fresh)
    return program = std::make_shared<PlanProgram>(std::move(*fresh));
  program.reset();
  reject(why);
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Flows
//===----------------------------------------------------------------------===//

/// So many that each tree has an agent of its own on a link, or where every rank is a root, those
/// of a root. A chunk's way down must not share one with other chunks' way up: they would wait for
/// each other.
std::vector<int32_t> PlanSearch::flowAgents(const Packing &packing) const {
  const model::Collective collective = request.generator.collective;
  std::vector<int32_t> list;
  if (packing.inSwitch)
    return {1};
  // Without micro-batches a flow only waits; and there are trees for each piece of data.
  if (request.limits.batches == 1 || isPersonal(collective))
    return list;
  const bool both = goesUp(collective) && goesDown(collective);
  const bool allRoots =
      !packing.kind.pairs && !model::hasRoot(collective) && !network.isSymmetric();
  const size_t all = packing.forest.trees.size();
  if (all <= size_t(mostFlowAgents))
    list.push_back(int32_t(all));
  if (const size_t each = all / size_t(network.ranks());
      allRoots && !both && each <= size_t(mostFlowAgents))
    list.push_back(int32_t(each));
  return list;
}

bool PlanSearch::isAllowedFlow(const PlanShape &shape) const {
  const PlanLimits &limits = request.limits;
  const int32_t batches = limits.batches > 0 ? limits.batches : mostBatches;
  // Where ranks are alike the moves of one are simulated.
  return shape.agents >= 1 && (limits.agents == 0 || shape.agents <= limits.agents) &&
         shape.batches <= batches &&
         (shape.batches == 1 ||
          (steps(shape) * shape.batches <= mostFlowMoves &&
           bytesOfChunk(shape) >= double(shape.batches * model::leastSliceBytes))) &&
         steps(shape) <= mostFlowSteps;
}

/// Microseconds with so many micro-batches.
double PlanSearch::attemptFlow(PlanShape shape, int32_t batches, int64_t bytes) {
  shape.batches = batches;
  if (!isAllowedFlow(shape) || (leader && (request.isOver() || !isInTime(shape))))
    return never;
  request.tell(fmt::format("simulate: {} bytes, {} a root, height {}, {} micro-batches", bytes,
                           packingOf(shape).kind.chunks, packingOf(shape).height, batches));
  std::shared_ptr<PlanProgram> program = programOf(shape, bytes);
  return program ? judge(shape, program, bytes) : never;
}

/// Each packing with each number of agents, in as many micro-batches as the formula likes: the
/// fastest first.
std::vector<PlanSearch::Flow> PlanSearch::flows(int64_t bytes) const {
  std::vector<Flow> list;
  for (size_t p = 0; p < packings.best().size(); ++p)
    for (int32_t agents : flowAgents(packings.best()[p])) {
      PlanShape shape{p, 1, agents, reduces() ? request.slots : 0};
      Flow best = {never, shape};
      for (; isAllowedFlow(shape); shape.batches *= 2) {
        PlanShape pieces = shape; // for the formula the same
        pieces.pieces = shape.batches;
        if (const double us = estimate(pieces, bytes); us < best.expectedUs * worthIt)
          best = {us, shape};
      }
      if (best.expectedUs < never && (!leader || best.expectedUs < leader->us))
        list.push_back(best);
    }
  // Of equal ones the one of more agents first.
  std::sort(list.begin(), list.end(), [](const Flow &a, const Flow &b) {
    return std::tuple(a.expectedUs, b.shape) < std::tuple(b.expectedUs, a.shape);
  });
  if (list.size() > mostFlows)
    list.resize(mostFlows);
  return list;
}

/// More micro-batches, or fewer, as long as that gains. Microseconds of the best.
double PlanSearch::widen(const PlanShape &shape, int64_t bytes, double goalUs) {
  double us = attemptFlow(shape, shape.batches, bytes);
  for (const bool more : {true, false})
    for (int32_t batches = more ? shape.batches * 2 : shape.batches / 2; batches > 0;
         batches = more ? batches * 2 : batches / 2) {
      if (us <= goalUs / worthIt)
        return us;
      const double next = attemptFlow(shape, batches, bytes);
      if (next >= us * (more ? worthIt : 1 / worthIt))
        break;
      us = std::min(us, next);
    }
  return us;
}

/// Not cut: the launch repeats the program for one micro-batch after the other, and trees have
/// agents of their own on a link, so that they do not wait for each other and early micro-batches
/// are far down a tree when late ones begin.
void PlanSearch::attemptFlows(int64_t bytes, double goalUs) {
  for (const auto &[expected, shape] : flows(bytes)) {
    const double us = widen(shape, bytes, goalUs);
    if (leader && isEnough(leader->shape, leader->us, bytes, goalUs))
      return;
    // Messages meet at links that they share: there an order is what helps.
    if (us > expected * asExpected && us < never)
      return;
  }
}

/// Programs that do not lead go if they are large, or their order was for the size that ends.
void PlanSearch::dropOthers(bool sizeEnds) {
  std::erase_if(made, [&](const auto &entry) {
    const auto &[shape, program] = entry;
    const bool leads = leader && program == leader->program;
    if (!program || leads)
      return !program;
    return program->getMoves() > mostKept || (sizeEnds && packingOf(shape).latencyUs > 0);
  });
}

/// Nothing has passed: in other orders, and fewer pieces, something may.
void PlanSearch::retry(const std::vector<PlanShape> &list, int64_t bytes) {
  const int32_t agents = request.limits.agents > 0 ? request.limits.agents : mostAgents;
  const size_t enough = tried.size() + mostRetried;
  for (int32_t fewer : {1, 4, 16, mostPieces})
    for (PlanShape shape : list)
      for (shape.pieces = std::max(shape.pieces / fewer, 1); shape.agents <= agents;
           shape.agents *= 2) {
        if (leader || tried.size() >= enough)
          return;
        attempt(shape, bytes);
      }
}

/// What has the fewest moves.
PlanShape PlanSearch::smallest() const {
  PlanShape best{0, 1, 1, reduces() ? request.slots : 0};
  for (PlanShape shape = best; shape.packing < packings.best().size(); ++shape.packing)
    if (!packingOf(shape).inSwitch && steps(shape) < steps(best))
      best = shape;
  return best;
}

std::optional<PlanTrial> PlanSearch::best(int64_t bytes, double goalUs) {
  const int32_t batches = leader ? leader->shape.batches : 1;
  leader.reset();
  scheduled.clear(), tried.clear(), judged.clear();
  size = bytes;
  const bool late = request.isOver() && !made.empty();
  for (const auto &[key, program] : made)
    if (late && program) {
      PlanShape shape = key;
      shape.batches = shape.pieces == 1 ? batches : 1;
      judge(shape, program, bytes);
    }
  finishLeader(bytes);
  if (late)
    return leader;
  attemptFlows(bytes, goalUs);
  // In a hurry: first what is soon made.
  if (request.deadline != std::chrono::steady_clock::time_point::max() && made.empty())
    attempt(smallest(), bytes);
  if (!leader || !isEnough(leader->shape, leader->us, bytes, goalUs))
    attemptBest(bytes, goalUs);
  if (!leader)
    retry(promising(bytes), bytes);
  finishLeader(bytes);
  dropOthers(/*sizeEnds=*/true);
  return leader;
}

} // namespace ccl
