//===- Emit.h - From a builder's notes to the language --------------------------===//
#pragma once

#include "dialect/Ccl.h"
#include "frontend/builder/Algorithm.h"

namespace ccl {
inline namespace jit {

/// More moves than this are written as a table (ccl.schedule), which keeps the line of
/// every row, too.
constexpr size_t maxMoveOps = 20000;

/// Appends the algorithm to `module`; every op has the location of the line that wrote it.
/// Fails after diagnostics.
mlir::FailureOr<AlgorithmOp> emit(const Algorithm &algorithm, mlir::ModuleOp module,
                                  size_t mostMoveOps = maxMoveOps);

} // namespace jit
} // namespace ccl
