//===- CheckProofs.h - Proofs with diagnostics --------------------------------===//
#pragma once

#include "dialect/model/Check.h"
#include "passes/lowering/Symmetry.h"

namespace ccl {

/// The source location that a model's `loc` stands for, or `fallback` if it has none.
mlir::Location locationAt(int32_t loc, const LocationTable &locations, mlir::Location fallback);

/// Emits every fault as an error at its place, with its notes.
void emitFaults(llvm::ArrayRef<model::Fault> faults, mlir::Location fallback,
                const LocationTable &locations);

/// Notes on the algorithm (`ccl.in_place`) whether its in-place form holds. If it does not,
/// lowering need not care that `in` and `out` might be one memory.
void recordInPlace(AlgorithmOp algorithm, bool holds);

/// Proves a specialized, expanded algorithm and records on it whether the in-place form
/// holds (`ccl.in_place`). Fails after diagnostics.
mlir::FailureOr<model::AlgorithmReport> checkAlgorithm(AlgorithmOp algorithm);

/// More moves or instructions than `many` take more than a second to prove: one rank of a
/// symmetric program is proved for all instead. More than `most` are not expanded: each
/// takes up to 500 bytes and 3 us.
constexpr uint64_t manyToProve = uint64_t(1) << 18, mostToProve = uint64_t(4) << 20;

/// Whether one rank is proved for all, if they do the same, shifted.
enum class BySymmetry { Auto, Always, Never };

struct ProgramProofOptions {
  BySymmetry symmetry = BySymmetry::Auto;
  int32_t slots = 0;                       ///< of every data channel; 0: as written
  bool findsEarly = false;                 ///< as of model::ProgramCheckOptions
  uint64_t manyInstructions = manyToProve; ///< Auto: more are proved by symmetry
  uint64_t maxInstructions = mostToProve;
};

/// Which forms of the programs hold.
struct FormsReport {
  bool disjoint = false, inPlace = false, divisible = false;
  bool unevenSafe = false; ///< in each form that holds
  /// As of a report, in some form that holds.
  bool entryBarrier = false, exitBarrier = false, batchBarrier = false;
  std::optional<model::Unguarded> tooLate, tooEarly;
  int32_t minSlots = 0;
  uint64_t instructions = 0;        ///< of all ranks
  std::vector<model::Fault> faults; ///< of the first form asked for that does not hold
};

/// The proof of the programs of all ranks, in one form or two. Expands once.
class ProgramProof {
public:
  explicit ProgramProof(AlgorithmOp algorithm, const ProgramProofOptions &options = {})
      : algorithm(algorithm), options(options) {}

  /// Nothing if the programs are too large and one rank cannot stand for all:
  /// `obstacle` says why. Fails after a diagnostic.
  mlir::FailureOr<std::optional<model::ProgramReport>> check(bool inPlace);
  /// The same of the forms asked for, one by one: programs may hold in only one of them.
  /// Beside a form that can be decided, one that cannot does not hold.
  mlir::FailureOr<std::optional<FormsReport>> checkForms(bool disjoint, bool inPlace);
  /// The same of a lowered algorithm, which no L1 proof came before: with `inout` it runs in
  /// place only; else the disjoint form must hold, and the other one is looked at, too.
  mlir::FailureOr<std::optional<FormsReport>> checkLowered();

  /// The last check was made on one rank for all.
  bool isSymmetric() const { return symmetric; }
  /// "proved on one rank of 4096 by symmetry", or "".
  std::string remark() const;
  const std::string &obstacle() const { return why; }
  /// Buffers and locations of the faults.
  const std::vector<model::Buffer> &buffers() const { return theBuffers; }
  const LocationTable &locations() const { return theLocations; }
  /// The programs, if they were all expanded; gives them away.
  std::optional<model::Program> takePrograms() { return std::exchange(all, std::nullopt); }

private:
  mlir::LogicalResult prepare();
  mlir::LogicalResult findSymmetry();
  mlir::FailureOr<model::ProgramReport> checkAll(const model::ProgramCheckOptions &form);

  AlgorithmOp algorithm;
  const ProgramProofOptions options;
  model::Contract contract;
  std::optional<SymmetricProgram> one;
  std::optional<model::Program> all;
  std::vector<model::Buffer> theBuffers;
  LocationTable theLocations;
  std::string why;
  uint64_t instructions = 0; ///< of all ranks
  bool prepared = false, symmetric = false;
};

} // namespace ccl
