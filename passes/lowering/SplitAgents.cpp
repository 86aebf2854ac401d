//===- SplitAgents.cpp - From one sequence to agents --------------------------===//
//
// The sequence is a witness: it is an order in which all may happen. Agents keep their part of
// it, and what of the rest matters, that is, which place was written or read before.
//===----------------------------------------------------------------------===//

#include "passes/lowering/SplitAgents.h"
#include "dialect/Indexing.h"
#include "passes/Passes.h"
#include "passes/lowering/Trace.h"

#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLSPLITAGENTS
#include "passes/Passes.h.inc"

namespace {

/// An instruction of the sequence, or a loop of them.
struct Unit {
  Operation *op;
  int64_t agent;
  int64_t number;            ///< among those of its agent
  SmallVector<size_t> after; ///< of other agents, that have to be over
};

/// Finds which units come after which.
class Order {
public:
  explicit Order(std::vector<Unit> &units) : units(units) {
    for (auto [i, unit] : llvm::enumerate(units))
      numbers[unit.op] = i;
  }

  /// What follows from the places of one rank.
  LogicalResult trace(ProgramOp program, int64_t rank, const PlaceNumbers &numberOf) {
    places.assign(size_t(numberOf.size()), {});
    auto visit = [&](Operation *op, const model::Instruction &in) {
      IntegerAttr arrival = op->getAttrOfType<IntegerAttr>(arrivalAttr);
      if (failed(checkPlaces(op, rank, in, numberOf)))
        return false;
      while (!numbers.contains(op))
        op = op->getParentOp();
      const size_t unit = numbers.lookup(op);
      auto each = [&](ArrayRef<model::Operand> operands, auto access) {
        for (const model::Operand &o : operands)
          for (int64_t i = 0; o.kind == model::Operand::Kind::Local && i < in.count; ++i)
            access(numberOf.of(rank, o.buffer, o.chunk + i), i);
      };
      each(in.from, [&](int64_t number, int64_t) { reads(unit, places[size_t(number)]); });
      each(in.to, [&](int64_t number, int64_t i) {
        // In place this is no write: the chunk is there.
        const bool stays = in.from.size() == 1 && in.from[0].kind == model::Operand::Kind::Local &&
                           numberOf.of(rank, in.from[0].buffer, in.from[0].chunk + i) == number;
        if (arrival)
          arrives(unit, places[size_t(number)], arrival.getInt());
        else if (!stays)
          writes(unit, places[size_t(number)]);
      });
      return true;
    };
    return forEachInstruction(program, rank, visit);
  }

private:
  struct Place {
    SmallVector<size_t, 2> writers; ///< the last one, or all that wait for what a peer wrote
    std::optional<int64_t> arrival; ///< the number of what the peer wrote
    SmallVector<size_t, 2> readers; ///< since then
  };

  static LogicalResult checkPlaces(Operation *op, int64_t rank, const model::Instruction &in,
                                   const PlaceNumbers &numberOf) {
    for (ArrayRef<model::Operand> operands : {ArrayRef(in.from), ArrayRef(in.to)})
      for (const model::Operand &o : operands)
        if (o.kind == model::Operand::Kind::Local &&
            (o.chunk < 0 || o.chunk + in.count > numberOf.chunksOf(o.buffer)))
          return op->emitOpError() << "on rank " << rank << " touches chunks " << o.chunk << " to "
                                   << o.chunk + in.count - 1 << " of buffer " << o.buffer
                                   << ", which has " << numberOf.chunksOf(o.buffer);
    return success();
  }

  void reads(size_t unit, Place &place) {
    comesAfterWriters(unit, place);
    if (place.readers.empty() || place.readers.back() != unit)
      place.readers.push_back(unit);
  }

  void writes(size_t unit, Place &place) {
    comesAfterWriters(unit, place);
    for (size_t reader : place.readers)
      comesAfter(unit, reader);
    place = {{unit}, std::nullopt, {}};
  }

  /// Nobody has to be waited for: the peer knew that it may write, which is proved.
  void arrives(size_t unit, Place &place, int64_t arrival) {
    if (place.arrival != arrival)
      place = {{}, arrival, {}};
    place.writers.push_back(unit);
  }

  /// One of them is enough, and its own the best.
  void comesAfterWriters(size_t unit, const Place &place) {
    if (!place.writers.empty() && llvm::none_of(place.writers, [&](size_t writer) {
          return units[writer].agent == units[unit].agent;
        }))
      comesAfter(unit, place.writers.front());
  }

  void comesAfter(size_t later, size_t earlier) {
    if (units[later].agent != units[earlier].agent &&
        !llvm::is_contained(units[later].after, earlier))
      units[later].after.push_back(earlier);
  }

  std::vector<Unit> &units;
  DenseMap<Operation *, size_t> numbers;
  std::vector<Place> places; ///< by number
};

/// One agent signals behind unit `from`, another waits before unit `to`.
struct Edge {
  size_t from, to;
};

/// What is left to be said if every agent remembers what it was told, and says all it knows.
std::vector<Edge> findEdges(std::vector<Unit> &units) {
  llvm::DenseSet<size_t> isWaitedFor;
  for (const Unit &unit : units)
    isWaitedFor.insert(unit.after.begin(), unit.after.end());
  // By agent: the last unit of each other one that it knows to be over.
  using Knowledge = std::map<int64_t, int64_t>;
  std::map<int64_t, Knowledge> knows;
  DenseMap<size_t, Knowledge> told; ///< after units
  std::vector<Edge> edges;
  for (auto [i, unit] : llvm::enumerate(units)) {
    Knowledge &mine = knows[unit.agent];
    llvm::sort(unit.after, std::greater<>()); // what the latest knows may be all
    for (size_t earlier : unit.after) {
      auto known = mine.find(units[earlier].agent);
      if (known != mine.end() && known->second >= units[earlier].number)
        continue;
      edges.push_back({earlier, i});
      for (auto [agent, number] : told[earlier]) {
        int64_t &last = mine.try_emplace(agent, -1).first->second;
        last = std::max(last, number);
      }
    }
    mine[unit.agent] = unit.number;
    if (isWaitedFor.contains(i))
      told[i] = mine;
  }
  return edges;
}

/// Stays where all agents see it.
bool isDefinition(Operation &op) {
  return isa<ChannelOp, PeerOp>(op) || op.hasTrait<OpTrait::ConstantLike>();
}

/// Writes the blocks of the agents in place of the sequence.
class Writer {
public:
  Writer(ProgramOp program, BlockOp sequence)
      : program(program), sequence(sequence), firstTag(firstFreeTag(program)) {}

  void write(ArrayRef<Unit> units, ArrayRef<Edge> edges) {
    for (Operation &op : llvm::make_early_inc_range(sequence.getBody().front()))
      if (isDefinition(op))
        op.moveBefore(sequence);
    // On each channel signals stand in the order of the units, and so do the waits for them: of
    // two edges between the same agents the later one would else be known.
    llvm::MapVector<size_t, SmallVector<Value>> signals, waits;
    for (const Edge &edge : edges) {
      auto [to, from] = channelBetween(units[edge.from].agent, units[edge.to].agent);
      signals[edge.from].push_back(to);
      waits[edge.to].push_back(from);
    }
    std::map<int64_t, BlockOp> blocks;
    for (const Unit &unit : units)
      blocks[unit.agent];
    OpBuilder b(sequence);
    for (auto &[agent, block] : blocks) {
      block = b.create<BlockOp>(sequence.getLoc(), agent);
      block.getBody().emplaceBlock();
    }
    for (auto [i, unit] : llvm::enumerate(units)) {
      OpBuilder end = OpBuilder::atBlockEnd(&blocks[unit.agent].getBody().front());
      Location loc = unit.op->getLoc();
      for (Value from : waits.lookup(i))
        end.create<WaitOp>(loc, from);
      unit.op->remove();
      end.insert(unit.op);
      for (Value to : signals.lookup(i))
        end.create<SignalOp>(loc, to);
    }
    sequence.erase();
  }

private:
  using Ends = std::pair<Value, Value>;

  Ends channelBetween(int64_t from, int64_t to) {
    auto [it, isNew] = channels.try_emplace({from, to});
    if (isNew)
      it->second = channel(firstTag + int64_t(channels.size()) - 1);
    return it->second;
  }

  /// Some moves may lead from a rank to itself without saying so. Of many channels on many ranks
  /// that is not worth finding out.
  static int64_t firstFreeTag(ProgramOp program) {
    const SmallVector<int64_t> ranks = program.getRankList();
    SmallVector<ChannelOp> channels;
    program.getBody().walk([&](ChannelOp channel) { channels.push_back(channel); });
    const bool looks = channels.size() * ranks.size() <= (size_t(1) << 16);
    int64_t first = 0;
    for (ChannelOp channel : channels)
      if (int64_t(channel.getTag()) >= first && (!looks || mayLeadToItself(channel, ranks)))
        first = int64_t(channel.getTag()) + 1;
    return first;
  }

  static bool mayLeadToItself(ChannelOp channel, ArrayRef<int64_t> ranks) {
    const AffineMap map = channel.getPeer();
    return llvm::any_of(ranks, [&](int64_t rank) {
      const SmallVector<int64_t> inputs(map.getNumInputs(), rank); // no loops with agents
      return evaluateIndex(map.getResult(0), inputs, map.getNumDims()) == rank;
    });
  }

  /// From the rank to itself.
  Ends channel(int64_t tag) {
    OpBuilder b(sequence);
    MLIRContext *context = b.getContext();
    SmallVector<Value> operands;
    AffineMap me = AffineMap::get(0, 0, getAffineConstantExpr(program.getRanks()[0], context));
    if (Value rank = program.getMe()) {
      me = AffineMap::get(1, 0, getAffineDimExpr(0, context));
      operands.push_back(rank);
    }
    auto create = [&](Direction direction) -> Value {
      return b.create<ChannelOp>(sequence.getLoc(), ChannelType::get(context), direction, me,
                                 operands, tag, /*slots=*/0, Protocol::Simple);
    };
    return {create(Direction::To), create(Direction::From)};
  }

  ProgramOp program;
  BlockOp sequence;
  const int64_t firstTag;
  std::map<std::pair<int64_t, int64_t>, Ends> channels;
};

template <typename Op>
void dropGuardedPlaces(ProgramOp program) {
  program.getBody().walk([](Op op) {
    if (!op.getBuffer())
      return;
    OpBuilder(op).create<Op>(op.getLoc(), op.getChannel());
    op.erase();
  });
}

std::vector<Unit> unitsOf(BlockOp sequence) {
  std::vector<Unit> units;
  std::map<int64_t, int64_t> counts; ///< by agent
  for (Operation &op : sequence.getBody().front()) {
    if (isDefinition(op))
      continue;
    auto noted = op.getAttrOfType<IntegerAttr>(agentAttr);
    const int64_t agent = noted ? noted.getInt() : int64_t(sequence.getId());
    units.push_back({&op, agent, counts[agent]++, {}});
  }
  return units;
}

struct SplitAgents : impl::CclSplitAgentsBase<SplitAgents> {
  void runOnOperation() override {
    for (auto algorithm : getOperation().getOps<AlgorithmOp>()) {
      auto contract = getModelContract(algorithm);
      if (failed(contract))
        return signalPassFailure();
      for (ProgramOp program : programsToLower(algorithm)) {
        auto edges = splitAgents(program, *contract, mayRunInPlace(algorithm));
        if (failed(edges))
          return signalPassFailure();
        ordered += *edges;
        program->removeAttr(projectedProgram);
        program.getBody().walk([](Operation *op) {
          op->removeDiscardableAttr(agentAttr);
          op->removeDiscardableAttr(stepAttr);
        });
        dropGuardedPlaces<SignalOp>(program);
        dropGuardedPlaces<WaitOp>(program);
      }
    }
  }
};

} // namespace

FailureOr<size_t> splitAgents(ProgramOp program, const model::Contract &contract, bool mayAlias) {
  SmallVector<Operation *> agents;
  for (Operation &op : program.getBlock())
    if (isa<BlockOp, ProxyOp>(op))
      agents.push_back(&op);
  if (agents.size() != 1 || !isa<BlockOp>(agents.front()))
    return size_t(0); // written by hand
  auto sequence = cast<BlockOp>(agents.front());
  std::vector<Unit> units = unitsOf(sequence);
  if (llvm::all_of(units, [&](const Unit &u) { return u.agent == int64_t(sequence.getId()); }))
    return size_t(0);
  auto ranks = representativeRanks(program, traceLimit << 1); // of more nothing is proved
  if (!ranks)
    return program.emitOpError("has several agents, and no rank stands for the others: its "
                               "places would have to move alike with the rank");
  Order order(units);
  for (bool inPlace : {false, true}) {
    if (inPlace && !mayAlias)
      continue;
    const PlaceNumbers numbers(program, contract, inPlace);
    for (int64_t rank : *ranks)
      if (failed(order.trace(program, rank, numbers)))
        return failure();
  }
  std::vector<Edge> edges = findEdges(units);
  Writer(program, sequence).write(units, edges);
  return edges.size();
}

} // namespace ccl
