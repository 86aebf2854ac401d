//===- RollLoops.h - Steps that repeat become loops ---------------------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {

/// Rolls steps of `block` (moves, and `affine.parallel` of moves) that differ only by constants
/// which grow evenly into `affine.for`, nested where these repeat again. The moves, and their
/// order, stay. Indices that wrap around (`mod`) may grow past the end.
void rollLoops(mlir::Block &block);

} // namespace ccl
