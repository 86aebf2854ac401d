//===- FuseTransfers.cpp - One transfer where a chunk only passes through -----===//
//
// Sequential order inside a block is kept throughout: rotating a loop does not change
// the order of its dynamic instances, and two transfers are merged only if nothing
// between them touches what they touch.
//===----------------------------------------------------------------------===//

#include "dialect/Indexing.h"
#include "passes/Passes.h"
#include "passes/lowering/SinkArrivals.h"
#include "passes/lowering/SplitAgents.h"
#include "passes/lowering/Stuck.h"

#include "mlir/Dialect/Affine/Analysis/LoopAnalysis.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLFUSETRANSFERS
#include "passes/Passes.h.inc"

namespace {

using Places = SmallVector<PlaceRef>;

bool isDefinition(Operation *op) { return isa<ChannelOp, PeerOp>(op); }

/// Whether one agent is to execute both.
bool haveOneAgent(Operation *a, Operation *b) {
  return a->getDiscardableAttr(agentAttr) == b->getDiscardableAttr(agentAttr);
}

/// `merged` is for the agent of `op`.
TransferOp forAgentOf(Operation *op, TransferOp merged) {
  if (Attribute agent = op->getDiscardableAttr(agentAttr))
    merged->setAttr(agentAttr, agent);
  return merged;
}

/// From a local place to channels only.
bool isSend(TransferOp op) {
  return op && op.getFrom().size() == 1 && op.getFrom()[0].getDefiningOp<BufferOp>() &&
         llvm::all_of(op.getTo().getTypes(), llvm::IsaPred<ChannelType>);
}

/// From a local place to peers' only.
bool isPut(TransferOp op) {
  return op && op.getFrom().size() == 1 && op.getFrom()[0].getDefiningOp<BufferOp>() &&
         llvm::all_of(getToPlaces(op),
                      [](const PlaceRef &p) { return !p.isChannel() && p.getPeer(); });
}

/// The same place for every rank and iteration; `space` numbers the values of both.
Overlap overlap(IndexSpace &space, const PlaceRef &a, const PlaceRef &b, int64_t countA,
                int64_t countB, const DenseMap<Value, AffineExpr> *replaceInB = nullptr) {
  if (a.isChannel() || b.isChannel())
    return a.base == b.base ? Overlap::Same : Overlap::Distinct;
  if (a.getBuffer() != b.getBuffer())
    return Overlap::Distinct; // in and out may alias in place; see the caller
  if (bool(a.getPeer()) != bool(b.getPeer()))
    return Overlap::Distinct; // a peer is another rank
  if (a.base != b.base)
    return Overlap::Unknown;
  const bool oneSpace =
      !replaceInB && a.operands == b.operands && a.map.getNumDims() == b.map.getNumDims();
  Overlap o = oneSpace ? compare(a.getBuffer(), a.map.getResults(), b.map.getResults())
                       : compare(a.getBuffer(), space.rebase(a.map, a.operands),
                                 space.rebase(b.map, b.operands, replaceInB));
  if (countA == 1 && countB == 1)
    return o;
  return o == Overlap::Same && countA == countB ? o : Overlap::Unknown;
}

/// `op` with loop variable `iv` replaced by `value` (over `space`).
Operation *cloneAt(Operation *op, OpBuilder &b, Value iv, AffineExpr value, IndexSpace &space,
                   IRMapping &values) {
  MLIRContext *context = op->getContext();
  DenseMap<Value, AffineExpr> replacement{{iv, value}};
  auto move = [&](AffineMap map, ValueRange operands, SmallVectorImpl<Value> &out) {
    SmallVector<AffineExpr> exprs = space.rebase(map, operands, &replacement);
    return makeMap(exprs, space.values(), out, context);
  };
  SmallVector<Value> operands;
  if (auto channel = dyn_cast<ChannelOp>(op)) {
    AffineMap map = move(channel.getPeer(), channel.getPeerOperands(), operands);
    auto created =
        b.create<ChannelOp>(op->getLoc(), channel.getType(), channel.getDirection(), map, operands,
                            channel.getTag(), channel.getSlots(), channel.getProtocol());
    values.map(channel.getResult(), created.getResult());
    return created;
  }
  if (auto peer = dyn_cast<PeerOp>(op)) {
    AffineMap map = move(peer.getPeer(), peer.getPeerOperands(), operands);
    auto created = b.create<PeerOp>(op->getLoc(), peer.getType(), peer.getBuffer(), map, operands);
    values.map(peer.getResult(), created.getResult());
    return created;
  }
  auto transfer = dyn_cast<TransferOp>(op);
  if (!transfer) { // signal, wait
    Operation *created = b.clone(*op, values);
    auto guarded = getGuardedPlace(op);
    if (!guarded)
      return created;
    AffineMap map = move(guarded->place.map, guarded->place.operands, operands);
    auto update = [&](auto counter) {
      counter.setMap(map);
      counter.getIndicesMutable().assign(operands);
    };
    if (auto signal = dyn_cast<SignalOp>(created))
      update(signal);
    else
      update(cast<WaitOp>(created));
    return created;
  }
  auto side = [&](Places places) {
    for (PlaceRef &p : places) {
      p.base = values.lookupOrDefault(p.base);
      if (p.isChannel())
        continue;
      SmallVector<Value> list;
      p.map = move(p.map, p.operands, list);
      p.operands = list;
    }
    return places;
  };
  return createTransfer(b, op->getLoc(), transfer.getReduce(), side(getFromPlaces(transfer)),
                        side(getToPlaces(transfer)), transfer.getCount());
}

struct FuseTransfers : impl::CclFuseTransfersBase<FuseTransfers> {
  using CclFuseTransfersBase::CclFuseTransfersBase;

  void runOnOperation() override {
    for (auto algorithm : getOperation().getOps<AlgorithmOp>()) {
      SmallVector<ProgramOp> programs = programsToLower(algorithm);
      if (programs.empty())
        continue;
      multicasts = algorithm->hasAttr(multicastAttr);
      auto contract = getModelContract(algorithm);
      if (failed(contract))
        return signalPassFailure();
      // Of agents that get stuck, the receives may be to blame; else fusion is.
      const bool hasAgents = llvm::any_of(programs, notesAgents);
      for (bool sinks : {true, false}) {
        if (!sinks && !hasAgents)
          break;
        std::vector<OwningOpRef<ProgramOp>> before;
        for (ProgramOp program : programs) {
          before.emplace_back(cast<ProgramOp>(program->clone()));
          if (sinks && hasAgents)
            sinkArrivals(program, *contract, mayRunInPlace(algorithm));
          fuse(program);
        }
        if (!(hasAgents ? agentsGetStuck(algorithm, *contract, programs)
                        : getStuck(algorithm, *contract)))
          break;
        for (auto [program, old] : llvm::zip_equal(programs, before))
          program = replace(program, old.release());
      }
    }
  }

  static bool notesAgents(ProgramOp program) {
    return program.getBody()
        .walk([](Operation *op) {
          return op->hasAttr(agentAttr) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  static ProgramOp replace(ProgramOp program, ProgramOp other) {
    OpBuilder(program).insert(other);
    program.erase();
    return other;
  }

  /// Of programs that are to be split.
  static bool agentsGetStuck(AlgorithmOp algorithm, const model::Contract &contract,
                             MutableArrayRef<ProgramOp> programs) {
    std::vector<OwningOpRef<ProgramOp>> before;
    bool isSplit = true;
    for (ProgramOp program : programs) {
      before.emplace_back(cast<ProgramOp>(program->clone()));
      isSplit &= succeeded(splitAgents(program, contract, mayRunInPlace(algorithm)));
    }
    const bool stuck = isSplit && getStuck(algorithm, contract);
    for (auto [program, old] : llvm::zip_equal(programs, before))
      program = replace(program, old.release());
    return stuck;
  }

  void fuse(ProgramOp program) {
    isProjected = program->hasAttr(projectedProgram);
    SmallVector<affine::AffineForOp> loops;
    program.getBody().walk([&](affine::AffineForOp loop) { loops.push_back(loop); });
    for (auto loop : loops)
      if (!rotate(loop))
        unrollReduction(loop);
    program.getBody().walk([&](Block *block) { fuseBlock(*block); });
    removeDeadWrites(program);
  }

  //===--------------------------------------------------------------------===//
  // Loops
  //===--------------------------------------------------------------------===//

  /// { sends(s); rest(s) } becomes sends(first) { rest(s); sends(s + 1) } rest(last), if
  /// a send passes on what the rest has just written.
  bool rotate(affine::AffineForOp loop) {
    if (!loop.hasConstantBounds())
      return false;
    int64_t step = loop.getStepAsInt(), lower = loop.getConstantLowerBound();
    int64_t trips = llvm::divideCeil(loop.getConstantUpperBound() - lower, step);
    SmallVector<Operation *> sends, rest;
    for (Operation &op : loop.getBody()->without_terminator()) {
      if (!isDefinition(&op) && !isa<TransferOp>(op))
        return false;
      bool prefix = rest.empty() && (isDefinition(&op) || isSend(dyn_cast<TransferOp>(op)));
      (prefix ? sends : rest).push_back(&op);
    }
    if (trips < 2 || rest.empty() || !passesOn(loop, sends, rest))
      return false;
    // Definitions of the prefix may serve the rest as well.
    MLIRContext *context = &getContext();
    Value iv = loop.getInductionVar();
    int64_t last = lower + (trips - 1) * step;
    IndexSpace space;
    AffineExpr ivExpr = getAffineDimExpr(space.dim(iv), context);
    auto emit = [&](OpBuilder &b, ArrayRef<Operation *> ops, AffineExpr at, IRMapping &values) {
      for (Operation *op : ops)
        cloneAt(op, b, iv, at, space, values);
    };
    auto emitDefinitions = [&](OpBuilder &b, AffineExpr at, IRMapping &values) {
      for (Operation *op : sends)
        if (isDefinition(op))
          cloneAt(op, b, iv, at, space, values);
    };
    OpBuilder before(loop), after(loop);
    after.setInsertionPointAfter(loop);
    IRMapping first, body, shifted, final;
    emit(before, sends, getAffineConstantExpr(lower, context), first);
    SmallVector<Operation *> old;
    for (Operation &op : loop.getBody()->without_terminator())
      old.push_back(&op);
    OpBuilder inner = OpBuilder::atBlockTerminator(loop.getBody());
    if (trips == 2) { // no loop is left
      IRMapping once;
      emitDefinitions(before, getAffineConstantExpr(lower, context), once);
      emit(before, rest, getAffineConstantExpr(lower, context), once);
      emit(before, sends, getAffineConstantExpr(last, context), shifted);
    } else {
      emitDefinitions(inner, ivExpr, body);
      emit(inner, rest, ivExpr, body);
      emit(inner, sends, ivExpr + step, shifted);
    }
    emitDefinitions(after, getAffineConstantExpr(last, context), final);
    emit(after, rest, getAffineConstantExpr(last, context), final);
    if (trips == 2) {
      loop.erase();
      return true;
    }
    for (Operation *op : llvm::reverse(old))
      op->erase();
    loop.setConstantUpperBound(last);
    return true;
  }

  bool passesOn(affine::AffineForOp loop, ArrayRef<Operation *> sends, ArrayRef<Operation *> rest) {
    IndexSpace space;
    Value iv = loop.getInductionVar();
    AffineExpr next = getAffineDimExpr(space.dim(iv), &getContext()) + loop.getStepAsInt();
    DenseMap<Value, AffineExpr> replacement{{iv, next}};
    for (Operation *s : sends) {
      auto send = dyn_cast<TransferOp>(s);
      if (!send)
        continue;
      PlaceRef source = getFromPlaces(send).front();
      for (Operation *r : rest)
        if (auto write = dyn_cast<TransferOp>(r))
          for (const PlaceRef &to : getToPlaces(write))
            if (overlap(space, to, source, write.getCount(), send.getCount(), &replacement) ==
                Overlap::Same)
              return true;
    }
    return false;
  }

  /// A loop that reduces into one fixed place is unrolled so that its transfers merge
  /// into n-ary ones; so is one that puts a fixed place, if those merge.
  void unrollReduction(affine::AffineForOp loop) {
    TransferOp only;
    for (Operation &op : loop.getBody()->without_terminator()) {
      if (auto transfer = dyn_cast<TransferOp>(op)) {
        if (only)
          return;
        only = transfer;
      } else if (!isDefinition(&op) && !isa<WaitOp, SignalOp>(op)) {
        return;
      }
    }
    auto isFixed = [&](const PlaceRef &place) {
      return !place.isChannel() && !llvm::is_contained(place.operands, loop.getInductionVar());
    };
    auto reduces = [&] {
      const PlaceRef to = getToPlaces(only).front();
      return only.getReduce() && only.getTo().size() == 1 && isFixed(to) &&
             llvm::any_of(getFromPlaces(only), [&](const PlaceRef &from) {
               IndexSpace space;
               return overlap(space, from, to, 1, 1) == Overlap::Same;
             });
    };
    if (!only ||
        !(reduces() || (multicasts && isPut(only) && isFixed(getFromPlaces(only).front()))))
      return;
    if (auto trips = affine::getConstantTripCount(loop); trips && loop.hasConstantBounds())
      unroll(loop, int64_t(*trips),
             std::max<int64_t>(2, multicasts ? int64_t(*trips) : maxOperands - 1));
  }

  /// Upstream's unrolling wants to be inside a function; this also keeps indices affine
  /// in the loop variable.
  void unroll(affine::AffineForOp loop, int64_t trips, int64_t factor) {
    MLIRContext *context = &getContext();
    int64_t lower = loop.getConstantLowerBound(), step = loop.getStepAsInt();
    SmallVector<Operation *> body;
    for (Operation &op : loop.getBody()->without_terminator())
      body.push_back(&op);
    IndexSpace space;
    Value iv = loop.getInductionVar();
    auto copies = [&](OpBuilder &b, AffineExpr from, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        IRMapping values;
        for (Operation *op : body)
          cloneAt(op, b, iv, from + i * step, space, values);
      }
    };
    int64_t rounds = trips / factor, rest = trips % factor;
    OpBuilder before(loop), after(loop);
    after.setInsertionPointAfter(loop);
    copies(after, getAffineConstantExpr(lower + rounds * factor * step, context), rest);
    if (rounds == 1)
      copies(before, getAffineConstantExpr(lower, context), factor);
    if (rounds < 2) {
      loop.erase();
      return;
    }
    OpBuilder inner = OpBuilder::atBlockTerminator(loop.getBody());
    copies(inner, getAffineDimExpr(space.dim(iv), context), factor);
    for (Operation *op : llvm::reverse(body))
      op->erase();
    loop.setConstantUpperBound(lower + rounds * factor * step);
    loop.setStep(step * factor);
  }

  //===--------------------------------------------------------------------===//
  // Straight-line code
  //===--------------------------------------------------------------------===//

  void fuseBlock(Block &block) {
    Operation *op = block.empty() ? nullptr : &block.front();
    while (op) {
      auto transfer = dyn_cast<TransferOp>(op);
      TransferOp merged = transfer ? mergeSend(transfer) : TransferOp();
      if (transfer && !merged)
        merged = mergeReduction(transfer);
      if (transfer && !merged && multicasts)
        merged = mergePut(transfer);
      op = merged ? merged.getOperation() : op->getNextNode(); // it may merge again
    }
  }

  /// How many transfers further on a partner is looked for; keeps long straight-line
  /// programs linear.
  static constexpr unsigned window = 64;

  /// Whether `op` reads or writes anything that `place` may be.
  static bool touches(TransferOp op, const PlaceRef &place, int64_t count, IndexSpace &space,
                      bool reads, bool writes) {
    Places places;
    if (reads)
      places.append(getFromPlaces(op));
    if (writes)
      places.append(getToPlaces(op));
    return llvm::any_of(places, [&](const PlaceRef &p) {
      if (!p.isChannel() && !place.isChannel() && !p.getPeer() && !place.getPeer() &&
          mayAliasInPlace(p, place))
        return true;
      return overlap(space, p, place, op.getCount(), count) != Overlap::Distinct;
    });
  }

  /// In place, `in` and `out` are one memory.
  static bool mayAliasInPlace(const PlaceRef &a, const PlaceRef &b) {
    BufferRole x = a.getBuffer().getRole(), y = b.getBuffer().getRole();
    return (x == BufferRole::In && y == BufferRole::Out) ||
           (x == BufferRole::Out && y == BufferRole::In);
  }

  /// first: A -> p. A later send p -> channels joins it: A -> p, channels.
  TransferOp mergeSend(TransferOp first) {
    IndexSpace space;
    Places written = getToPlaces(first);
    unsigned seen = 0;
    for (Operation *op = first->getNextNode(); op && seen < window; op = op->getNextNode()) {
      if (isDefinition(op))
        continue;
      auto next = dyn_cast<TransferOp>(op);
      if (!haveOneAgent(first, op)) { // canJoin looks at transfers
        if (!next && changes(op, written, first.getCount(), space))
          return {};
        continue;
      }
      ++seen;
      if (!next)
        return {};
      if (isSend(next) && next.getCount() == first.getCount() && haveOneAgent(first, next)) {
        PlaceRef source = getFromPlaces(next).front();
        bool same = llvm::any_of(written, [&](const PlaceRef &p) {
          return !p.isChannel() && !p.getPeer() &&
                 overlap(space, p, source, first.getCount(), next.getCount()) == Overlap::Same;
        });
        if (same && canJoin(first, next, source, space)) {
          for (const PlaceRef &p : getToPlaces(next)) {
            hoistDefinition(p.base, first);
            written.push_back(p);
          }
          OpBuilder b(first);
          TransferOp merged =
              forAgentOf(first, createTransfer(b, first.getLoc(), first.getReduce(),
                                               getFromPlaces(first), written, first.getCount()));
          next.erase();
          first.erase();
          ++fused;
          return merged;
        }
      }
    }
    return {};
  }

  /// Whether `guarded` is, or may be in place, one of the places.
  static bool isAmong(const GuardedPlace &guarded, ArrayRef<PlaceRef> places, int64_t count,
                      IndexSpace &space) {
    return llvm::any_of(places, [&](const PlaceRef &p) {
      return !p.isChannel() && !p.getPeer() &&
             (mayAliasInPlace(p, guarded.place) ||
              overlap(space, p, guarded.place, count, guarded.count) != Overlap::Distinct);
    });
  }

  /// Whether a peer has written one of the places when `op`, a signal or wait, is over.
  static bool changes(Operation *op, ArrayRef<PlaceRef> places, int64_t count, IndexSpace &space) {
    auto guarded = getGuardedPlace(op);
    return guarded && guarded->arrives && isAmong(*guarded, places, count, space);
  }

  /// Whether `op`, of another agent, may come before `first` although it stands behind.
  static bool isApart(Operation *op, TransferOp first, IndexSpace &space) {
    const Places from = getFromPlaces(first), to = getToPlaces(first);
    const int64_t count = first.getCount();
    auto transfer = dyn_cast<TransferOp>(op);
    if (!transfer) {
      auto guarded = getGuardedPlace(op); // what peers read must not change meanwhile
      return !guarded || (!isAmong(*guarded, to, count, space) &&
                          !(guarded->arrives && isAmong(*guarded, from, count, space)));
    }
    return llvm::none_of(from,
                         [&](const PlaceRef &p) {
                           return touches(transfer, p, count, space, false, true);
                         }) &&
           llvm::none_of(to, [&](const PlaceRef &p) {
             return touches(transfer, p, count, space, true, true);
           });
  }

  /// Nothing between the two changes the place or uses the send's channels.
  bool canJoin(TransferOp first, TransferOp next, const PlaceRef &source, IndexSpace &space) {
    Places channels = getToPlaces(next);
    for (const PlaceRef &p : getToPlaces(first))
      for (const PlaceRef &c : channels)
        if (p.base == c.base)
          return false;
    for (Operation *op = first->getNextNode(); op != next; op = op->getNextNode()) {
      auto between = dyn_cast<TransferOp>(op);
      if (!between)
        continue;
      if (touches(between, source, first.getCount(), space, false, true))
        return false;
      for (const PlaceRef &c : channels)
        for (const PlaceRef &p : getToPlaces(between))
          if (p.isChannel() && sameFamily(p.base, c.base))
            return false;
    }
    return true;
  }

  /// Channel values that may be the same FIFO.
  static bool sameFamily(Value a, Value b) {
    auto x = a.getDefiningOp<ChannelOp>(), y = b.getDefiningOp<ChannelOp>();
    return x.getDirection() == y.getDirection() && x.getTag() == y.getTag() &&
           x.getSlots() == y.getSlots();
  }

  /// Whether two channel values name different FIFOs for every rank and iteration.
  static bool areDistinctChannels(Value a, Value b, IndexSpace &space) {
    if (!sameFamily(a, b))
      return true;
    auto x = a.getDefiningOp<ChannelOp>(), y = b.getDefiningOp<ChannelOp>();
    AffineExpr p = space.rebase(x.getPeer(), x.getPeerOperands()).front();
    AffineExpr q = space.rebase(y.getPeer(), y.getPeerOperands()).front();
    int64_t m = stripModulus(p), n = stripModulus(q);
    if (m != n)
      return false;
    AffineExpr difference = normalizeIndex(m ? (p - q) % m : p - q);
    auto constant = dyn_cast<AffineConstantExpr>(difference);
    return constant && constant.getValue() != 0;
  }

  static void hoistDefinition(Value base, Operation *before) {
    Operation *definition = base.getDefiningOp();
    if (isDefinition(definition) && definition->getBlock() == before->getBlock() &&
        before->isBeforeInBlock(definition))
      definition->moveBefore(before);
  }

  /// first: A -> t; next: reduce B, t -> t. Together: reduce A, B -> t. Waits between the
  /// two go first, signals last.
  TransferOp mergeReduction(TransferOp first) {
    if (first.getTo().size() != 1)
      return {};
    PlaceRef t = getToPlaces(first).front();
    if (t.isChannel() || t.getPeer())
      return {};
    SmallVector<Operation *> waits, signals;
    IndexSpace space;
    Operation *op = first->getNextNode();
    for (; op; op = op->getNextNode()) {
      if (!isDefinition(op) && !haveOneAgent(first, op)) {
        if (!isApart(op, first, space))
          return {};
        continue;
      }
      if (!isDefinition(op) && !isa<WaitOp, SignalOp>(op))
        break;
      // Offers must not wait for others' offers, nor reads for readers. What the signals
      // of a program written by hand mean, we do not know.
      if (getGuardedPlace(op) || (!isDefinition(op) && !isProjected))
        return {};
      if (!isDefinition(op))
        (isa<WaitOp>(op) ? waits : signals).push_back(op);
    }
    auto next = dyn_cast_or_null<TransferOp>(op);
    if (!next || !next.getReduce() || next.getCount() != first.getCount() ||
        !haveOneAgent(first, next))
      return {};
    int64_t count = first.getCount();
    auto isT = [&](const PlaceRef &p) {
      return !p.isChannel() && !p.getPeer() && overlap(space, p, t, count, count) == Overlap::Same;
    };
    Places from = getFromPlaces(next), to = getToPlaces(next), mine = getFromPlaces(first);
    if (llvm::count_if(from, isT) != 1 || llvm::none_of(to, isT) ||
        (!multicasts && int64_t(from.size() - 1 + mine.size()) > maxOperands))
      return {};
    Places merged = mine; // the order of a sum: what was there, then what comes in
    for (const PlaceRef &p : from) {
      if (isT(p))
        continue;
      // The other sources are read before t is written: they must not be t.
      if (touches(first, p, count, space, false, true))
        return {};
      // A transfer takes one slot of a channel.
      if (p.isChannel() && llvm::any_of(mine, [&](const PlaceRef &m) {
            return m.isChannel() && !areDistinctChannels(m.base, p.base, space);
          }))
        return {};
      merged.push_back(p);
    }
    OpBuilder b(next);
    for (Operation *signal : signals)
      signal->moveAfter(next);
    TransferOp created =
        forAgentOf(next, createTransfer(b, next.getLoc(), true, merged, to, count));
    first.erase();
    next.erase();
    ++fused;
    return created;
  }

  /// first: A -> a peer's place; next: A -> another's. Together, for a switch that copies: A ->
  /// both. What is told about the first is told after that; nothing may be waited for between.
  TransferOp mergePut(TransferOp first) {
    if (!isPut(first))
      return {};
    SmallVector<Operation *> signals;
    IndexSpace space;
    Operation *op = first->getNextNode();
    for (; op && !isa<TransferOp>(op); op = op->getNextNode()) {
      if (isDefinition(op))
        continue;
      if (!isa<SignalOp>(op) || !haveOneAgent(first, op))
        return {};
      signals.push_back(op);
    }
    auto next = dyn_cast_or_null<TransferOp>(op);
    if (!isPut(next) || !haveOneAgent(first, next) || next.getCount() != first.getCount() ||
        overlap(space, getFromPlaces(first).front(), getFromPlaces(next).front(), first.getCount(),
                next.getCount()) != Overlap::Same)
      return {};
    Places to = getToPlaces(first);
    to.append(getToPlaces(next));
    OpBuilder b(next);
    for (Operation *signal : llvm::reverse(signals))
      signal->moveAfter(next);
    TransferOp created = forAgentOf(
        next, createTransfer(b, first.getLoc(), false, getFromPlaces(first), to, first.getCount()));
    first.erase();
    next.erase();
    ++fused;
    return created;
  }

  //===--------------------------------------------------------------------===//
  // Dead writes
  //===--------------------------------------------------------------------===//

  void removeDeadWrites(ProgramOp program) {
    unsigned agents = 0;
    for (Operation &op : program.getBlock())
      agents += isa<BlockOp, ProxyOp>(op);
    if (agents != 1)
      return; // the order between agents is not the order of the text
    auto ranks = representativeRanks(program);
    if (!ranks)
      return;
    SmallVector<BufferOp> buffers(program.getBody().getOps<BufferOp>());
    // What peers read directly is live.
    llvm::SmallPtrSet<Operation *, 4> shared;
    llvm::SmallBitVector read = buffersReadByPeers(program);
    for (unsigned i : read.set_bits())
      shared.insert(buffers[i]);
    using Write = std::pair<Operation *, unsigned>;
    llvm::DenseSet<Write> live;
    for (int64_t rank : *ranks) {
      llvm::DenseMap<std::pair<int32_t, int64_t>, Write> last;
      auto visit = [&](Operation *op, const model::Instruction &in) {
        for (const model::Operand &o : in.from)
          if (o.kind == model::Operand::Kind::Local)
            for (int64_t j = 0; j < in.count; ++j)
              if (auto it = last.find({o.buffer, o.chunk + j}); it != last.end())
                live.insert(it->second);
        for (auto [i, o] : llvm::enumerate(in.to))
          if (o.kind == model::Operand::Kind::Local)
            for (int64_t j = 0; j < in.count; ++j)
              last[{o.buffer, o.chunk + j}] = {op, unsigned(i)};
        return true;
      };
      if (failed(forEachInstruction(program, rank, visit)))
        return;
      for (auto &[place, write] : last) // scratch means nothing after the last read
        if (buffers[place.first].getRole() != BufferRole::Scratch)
          live.insert(write);
    }
    SmallVector<TransferOp> transfers;
    program.getBody().walk([&](TransferOp op) { transfers.push_back(op); });
    for (TransferOp op : transfers) {
      Places to = getToPlaces(op), kept;
      for (auto [i, p] : llvm::enumerate(to))
        if (p.isChannel() || p.getPeer() || live.contains({op, unsigned(i)}) ||
            shared.contains(p.getBuffer()))
          kept.push_back(p);
      bool receives = llvm::any_of(getFromPlaces(op), [](auto &p) { return p.isChannel(); });
      if (kept.size() == to.size() || (kept.empty() && receives))
        continue;
      deadWrites += to.size() - kept.size();
      OpBuilder b(op);
      if (!kept.empty())
        forAgentOf(op, createTransfer(b, op.getLoc(), op.getReduce(), getFromPlaces(op), kept,
                                      op.getCount()));
      op.erase();
    }
  }

  bool isProjected = false; ///< the program at hand comes from ccl-project-to-ranks
  bool multicasts = false;  ///< the algorithm at hand has `multicastAttr`
};

} // namespace
} // namespace ccl
