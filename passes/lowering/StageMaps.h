//===- StageMaps.h - Which places a stage works on ----------------------------===//
//
// A stage is a collective in groups of ranks that differ in some axes alone. Which of the caller's
// places that is follows from what the stages before have left: an axis is held whole by all of its
// ranks, scattered over them, or held by the rank of one coordinate alone.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {

/// The axes of an algorithm's topology at a point of its body.
struct AxisStates {
  enum class Data : uint8_t { Whole, Scattered, AtRoot };
  llvm::SmallVector<std::string> names;
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<Data> data;
  llvm::SmallVector<int64_t> roots; ///< by axis; of those that are `AtRoot`
  CollectiveOpInterface part;       ///< the last one, if it was for some groups only

  /// At the start. Without a topology: no axes.
  static AxisStates of(AlgorithmOp algorithm);
  bool isScattered(size_t axis) const { return data[axis] == Data::Scattered; }
};

/// The maps of a stage for some of its groups: of each buffer of the callee that is not scratch,
/// (callee ranks, callee chunks, group indices) to (ranks, chunks) of the caller's buffer.
struct StageBinding {
  llvm::SmallVector<int64_t> groups; ///< extents of the group indices
  llvm::SmallVector<mlir::AffineMap> maps;
};

/// `callee` is what implements `stage`, specialized and expanded. One binding for all groups, or
/// one for each group that the stage lists. `axes` becomes what it is after the stage. Emits what
/// does not fit.
mlir::FailureOr<llvm::SmallVector<StageBinding>>
bindStage(ApplyOp apply, CollectiveOpInterface stage, AlgorithmOp callee, AxisStates &axes);

/// Whether an axis is one of the stage's.
bool isAlong(CollectiveOpInterface stage, llvm::StringRef axis);
/// Whether two collectives, each for some groups only, are parts of one stage.
bool isSameStage(CollectiveOpInterface a, CollectiveOpInterface b);
/// What an axis holds after a collective along it; `root` is a coordinate.
void completeAxis(CollectiveKind kind, int64_t root, size_t axis, AxisStates &axes);
/// No part of the stage that was last is still to come.
void finishParts(AxisStates &axes);
/// `axes` becomes what it is before the stage, or before its first part.
void enterStage(CollectiveOpInterface stage, AxisStates &axes);
/// And after it, or after one more part.
void leaveStage(CollectiveOpInterface stage, AxisStates &axes);

/// Pieces that the buffer of whoever applies the stage needs, so that `callee` fits (a multiple of
/// this): `extents` are those of its chunk axes along the stage's axes.
int64_t piecesFor(const model::Contract &callee, int64_t extents);

} // namespace ccl
