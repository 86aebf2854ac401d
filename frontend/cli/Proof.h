//===- Proof.h - Both levels of one algorithm, proved --------------------------===//
#pragma once

#include "frontend/cli/Input.h"

#include "passes/checks/CheckProofs.h"

namespace ccl::cli {

/// What the checker found out about one instance.
struct Proof {
  model::Contract contract;
  std::string algorithm;

  bool given = false; ///< the algorithm is lowered: no moves, its programs are all there is
  uint64_t numMoves = 0;
  model::Moves moves; ///< L1, if it was expanded
  LocationTable moveLocations;
  model::AlgorithmReport report;

  /// L2, if one form of L1 holds.
  bool isLowered = false;
  model::Program program; ///< of all ranks, if they were expanded
  std::vector<model::Buffer> programBuffers;
  LocationTable programLocations;
  std::string bySymmetry;                   ///< "proved on one rank of 4096 by symmetry", or ""
  bool outOfPlace = false, inPlace = false; ///< forms in which both levels hold
  bool unevenSafe = false;                  ///< L2, see model::ProgramReport
  std::vector<model::Fault> programFaults;  ///< of the first form that L2 breaks
  std::optional<model::Unguarded> tooLate, tooEarly; ///< L2 of a lowered algorithm
  int32_t minSlots = 0;
  uint64_t instructions = 0;

  bool ok() const { return outOfPlace || inPlace; }
  /// Why it does not hold (out of place, if no form does).
  const std::vector<model::Fault> &faults() const {
    return isLowered ? programFaults : report.faults;
  }
  const std::vector<model::Buffer> &buffers() const {
    return isLowered ? programBuffers : moves.buffers;
  }
  const LocationTable &locations() const { return isLowered ? programLocations : moveLocations; }
  /// "ok", "wrong", ...
  std::string_view verdict() const {
    return ok() ? model::verdict({}, contract) : model::verdict(faults(), contract);
  }
  /// "disjoint, in place": the forms that hold.
  std::string forms() const;
};

/// Whether `foreign` (null: of no other system) says that it may be launched in place, too, and
/// that was disproved. Here such launches go through a copy; elsewhere they go wrong.
bool breaksClaim(const interchange::Foreign *foreign, const Proof &proof);

/// What goes wrong where launches have no barriers around them, as they have here: of a file of
/// MSCCL++ that is right here.
std::vector<model::Note> barriersElsewhere(const interchange::Foreign *foreign, const Proof &proof);

/// In one line, what was proved of `file` and what follows from it, or how many faults it has.
std::string verdictText(const std::string &file, const Proof &proof);

/// Proves and lowers `instance`. The exit status says whether that could be tried:
/// a disproved algorithm is Fine here, and has faults. Unless `expandAll`, large symmetric
/// programs are proved on one rank, without the moves and programs of the others.
int prove(Session &session, Instance &instance, Proof &proof, bool expandAll = true);

} // namespace ccl::cli
