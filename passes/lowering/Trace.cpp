//===- Trace.cpp ------------------------------------------------------------===//

#include "passes/lowering/Trace.h"
#include "dialect/Indexing.h"

using namespace mlir;

namespace ccl {

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

std::optional<SmallVector<int64_t>> representativeRanks(ProgramOp program, uint64_t limit) {
  constexpr uint64_t few = uint64_t(1) << 16;
  SmallVector<int64_t> ranks = program.getRankList();
  uint64_t instructions = 0;
  if (failed(
          forEachInstruction(program, ranks.front(), [&](Operation *, const model::Instruction &) {
            return ++instructions < limit;
          })))
    return std::nullopt;
  if (instructions * ranks.size() <= few)
    return ranks;
  if (program.getMe() && isShiftInvariant(program))
    return SmallVector<int64_t>{ranks.front()};
  return instructions * ranks.size() <= limit ? std::optional(ranks) : std::nullopt;
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
      // Peers that only put something there say so when it has arrived.
      if (llvm::none_of(peer->getUses(), [](OpOperand &use) {
            auto transfer = dyn_cast<TransferOp>(use.getOwner());
            return !transfer || llvm::is_contained(transfer.getFrom(), use.get());
          }))
        return;
      unsigned number =
          llvm::find(buffers, peer.getBuffer().getDefiningOp<BufferOp>()) - buffers.begin();
      if (number < read.size())
        read.set(number);
    });
  }
  return read;
}

PlaceNumbers::PlaceNumbers(ProgramOp program, const model::Contract &contract, bool inPlace)
    : contract(contract), inPlace(inPlace) {
  if (inPlace)
    end = contract.inOutChunks();
  for (auto buffer : program.getBody().getOps<BufferOp>()) {
    const int64_t chunks = product(*buffer.getChunkShape());
    buffers.push_back({buffer.getRole(), end, chunks});
    end += chunks;
  }
}

int64_t PlaceNumbers::of(int64_t rank, int64_t buffer, int64_t chunk) const {
  const Buffer &b = buffers[size_t(buffer)];
  if (inPlace && b.role == BufferRole::In)
    return contract.inPosition(rank, chunk);
  if (inPlace && b.role == BufferRole::Out)
    return contract.outPosition(rank, chunk);
  return b.begin + chunk;
}

bool mayRunInPlace(AlgorithmOp algorithm) {
  auto holds = algorithm->getAttrOfType<BoolAttr>("ccl.in_place");
  return !holds || holds.getValue();
}

/// Indices of one axis: valid ones lie in [0, extent), so they are equal if and only if their
/// difference is 0 modulo the extent.
static Overlap compare(AffineExpr x, AffineExpr y, int64_t extent) {
  auto verdict = [](int64_t difference, int64_t modulus) {
    return difference % modulus == 0 ? Overlap::Same : Overlap::Distinct;
  };
  // Mostly they differ by a constant below the same modulus; that of the axis is there anyway.
  AffineExpr a = x, b = y;
  int64_t m = stripModulus(a), n = stripModulus(b);
  m = m ? m : extent, n = n ? n : extent;
  const int64_t difference = splitConstant(a) - splitConstant(b);
  if (m == n && a == b)
    return verdict(difference, m);
  auto known = dyn_cast<AffineConstantExpr>(normalizeIndex((x - y) % extent));
  return known ? verdict(known.getValue(), extent) : Overlap::Unknown;
}

Overlap compare(BufferOp buffer, ArrayRef<AffineExpr> a, ArrayRef<AffineExpr> b) {
  Overlap result = Overlap::Same;
  SmallVector<int64_t> shape = *buffer.getChunkShape();
  for (auto [x, y, extent] : llvm::zip_equal(a, b, shape)) {
    const Overlap axis = x == y ? Overlap::Same : compare(x, y, extent);
    if (axis == Overlap::Distinct)
      return axis;
    if (axis == Overlap::Unknown)
      result = axis;
  }
  return result;
}

} // namespace ccl
