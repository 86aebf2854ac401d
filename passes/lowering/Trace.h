//===- Trace.h - Facts about all dynamic instances of a program --------------===//
//
// Some rewrites hold only if something is true of every instance of an instruction:
// that a write is never read, that a read is the first. They are decided by running the
// program of a few ranks that stand for all.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Expand.h"

#include "llvm/ADT/SmallBitVector.h"

namespace ccl {

/// Ranks whose traces decide for all ranks of `program`: all where these have few instructions;
/// else one if ranks differ by a shift of every buffer's chunks, which keeps all relations between
/// places; else all, if these have up to `limit` instructions. Nothing if one rank has so many, or
/// none of this holds. The default takes a fraction of a second.
constexpr uint64_t traceLimit = uint64_t(1) << 21;
std::optional<llvm::SmallVector<int64_t>> representativeRanks(ProgramOp program,
                                                              uint64_t limit = traceLimit);

/// The programs that passes may rewrite: those of a `lowered` algorithm stay as they are.
llvm::SmallVector<ProgramOp> programsToLower(AlgorithmOp algorithm);

/// By buffer number: whether any program of the same algorithm reads a peer's part.
llvm::SmallBitVector buffersReadByPeers(ProgramOp program);

/// How two places of one rank relate, for every rank and iteration. Both must use the
/// values of one `IndexSpace` (loop variables of one nest).
enum class Overlap { Same, Distinct, Unknown };
Overlap compare(BufferOp buffer, llvm::ArrayRef<mlir::AffineExpr> a,
                llvm::ArrayRef<mlir::AffineExpr> b);

/// Numbers the places of a rank, and those of `in` and `out` in place by where they lie in the
/// larger of both.
class PlaceNumbers {
public:
  PlaceNumbers(ProgramOp program, const model::Contract &contract, bool inPlace);
  /// `chunk` is one of the buffer's.
  int64_t of(int64_t rank, int64_t buffer, int64_t chunk) const;
  int64_t chunksOf(int64_t buffer) const { return buffers[size_t(buffer)].chunks; }
  int64_t size() const { return end; }

private:
  struct Buffer {
    BufferRole role;
    int64_t begin; ///< the number of its first place
    int64_t chunks;
  };
  const model::Contract &contract;
  llvm::SmallVector<Buffer> buffers;
  int64_t end = 0;
  bool inPlace;
};

/// Whether `in` and `out` may be one memory: unless that form was disproved.
bool mayRunInPlace(AlgorithmOp algorithm);

/// On programs that were projected, until they are final.
constexpr llvm::StringLiteral projectedProgram = "ccl.projected";

} // namespace ccl
