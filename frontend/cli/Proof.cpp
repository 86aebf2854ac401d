//===- Proof.cpp - Both levels of one algorithm, proved ------------------------===//
#include "frontend/cli/Proof.h"

#include "passes/checks/CheckProofs.h"

#include <algorithm>

namespace ccl::cli {

mlir::Location Proof::location(int32_t loc, mlir::Location fallback) const {
  bool known = loc >= 0 && size_t(loc) < locations().size();
  return known ? locations()[size_t(loc)] : fallback;
}

std::string Proof::forms() const {
  return outOfPlace && inPlace ? "disjoint, in place"
         : outOfPlace          ? "disjoint"
         : inPlace             ? "in place only"
                               : "no form";
}

static int proveMoves(Session &session, Instance &instance, Proof &proof) {
  if (int status = specialize(session, instance))
    return status;
  AlgorithmOp algorithm = instance.op();
  mlir::FailureOr<model::Contract> contract = getModelContract(algorithm);
  if (mlir::failed(contract))
    return session.refused();
  mlir::FailureOr<model::Moves> moves = expand(algorithm, proof.moveLocations);
  if (mlir::failed(moves))
    return session.refused();
  proof.contract = std::move(*contract);
  proof.moves = std::move(*moves);
  proof.report = model::check(proof.moves, proof.contract);
  recordInPlace(algorithm, proof.report.inPlace);
  return Fine;
}

static int provePrograms(Session &session, Instance &instance, Proof &proof) {
  if (int status = lower(session, instance))
    return status;
  mlir::FailureOr<model::Program> program = expandPrograms(instance.op(), proof.programLocations);
  if (mlir::failed(program))
    return session.refused();
  proof.program = std::move(*program);
  proof.isLowered = true;
  auto check = [&](bool inPlace) {
    model::ProgramReport report = model::check(proof.program, proof.contract, {.inPlace = inPlace});
    proof.minSlots = std::max(proof.minSlots, report.minSlots);
    proof.instructions = report.instructions;
    bool holds = report.ok(); // asks whether there are faults: before they move away
    if (!holds && proof.programFaults.empty())
      proof.programFaults = std::move(report.faults);
    return holds;
  };
  proof.outOfPlace = proof.report.ok() && check(false);
  proof.inPlace = proof.report.inPlace && check(true);
  return Fine;
}

int prove(Session &session, Instance &instance, Proof &proof) {
  proof.algorithm = instance.algorithm;
  if (int status = proveMoves(session, instance, proof))
    return status;
  if (!proof.report.ok() && !proof.report.inPlace)
    return Fine;
  return provePrograms(session, instance, proof);
}

void emitFaults(const Proof &proof, mlir::Location fallback) {
  for (const model::Fault &fault : proof.faults()) {
    mlir::InFlightDiagnostic error = mlir::emitError(proof.location(fault.loc, fallback))
                                     << fault.message;
    for (const model::Note &note : fault.notes)
      error.attachNote(proof.location(note.loc, fallback)) << note.message;
  }
}

} // namespace ccl::cli
