//===- PruneSync.cpp - Waits and signals where they are needed ----------------===//
//
// The projection guards every direct read on the spot: offer, wait, read, done, wait for
// the readers. Only the order on each channel matters to the peer, so this rank may
// offer earlier (as long as it does not write in between) and may wait for its readers
// later (as long as it does not write before).
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/lowering/Trace.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLPRUNESYNC
#include "passes/Passes.h.inc"

namespace {

struct PruneSync : impl::CclPruneSyncBase<PruneSync> {
  using CclPruneSyncBase::CclPruneSyncBase;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      prune(program);
  }

  void prune(ProgramOp program) {
    buffers.assign(program.getBody().getOps<BufferOp>().begin(),
                   program.getBody().getOps<BufferOp>().end());
    auto algorithm =
        SymbolTable::lookupNearestSymbolFrom<AlgorithmOp>(program, program.getAlgorithmAttr());
    auto inPlace = algorithm ? algorithm->getAttrOfType<BoolAttr>("ccl.in_place") : BoolAttr();
    mayAlias = !inPlace || inPlace.getValue();

    // Innermost loops first: what leaves one may leave the next.
    SmallVector<affine::AffineForOp> loops;
    program.getBody().walk([&](affine::AffineForOp loop) { loops.push_back(loop); });
    for (auto loop : loops)
      distribute(loop);
    program.getBody().walk([&](Block *block) {
      if (isa<BlockOp, ProxyOp, affine::AffineForOp>(block->getParentOp()))
        slide(*block);
    });
  }

  /// The buffer a signal offers or a wait guards, and everything that may be the same
  /// memory.
  llvm::SmallBitVector memory(Operation *op) {
    llvm::SmallBitVector set(buffers.size());
    auto attr = op->getAttrOfType<IntegerAttr>(guardedBuffer);
    if (!attr)
      return set;
    BufferOp buffer = buffers[attr.getInt()];
    set.set(attr.getInt());
    if (mayAlias && buffer.getRole() != BufferRole::Scratch)
      for (auto [i, b] : llvm::enumerate(buffers))
        if (b.getRole() != BufferRole::Scratch)
          set.set(i);
    return set;
  }

  bool writes(Operation *op, const llvm::SmallBitVector &set) {
    bool found = false;
    op->walk([&](TransferOp transfer) {
      for (const PlaceRef &p : getToPlaces(transfer))
        if (!p.isChannel())
          found |= set.test(llvm::find(buffers, p.getBuffer()) - buffers.begin());
    });
    return found;
  }

  static bool isMovable(Operation *op) {
    return isa<SignalOp, WaitOp>(op) && op->hasAttr(guardedBuffer);
  }
  static Value channelOf(Operation *op) {
    auto signal = dyn_cast<SignalOp>(op);
    return signal ? signal.getChannel() : cast<WaitOp>(op).getChannel();
  }
  static int64_t tagOf(Operation *op) {
    return channelOf(op).getDefiningOp<ChannelOp>().getTag();
  }

  /// A signal or wait (or a loop of nothing else): which, and on which tags.
  static bool isSyncOnly(Operation &op, bool signal) {
    if (isMovable(&op))
      return isa<SignalOp>(op) == signal;
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

  llvm::SmallBitVector memoryOf(Operation &op) {
    llvm::SmallBitVector set(buffers.size());
    op.walk([&](Operation *inner) {
      if (isMovable(inner))
        set |= memory(inner);
    });
    return set;
  }

  /// Splits leading signals and trailing waits off a loop.
  void distribute(affine::AffineForOp loop) {
    SmallVector<Operation *> leading, trailing;
    for (Operation &op : loop.getBody()->without_terminator()) {
      if (isa<ChannelOp, PeerOp>(op))
        continue;
      if (!isSyncOnly(op, true))
        break;
      leading.push_back(&op);
    }
    for (Operation &op : llvm::reverse(loop.getBody()->without_terminator())) {
      if (isa<ChannelOp, PeerOp>(op))
        continue;
      if (!isSyncOnly(op, false))
        break;
      trailing.push_back(&op);
    }
    unsigned total = 0;
    for (Operation &op : loop.getBody()->without_terminator())
      total += !isa<ChannelOp, PeerOp>(op);
    if (total == leading.size() || total == trailing.size())
      return; // nothing else in the loop
    auto split = [&](ArrayRef<Operation *> ops, bool before) {
      for (Operation *op : ops)
        if (writes(loop, memoryOf(*op)))
          return;
      if (ops.empty())
        return;
      OpBuilder b(loop);
      if (!before)
        b.setInsertionPointAfter(loop);
      IRMapping values;
      auto copy = cast<affine::AffineForOp>(b.clone(*loop, values));
      llvm::SmallPtrSet<Operation *, 8> kept;
      for (Operation *op : ops) {
        // The clone keeps only these ops and the channels they name.
        kept.insert(values.lookup(op));
        ++moved;
      }
      SmallVector<Operation *> copied;
      for (Operation &op : copy.getBody()->without_terminator())
        copied.push_back(&op);
      for (Operation *op : llvm::reverse(copied))
        if (!kept.contains(op) && !(isa<ChannelOp, PeerOp>(op) && !op->use_empty()))
          op->erase();
      for (Operation *op : ops)
        op->erase();
    };
    split(leading, true);
    split(trailing, false);
  }

  /// Offers rise and waits for readers sink inside one block.
  void slide(Block &block) {
    SmallVector<Operation *> waits, signals;
    for (Operation &op : block) {
      if (isSyncOnly(op, false))
        waits.push_back(&op);
      else if (isSyncOnly(op, true))
        signals.push_back(&op);
    }
    for (Operation *op : llvm::reverse(waits)) {
      llvm::SmallBitVector set = memoryOf(*op);
      Operation *last = op;
      for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
        if (next->hasTrait<OpTrait::IsTerminator>() || writes(next, set) ||
            sharesTag(op, next))
          break;
        last = next;
      }
      if (last != op) {
        op->moveAfter(last);
        ++moved;
      }
    }
    for (Operation *op : signals) {
      llvm::SmallBitVector set = memoryOf(*op);
      Operation *first = op;
      for (Operation *previous = op->getPrevNode(); previous;
           previous = previous->getPrevNode()) {
        if (writes(previous, set) || sharesTag(op, previous) || defines(previous, op))
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
    SmallVector<std::pair<bool, int64_t>> tags;
    a->walk([&](Operation *op) {
      if (isa<SignalOp, WaitOp>(op))
        tags.emplace_back(isa<SignalOp>(op), tagOf(op));
    });
    bool found = false;
    b->walk([&](Operation *op) {
      if (isa<SignalOp, WaitOp>(op))
        found |= llvm::is_contained(tags, std::make_pair(isa<SignalOp>(op), tagOf(op)));
    });
    return found;
  }

  SmallVector<BufferOp> buffers;
  bool mayAlias = true;
};

} // namespace
} // namespace ccl
