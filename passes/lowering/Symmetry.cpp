//===- Symmetry.cpp -----------------------------------------------------------===//
//
// The rank is written as coordinates in the rank grid. An index is then a linear form of
// coordinates and loop variables, modulo the extent of its axis; its coefficients say how
// it moves when a coordinate does. All indices of one axis of one buffer must move alike.
//
// A loop over all chunks of an axis names each chunk by the loop variable, the same on
// every rank: `x[i]` does not move with the rank while `x[me]` does. Such a variable may be
// counted from another start on each rank (a sweep): then it moves, too.
//===----------------------------------------------------------------------===//

#include "passes/lowering/Symmetry.h"
#include "dialect/Indexing.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ccl {
namespace {

using Steps = SmallVector<int64_t>; ///< per rank axis

/// A digit of a loop variable that might be counted from another start.
struct Digit {
  unsigned dim;
  int64_t extent;
  std::optional<Steps> steps; ///< once decided
};

/// How an index moves with the coordinates, and with digits if they do.
struct Motion {
  Steps coordinates;
  SmallVector<std::pair<size_t, int64_t>> digits; ///< digit, factor
};

/// An index that has to move by `steps` modulo `extent`; `axis` names steps that several
/// indices share.
struct Constraint {
  Motion motion;
  int64_t extent;
  size_t axis;
};

struct Axis {
  int64_t extent;
  std::optional<Steps> steps;
};

class Finder {
public:
  Finder(ProgramOp program, ArrayRef<int64_t> rankShape)
      : program(program), context(program.getContext()), rankShape(rankShape) {}

  /// Fills the symmetry but for sweeps; false if there is none, and `why`.
  bool run(model::Symmetry &symmetry);
  /// The digits of a loop's variable, if it is a sweep.
  std::vector<model::ShiftedAxis> sweepOf(affine::AffineForOp loop);

  std::string why;

private:
  bool give(Operation *op, const char *reason) {
    llvm::raw_string_ostream(why) << op->getName() << ": " << reason;
    return false;
  }
  AffineExpr newDim(Interval range) {
    ranges.push_back(range);
    return getAffineDimExpr(ranges.size() - 1, context);
  }

  bool addRank();
  bool addBuffers();
  bool addBlock(Block &block);
  bool addOp(Operation &op);
  bool addLoop(affine::AffineForOp loop);
  SmallVector<int64_t> digitsOf(affine::AffineForOp loop, int64_t trips);
  bool addPlace(Operation *op, const PlaceRef &place);
  bool addRankIndex(Operation *op, AffineMap map, ValueRange operands);
  bool addFixed(AffineMap map, ValueRange operands);

  AffineExpr valueOf(Value value);
  SmallVector<AffineExpr> indices(AffineMap map, ValueRange operands);
  AffineExpr simplify(AffineExpr e);
  AffineExpr fold(AffineExpr e);

  bool isCoordinate(AffineExpr e) const;
  int digitOf(AffineExpr e) const;
  bool usesCoordinates(AffineExpr e) const;
  /// Digits in `e` must not move.
  void pin(AffineExpr e);
  std::optional<Motion> motionOf(AffineExpr e, int64_t extent);

  void solve();
  bool infer(const Constraint &constraint);
  bool guess();
  bool holds() const;
  Steps moves(const Constraint &constraint) const;

  ProgramOp program;
  MLIRContext *context;
  SmallVector<int64_t> rankShape;
  SmallVector<Interval> ranges; ///< of every dimension; the rank's coordinates come first
  DenseMap<Value, AffineExpr> values;
  std::vector<Digit> digits;
  DenseMap<Operation *, SmallVector<size_t>> loopDigits;
  std::vector<Axis> axes;
  DenseMap<Value, size_t> firstAxis; ///< of every buffer
  SmallVector<BufferOp> buffers;
  std::vector<Constraint> constraints;
};

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

AffineExpr Finder::valueOf(Value value) {
  IntegerAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return getAffineConstantExpr(constant.getInt(), context);
  return values.lookup(value);
}

/// The results of a map over our dimensions; empty if an operand is unknown.
SmallVector<AffineExpr> Finder::indices(AffineMap map, ValueRange operands) {
  SmallVector<AffineExpr> dims, symbols, results;
  for (auto [i, v] : llvm::enumerate(operands)) {
    AffineExpr e = valueOf(v);
    if (!e)
      return {};
    (i < map.getNumDims() ? dims : symbols).push_back(e);
  }
  for (AffineExpr e : map.getResults())
    results.push_back(simplify(e.replaceDimsAndSymbols(dims, symbols)));
  return results;
}

/// Normal form without `mod` and `floordiv` that the ranges of variables decide.
AffineExpr Finder::simplify(AffineExpr e) {
  for (int round = 0; round < 8; ++round) {
    AffineExpr next = normalizeIndex(fold(normalizeIndex(e)));
    if (next == e)
      break;
    e = next;
  }
  return e;
}

AffineExpr Finder::fold(AffineExpr e) {
  auto binary = dyn_cast<AffineBinaryOpExpr>(e);
  if (!binary)
    return e;
  AffineExpr l = fold(binary.getLHS()), r = fold(binary.getRHS());
  auto by = dyn_cast<AffineConstantExpr>(r);
  bool divides = e.getKind() == AffineExprKind::Mod || e.getKind() == AffineExprKind::FloorDiv;
  if (divides && by && by.getValue() > 0)
    if (auto bounds = boundsOf(l, ranges)) {
      int64_t c = by.getValue();
      int64_t low = (bounds->first - llvm::mod(bounds->first, c)) / c;
      int64_t high = (bounds->second - llvm::mod(bounds->second, c)) / c;
      if (low == high)
        return e.getKind() == AffineExprKind::Mod ? l - low * c
                                                  : getAffineConstantExpr(low, context);
    }
  // (x mod c d) floordiv c is (x floordiv c) mod d.
  AffineExpr inner = l;
  if (e.getKind() == AffineExprKind::FloorDiv && by && by.getValue() > 0)
    if (int64_t modulus = stripModulus(inner); modulus > 0 && modulus % by.getValue() == 0)
      return inner.floorDiv(by.getValue()) % (modulus / by.getValue());
  return getAffineBinaryOpExpr(e.getKind(), l, r);
}

bool Finder::isCoordinate(AffineExpr e) const {
  auto dim = dyn_cast<AffineDimExpr>(e);
  return dim && dim.getPosition() < rankShape.size();
}

int Finder::digitOf(AffineExpr e) const {
  if (auto dim = dyn_cast<AffineDimExpr>(e))
    for (auto [i, digit] : llvm::enumerate(digits))
      if (digit.dim == dim.getPosition())
        return int(i);
  return -1;
}

bool Finder::usesCoordinates(AffineExpr e) const {
  bool found = false;
  e.walk([&](AffineExpr x) { found |= isCoordinate(x); });
  return found;
}

void Finder::pin(AffineExpr e) {
  e.walk([&](AffineExpr x) {
    if (int digit = digitOf(x); digit >= 0)
      digits[size_t(digit)].steps = Steps(rankShape.size(), 0);
  });
}

/// How an index into [0, extent) moves, if that is by a constant step per coordinate.
std::optional<Motion> Finder::motionOf(AffineExpr e, int64_t extent) {
  Motion motion{Steps(rankShape.size(), 0), {}};
  auto bounds = boundsOf(e, ranges);
  if (!bounds || bounds->first < 0 || bounds->second >= extent) {
    // It may leave the range on some ranks only, where it would wrap around.
    if (usesCoordinates(e))
      return std::nullopt;
    pin(e);
    return motion;
  }
  AffineExpr inner = e;
  int64_t modulus = stripModulus(inner);
  for (auto &[atom, factor] : LinearForm::of(modulus % extent == 0 ? inner : e).terms) {
    int digit = digitOf(atom);
    if (isCoordinate(atom)) {
      size_t x = cast<AffineDimExpr>(atom).getPosition();
      motion.coordinates[x] = llvm::mod(factor, extent);
      if (motion.coordinates[x] * rankShape[x] % extent != 0)
        return std::nullopt; // jumps where the coordinate wraps around
    } else if (digit >= 0 && factor * digits[size_t(digit)].extent % extent == 0) {
      motion.digits.emplace_back(size_t(digit), llvm::mod(factor, extent));
    } else if (usesCoordinates(atom)) {
      return std::nullopt;
    } else {
      pin(atom);
    }
  }
  return motion;
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

bool Finder::addRank() {
  AffineExpr rank = getAffineConstantExpr(0, context);
  for (int64_t extent : rankShape)
    rank = rank * extent + newDim({0, extent - 1});
  values[program.getMe()] = normalizeIndex(rank);
  return true;
}

bool Finder::addBuffers() {
  for (auto buffer : program.getBody().getOps<BufferOp>()) {
    auto shape = buffer.getChunkShape();
    if (!shape)
      return give(buffer, "its extents are not constant");
    firstAxis[buffer.getResult()] = axes.size();
    for (int64_t extent : *shape)
      axes.push_back({extent, std::nullopt});
    buffers.push_back(buffer);
  }
  return true;
}

bool Finder::addBlock(Block &block) {
  return llvm::all_of(block, [&](Operation &op) { return addOp(op); });
}

bool Finder::addOp(Operation &op) {
  if (isa<BufferOp, arith::ConstantOp, affine::AffineYieldOp>(op))
    return true;
  if (isa<BlockOp, ProxyOp>(op))
    return addBlock(op.getRegion(0).front());
  if (auto loop = dyn_cast<affine::AffineForOp>(op))
    return addLoop(loop);
  if (auto channel = dyn_cast<ChannelOp>(op))
    return addRankIndex(&op, channel.getPeer(), channel.getPeerOperands());
  if (auto peer = dyn_cast<PeerOp>(op))
    return addRankIndex(&op, peer.getPeer(), peer.getPeerOperands());
  if (auto transfer = dyn_cast<TransferOp>(op)) {
    SmallVector<PlaceRef> places = getFromPlaces(transfer);
    places.append(getToPlaces(transfer));
    return llvm::all_of(
        places, [&](const PlaceRef &place) { return place.isChannel() || addPlace(&op, place); });
  }
  return isa<SignalOp, WaitOp>(op) || give(&op, "is no part of a rank program");
}

/// Bounds, which all ranks must share in every iteration.
bool Finder::addFixed(AffineMap map, ValueRange operands) {
  SmallVector<AffineExpr> results = indices(map, operands);
  for (AffineExpr e : results) {
    if (usesCoordinates(e))
      return false;
    pin(e);
  }
  return results.size() == map.getNumResults();
}

bool Finder::addLoop(affine::AffineForOp loop) {
  if (!addFixed(loop.getLowerBoundMap(), loop.getLowerBoundOperands()) ||
      !addFixed(loop.getUpperBoundMap(), loop.getUpperBoundOperands()) || loop.getNumResults())
    return give(loop, "its bounds depend on the rank");
  Interval range = rangeOf(Value(loop.getInductionVar()));
  bool mayMove = loop.hasConstantBounds() && loop.getConstantLowerBound() == 0 &&
                 loop.getStepAsInt() == 1 && loop.getConstantUpperBound() > 1;
  if (!mayMove) {
    values[loop.getInductionVar()] = newDim(range);
    return addBlock(*loop.getBody());
  }
  AffineExpr value = getAffineConstantExpr(0, context);
  for (int64_t extent : digitsOf(loop, loop.getConstantUpperBound())) {
    AffineExpr digit = newDim({0, extent - 1});
    loopDigits[loop].push_back(digits.size());
    digits.push_back({cast<AffineDimExpr>(digit).getPosition(), extent, std::nullopt});
    value = value * extent + digit;
  }
  values[loop.getInductionVar()] = normalizeIndex(value);
  return addBlock(*loop.getBody());
}

/// A loop over all chunks of a buffer counts its axes; any other variable is one digit.
SmallVector<int64_t> Finder::digitsOf(affine::AffineForOp loop, int64_t trips) {
  SmallVector<int64_t> result{trips};
  loop.walk([&](TransferOp transfer) {
    SmallVector<PlaceRef> places = getFromPlaces(transfer);
    places.append(getToPlaces(transfer));
    for (const PlaceRef &place : places) {
      if (place.isChannel() || !llvm::is_contained(place.operands, loop.getInductionVar()))
        continue;
      auto shape = place.getBuffer().getChunkShape();
      if (result.size() == 1 && shape && shape->size() > 1 && product(*shape) == trips)
        result = *shape;
    }
  });
  return result;
}

bool Finder::addPlace(Operation *op, const PlaceRef &place) {
  auto known = firstAxis.find(place.getBuffer().getResult());
  SmallVector<AffineExpr> index = indices(place.map, place.operands);
  if (known == firstAxis.end() || index.size() != place.map.getNumResults())
    return give(op, "its places are unknown");
  for (auto [i, e] : llvm::enumerate(index)) {
    size_t axis = known->second + i;
    std::optional<Motion> motion = motionOf(e, axes[axis].extent);
    if (!motion)
      return give(op, "an index does not move evenly with the rank");
    constraints.push_back({*motion, axes[axis].extent, axis});
  }
  return true;
}

/// A rank must move as ranks do, in every coordinate.
bool Finder::addRankIndex(Operation *op, AffineMap map, ValueRange operands) {
  SmallVector<AffineExpr> index = indices(map, operands);
  int64_t ranks = product(rankShape), stride = ranks;
  auto bounds = index.empty() ? std::nullopt : boundsOf(index.front(), ranges);
  if (!bounds || bounds->first < 0 || bounds->second >= ranks)
    return give(op, "it may name a rank that does not exist");
  for (auto [x, extent] : llvm::enumerate(rankShape)) {
    stride /= extent;
    AffineExpr e = simplify(simplify(index.front().floorDiv(stride)) % extent);
    std::optional<Motion> motion = motionOf(e, extent);
    if (!motion)
      return give(op, "its rank does not move evenly with the rank");
    pin(e);
    for (auto [y, step] : llvm::enumerate(motion->coordinates))
      if (step != (x == y ? 1 % extent : 0))
        return give(op, "its rank does not move with the rank");
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// How a constraint's index moves; its digits are decided.
Steps Finder::moves(const Constraint &constraint) const {
  Steps steps = constraint.motion.coordinates;
  for (auto [digit, factor] : constraint.motion.digits)
    for (size_t x = 0; x < steps.size(); ++x)
      steps[x] = llvm::mod(steps[x] + factor * (*digits[digit].steps)[x], constraint.extent);
  return steps;
}

/// Decides what follows from one constraint. Whether anything did.
bool Finder::infer(const Constraint &constraint) {
  Axis &axis = axes[constraint.axis];
  SmallVector<std::pair<size_t, int64_t>> open;
  for (auto [digit, factor] : constraint.motion.digits)
    if (!digits[digit].steps)
      open.emplace_back(digit, factor);
  if (open.empty() && !axis.steps) {
    axis.steps = moves(constraint);
    return true;
  }
  if (open.size() != 1 || !axis.steps)
    return false;
  auto [digit, factor] = open.front();
  int64_t extent = constraint.extent;
  Steps zero(rankShape.size(), 0);
  digits[digit].steps = zero;
  if (digits[digit].extent != extent || (factor != 1 && factor != extent - 1))
    return true;
  Steps others = moves(constraint), missing = zero;
  for (size_t x = 0; x < missing.size(); ++x)
    missing[x] = llvm::mod((factor == 1 ? 1 : -1) * ((*axis.steps)[x] - others[x]), extent);
  digits[digit].steps = missing;
  return true;
}

/// Nothing follows any more: says of some digits that they do not move, of those first
/// that stand beside the rank. Whether there were any.
bool Finder::guess() {
  for (bool besideRank : {true, false})
    for (const Constraint &constraint : constraints) {
      bool uses = llvm::any_of(constraint.motion.coordinates, [](int64_t s) { return s != 0; });
      bool found = false;
      for (auto [digit, factor] : constraint.motion.digits)
        if (uses == besideRank && !digits[digit].steps) {
          digits[digit].steps = Steps(rankShape.size(), 0);
          found = true;
        }
      if (found)
        return true;
    }
  return false;
}

void Finder::solve() {
  do
    for (bool changed = true; changed;) {
      changed = false;
      for (const Constraint &constraint : constraints)
        changed |= infer(constraint);
    }
  while (guess());
  for (Axis &axis : axes)
    if (!axis.steps)
      axis.steps = Steps(rankShape.size(), 0);
  for (Digit &digit : digits)
    if (!digit.steps)
      digit.steps = Steps(rankShape.size(), 0);
}

bool Finder::holds() const {
  return llvm::all_of(constraints, [&](const Constraint &constraint) {
    return moves(constraint) == *axes[constraint.axis].steps;
  });
}

bool Finder::run(model::Symmetry &symmetry) {
  if (!addRank() || !addBuffers() || !addBlock(program.getBlock()))
    return false;
  solve();
  if (!holds())
    return give(program, "places of one buffer move differently with the rank");
  symmetry.ranks.assign(rankShape.begin(), rankShape.end());
  for (BufferOp buffer : buffers) {
    std::vector<model::ShiftedAxis> &shifted = symmetry.buffers.emplace_back();
    size_t first = firstAxis.lookup(buffer.getResult());
    for (size_t i = 0; i < buffer.getChunkShape()->size(); ++i) {
      const Axis &axis = axes[first + i];
      shifted.push_back({axis.extent, {axis.steps->begin(), axis.steps->end()}});
    }
  }
  return true;
}

std::vector<model::ShiftedAxis> Finder::sweepOf(affine::AffineForOp loop) {
  std::vector<model::ShiftedAxis> result;
  bool moves = false;
  for (size_t d : loopDigits.lookup(loop)) {
    const Digit &digit = digits[d];
    result.push_back({digit.extent, {digit.steps->begin(), digit.steps->end()}});
    moves |= llvm::any_of(*digit.steps, [](int64_t step) { return step != 0; });
  }
  return moves ? result : std::vector<model::ShiftedAxis>();
}

/// The one program of all ranks, or null.
ProgramOp programOfAll(AlgorithmOp algorithm, int64_t ranks) {
  SmallVector<ProgramOp> programs = getPrograms(algorithm);
  if (programs.size() != 1)
    return nullptr;
  ProgramOp found = programs.front();
  if (!found.getMe() || int64_t(found.getRankList().size()) != ranks ||
      found.getRanks().front() != 0 || found.getRanks().back() != ranks)
    return nullptr;
  return found;
}

} // namespace

FailureOr<std::optional<SymmetricProgram>>
findSymmetry(AlgorithmOp algorithm, LocationTable &locations, std::string &why) {
  auto contract = getModelContract(algorithm);
  if (failed(contract))
    return failure();
  ProgramOp program = programOfAll(algorithm, contract->ranks);
  if (!program) {
    why = "there is no single program for all ranks";
    return std::optional<SymmetricProgram>();
  }
  // The grid that the algorithm speaks of, then the plain row of ranks.
  SmallVector<SmallVector<int64_t>> grids{{contract->ranks}};
  for (auto buffer : algorithm.getBody().getOps<BufferOp>())
    if (auto shape = buffer.getRankShape(); shape && !llvm::is_contained(grids, *shape))
      grids.insert(grids.begin(), *shape);
  for (ArrayRef<int64_t> grid : grids) {
    Finder finder(program, grid);
    SymmetricProgram result;
    if (!finder.run(result.symmetry)) {
      why = finder.why;
      continue;
    }
    std::vector<LoopRun> loops;
    FailureOr<model::Program> rankZero = expandRank(program, 0, locations, &loops);
    if (failed(rankZero))
      return failure();
    result.rankZero = std::move(*rankZero);
    for (LoopRun &run : loops) {
      std::vector<model::ShiftedAxis> digits = finder.sweepOf(run.loop);
      if (digits.empty() || run.begin == run.end)
        continue;
      int32_t trips = int32_t(run.loop.getConstantUpperBound());
      result.symmetry.sweeps.push_back(
          {run.agent, run.begin, (run.end - run.begin) / trips, trips, std::move(digits)});
    }
    return std::optional(std::move(result));
  }
  return std::optional<SymmetricProgram>();
}

} // namespace ccl
