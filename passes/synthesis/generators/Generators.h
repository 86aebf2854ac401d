//===- Generators.h - The one library of known algorithms --------------------===//
//
// A generator writes an L1 algorithm for a given number of ranks. What is affine in
// the rank and step becomes loops, so a generated algorithm has O(log ranks) ops.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {

struct GeneratorRequest {
  model::Collective collective = model::Collective::AllReduce;
  model::Reduction reduction = model::Reduction::Sum;
  int64_t ranks = 1;
  int64_t root = 0;
  llvm::SmallVector<int64_t> grid; ///< hierarchical: ranks per axis, slowest first
  /// permute: rank p sends to targets[p]; empty: to the next rank.
  llvm::SmallVector<int64_t> targets = {};
};

struct Generator {
  llvm::StringRef name; ///< "ring"
  llvm::StringRef summary;
  llvm::ArrayRef<model::Collective> collectives;
  /// "" if the request can be met, else why not ("needs a power of two").
  std::string (*refuses)(const GeneratorRequest &);
  /// Appends the algorithm (and the ones it applies) to the module.
  AlgorithmOp (*generate)(mlir::ModuleOp module, const GeneratorRequest &request);
  /// For documentation and tests ("2 (n - 1)"), from two ranks on. Steps: the longest
  /// chain of moves between ranks of which each needs the one before; at most that, if n
  /// is no power of two. Bytes: what the busiest rank sends or receives.
  llvm::StringRef steps, bytes;
};

llvm::ArrayRef<Generator> generators();
/// The generator of that name, or the default of the collective if `name` is "".
const Generator *findGenerator(model::Collective collective, llvm::StringRef name);

} // namespace ccl
