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

/// Ranks whose traces decide for all ranks of `program`: all of them if that is cheap,
/// one if ranks differ by a shift of every buffer's chunks, which keeps all relations
/// between places. Nothing if neither holds.
std::optional<llvm::SmallVector<int64_t>> representativeRanks(ProgramOp program);

/// The programs that passes may rewrite: those of a `lowered` algorithm stay as they are.
llvm::SmallVector<ProgramOp> programsToLower(AlgorithmOp algorithm);

/// By buffer number: whether any program of the same algorithm reads a peer's part.
llvm::SmallBitVector buffersReadByPeers(ProgramOp program);

/// How two places of one rank relate, for every rank and iteration. Both must use the
/// values of one `IndexSpace` (loop variables of one nest).
enum class Overlap { Same, Distinct, Unknown };
Overlap compare(BufferOp buffer, llvm::ArrayRef<mlir::AffineExpr> a,
                llvm::ArrayRef<mlir::AffineExpr> b);

/// On programs that were projected, until they are final.
constexpr llvm::StringLiteral projectedProgram = "ccl.projected";

} // namespace ccl
