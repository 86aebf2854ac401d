//===- Compile.h - (module, options) -> Plan -------------------------------===//
#pragma once

#include "codegen/cuda/Nvrtc.h"
#include "passes/Pipelines.h"
#include "runtime/plan/Plan.h"

namespace ccl {

/// One frozen value; together with the text of the lowered program it is the cache
/// key. Nothing else influences the generated code.
struct CompileOptions {
  LoweringOptions lowering;
  std::string algorithm; ///< "" if the module has one
  ElementType type = ElementType::F32;
  std::optional<model::Reduction> reduction; ///< instead of the contract's
  /// What the code is for: "" this machine's processor; a GPU, "sm_90a"; "shim": what a GPU would
  /// get, as C++ for this machine's processor.
  std::string arch;
  bool multimem = false;    ///< of a GPU: see CudaOptions
  bool tma = false;         ///< of a GPU
  bool copyEngines = false; ///< of a GPU: proxies are copy engines
  std::string nvrtcLibrary; ///< for a GPU; "": where one is found (CCL_NVRTC_LIBRARY)
  std::string shimCompiler; ///< for "shim"; "": one that is found (CCL_SHIM_CXX)
  int64_t shimThreads = 1;  ///< of a block, for "shim" (CCL_SHIM_WARPS)
  bool sourceOnly = false;  ///< of `arch`: no image
  bool wires = false;       ///< ranks may be on several hosts: see Plan::hasWires
  bool prove = true;        ///< refuse what the checker refutes; false: the caller vouches
  std::string cacheDir;     ///< "": no object cache
  std::string dumpDir;      ///< "": no dumps (CCL_DUMP_DIR), see Stages.h
  std::string overrideDir;  ///< stages to replace (CCL_OVERRIDE_DIR), proved again
  std::string sanitizer = CCL_SANITIZE; ///< LLVM's pass over the code: "", "address", "thread"
};

struct CompileStats {
  double specializeMs = 0, proveMs = 0, lowerMs = 0; ///< IR work
  double jitMs = 0;   ///< L2 program -> object code, or the cache's answer
  double nvrtcMs = 0; ///< of these: CUDA or C++ -> image
  bool fromCache = false;
  uint64_t algorithmOps = 0, programOps = 0; ///< ops after specialize, after lowering
  uint64_t moves = 0, instructions = 0;      ///< of all ranks
  std::vector<KernelResources> kernels;      ///< of code for a GPU
  std::string unproved;       ///< what was not proved and why, for people; "" if all was
  bool machineFailed = false; ///< the input is not to blame: LLVM cannot, or has no memory
  bool proofPending = false;  ///< there are many moves: provePrograms is to tell
  std::string bySymmetry;     ///< "proved on one rank of 4096 by symmetry", or ""
};

/// Proves and lowers all ranks and generates object code. On failure a diagnostic
/// with a location has been emitted. The module is modified (lowered in place).
mlir::FailureOr<Plan> compile(mlir::ModuleOp module, const CompileOptions &options,
                              CompileStats &stats);

/// The steps of `compile`, for tools that stop in between.
/// Proves a specialized algorithm: fills the contract, disjointProved, inPlaceProved
/// and divisible. Emits the faults and fails if neither form holds. The proof of an
/// algorithm with many moves is left to provePrograms (stats.proofPending), and that of a
/// lowered one, which has none.
mlir::LogicalResult proveAlgorithm(mlir::ModuleOp module, AlgorithmOp algorithm, Plan &plan,
                                   CompileStats &stats);
/// The same at once, however many moves there are up to `most`; of no lowered algorithm. The
/// contract is known.
mlir::LogicalResult proveMoves(AlgorithmOp algorithm, Plan &plan, uint64_t most);
/// Proves the lowered programs of all ranks for the slots that they name, and finds
/// plan.minSlots; on one rank if all do the same and are many. Needs what proveAlgorithm
/// found out. What is too large either way is left unproved (stats.unproved).
mlir::LogicalResult provePrograms(AlgorithmOp algorithm, Plan &plan, CompileStats &stats);
/// Generates code for the lowered programs, or takes it from the cache: fills the rest
/// of the plan. Of one rank only if `options.lowering.rank` says so. `ir`, if not null,
/// gets the optimized LLVM IR as text, or what is compiled for options.arch (and the cache is not
/// asked).
mlir::LogicalResult generate(AlgorithmOp algorithm, const CompileOptions &options, Plan &plan,
                             CompileStats &stats, std::string *ir = nullptr);

} // namespace ccl
