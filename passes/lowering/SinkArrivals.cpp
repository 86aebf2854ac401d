//===- SinkArrivals.cpp -----------------------------------------------------------===//
//
// The sequence stays one in which all can happen. Steps are a clock that all ranks share: what
// moves down to just before a step is over when that begins, and no receive moves behind the step
// in which its slot is needed again.
//===----------------------------------------------------------------------===//

#include "passes/lowering/SinkArrivals.h"

#include <map>
#include <set>

using namespace mlir;

namespace ccl {
namespace {

int64_t agentOf(Operation *op) {
  auto noted = op->getAttrOfType<IntegerAttr>(agentAttr);
  return noted ? noted.getInt() : 0;
}

/// The number of what a peer puts there, if `op` waits for that.
std::optional<int64_t> arrivalOf(Operation *op) {
  auto number = op->getAttrOfType<IntegerAttr>(arrivalAttr);
  return number && isa<WaitOp>(op) ? std::optional(number.getInt()) : std::nullopt;
}

/// Into a place of its own rank.
bool isReceive(Operation *op) {
  auto transfer = dyn_cast<TransferOp>(op);
  if (!transfer || transfer.getTo().size() != 1)
    return false;
  PlaceRef to = getToPlaces(transfer).front();
  return !to.isChannel() && !to.getPeer() &&
         llvm::any_of(getFromPlaces(transfer), [](const PlaceRef &p) { return p.isChannel(); });
}

class Sinker {
public:
  Sinker(ProgramOp program, const model::Contract &contract, bool mayAlias)
      : program(program), disjoint(program, contract, false) {
    if (mayAlias)
      inPlace.emplace(program, contract, true);
  }

  void run() {
    sequence = straightSequence();
    if (!sequence || failed(collect()))
      return;
    noteSteps();
    for (size_t i = units.size(); i-- > 0;) {
      Unit &unit = units[i];
      unit.at = {int64_t(i), 1, int64_t(i)};
      if (arrivalOf(unit.op) || isReceive(unit.op))
        unit.at = sunk(unit);
      for (const Touch &touch : unit.touches)
        things[touch.thing].add(units, i, touch.writes);
    }
    reorder();
  }

private:
  /// Where a unit stands: before (0) or at (1) the place of another, and of several there in the
  /// order that they had.
  using Position = std::tuple<int64_t, int, int64_t>;
  struct Touch {
    int64_t thing;
    bool writes;
  };
  struct Unit {
    Operation *op;
    int64_t agent, step;
    std::vector<Touch> touches;
    int64_t notBehind = INT64_MAX; ///< the step that begins when it has to be over
    Position at;
  };
  /// Who is the next to use a place or a channel.
  struct Below {
    SmallVector<size_t, 4> next; ///< of each agent
    std::optional<size_t> writer;
    std::optional<size_t> overwriter; ///< if `writer` waits for what is put: who writes after that

    void add(ArrayRef<Unit> units, size_t unit, bool writes) {
      llvm::erase_if(next, [&](size_t i) { return units[i].agent == units[unit].agent; });
      next.push_back(unit);
      if (!writes)
        return;
      overwriter = writerUnlike(units, unit);
      writer = unit;
    }
    /// Who writes something else than what `unit` waits for, if it does.
    std::optional<size_t> writerUnlike(ArrayRef<Unit> units, size_t unit) const {
      const auto arrival = arrivalOf(units[unit].op);
      return writer && arrival && arrivalOf(units[*writer].op) == arrival ? overwriter : writer;
    }
  };

  /// The only block, if it notes agents and has no loops.
  Block *straightSequence() {
    SmallVector<Operation *> blocks;
    for (Operation &op : program.getBlock())
      if (isa<BlockOp, ProxyOp>(op))
        blocks.push_back(&op);
    if (blocks.size() != 1 || !isa<BlockOp>(blocks.front()))
      return nullptr;
    Block &block = blocks.front()->getRegion(0).front();
    bool noted = false;
    for (Operation &op : block) {
      if (isa<affine::AffineForOp>(op))
        return nullptr;
      noted |= op.hasAttr(agentAttr);
    }
    return noted ? &block : nullptr;
  }

  LogicalResult collect() {
    DenseMap<Operation *, size_t> numbers;
    for (Operation &op : *sequence) {
      if (!isa<TransferOp, SignalOp, WaitOp>(op))
        continue;
      auto step = op.getAttrOfType<IntegerAttr>(stepAttr);
      numbers[&op] = units.size();
      units.push_back({&op, agentOf(&op), step ? step.getInt() : 0, {}, INT64_MAX, {}});
      if (auto arrival = arrivalOf(&op))
        waiters[*arrival].insert(agentOf(&op));
    }
    auto ranks = representativeRanks(program, traceLimit << 1); // of more nothing is proved
    if (!ranks)
      return failure();
    for (int64_t rank : *ranks) {
      // Channels have the numbers from 0, then the places.
      std::map<int64_t, std::vector<size_t>> receives;
      auto visit = [&](Operation *op, const model::Instruction &in) {
        const size_t unit = numbers.lookup(op);
        if (in.channel >= 0)
          touch(unit, rank, in.channel, true);
        for (const std::vector<model::Operand> *side : {&in.from, &in.to})
          for (const model::Operand &o : *side)
            if (o.kind == model::Operand::Kind::Local)
              touchPlaces(unit, rank, o, in.count, side == &in.to);
            else if (o.kind == model::Operand::Kind::Channel)
              touch(unit, rank, o.channel, true);
        for (const model::Operand &o : in.from)
          if (o.kind == model::Operand::Kind::Channel)
            receives[o.channel].push_back(unit);
        return true;
      };
      if (failed(forEachInstruction(program, rank, visit)))
        return failure();
      for (auto &[channel, list] : receives)
        limitBySlots(list);
    }
    return success();
  }

  /// The sender must have a slot whenever the algorithm's order lets it send. One more is left for
  /// transfers that receive and send: these hold a slot while they wait for another.
  void limitBySlots(ArrayRef<size_t> receives) {
    int64_t slots = INT64_MAX;
    for (size_t unit : receives)
      for (Value from : cast<TransferOp>(units[unit].op).getFrom())
        if (auto channel = from.getDefiningOp<ChannelOp>())
          slots = std::min(slots, int64_t(channel.getSlots()));
    const size_t ahead = size_t(std::max<int64_t>(1, slots - 1));
    for (size_t i = 0; i + ahead < receives.size(); ++i) {
      Unit &unit = units[receives[i]];
      unit.notBehind = std::min(unit.notBehind, units[receives[i + ahead]].step);
    }
  }

  void touch(size_t unit, int64_t rank, int64_t number, bool writes) {
    const int64_t perRank = maxChannels + disjoint.size() + (inPlace ? inPlace->size() : 0);
    units[unit].touches.push_back({rank * perRank + number, writes});
  }

  void touchPlaces(size_t unit, int64_t rank, const model::Operand &o, int64_t count, bool writes) {
    for (int64_t i = 0; i < count; ++i) {
      touch(unit, rank, maxChannels + disjoint.of(rank, o.buffer, o.chunk + i), writes);
      if (inPlace)
        touch(unit, rank, maxChannels + disjoint.size() + inPlace->of(rank, o.buffer, o.chunk + i),
              writes);
    }
  }

  /// By step: where the first unit of it, or of a later one, stands.
  void noteSteps() {
    for (auto [i, unit] : llvm::enumerate(units))
      firstOfStep.try_emplace(unit.step, int64_t(i));
    int64_t first = int64_t(units.size());
    for (auto &[step, at] : llvm::reverse(firstOfStep))
      at = first = std::min(first, at);
  }

  Position sunk(const Unit &unit) {
    const auto arrival = arrivalOf(unit.op);
    const int64_t self = &unit - units.data();
    std::pair<int64_t, int> limit = {int64_t(units.size()), 0};
    auto before = [&](size_t other) { limit = std::min(limit, {std::get<0>(units[other].at), 0}); };
    for (const Touch &touch : unit.touches) {
      const Below &below = things[touch.thing];
      for (size_t next : below.next)
        // Agents that wait themselves need nobody else's wait.
        if (!arrival || units[next].agent == unit.agent ||
            !waiters[*arrival].count(units[next].agent))
          before(next);
      if (auto writer = below.writerUnlike(units, size_t(self)))
        before(*writer);
    }
    if (auto step = firstOfStep.lower_bound(unit.notBehind); step != firstOfStep.end())
      limit = std::min(limit, {step->second, 0});
    if (limit.first <= self)
      return {self, 1, self};
    return {limit.first, 0, self};
  }

  void reorder() {
    llvm::sort(units, [](const Unit &a, const Unit &b) { return a.at < b.at; });
    for (const Unit &unit : units)
      unit.op->moveBefore(sequence, sequence->end());
  }

  static constexpr int64_t maxChannels = int64_t(1) << 32;

  ProgramOp program;
  PlaceNumbers disjoint;
  std::optional<PlaceNumbers> inPlace;
  Block *sequence = nullptr;
  std::vector<Unit> units;                      ///< in the order of the program
  std::map<int64_t, std::set<int64_t>> waiters; ///< agents, by arrival
  std::map<int64_t, int64_t> firstOfStep;
  DenseMap<int64_t, Below> things;
};

} // namespace

void sinkArrivals(ProgramOp program, const model::Contract &contract, bool mayAlias) {
  Sinker(program, contract, mayAlias).run();
}

} // namespace ccl
