//===- TreeAlgorithm.h - A forest as an L1 algorithm ---------------------------===//
//
// Every tree of a forest carries a chunk. Down trees, and paths, copy by `put`, up trees reduce by
// stages. A rank has an agent for every lane of a link that it sends over: that waits for what it
// sends on there, or reduces it as it sends it on. Others wait for what goes nowhere else, copy
// inside of the rank, and reduce what is the rank's own. The order is that of solver/Order.h.
//
// Where ranks are alike (Network::isSymmetric) each arc is one step of all ranks; otherwise the
// moves are a table.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/generators/Generators.h"
#include "passes/synthesis/solver/Order.h"

namespace ccl {

struct TreeAlgorithm {
  GeneratorRequest request; ///< collective, reduction, ranks, root
  /// By tree: which chunk of the root's shard it carries (all_gather, reduce_scatter and
  /// all_reduce of symmetric networks), or which chunk of the buffer.
  std::vector<int32_t> chunks;
  int32_t chunksPerShard = 1;
  int32_t lanes = 1; ///< agents for a link, as of solver::OrderProblem
  std::vector<solver::Hop> hops;
};

/// Appends the algorithm to the module. all_gather, broadcast: down trees; reduce_scatter, reduce:
/// up trees; all_reduce: both, each down tree after the up tree of its chunk, and with its root;
/// scatter: paths down; gather: paths up.
AlgorithmOp writeTrees(mlir::ModuleOp module, llvm::StringRef name, const solver::Network &network,
                       const solver::Forest &forest, const TreeAlgorithm &trees);

} // namespace ccl
