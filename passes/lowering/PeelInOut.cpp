//===- PeelInOut.cpp - An inout buffer becomes in and out ---------------------===//
//
// A read of a place that this rank has not written yet in this launch is a read of the
// input. If every instance of an operand is such a first read, the operand moves to
// `in`; if none is, it stays. Where instances are mixed, or peers read the buffer, the
// input is copied first and everything happens in `out`.
//
// Of a buffer that is larger than the output (reduce_scatter, scatter) the rank's own part is
// `out`, if no operand is now in it and now elsewhere; else all of it is scratch, and that part is
// copied at the end.
//===----------------------------------------------------------------------===//

#include "dialect/Indexing.h"
#include "passes/Passes.h"
#include "passes/lowering/Trace.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLPEELINOUT
#include "passes/Passes.h.inc"

namespace {

class Peeler {
public:
  /// `shared`: some rank reads the buffer of another.
  Peeler(ProgramOp program, BufferOp inout, bool shared, const model::Contract &contract)
      : program(program), inout(inout), shared(shared), contract(contract),
        context(program.getContext()), shape(*inout.getChunkShape()) {
    for (auto b : program.getBody().getOps<BufferOp>()) {
      if (b == inout)
        break;
      ++number;
    }
  }

  void run() {
    bool firstReadsKnown = classify();
    const bool apart = scatters() && firstReadsKnown && ownPartIsApart();
    if (!apart)
      own.clear();
    createBuffers();
    if (!firstReadsKnown || copies == Copies::Some) {
      firstReads.clear();
      copies = Copies::All;
    }
    rewriteTransfers(apart && !readsLater());
    OpBuilder prologue = OpBuilder::atBlockBegin(agentBlock());
    if (copies == Copies::All)
      copyInput(prologue);
    if (main != out && !apart) {
      OpBuilder epilogue = OpBuilder::atBlockEnd(agentBlock());
      copyOutput(epilogue);
    }
    program.getBody().walk([&](PeerOp peer) {
      if (peer.getBuffer() == inout.getResult())
        peer.getBufferMutable().assign(main);
    });
    inout.erase();
  }

  /// What holds parts that are no output, or nothing.
  BufferOp getWork() { return main != out ? main.getDefiningOp<BufferOp>() : BufferOp(); }

private:
  enum class Copies { None, All, Some };
  using OperandKey = std::pair<Operation *, unsigned>;

  Block *agentBlock() {
    for (Operation &op : program.getBlock())
      if (isa<BlockOp, ProxyOp>(op))
        return &op.getRegion(0).front();
    return nullptr;
  }

  /// Peers do not know of two buffers, and what is copied first is copied to one.
  bool ownPartIsApart() {
    if (copies != Copies::None || mixed)
      return false;
    const WalkResult other = program.getBody().walk([&](Operation *op) {
      const bool stays = isa<BufferOp, TransferOp>(op);
      return !stays && llvm::is_contained(op->getOperands(), inout.getResult())
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return !other.wasInterrupted();
  }

  /// Notes whether operand `i` (of sources, then destinations) is in the rank's own part, where
  /// that is the output.
  void noteOwn(Operation *op, unsigned i, int64_t rank, const model::Operand &o, int64_t count) {
    if (!scatters())
      return;
    const int64_t first = contract.outPosition(rank, 0), end = first + contract.outChunks();
    const bool inside = o.chunk >= first && o.chunk + count <= end;
    const bool outside = o.chunk + count <= first || o.chunk >= end;
    auto [it, isNew] = own.try_emplace({op, i}, inside);
    mixed |= (!inside && !outside) || it->second != inside;
  }

  /// Finds the operands whose every instance is a first read, and the input chunks that
  /// the rank never overwrites. False if some operand is mixed.
  bool classify() {
    auto ranks = representativeRanks(program);
    if (shared || !ranks)
      return false;
    DenseMap<OperandKey, std::pair<bool, bool>> seen; // (first, later)
    bool anyWritten = false, anyKept = false;
    for (int64_t rank : *ranks) {
      llvm::DenseSet<int64_t> written;
      auto visit = [&](Operation *op, const model::Instruction &in) {
        const bool moves = in.kind == model::Instruction::Kind::Transfer;
        for (auto [i, o] : llvm::enumerate(moves ? in.from : std::vector<model::Operand>()))
          if (o.kind == model::Operand::Kind::Local && o.buffer == number) {
            noteOwn(op, unsigned(i), rank, o, in.count);
            for (int64_t j = 0; j < in.count; ++j) {
              auto &[first, later] = seen[{op, unsigned(i)}];
              const bool isFirst = !written.contains(o.chunk + j) && isInput(rank, o.chunk + j);
              (isFirst ? first : later) = true;
            }
          }
        for (auto [i, o] : llvm::enumerate(in.to))
          if (o.kind == model::Operand::Kind::Local && o.buffer == number) {
            if (moves)
              noteOwn(op, unsigned(in.from.size() + i), rank, o, in.count);
            for (int64_t j = 0; j < in.count; ++j)
              written.insert(o.chunk + j);
          }
        return true;
      };
      if (failed(forEachInstruction(program, rank, visit)))
        return false;
      for (int64_t c = 0; c < contract.inChunks(); ++c) {
        if (!contract.defines(rank, c) || (scatters() && !isOutput(rank, c)))
          continue;
        (written.contains(contract.inPosition(rank, c)) ? anyWritten : anyKept) = true;
      }
    }
    for (auto &[key, kinds] : seen) {
      if (kinds.first && kinds.second)
        return false;
      if (kinds.first)
        firstReads.insert(key);
    }
    copies = !anyKept ? Copies::None : anyWritten ? Copies::Some : Copies::All;
    return true;
  }

  /// Whether the chunk lies where `in` has one. Else who reads it first reads nothing, and the
  /// proof says so: `out` has such a place.
  bool isInput(int64_t rank, int64_t chunk) const {
    const int64_t first = contract.inPosition(rank, 0);
    return !gathers() || (chunk >= first && chunk < first + contract.inChunks());
  }

  /// Whether what lies at an input's place is the output, in place.
  bool isOutput(int64_t rank, int64_t chunk) const {
    const int64_t first = contract.outPosition(rank, 0), at = contract.inPosition(rank, chunk);
    return at >= first && at < first + contract.outChunks();
  }
  bool gathers() const {
    return contract.collective == model::Collective::AllGather ||
           contract.collective == model::Collective::Gather;
  }
  bool scatters() const {
    return contract.collective == model::Collective::ReduceScatter ||
           contract.collective == model::Collective::Scatter;
  }

  Value create(BufferRole role, ArrayRef<int64_t> extents, StringRef suffix) {
    OpBuilder b(inout);
    SmallVector<AffineExpr> exprs;
    for (int64_t e : extents)
      exprs.push_back(getAffineConstantExpr(e, context));
    std::string name = (inout.getName().value_or("x") + suffix).str();
    return b.create<BufferOp>(inout.getLoc(), BufferType::get(context), role, AffineMapAttr(),
                              AffineMap::get(0, 0, exprs, context), ValueRange(), ValueRange(),
                              b.getStringAttr(name));
  }

  void createBuffers() {
    int64_t inChunks = contract.inChunks(), outChunks = contract.outChunks();
    in = create(BufferRole::In, gathers() ? ArrayRef<int64_t>(inChunks) : shape, "_in");
    out = create(BufferRole::Out, scatters() ? ArrayRef<int64_t>(outChunks) : shape, "_out");
    main = scatters() ? create(BufferRole::Scratch, shape, "_work") : out;
  }

  AffineExpr ownRank(IndexSpace &space) {
    return program.getMe() ? getAffineDimExpr(space.dim(program.getMe()), context)
                           : getAffineConstantExpr(program.getRanks()[0], context);
  }
  /// me * C over the values of `space`.
  AffineExpr ownShard(IndexSpace &space) { return ownRank(space) * contract.chunks; }

  void countFromOwnShard(PlaceRef &p) {
    IndexSpace space;
    AffineExpr linear = linearize(space.rebase(p.map, p.operands), shape);
    AffineExpr index = normalizeIndex(linear - ownShard(space));
    SmallVector<Value> operands;
    p.map = makeMap(index, space.values(), operands, context);
    p.operands = operands;
  }

  /// To `main`, or to the output if it is apart and the operand is in it.
  void move(PlaceRef &p, Operation *op, unsigned operand) {
    p.base = main;
    if (!own.lookup({op, operand}))
      return;
    p.base = out;
    countFromOwnShard(p);
  }

  /// Whether what was written outside of the rank's own part is read again.
  bool readsLater() {
    const WalkResult found = program.getBody().walk([&](TransferOp op) {
      for (auto [i, p] : llvm::enumerate(getFromPlaces(op)))
        if (p.base == inout.getResult() && !firstReads.contains({op, unsigned(i)}) &&
            !own.lookup({op, unsigned(i)}))
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    return found.wasInterrupted();
  }

  /// `dropWork`: nobody reads `main` but as the output; what is only noted there goes.
  void rewriteTransfers(bool dropWork) {
    SmallVector<TransferOp> transfers;
    program.getBody().walk([&](TransferOp op) { transfers.push_back(op); });
    for (TransferOp op : transfers) {
      SmallVector<PlaceRef> from = getFromPlaces(op), to = getToPlaces(op);
      bool changed = false;
      for (auto [i, p] : llvm::enumerate(from)) {
        if (p.base != inout.getResult())
          continue;
        changed = true;
        if (!firstReads.contains({op, unsigned(i)})) {
          move(p, op, unsigned(i));
          continue;
        }
        p.base = in;
        if (gathers())
          countFromOwnShard(p);
      }
      for (auto [i, p] : llvm::enumerate(to))
        if (p.base == inout.getResult()) {
          move(p, op, unsigned(from.size() + i));
          changed = true;
        }
      if (!changed)
        continue;
      if (dropWork && llvm::any_of(to, [&](const PlaceRef &p) { return p.base != main; }))
        llvm::erase_if(to, [&](const PlaceRef &p) { return p.base == main; });
      OpBuilder b(op);
      auto created = createTransfer(b, op.getLoc(), op.getReduce(), from, to, op.getCount());
      created->setDiscardableAttrs(op->getDiscardableAttrDictionary());
      op.erase();
    }
    auto guard = [&](auto counter) {
      if (counter.getBuffer() == inout.getResult())
        counter.getBufferMutable().assign(main);
    };
    program.getBody().walk([&](SignalOp op) { guard(op); });
    program.getBody().walk([&](WaitOp op) { guard(op); });
  }

  /// The place at a linear chunk, `iv` or 0, counted from the rank's own shard or from the first.
  PlaceRef placeAt(Value base, ArrayRef<int64_t> extents, Value iv, bool fromOwn) {
    IndexSpace space;
    const AffineExpr inShard =
        iv ? getAffineDimExpr(space.dim(iv), context) : getAffineConstantExpr(0, context);
    const AffineExpr linear = fromOwn ? inShard + ownShard(space) : inShard;
    const int64_t perShard = contract.chunks;
    SmallVector<AffineExpr> exprs;
    int64_t stride = product(extents);
    for (auto [axis, extent] : llvm::enumerate(extents)) {
      stride /= extent;
      AffineExpr e = linear.floorDiv(stride);
      // Most axes count shards, or chunks of one: these have simpler indices.
      if (fromOwn && stride % perShard == 0)
        e = ownRank(space).floorDiv(stride / perShard);
      else if (fromOwn && perShard % (stride * extent) == 0)
        e = inShard.floorDiv(stride);
      exprs.push_back(normalizeIndex(axis == 0 ? e : e % extent));
    }
    PlaceRef p{base, {}, {}};
    p.map = makeMap(exprs, space.values(), p.operands, context);
    return p;
  }

  void copyInput(OpBuilder &b) {
    if (!llvm::any_of(program.getRankList(), [&](int64_t r) { return contract.defines(r, 0); }))
      return; // only the root has an input
    SmallVector<int64_t> inShape = *in.getDefiningOp<BufferOp>().getChunkShape();
    forEachChunk(b, contract.inChunks(), [&](OpBuilder &inner, Value iv) {
      createTransfer(inner, inout.getLoc(), false, placeAt(in, inShape, iv, false),
                     placeAt(main, shape, iv, gathers()), 1);
    });
  }

  /// A loop over chunks, or none for a single one.
  void forEachChunk(OpBuilder &b, int64_t chunks, function_ref<void(OpBuilder &, Value)> body) {
    if (chunks == 1)
      return body(b, Value());
    auto loop = b.create<affine::AffineForOp>(inout.getLoc(), 0, chunks);
    OpBuilder inner = OpBuilder::atBlockTerminator(loop.getBody());
    body(inner, loop.getInductionVar());
  }

  /// By the agent that writes last: another one would wait for it, and could not begin the next
  /// micro-batch.
  void copyOutput(OpBuilder &b) {
    Attribute last;
    program.getBody().walk([&](TransferOp op) {
      if (llvm::any_of(getToPlaces(op), [&](const PlaceRef &p) { return p.base == main; }))
        last = op->getDiscardableAttr(agentAttr);
    });
    SmallVector<int64_t> outShape = *out.getDefiningOp<BufferOp>().getChunkShape();
    forEachChunk(b, contract.outChunks(), [&](OpBuilder &inner, Value iv) {
      createTransfer(inner, inout.getLoc(), false, placeAt(main, shape, iv, true),
                     placeAt(out, outShape, iv, false), 1);
    });
    if (last)
      b.getBlock()->back().setAttr(agentAttr, last);
  }

  ProgramOp program;
  BufferOp inout;
  bool shared;
  const model::Contract &contract;
  MLIRContext *context;
  SmallVector<int64_t> shape;
  int32_t number = 0;
  Value in, out, main;
  Copies copies = Copies::All;
  llvm::DenseSet<OperandKey> firstReads;
  DenseMap<OperandKey, bool> own; ///< whether the operand is in the rank's own part
  bool mixed = false;             ///< some operand is now there and now not
};

struct PeelInOut : impl::CclPeelInOutBase<PeelInOut> {
  void runOnOperation() override {
    for (auto algorithm : getOperation().getOps<AlgorithmOp>())
      if (failed(peel(algorithm)))
        return signalPassFailure();
  }

  LogicalResult peel(AlgorithmOp algorithm) {
    SmallVector<ProgramOp> programs = programsToLower(algorithm);
    // Asked before the first program changes.
    DenseMap<Operation *, bool> shared;
    for (ProgramOp program : programs) {
      llvm::SmallBitVector read = buffersReadByPeers(program);
      for (auto [i, buffer] : llvm::enumerate(program.getBody().getOps<BufferOp>()))
        shared[buffer] = read.test(i);
    }
    SmallVector<BufferOp> works;
    for (ProgramOp program : programs) {
      BufferOp inout;
      for (auto buffer : program.getBody().getOps<BufferOp>())
        if (buffer.getRole() == BufferRole::InOut)
          inout = buffer;
      if (!inout)
        continue;
      auto contract = getModelContract(algorithm);
      if (failed(contract))
        return failure();
      int agents = 0;
      for (Operation &op : program.getBlock())
        agents += isa<BlockOp, ProxyOp>(op);
      if (agents != 1)
        return program.emitOpError("has an inout buffer and not exactly one agent: write it with "
                                   "in and out buffers");
      Peeler peeler(program, inout, shared.lookup(inout), *contract);
      peeler.run();
      if (BufferOp work = peeler.getWork())
        works.push_back(work);
    }
    // Buffers are the same on all ranks.
    if (llvm::all_of(works, [](BufferOp work) { return work.use_empty(); }))
      for (BufferOp work : works)
        work.erase();
    return success();
  }
};

} // namespace
} // namespace ccl
