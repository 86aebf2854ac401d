//===- Proof.h - Both levels of one algorithm, proved --------------------------===//
#pragma once

#include "frontend/cli/Input.h"

#include "dialect/Expand.h"
#include "dialect/model/Check.h"

namespace ccl::cli {

/// What the checker found out about one instance.
struct Proof {
  model::Contract contract;
  std::string algorithm;

  model::Moves moves; ///< L1
  LocationTable moveLocations;
  model::AlgorithmReport report;

  /// L2, if one form of L1 holds.
  bool isLowered = false;
  model::Program program;
  LocationTable programLocations;
  bool outOfPlace = false, inPlace = false; ///< forms in which both levels hold
  std::vector<model::Fault> programFaults;  ///< of the first form that L2 breaks
  int32_t minSlots = 0;
  uint64_t instructions = 0;

  bool ok() const { return outOfPlace || inPlace; }
  /// Why it does not hold (out of place, if no form does).
  const std::vector<model::Fault> &faults() const {
    return isLowered ? programFaults : report.faults;
  }
  const LocationTable &locations() const { return isLowered ? programLocations : moveLocations; }
  mlir::Location location(int32_t loc, mlir::Location fallback) const;
  /// "disjoint, in place": the forms that hold.
  std::string forms() const;
};

/// Proves and lowers `instance`. The exit status says whether that could be tried:
/// a disproved algorithm is Fine here, and has faults.
int prove(Session &session, Instance &instance, Proof &proof);

/// Prints the faults as diagnostics at their places in the source.
void emitFaults(const Proof &proof, mlir::Location fallback);

} // namespace ccl::cli
