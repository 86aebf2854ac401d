//===- Proof.cpp - Both levels of one algorithm, proved ------------------------===//
#include "frontend/cli/Proof.h"

#include "frontend/cli/Output.h"
#include "frontend/cli/ProgramText.h"

#include "codegen/Count.h"

#include <fmt/format.h>

namespace ccl::cli {

std::string Proof::forms() const {
  return outOfPlace && inPlace ? "disjoint, in place"
         : outOfPlace          ? "disjoint"
         : inPlace             ? "in place only"
                               : "no form";
}

std::string verdictText(const std::string &file, const Proof &proof) {
  const model::Contract &contract = proof.contract;
  std::string text = fmt::format("{}: {}: @{} {} on {}: ", file, proof.verdict(), proof.algorithm,
                                 contract.str(), plural(contract.ranks, "rank"));
  if (!proof.ok())
    return text + plural(proof.faults().size(), "fault");
  text += fmt::format("{}; {}", proof.forms(),
                      proof.given ? plural(proof.instructions, "instruction")
                                  : plural(proof.numMoves, "move"));
  if (proof.minSlots > 0)
    text += fmt::format("; least slots {}", proof.minSlots);
  if (!proof.bySymmetry.empty())
    text += "; " + proof.bySymmetry;
  if (proof.report.divisible)
    text += fmt::format("; padded where {} does not divide the count", contract.chunks);
  if (model::hasUnevenForm(contract.collective))
    text += proof.unevenSafe ? "; uneven shards" : "; uneven shards through padding";
  if (contract.isUnchecked())
    text += "; nothing is promised, so only safety is proved";
  return text;
}

bool breaksClaim(const interchange::Foreign *foreign, const Proof &proof) {
  return foreign && foreign->inPlace && proof.ok() && !proof.inPlace && !proof.faults().empty();
}

std::vector<model::Note> barriersElsewhere(const interchange::Foreign *foreign,
                                           const Proof &proof) {
  std::vector<model::Note> notes;
  if (!foreign || !proof.ok())
    return notes;
  if (const auto &early = proof.tooEarly)
    notes.push_back(
        {early->loc, fmt::format("rank {0} may not have begun when {1} touches its memory: nothing "
                                 "was heard from rank {0} before; MSCCL++ has no barrier at the "
                                 "beginning of a launch",
                                 early->owner, early->access)});
  if (const auto &late = proof.tooLate)
    notes.push_back(
        {late->loc, fmt::format("rank {0} may have ended when {1} touches its memory: rank {0} "
                                "does not wait for that; MSCCL++ has no barrier at the end of a "
                                "launch",
                                late->owner, late->access)});
  return notes;
}

/// The rank whose agent executed what a fault is about, or -1.
static int64_t executor(const model::Fault &fault, const model::Program &program) {
  auto fits = [&](int64_t rank) {
    if (rank < 0 || rank >= int64_t(program.ranks.size()) || fault.agent < 0 ||
        fault.instruction < 0)
      return false;
    const auto &agents = program.ranks[size_t(rank)].agents;
    return size_t(fault.agent) < agents.size() &&
           size_t(fault.instruction) < agents[size_t(fault.agent)].code.size() &&
           agents[size_t(fault.agent)].code[size_t(fault.instruction)].loc == fault.loc;
  };
  // A fault's rank is that of the place, which others may write.
  if (fits(fault.rank))
    return fault.rank;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank)
    if (fits(int64_t(rank)))
      return int64_t(rank);
  return -1;
}

static bool mentions(const model::Fault &fault, const std::string &text) {
  auto has = [&](const std::string &message) { return message.find(text) != std::string::npos; };
  return has(fault.message) ||
         llvm::any_of(fault.notes, [&](const model::Note &note) { return has(note.message); });
}

/// Programs that were not made from moves have many agents: says which one, and what it does,
/// where that was not said yet.
static void tellExecutors(Proof &proof) {
  for (model::Fault &fault : proof.programFaults) {
    const int64_t rank = executor(fault, proof.program);
    if (rank < 0)
      continue;
    const model::Agent &agent = proof.program.ranks[size_t(rank)].agents[size_t(fault.agent)];
    const std::string who = fmt::format("rank {}, {}, instruction {}", rank,
                                        ProgramText::name(agent), fault.instruction);
    if (mentions(fault, who))
      continue;
    const ProgramText text(proof.program, proof.contract, rank);
    const std::string what = text.describe(agent.code[size_t(fault.instruction)]);
    fault.notes.insert(fault.notes.begin(), {fault.loc, who + ": " + what});
  }
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
  auto forms =
      algorithm.getLowered() ? programs.checkLowered() : programs.checkForms(outOfPlace, inPlace);
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
  proof.tooLate = std::move((*forms)->tooLate);
  proof.tooEarly = std::move((*forms)->tooEarly);
  proof.instructions = (*forms)->instructions;
  proof.programFaults = std::move((*forms)->faults);
  proof.programBuffers = programs.buffers();
  proof.programLocations = programs.locations();
  proof.bySymmetry = programs.remark();
  if (std::optional<model::Program> all = programs.takePrograms())
    proof.program = std::move(*all);
  if (proof.given)
    tellExecutors(proof);
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
  proof.given = instance.op().getLowered();
  if (!pending && !proof.given)
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
  options.findsEarly = proof.given;
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
