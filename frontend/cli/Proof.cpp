//===- Proof.cpp - Both levels of one algorithm, proved ------------------------===//
#include "frontend/cli/Proof.h"

#include "codegen/Count.h"

#include <fmt/format.h>

namespace ccl::cli {

std::string Proof::forms() const {
  return outOfPlace && inPlace ? "disjoint, in place"
         : outOfPlace          ? "disjoint"
         : inPlace             ? "in place only"
                               : "no form";
}

static int proveMoves(Session &session, AlgorithmOp algorithm, Proof &proof) {
  mlir::FailureOr<model::Moves> moves = expand(algorithm, proof.moveLocations);
  if (mlir::failed(moves))
    return session.refused();
  proof.moves = std::move(*moves);
  proof.report = model::check(proof.moves, proof.contract);
  recordInPlace(algorithm, proof.report.inPlace);
  return Fine;
}

/// Proves the forms asked for. Leaves `isLowered` false if that cannot be done; `why` then
/// says why.
static int provePrograms(Session &session, AlgorithmOp algorithm,
                         const ProgramProofOptions &options, bool outOfPlace, bool inPlace,
                         Proof &proof, std::string &why) {
  ProgramProof programs(algorithm, options);
  auto forms = programs.checkForms(outOfPlace, inPlace);
  if (mlir::failed(forms))
    return session.refused();
  why = programs.obstacle();
  if (!*forms)
    return Fine;
  proof.isLowered = true;
  proof.outOfPlace = (*forms)->disjoint;
  proof.inPlace = (*forms)->inPlace;
  proof.unevenSafe = (*forms)->unevenSafe;
  proof.minSlots = (*forms)->minSlots;
  proof.instructions = (*forms)->instructions;
  proof.programFaults = std::move((*forms)->faults);
  proof.programBuffers = programs.buffers();
  proof.programLocations = programs.locations();
  proof.bySymmetry = programs.remark();
  if (std::optional<model::Program> all = programs.takePrograms())
    proof.program = std::move(*all);
  if (proof.moves.moves.empty()) // else L1 has told
    proof.report.divisible = (*forms)->divisible;
  return Fine;
}

/// What has too many moves for a proof of its own: one rank's program may show it.
static int proveBySymmetry(Session &session, AlgorithmOp algorithm, Proof &proof) {
  ProgramProofOptions options;
  options.symmetry = BySymmetry::Always;
  std::string why;
  if (int status = provePrograms(session, algorithm, options, true, true, proof, why))
    return status;
  if (!proof.isLowered && proof.numMoves > mostToProve)
    return session.machine(fmt::format("@{} has {} moves, too many to prove, and {}",
                                       proof.algorithm, proof.numMoves, why));
  return Fine;
}

int prove(Session &session, Instance &instance, Proof &proof, bool expandAll) {
  proof.algorithm = instance.algorithm;
  if (int status = specialize(session, instance))
    return status;
  mlir::FailureOr<model::Contract> contract = getModelContract(instance.op());
  if (mlir::failed(contract))
    return session.refused();
  proof.contract = std::move(*contract);
  proof.numMoves = countMoves(instance.op(), UINT64_MAX);
  bool pending = !expandAll && proof.numMoves > manyToProve;
  auto refuted = [&] { return !proof.report.ok() && !proof.report.inPlace; };
  if (!pending)
    if (int status = proveMoves(session, instance.op(), proof); status || refuted())
      return status;
  if (int status = lower(session, instance))
    return status;
  if (pending) {
    if (int status = proveBySymmetry(session, instance.op(), proof); status || proof.isLowered)
      return status;
    if (int status = proveMoves(session, instance.op(), proof); status || refuted())
      return status;
  }
  ProgramProofOptions options;
  if (expandAll) {
    options.symmetry = BySymmetry::Never;
    options.maxInstructions = UINT64_MAX / 2 / uint64_t(proof.contract.ranks);
  }
  std::string why;
  if (int status = provePrograms(session, instance.op(), options, proof.report.ok(),
                                 proof.report.inPlace, proof, why))
    return status;
  return proof.isLowered
             ? int(Fine)
             : session.machine(fmt::format("the programs of @{} have {}", proof.algorithm, why));
}

} // namespace ccl::cli
