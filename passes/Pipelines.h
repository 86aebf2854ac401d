//===- Pipelines.h - Named phases and pipelines ----------------------------===//
#pragma once

#include "dialect/Ccl.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "llvm/Support/Error.h"

#include <map>
#include <string>
#include <vector>

namespace ccl {

/// Options of `ccl-lower-to-program`.
struct LoweringOptions {
  std::map<std::string, int64_t> sizes; ///< size parameters by name
  int64_t rank = -1;                    ///< one rank only, or -1: all
  std::string via = "auto";             ///< staged, direct, auto
  int64_t slots = 4;                    ///< of data channels, unless the algorithm asks for more
  bool fuse = true;
  std::string protocol = "simple"; ///< of data channels: simple, ll, ll128, lamport
  std::string hosts;               ///< of ranks, see parseHosts; "": all ranks share one
};

/// The host of each rank: "4" (so many ranks a host, in order; the last one may have fewer) or
/// "0,0,1,1" (a number for each rank). Error: what is wrong with the text.
llvm::Expected<std::vector<int32_t>> parseHosts(llvm::StringRef text, int64_t ranks);

/// specialize, expand apply and pipeline. The result is what `expand` takes.
void buildAlgorithmPipeline(mlir::OpPassManager &pm, const LoweringOptions &options);
/// ... and down to `ccl.program`: assign channels, project, fuse, sync.
void buildLoweringPipeline(mlir::OpPassManager &pm, const LoweringOptions &options);

/// Runs one of the two, unless there is nothing to lower: then the module stays as it is.
mlir::LogicalResult runPipeline(mlir::ModuleOp module,
                                void (*build)(mlir::OpPassManager &, const LoweringOptions &),
                                const LoweringOptions &options);

void registerPipelines();

/// The public algorithm of a module: the one named, or the only one that no
/// `ccl.apply` refers to, or the one that an L0 op selects. Emits a diagnostic.
mlir::FailureOr<AlgorithmOp> findAlgorithm(mlir::ModuleOp module, llvm::StringRef name = "");

} // namespace ccl
