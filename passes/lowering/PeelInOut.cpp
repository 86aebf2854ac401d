//===- PeelInOut.cpp - An inout buffer becomes in and out ---------------------===//
//
// A read of a place that this rank has not written yet in this launch is a read of the
// input. If every instance of an operand is such a first read, the operand moves to
// `in`; if none is, it stays. Where instances are mixed, or peers read the buffer, the
// input is copied first and everything happens in `out`.
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
    createBuffers();
    if (!firstReadsKnown || copies == Copies::Some) {
      firstReads.clear();
      copies = Copies::All;
    }
    rewriteTransfers();
    OpBuilder prologue = OpBuilder::atBlockBegin(agentBlock());
    if (copies == Copies::All)
      copyInput(prologue);
    if (main != out) {
      OpBuilder epilogue = OpBuilder::atBlockEnd(agentBlock());
      copyOutput(epilogue);
    }
    program.getBody().walk([&](PeerOp peer) {
      if (peer.getBuffer() == inout.getResult())
        peer.getBufferMutable().assign(main);
    });
    inout.erase();
  }

private:
  enum class Copies { None, All, Some };
  using ReadKey = std::pair<Operation *, unsigned>;

  Block *agentBlock() {
    for (Operation &op : program.getBlock())
      if (isa<BlockOp, ProxyOp>(op))
        return &op.getRegion(0).front();
    return nullptr;
  }

  /// Finds the operands whose every instance is a first read, and the input chunks that
  /// the rank never overwrites. False if some operand is mixed.
  bool classify() {
    auto ranks = representativeRanks(program);
    if (shared || !ranks)
      return false;
    DenseMap<ReadKey, std::pair<bool, bool>> seen; // (first, later)
    bool anyWritten = false, anyKept = false;
    for (int64_t rank : *ranks) {
      llvm::DenseSet<int64_t> written;
      auto visit = [&](Operation *op, const model::Instruction &in) {
        const bool moves = in.kind == model::Instruction::Kind::Transfer;
        for (auto [i, o] : llvm::enumerate(moves ? in.from : std::vector<model::Operand>()))
          if (o.kind == model::Operand::Kind::Local && o.buffer == number)
            for (int64_t j = 0; j < in.count; ++j) {
              auto &[first, later] = seen[{op, unsigned(i)}];
              (written.contains(o.chunk + j) ? later : first) = true;
            }
        for (const model::Operand &o : in.to)
          if (o.kind == model::Operand::Kind::Local && o.buffer == number)
            for (int64_t j = 0; j < in.count; ++j)
              written.insert(o.chunk + j);
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

  /// me * C over the values of `space`.
  AffineExpr ownShard(IndexSpace &space) {
    AffineExpr rank = program.getMe() ? getAffineDimExpr(space.dim(program.getMe()), context)
                                      : getAffineConstantExpr(program.getRanks()[0], context);
    return rank * contract.chunks;
  }

  void rewriteTransfers() {
    SmallVector<TransferOp> transfers;
    program.getBody().walk([&](TransferOp op) { transfers.push_back(op); });
    for (TransferOp op : transfers) {
      SmallVector<PlaceRef> from = getFromPlaces(op), to = getToPlaces(op);
      bool changed = false;
      for (auto [i, p] : llvm::enumerate(from)) {
        if (p.base != inout.getResult())
          continue;
        changed = true;
        p.base = main;
        if (!firstReads.contains({op, unsigned(i)}))
          continue;
        p.base = in;
        if (gathers()) {
          IndexSpace space;
          AffineExpr linear = linearize(space.rebase(p.map, p.operands), shape);
          AffineExpr index = normalizeIndex(linear - ownShard(space));
          SmallVector<Value> operands;
          p.map = makeMap(index, space.values(), operands, context);
          p.operands = operands;
        }
      }
      for (PlaceRef &p : to)
        if (p.base == inout.getResult()) {
          p.base = main;
          changed = true;
        }
      if (!changed)
        continue;
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

  /// The place at a linear chunk, `iv` or 0, counted from the rank's own shard if `own`.
  PlaceRef placeAt(Value base, ArrayRef<int64_t> extents, Value iv, bool own) {
    IndexSpace space;
    AffineExpr linear =
        iv ? getAffineDimExpr(space.dim(iv), context) : getAffineConstantExpr(0, context);
    if (own)
      linear = linear + ownShard(space);
    SmallVector<AffineExpr> exprs;
    int64_t stride = product(extents);
    for (auto [axis, extent] : llvm::enumerate(extents)) {
      stride /= extent;
      AffineExpr e = linear.floorDiv(stride);
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

  void copyOutput(OpBuilder &b) {
    SmallVector<int64_t> outShape = *out.getDefiningOp<BufferOp>().getChunkShape();
    forEachChunk(b, contract.outChunks(), [&](OpBuilder &inner, Value iv) {
      createTransfer(inner, inout.getLoc(), false, placeAt(main, shape, iv, true),
                     placeAt(out, outShape, iv, false), 1);
    });
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
  llvm::DenseSet<ReadKey> firstReads;
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
      Peeler(program, inout, shared.lookup(inout), *contract).run();
    }
    return success();
  }
};

} // namespace
} // namespace ccl
