//===- Families.h - The functions behind the table of generators ---------------===//
//
// Each appends its algorithm to the module. The request has passed `refuses`.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/generators/Builder.h"

namespace ccl {

// Ring.cpp
AlgorithmOp ringAllReduce(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp ringAllGather(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp ringReduceScatter(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp ringBroadcast(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp ringReduce(mlir::ModuleOp module, const GeneratorRequest &request);
/// On one `inout` buffer of n chunks, as `ccl.apply ... along` wants its callees.
AlgorithmOp ringReduceScatterInPlace(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp ringAllGatherInPlace(mlir::ModuleOp module, const GeneratorRequest &request);

// Direct.cpp
AlgorithmOp oneShotAllReduce(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp oneShotAllGather(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp oneShotReduceScatter(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp oneShotBroadcast(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp oneShotReduce(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp oneShotGather(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp oneShotScatter(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp pairwiseAllToAll(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp twoShotAllReduce(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp inSwitchAllReduce(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp inSwitchBroadcast(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp twoShotBroadcast(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp twoShotReduce(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp oneShotPermute(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp entryBarrier(mlir::ModuleOp module, const GeneratorRequest &request);

// Tree.cpp
AlgorithmOp binomialBroadcast(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp binomialReduce(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp binomialAllReduce(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp binomialGather(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp binomialScatter(mlir::ModuleOp module, const GeneratorRequest &request);

// RecursiveDoubling.cpp
AlgorithmOp recursiveHalvingReduceScatter(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp bruckAllGather(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp recursiveDoublingAllReduce(mlir::ModuleOp module, const GeneratorRequest &request);
AlgorithmOp recursiveDoublingAllGather(mlir::ModuleOp module, const GeneratorRequest &request);

// Hierarchical.cpp
AlgorithmOp hierarchicalAllReduce(mlir::ModuleOp module, const GeneratorRequest &request);
/// The two factors of `ranks` that are closest to each other, smaller first.
llvm::SmallVector<int64_t> squarestGrid(int64_t ranks);

} // namespace ccl
