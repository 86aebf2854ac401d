//===- Trace.cpp ------------------------------------------------------------===//

#include "passes/lowering/Trace.h"
#include "dialect/Indexing.h"

using namespace mlir;

namespace ccl {

static constexpr uint64_t traceLimit = 1 << 21; // instructions, a fraction of a second

/// The part of an index that depends on the rank, if it is `(part + rest) mod extent`
/// with a rest that does not.
static bool rankPart(AffineExpr index, int64_t extent, AffineExpr me, AffineExpr &part) {
  AffineExpr e = normalizeIndex(index % extent);
  stripModulus(e);
  LinearForm form = LinearForm::of(e), mine;
  for (auto &[atom, factor] : form.terms) {
    bool usesMe = false, usesOther = false;
    atom.walk([&](AffineExpr x) {
      usesMe |= x == me;
      usesOther |= isa<AffineDimExpr>(x) && x != me;
    });
    if (usesMe && usesOther)
      return false;
    if (usesMe)
      mine.add(atom, factor);
  }
  part = mine.build(index.getContext());
  return true;
}

static bool isShiftInvariant(ProgramOp program) {
  MLIRContext *context = program.getContext();
  IndexSpace space;
  AffineExpr me = getAffineDimExpr(space.dim(program.getMe()), context);
  DenseMap<Value, SmallVector<AffineExpr>> parts;
  WalkResult walk = program.getBody().walk([&](Operation *op) {
    if (auto loop = dyn_cast<affine::AffineForOp>(op))
      if (llvm::is_contained(loop.getOperands(), program.getMe()))
        return WalkResult::interrupt();
    auto transfer = dyn_cast<TransferOp>(op);
    if (!transfer)
      return WalkResult::advance();
    SmallVector<PlaceRef> places = getFromPlaces(transfer);
    places.append(getToPlaces(transfer));
    for (const PlaceRef &place : places) {
      if (place.isChannel() || place.getPeer())
        continue;
      SmallVector<int64_t> shape = *place.getBuffer().getChunkShape();
      SmallVector<AffineExpr> mine;
      for (auto [index, extent] : llvm::zip_equal(space.rebase(place.map, place.operands), shape))
        if (!rankPart(index, extent, me, mine.emplace_back()))
          return WalkResult::interrupt();
      auto [it, isNew] = parts.try_emplace(place.base, mine);
      if (!isNew && it->second != mine)
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return !walk.wasInterrupted();
}

std::optional<SmallVector<int64_t>> representativeRanks(ProgramOp program) {
  SmallVector<int64_t> ranks = program.getRankList();
  uint64_t instructions = 0;
  if (failed(
          forEachInstruction(program, ranks.front(), [&](Operation *, const model::Instruction &) {
            return ++instructions < traceLimit;
          })))
    return std::nullopt;
  if (instructions * ranks.size() <= traceLimit)
    return ranks;
  if (program.getMe() && isShiftInvariant(program))
    return SmallVector<int64_t>{ranks.front()};
  return std::nullopt;
}

SmallVector<ProgramOp> programsToLower(AlgorithmOp algorithm) {
  return algorithm.getLowered() ? SmallVector<ProgramOp>() : getPrograms(algorithm);
}

llvm::SmallBitVector buffersReadByPeers(ProgramOp program) {
  auto mine = program.getBody().getOps<BufferOp>();
  llvm::SmallBitVector read(std::distance(mine.begin(), mine.end()));
  for (auto other : program->getParentOfType<ModuleOp>().getOps<ProgramOp>()) {
    if (other.getAlgorithm() != program.getAlgorithm())
      continue;
    SmallVector<BufferOp> buffers(other.getBody().getOps<BufferOp>());
    other.getBody().walk([&](PeerOp peer) {
      unsigned number =
          llvm::find(buffers, peer.getBuffer().getDefiningOp<BufferOp>()) - buffers.begin();
      if (number < read.size())
        read.set(number);
    });
  }
  return read;
}

Overlap compare(BufferOp buffer, ArrayRef<AffineExpr> a, ArrayRef<AffineExpr> b) {
  Overlap result = Overlap::Same;
  SmallVector<int64_t> shape = *buffer.getChunkShape();
  for (auto [x, y, extent] : llvm::zip_equal(a, b, shape)) {
    // Valid indices lie in [0, extent), so they are equal iff their difference is 0
    // modulo the extent.
    auto difference = dyn_cast<AffineConstantExpr>(normalizeIndex((x - y) % extent));
    if (difference && difference.getValue() != 0)
      return Overlap::Distinct;
    if (!difference)
      result = Overlap::Unknown;
  }
  return result;
}

} // namespace ccl
