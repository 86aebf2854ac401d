//===- PruneSync.cpp - Waits and signals where they are needed ----------------===//
//
// The projection guards every direct read on the spot: offer, wait, read, done, wait for
// the readers. Only the order on each channel matters to the peer, so this rank may
// offer earlier (as long as it does not write the place in between) and may wait for its
// readers later (as long as it does not write the place before).
//===----------------------------------------------------------------------===//

#include "dialect/Indexing.h"
#include "passes/Passes.h"
#include "passes/lowering/Trace.h"

#include "mlir/Dialect/Affine/Analysis/LoopAnalysis.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLPRUNESYNC
#include "passes/Passes.h.inc"

namespace {

/// When the write happens, as seen from the iteration of the loop that the guarded place
/// belongs to.
enum class When { SameIteration, Earlier, Later };

/// Tells whether writes of a rank can hit the places that its peers read.
class Conflicts {
public:
  Conflicts(ProgramOp program, const model::Contract &contract, bool mayAlias)
      : program(program), contract(contract), mayAlias(mayAlias), context(program.getContext()) {}

  /// Any write in `op` against any place guarded in `sync`. `loop`: the loop around both
  /// if the iterations differ.
  bool anyIn(Operation *op, Operation *sync, affine::AffineForOp loop = {},
             When when = When::SameIteration) {
    bool found = false;
    sync->walk([&](Operation *inner) {
      auto guarded = getGuardedPlace(inner);
      if (!guarded)
        return;
      op->walk([&](Operation *other) {
        if (auto transfer = dyn_cast<TransferOp>(other)) {
          for (const PlaceRef &to : getToPlaces(transfer))
            if (!to.isChannel() && !to.getPeer())
              found |= mayTouch(*guarded, to, transfer.getCount(), loop, when);
        } else if (auto arrival = getGuardedPlace(other); arrival && arrival->arrives) {
          found |= mayTouch(*guarded, arrival->place, arrival->count, loop, when);
        }
      });
    });
    return found;
  }

private:
  /// Where a place lies in the larger of in and out, which is what both are in place.
  AffineExpr position(const PlaceRef &place, IndexSpace &space,
                      const DenseMap<Value, AffineExpr> *replacement) {
    BufferOp buffer = place.getBuffer();
    AffineExpr linear =
        linearize(space.rebase(place.map, place.operands, replacement), *buffer.getChunkShape());
    bool shifted = buffer.getRole() == BufferRole::In
                       ? contract.inPosition(1, 0) != contract.inPosition(0, 0)
                       : buffer.getRole() == BufferRole::Out &&
                             contract.outPosition(1, 0) != contract.outPosition(0, 0);
    if (!shifted)
      return linear;
    AffineExpr rank = program.getMe() ? getAffineDimExpr(space.dim(program.getMe()), context)
                                      : getAffineConstantExpr(program.getRanks()[0], context);
    return normalizeIndex(linear + rank * contract.chunks);
  }

  bool mayTouch(const GuardedPlace &guarded, const PlaceRef &write, int64_t writeCount,
                affine::AffineForOp loop, When when) {
    BufferOp a = guarded.place.getBuffer(), b = write.getBuffer();
    bool alias =
        mayAlias && a.getRole() != BufferRole::Scratch && b.getRole() != BufferRole::Scratch;
    if (a != b && !alias)
      return false;
    if (guarded.count > 1 || writeCount > 1)
      return true;
    if (!loop)
      return !areApart(guarded.place, write, Value(), AffineExpr(), {1, 0});
    auto trips = affine::getConstantTripCount(loop);
    if (!trips)
      return true;
    if (*trips < 2)
      return false; // there is no other iteration
    // The write's iteration is delta away, or simply any: whichever shows more.
    Value iv = loop.getInductionVar();
    AffineExpr other = getAffineDimExpr(otherDim, context);
    AffineExpr delta = other * (when == When::Later ? loop.getStepAsInt() : -loop.getStepAsInt());
    IndexSpace space;
    AffineExpr here = getAffineDimExpr(space.dim(iv), context); // dimension 0, as below
    return !areApart(guarded.place, write, iv, here + delta, {1, int64_t(*trips) - 1}) &&
           !areApart(guarded.place, write, iv, other, rangeOf(iv));
  }

  /// Whether the places differ for every rank and iteration. In the write `iv` stands for
  /// `value`, over dimension 0 (`iv` itself) and `otherDim`, which lies in `range`.
  bool areApart(const PlaceRef &guarded, const PlaceRef &write, Value iv, AffineExpr value,
                Interval range) {
    IndexSpace space;
    DenseMap<Value, AffineExpr> moved;
    if (iv) {
      space.dim(iv);
      moved[iv] = value;
    }
    SmallVector<std::pair<AffineExpr, int64_t>> differences;
    if (guarded.getBuffer() == write.getBuffer()) {
      SmallVector<int64_t> shape = *write.getBuffer().getChunkShape();
      for (auto [x, y, extent] :
           llvm::zip_equal(space.rebase(guarded.map, guarded.operands),
                           space.rebase(write.map, write.operands, &moved), shape))
        differences.emplace_back(x - y, extent);
    } else {
      differences.emplace_back(position(guarded, space, nullptr) - position(write, space, &moved),
                               contract.inOutChunks());
    }
    if (space.values().size() >= otherDim)
      return false;
    SmallVector<Interval> ranges(otherDim + 1, {1, 0});
    ranges[otherDim] = range;
    for (auto [i, v] : llvm::enumerate(space.values()))
      ranges[i] = rangeOf(v);
    // One index that never agrees keeps the places apart.
    return llvm::any_of(differences, [&](auto &difference) {
      AffineExpr e = normalizeIndex(difference.first % difference.second);
      auto bounds = boundsOf(e, ranges);
      return bounds && bounds->first > 0;
    });
  }

  /// Stands for another iteration, or the distance to it; beyond the values of any place.
  static constexpr unsigned otherDim = 64;

  ProgramOp program;
  const model::Contract &contract;
  bool mayAlias;
  MLIRContext *context;
};

struct PruneSync : impl::CclPruneSyncBase<PruneSync> {
  using CclPruneSyncBase::CclPruneSyncBase;

  void runOnOperation() override {
    for (auto algorithm : getOperation().getOps<AlgorithmOp>()) {
      SmallVector<ProgramOp> programs = programsToLower(algorithm);
      if (programs.empty())
        continue;
      auto contract = getModelContract(algorithm);
      if (failed(contract))
        return signalPassFailure();
      for (ProgramOp program : programs) {
        Conflicts conflicts(program, *contract, mayRunInPlace(algorithm));
        prune(program, conflicts);
      }
    }
  }

  void prune(ProgramOp program, Conflicts &conflicts) {
    // Innermost loops first: what leaves one may leave the next.
    SmallVector<affine::AffineForOp> loops;
    program.getBody().walk([&](affine::AffineForOp loop) { loops.push_back(loop); });
    for (auto loop : loops)
      distribute(loop, conflicts);
    program.getBody().walk([&](Block *block) {
      if (isa<BlockOp, ProxyOp, affine::AffineForOp>(block->getParentOp()))
        slide(*block, conflicts);
    });
  }

  /// A signal or wait that guards a place, or a loop of nothing else.
  static bool isSyncOnly(Operation &op, bool signal) {
    if (auto guarded = getGuardedPlace(&op))
      return !guarded->arrives && isa<SignalOp>(op) == signal;
    auto loop = dyn_cast<affine::AffineForOp>(op);
    if (!loop)
      return false;
    bool some = false;
    for (Operation &inner : loop.getBody()->without_terminator()) {
      if (isa<ChannelOp>(inner))
        continue;
      if (!isSyncOnly(inner, signal))
        return false;
      some = true;
    }
    return some;
  }

  /// Splits leading signals and trailing waits off a loop.
  void distribute(affine::AffineForOp loop, Conflicts &conflicts) {
    SmallVector<Operation *> body, leading, trailing;
    for (Operation &op : loop.getBody()->without_terminator())
      if (!isa<ChannelOp, PeerOp>(op))
        body.push_back(&op);
    for (Operation *op : body) {
      if (!isSyncOnly(*op, true))
        break;
      leading.push_back(op);
    }
    for (Operation *op : llvm::reverse(body)) {
      if (!isSyncOnly(*op, false))
        break;
      trailing.push_back(op);
    }
    if (body.size() == leading.size() || body.size() == trailing.size())
      return; // nothing else in the loop
    // An offer overtakes the writes of the iterations before it, a wait is overtaken by
    // those of the iterations after it.
    if (llvm::none_of(
            leading, [&](Operation *op) { return conflicts.anyIn(loop, op, loop, When::Earlier); }))
      split(loop, leading, /*before=*/true);
    if (llvm::none_of(trailing,
                      [&](Operation *op) { return conflicts.anyIn(loop, op, loop, When::Later); }))
      split(loop, trailing, /*before=*/false);
  }

  /// Moves these ops of a loop into a loop of their own.
  void split(affine::AffineForOp loop, ArrayRef<Operation *> ops, bool before) {
    if (ops.empty())
      return;
    OpBuilder b(loop);
    if (!before)
      b.setInsertionPointAfter(loop);
    IRMapping values;
    auto copy = cast<affine::AffineForOp>(b.clone(*loop, values));
    llvm::SmallPtrSet<Operation *, 8> kept;
    for (Operation *op : ops) {
      kept.insert(values.lookup(op));
      ++moved;
    }
    // The copy keeps only these ops and the channels they name.
    SmallVector<Operation *> copied;
    for (Operation &op : copy.getBody()->without_terminator())
      copied.push_back(&op);
    for (Operation *op : llvm::reverse(copied))
      if (!kept.contains(op) && !(isa<ChannelOp, PeerOp>(op) && !op->use_empty()))
        op->erase();
    for (Operation *op : ops)
      op->erase();
  }

  /// How many ops one of them may pass; keeps long straight-line programs linear.
  static constexpr unsigned window = 256;

  /// Offers rise and waits for readers sink inside one block.
  void slide(Block &block, Conflicts &conflicts) {
    SmallVector<Operation *> waits, signals;
    for (Operation &op : block) {
      if (isSyncOnly(op, false))
        waits.push_back(&op);
      else if (isSyncOnly(op, true))
        signals.push_back(&op);
    }
    for (Operation *op : llvm::reverse(waits)) {
      Operation *last = op;
      unsigned steps = 0;
      for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
        if (++steps > window || next->hasTrait<OpTrait::IsTerminator>() ||
            conflicts.anyIn(next, op) || sharesTag(op, next))
          break;
        last = next;
      }
      if (last != op) {
        op->moveAfter(last);
        ++moved;
      }
    }
    for (Operation *op : signals) {
      Operation *first = op;
      unsigned steps = 0;
      for (Operation *previous = op->getPrevNode(); previous; previous = previous->getPrevNode()) {
        if (++steps > window || conflicts.anyIn(previous, op) || sharesTag(op, previous) ||
            defines(previous, op))
          break;
        first = previous;
      }
      if (first != op) {
        op->moveBefore(first);
        ++moved;
      }
    }
  }

  /// Whether `previous` defines a value that `op` uses.
  static bool defines(Operation *previous, Operation *op) {
    bool found = false;
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        found |= v.getDefiningOp() == previous;
    });
    return found;
  }

  /// Whether both work on channels of one tag and direction: their order is the peer's.
  static bool sharesTag(Operation *a, Operation *b) {
    auto tagsOf = [](Operation *op) {
      SmallVector<std::pair<bool, int64_t>> tags;
      op->walk([&](Operation *inner) {
        Value channel = isa<SignalOp>(inner) ? cast<SignalOp>(inner).getChannel()
                        : isa<WaitOp>(inner) ? cast<WaitOp>(inner).getChannel()
                                             : Value();
        if (channel)
          tags.emplace_back(isa<SignalOp>(inner), channel.getDefiningOp<ChannelOp>().getTag());
      });
      return tags;
    };
    auto x = tagsOf(a), y = tagsOf(b);
    return llvm::any_of(x, [&](auto &tag) { return llvm::is_contained(y, tag); });
  }
};

} // namespace
} // namespace ccl
