//===- CheckProofs.h - Proofs with diagnostics --------------------------------===//
#pragma once

#include "dialect/Expand.h"
#include "dialect/model/Check.h"

namespace ccl {

/// Emits every fault as an error at its place, with its notes.
void emitFaults(llvm::ArrayRef<model::Fault> faults, mlir::Operation *op,
                const LocationTable &locations);

/// Proves a specialized, expanded algorithm and records on it whether the in-place form
/// holds (`ccl.in_place`). Fails after diagnostics.
mlir::FailureOr<model::AlgorithmReport> checkAlgorithm(AlgorithmOp algorithm);

/// Proves the programs of all ranks together. Fails after diagnostics.
mlir::FailureOr<model::ProgramReport>
checkPrograms(AlgorithmOp algorithm, const model::ProgramCheckOptions &options = {});

} // namespace ccl
