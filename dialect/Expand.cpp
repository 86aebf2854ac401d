//===- Expand.cpp - Interprets the loops of algorithms and programs ---------===//

#include "dialect/Expand.h"
#include "dialect/Indexing.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ccl {
namespace {

/// An index far outside stays outside, and can be computed with. No grid is larger.
int64_t clampChunk(int64_t index) {
  constexpr int64_t limit = int64_t(1) << 41;
  return std::clamp(index, -limit, limit);
}

/// An index map whose operands are slots of the interpreter's register file.
struct Indices {
  AffineMap map;
  SmallVector<unsigned> slots;
};

/// Values of loop variables and constants, by number.
class Registers {
public:
  unsigned number(Value v) {
    auto [it, isNew] = numbers.try_emplace(v, values.size());
    if (isNew) {
      IntegerAttr constant;
      values.push_back(matchPattern(v, m_Constant(&constant)) ? constant.getInt() : 0);
    }
    return it->second;
  }
  Indices bind(AffineMap map, ValueRange operands) {
    Indices result{map, {}};
    for (Value v : operands)
      result.slots.push_back(number(v));
    return result;
  }
  int64_t evaluate(const Indices &indices, unsigned result) {
    inputs.clear();
    for (unsigned slot : indices.slots)
      inputs.push_back(values[slot]);
    return evaluateIndex(indices.map.getResult(result), inputs, indices.map.getNumDims());
  }
  int64_t &operator[](unsigned slot) { return values[slot]; }

private:
  DenseMap<Value, unsigned> numbers;
  SmallVector<int64_t> values, inputs;
};

/// Bounds of an affine.for or of one dimension of an affine.parallel.
struct Range {
  Indices lower, upper; ///< max of lower, min of upper
  int64_t step = 1;
  unsigned slot = 0;
};

Range rangeOf(affine::AffineForOp op, Registers &registers) {
  return {registers.bind(op.getLowerBoundMap(), op.getLowerBoundOperands()),
          registers.bind(op.getUpperBoundMap(), op.getUpperBoundOperands()), op.getStepAsInt(),
          registers.number(op.getInductionVar())};
}

SmallVector<Range> rangesOf(affine::AffineParallelOp op, Registers &registers) {
  SmallVector<Range> ranges;
  for (unsigned i = 0; i < op.getNumDims(); ++i)
    ranges.push_back({registers.bind(op.getLowerBoundMap(i), op.getLowerBoundsOperands()),
                      registers.bind(op.getUpperBoundMap(i), op.getUpperBoundsOperands()),
                      op.getSteps()[i], registers.number(op.getIVs()[i])});
  return ranges;
}

/// How often the ops of a block are executed if its loops have constant bounds (others
/// count as one); `most` gets the loop that takes it over `limit`, if any does.
uint64_t countOperations(Block &body, uint64_t limit, Operation *&most) {
  uint64_t total = 0;
  for (Operation &op : body) {
    uint64_t trips = 1;
    auto count = [&](AffineMap lower, AffineMap upper, int64_t step) {
      if (lower.isSingleConstant() && upper.isSingleConstant())
        trips = llvm::SaturatingMultiply<uint64_t>(
            trips, std::max<int64_t>(0, llvm::divideCeil(upper.getSingleConstantResult() -
                                                             lower.getSingleConstantResult(),
                                                         step)));
    };
    Block *inner = nullptr;
    if (auto loop = dyn_cast<affine::AffineForOp>(op)) {
      count(loop.getLowerBoundMap(), loop.getUpperBoundMap(), loop.getStepAsInt());
      inner = loop.getBody();
    } else if (auto parallel = dyn_cast<affine::AffineParallelOp>(op)) {
      for (unsigned i = 0; i < parallel.getNumDims(); ++i)
        count(parallel.getLowerBoundMap(i), parallel.getUpperBoundMap(i), parallel.getSteps()[i]);
      inner = parallel.getBody();
    }
    uint64_t mine = trips;
    if (inner)
      mine = llvm::SaturatingMultiply(trips, countOperations(*inner, limit, most));
    if (mine > limit && !most)
      most = &op;
    total = llvm::SaturatingAdd(total, mine);
  }
  return total;
}

/// An empty loop may run for ever without anybody noticing.
bool isEmpty(Block &body) {
  return llvm::all_of(body.without_terminator(), [](Operation &op) {
    return isa<arith::ConstantOp, ChannelOp, PeerOp>(op) ||
           (isa<affine::AffineForOp, affine::AffineParallelOp>(op) &&
            isEmpty(op.getRegion(0).front()));
  });
}

LogicalResult forRange(Range &range, Registers &registers,
                       function_ref<LogicalResult(int64_t)> body) {
  int64_t low = INT64_MIN, high = INT64_MAX;
  for (unsigned i = 0; i < range.lower.map.getNumResults(); ++i)
    low = std::max(low, registers.evaluate(range.lower, i));
  for (unsigned i = 0; i < range.upper.map.getNumResults(); ++i)
    high = std::min(high, registers.evaluate(range.upper, i));
  // Bounds that are not constant may come out anywhere.
  constexpr int64_t limit = int64_t(1) << 41;
  low = std::max(low, -limit);
  high = std::min(high, limit);
  for (int64_t i = low; i < high; i += range.step) {
    registers[range.slot] = i;
    if (failed(body(i)))
      return failure();
  }
  return success();
}

/// Nested ranges, in row-major order.
LogicalResult forRanges(MutableArrayRef<Range> ranges, Registers &registers,
                        function_ref<LogicalResult()> body) {
  if (ranges.empty())
    return body();
  return forRange(ranges.front(), registers,
                  [&](int64_t) { return forRanges(ranges.drop_front(), registers, body); });
}

int32_t addLocation(LocationTable &table, Location loc) {
  table.push_back(loc);
  return int32_t(table.size() - 1);
}

//===----------------------------------------------------------------------===//
// Algorithms
//===----------------------------------------------------------------------===//

/// A place with what is needed to compute rank and chunk quickly.
struct BoundPlace {
  Indices indices;
  int32_t buffer;
  ArrayRef<int64_t> ranks, chunks;

  model::Place evaluate(Registers &registers) const {
    auto part = [&](unsigned first, ArrayRef<int64_t> shape) {
      int64_t position = 0;
      for (auto [i, extent] : llvm::enumerate(shape)) {
        int64_t value = registers.evaluate(indices, first + i);
        if (value < 0 || value >= extent)
          return shape.size() == 1 ? clampChunk(value) : int64_t(-1);
        position = position * extent + value;
      }
      return position;
    };
    int64_t rank = part(0, ranks);
    int64_t chunk = part(ranks.size(), chunks);
    constexpr int64_t limit = INT32_MAX;
    return {int32_t(std::clamp(rank, -limit, limit)), buffer, chunk};
  }
};

class AlgorithmExpander {
public:
  AlgorithmExpander(AlgorithmOp algorithm, LocationTable &locations, std::optional<int64_t> rank,
                    uint64_t maxMoves, std::vector<Operation *> *owners)
      : algorithm(algorithm), locations(locations), rank(rank), maxMoves(maxMoves), owners(owners) {
  }

  FailureOr<model::Moves> run() {
    Operation *most = nullptr;
    countOperations(algorithm.getBlock(), rank ? UINT64_MAX : maxMoves, most);
    if (most)
      return most->emitOpError() << "executes more than " << maxMoves << " moves";
    if (failed(declareBuffers()) || failed(runBlock(algorithm.getBlock(), false)))
      return failure();
    return std::move(moves);
  }

private:
  struct BufferInfo {
    int32_t number;
    SmallVector<int64_t> ranks, chunks;
  };
  struct BoundMove {
    model::MoveKind kind;
    BoundPlace src, dst;
    int32_t count, loc;
  };

  LogicalResult declareBuffers() {
    if (algorithm.getNumArguments())
      return algorithm.emitOpError()
             << "size parameter '" << algorithm.getParameterName(0) << "' is not bound";
    for (auto op : algorithm.getBody().getOps<BufferOp>()) {
      auto ranks = op.getRankShape(), chunks = op.getChunkShape();
      if (!ranks || !chunks)
        return op.emitOpError("has extents that are not constant");
      BufferInfo &info = buffers[op.getResult()];
      info = {int32_t(moves.buffers.size()), *ranks, *chunks};
      moves.ranks = product(*ranks);
      moves.buffers.push_back({op.getName().value_or("buffer").str(), toModel(op.getRole()),
                               product(*chunks), addLocation(locations, op.getLoc())});
    }
    return success();
  }

  /// `inStep`: an enclosing affine.parallel has begun the step.
  LogicalResult runBlock(Block &block, bool inStep) {
    for (Operation &op : block) {
      if (isa<BufferOp, affine::AffineYieldOp, arith::ConstantOp>(op))
        continue;
      if (!inStep && !isa<affine::AffineForOp>(op))
        ++step;
      if (failed(runOp(op, inStep)))
        return failure();
    }
    return success();
  }

  LogicalResult runOp(Operation &op, bool inStep) {
    // Iterations cost time even where they move nothing.
    if (++operations > 8 * maxMoves)
      return algorithm.emitOpError()
             << "takes more than " << 8 * maxMoves << " operations to expand";
    if (auto loop = dyn_cast<affine::AffineForOp>(op)) {
      if (isEmpty(*loop.getBody()))
        return success();
      Range range = rangeOf(loop, registers);
      return forRange(range, registers, [&](int64_t) { return runBlock(*loop.getBody(), inStep); });
    }
    if (auto parallel = dyn_cast<affine::AffineParallelOp>(op)) {
      if (isEmpty(*parallel.getBody()))
        return success();
      SmallVector<Range> ranges = rangesOf(parallel, registers);
      return forRanges(ranges, registers, [&] { return runBlock(*parallel.getBody(), true); });
    }
    if (isa<CopyOp, ReduceOp>(op))
      return add(bound(op), &op);
    if (auto schedule = dyn_cast<ScheduleOp>(op))
      return runSchedule(schedule);
    return op.emitOpError("must be expanded first (ccl-expand-apply)");
  }

  BoundMove &bound(Operation &op) {
    auto [it, isNew] = boundMoves.try_emplace(&op);
    if (isNew) {
      MoveRef move = *getMove(&op);
      auto place = [&](const PlaceRef &p) {
        const BufferInfo &info = buffers.find(p.base)->second;
        return BoundPlace{registers.bind(p.map, p.operands), info.number, info.ranks, info.chunks};
      };
      it->second = std::make_unique<BoundMove>(
          BoundMove{move.reduce ? model::MoveKind::Reduce : model::MoveKind::Copy, place(move.src),
                    place(move.dst), int32_t(move.count), addLocation(locations, op.getLoc())});
    }
    return *it->second;
  }

  LogicalResult add(const BoundMove &b, Operation *owner) {
    return add({b.kind, b.src.evaluate(registers), b.dst.evaluate(registers), b.count, step, b.loc},
               owner);
  }

  LogicalResult add(const model::Move &move, Operation *owner) {
    if (rank && move.src.rank != *rank && move.dst.rank != *rank)
      return success();
    if (moves.moves.size() >= maxMoves)
      return algorithm.emitOpError() << "expands to more than " << maxMoves << " moves";
    moves.moves.push_back(move);
    if (owners)
      owners->push_back(owner);
    return success();
  }

  LogicalResult runSchedule(ScheduleOp op) {
    SmallVector<std::pair<int64_t, int32_t>> runs;
    for (const auto &[count, location] : op.getRowLocations())
      runs.emplace_back(count, addLocation(locations, location));
    size_t run = 0;
    SmallVector<int32_t> numbers;
    for (Value buffer : op.getBuffers())
      numbers.push_back(buffers.find(buffer)->second.number);
    ArrayRef<int64_t> rows = op.getRows();
    int64_t last = rows.empty() ? 0 : rows[0];
    for (size_t i = 0; i < rows.size(); i += ScheduleOp::rowSize) {
      ArrayRef<int64_t> r = rows.slice(i, ScheduleOp::rowSize);
      if (runs[run].first == 0)
        ++run;
      --runs[run].first;
      step += r[0] != last;
      last = r[0];
      constexpr int64_t limit = INT32_MAX;
      auto rankOf = [&](int64_t v) { return int32_t(std::clamp(v, -limit, limit)); };
      if (failed(add({r[1] ? model::MoveKind::Reduce : model::MoveKind::Copy,
                      {rankOf(r[2]), numbers[r[3]], r[4]},
                      {rankOf(r[5]), numbers[r[6]], r[7]},
                      int32_t(std::min<int64_t>(r[8], INT32_MAX)),
                      step,
                      runs[run].second},
                     op)))
        return failure();
    }
    return success();
  }

  AlgorithmOp algorithm;
  LocationTable &locations;
  std::optional<int64_t> rank;
  uint64_t maxMoves;
  std::vector<Operation *> *owners;
  model::Moves moves;
  Registers registers;
  DenseMap<Value, BufferInfo> buffers;
  DenseMap<Operation *, std::unique_ptr<BoundMove>> boundMoves;
  uint64_t operations = 0;
  int32_t step = 0;
};

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Interprets the program of one rank and hands out its instructions.
class ProgramInterpreter {
public:
  using Visit = function_ref<bool(Operation *, const model::Instruction &)>;

  explicit ProgramInterpreter(ProgramOp program) : program(program) {}

  /// Whether signals and waits get the places that they guard as operands: what peers read, in
  /// `from`, what they have written, in `to`.
  bool showsGuards = false;

  /// Called when a loop begins and when it has ended, if set.
  std::function<void(affine::AffineForOp, bool begins)> onLoop;

  /// The buffers, in program order.
  LogicalResult declareBuffers(SmallVectorImpl<BufferOp> &list) {
    for (auto buffer : program.getBody().getOps<BufferOp>()) {
      auto chunks = buffer.getChunkShape();
      if (!chunks)
        return buffer.emitOpError("has extents that are not constant");
      buffers[buffer.getResult()] = {int32_t(list.size()), *chunks};
      list.push_back(buffer);
    }
    return success();
  }

  /// `channels` gets the rank's channels in order of first use. `enter` is called at
  /// the start of every agent.
  LogicalResult run(int64_t rank, std::vector<model::Channel> &channels,
                    function_ref<void(Operation *)> enter, Visit visit) {
    constexpr uint64_t limit = uint64_t(1) << 25; // instructions of a rank
    Operation *most = nullptr;
    for (Operation &agent : program.getBlock())
      if (isa<BlockOp, ProxyOp>(agent))
        countOperations(agent.getRegion(0).front(), limit, most);
    if (most)
      return most->emitOpError() << "executes more than " << limit << " instructions";
    this->channels = &channels;
    channelNumbers.clear();
    channelOps.clear();
    if (program.getMe())
      registers[registers.number(program.getMe())] = rank;
    for (Operation &agent : program.getBlock()) {
      if (!isa<BlockOp, ProxyOp>(agent))
        continue;
      enter(&agent);
      if (failed(runBlock(agent.getRegion(0).front(), visit)))
        return failure();
    }
    return success();
  }

  /// Of the last run: the op that was used first for each channel.
  ArrayRef<ChannelOp> getChannelOps() const { return channelOps; }

private:
  /// Fails when `visit` wants no more.
  LogicalResult runBlock(Block &block, Visit visit) {
    for (Operation &op : block) {
      if (auto loop = dyn_cast<affine::AffineForOp>(op)) {
        if (isEmpty(*loop.getBody()))
          continue;
        Range range = rangeOf(loop, registers);
        if (onLoop)
          onLoop(loop, true);
        if (failed(forRange(range, registers,
                            [&](int64_t) { return runBlock(*loop.getBody(), visit); })))
          return failure();
        if (onLoop)
          onLoop(loop, false);
        continue;
      }
      if (decode(op) && !visit(&op, current))
        return failure();
    }
    return success();
  }

  /// Fills `current`; false if the op is no instruction.
  bool decode(Operation &op) {
    current = model::Instruction();
    if (auto transfer = dyn_cast<TransferOp>(op)) {
      current.reduce = transfer.getReduce();
      current.count = int32_t(transfer.getCount());
      auto &[from, to] = placesOf(transfer);
      for (const PlaceRef &place : from)
        current.from.push_back(operand(place));
      for (const PlaceRef &place : to)
        current.to.push_back(operand(place));
      return true;
    }
    if (auto signal = dyn_cast<SignalOp>(op)) {
      current.kind = model::Instruction::Kind::Signal;
      current.channel = channel(signal.getChannel());
      showGuard(op);
      return true;
    }
    if (auto wait = dyn_cast<WaitOp>(op)) {
      current.kind = model::Instruction::Kind::Wait;
      current.channel = channel(wait.getChannel());
      showGuard(op);
      return true;
    }
    return false;
  }

  void showGuard(Operation &op) {
    if (!showsGuards)
      return;
    if (auto guarded = getGuardedPlace(&op)) {
      current.count = int32_t(guarded->count);
      (guarded->arrives ? current.to : current.from).push_back(operand(guarded->place));
    }
  }

  using Sides = std::pair<SmallVector<PlaceRef>, SmallVector<PlaceRef>>;
  Sides &placesOf(TransferOp op) {
    auto [it, isNew] = sides.try_emplace(op);
    if (isNew)
      it->second = std::make_unique<Sides>(getFromPlaces(op), getToPlaces(op));
    return *it->second;
  }

  model::Operand operand(const PlaceRef &place) {
    model::Operand o;
    if (place.isChannel()) {
      o.kind = model::Operand::Kind::Channel;
      o.channel = channel(place.base);
      return o;
    }
    const auto &[number, shape] = buffers.find(place.getBuffer().getResult())->second;
    Indices indices = registers.bind(place.map, place.operands);
    SmallVector<int64_t> coordinates;
    for (unsigned i = 0; i < shape.size(); ++i)
      coordinates.push_back(registers.evaluate(indices, i));
    o.buffer = number;
    o.chunk = shape.size() == 1 ? clampChunk(coordinates[0]) : linearize(coordinates, shape);
    if (auto peer = place.getPeer()) {
      o.kind = model::Operand::Kind::Peer;
      o.peer = rank(peer.getPeer(), peer.getPeerOperands());
    }
    return o;
  }

  /// A rank that does not exist stays one that does not exist.
  int32_t rank(AffineMap map, ValueRange operands) {
    constexpr int64_t limit = INT32_MAX;
    return int32_t(std::clamp(registers.evaluate(registers.bind(map, operands), 0), -limit, limit));
  }

  int32_t channel(Value value) {
    auto op = value.getDefiningOp<ChannelOp>();
    model::Channel c{op.getDirection() == Direction::To,
                     rank(op.getPeer(), op.getPeerOperands()),
                     int32_t(op.getTag()),
                     int32_t(op.getSlots()),
                     /*loc=*/-1,
                     int32_t(op.getProtocol())};
    auto key = std::make_tuple(c.to, c.peer, c.tag, c.slots);
    auto [it, isNew] = channelNumbers.try_emplace(key, int32_t(channels->size()));
    if (isNew) {
      channels->push_back(c);
      channelOps.push_back(op);
    }
    return it->second;
  }

  ProgramOp program;
  Registers registers;
  DenseMap<Value, std::pair<int32_t, SmallVector<int64_t>>> buffers;
  DenseMap<Operation *, std::unique_ptr<Sides>> sides;
  std::map<std::tuple<bool, int32_t, int32_t, int32_t>, int32_t> channelNumbers;
  std::vector<model::Channel> *channels = nullptr;
  SmallVector<ChannelOp> channelOps;
  model::Instruction current;
};

/// Adds the buffers of `op` to `program`, or compares them with those that it has.
LogicalResult expandBuffers(ProgramOp op, ProgramInterpreter &interpreter, model::Program &program,
                            LocationTable &locations) {
  SmallVector<BufferOp> buffers;
  if (failed(interpreter.declareBuffers(buffers)))
    return failure();
  for (auto [i, buffer] : llvm::enumerate(buffers)) {
    model::Buffer b{buffer.getName().value_or("buffer").str(), toModel(buffer.getRole()),
                    product(*buffer.getChunkShape()), addLocation(locations, buffer.getLoc())};
    if (i == program.buffers.size())
      program.buffers.push_back(b);
    else if (program.buffers[i].role != b.role || program.buffers[i].chunks != b.chunks)
      return buffer.emitOpError("differs from the same buffer of another rank's program");
  }
  return success();
}

/// What `rank` executes goes to `out`, the places of its ops to `locations`, once each.
LogicalResult expandRank(ProgramInterpreter &interpreter, int64_t rank, model::RankProgram &out,
                         DenseMap<Operation *, int32_t> &locationNumbers,
                         LocationTable &locations) {
  auto enter = [&](Operation *agent) {
    bool proxy = isa<ProxyOp>(agent);
    int64_t id = proxy ? cast<ProxyOp>(agent).getId() : cast<BlockOp>(agent).getId();
    out.agents.push_back({proxy, int32_t(id), {}});
  };
  auto numberOf = [&](Operation *op) {
    auto [it, isNew] = locationNumbers.try_emplace(op, 0);
    if (isNew)
      it->second = addLocation(locations, op->getLoc());
    return it->second;
  };
  auto visit = [&](Operation *instruction, const model::Instruction &decoded) {
    out.agents.back().code.push_back(decoded);
    out.agents.back().code.back().loc = numberOf(instruction);
    return true;
  };
  if (failed(interpreter.run(rank, out.channels, enter, visit)))
    return failure();
  for (auto [channel, op] : llvm::zip_equal(out.channels, interpreter.getChannelOps()))
    channel.loc = numberOf(op);
  return success();
}

/// Adds the programs of `op`'s ranks to `program`.
LogicalResult expandProgram(ProgramOp op, model::Program &program, LocationTable &locations) {
  ProgramInterpreter interpreter(op);
  if (failed(expandBuffers(op, interpreter, program, locations)))
    return failure();
  DenseMap<Operation *, int32_t> locationNumbers;
  for (int64_t r : op.getRankList()) {
    if (r >= int64_t(program.ranks.size()))
      return op.emitOpError() << "rank " << r << " is outside [0, " << program.ranks.size() << ")";
    model::RankProgram &out = program.ranks[r];
    if (!out.agents.empty())
      return op.emitOpError() << "rank " << r << " has a program already";
    if (failed(expandRank(interpreter, r, out, locationNumbers, locations)))
      return failure();
  }
  return success();
}

} // namespace

FailureOr<model::Moves> expand(AlgorithmOp algorithm, LocationTable &locations,
                               std::optional<int64_t> rank, uint64_t maxMoves,
                               std::vector<Operation *> *owners) {
  return AlgorithmExpander(algorithm, locations, rank, maxMoves, owners).run();
}

FailureOr<model::Program> expandPrograms(AlgorithmOp algorithm, LocationTable &locations) {
  FailureOr<model::Contract> contract = getModelContract(algorithm);
  if (failed(contract))
    return failure();
  model::Program program;
  program.ranks.resize(contract->ranks);
  for (ProgramOp op : getPrograms(algorithm))
    if (failed(expandProgram(op, program, locations)))
      return failure();
  return program;
}

FailureOr<model::Program> expandRank(ProgramOp op, int64_t rank, LocationTable &locations,
                                     std::vector<LoopRun> *loops) {
  ProgramInterpreter interpreter(op);
  model::Program program;
  model::RankProgram &out = program.ranks.emplace_back();
  SmallVector<size_t> open;
  auto position = [&] { return int32_t(out.agents.back().code.size()); };
  if (loops)
    interpreter.onLoop = [&](affine::AffineForOp loop, bool begins) {
      if (begins) {
        open.push_back(loops->size());
        loops->push_back({loop, int32_t(out.agents.size()) - 1, position(), position()});
      } else {
        (*loops)[open.pop_back_val()].end = position();
      }
    };
  DenseMap<Operation *, int32_t> locationNumbers;
  if (failed(expandBuffers(op, interpreter, program, locations)) ||
      failed(expandRank(interpreter, rank, out, locationNumbers, locations)))
    return failure();
  return program;
}

LogicalResult
forEachInstruction(ProgramOp program, int64_t rank,
                   function_ref<bool(Operation *, const model::Instruction &)> visit) {
  ProgramInterpreter interpreter(program);
  SmallVector<BufferOp> buffers;
  std::vector<model::Channel> channels;
  interpreter.showsGuards = true;
  if (failed(interpreter.declareBuffers(buffers)))
    return failure();
  return interpreter.run(rank, channels, [](Operation *) {}, visit);
}

} // namespace ccl
