//===- CheckProofs.cpp - ccl-check-algorithm, ccl-check-program ---------------===//
//
// Shells over dialect/model/Check.h: expand, check, and say it in diagnostics.
//===----------------------------------------------------------------------===//

#include "passes/checks/CheckProofs.h"
#include "dialect/model/CheckSymmetric.h"
#include "passes/Passes.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLCHECKALGORITHM
#define GEN_PASS_DEF_CCLCHECKPROGRAM
#include "passes/Passes.h.inc"

Location locationAt(int32_t loc, const LocationTable &locations, Location fallback) {
  return loc >= 0 && size_t(loc) < locations.size() ? locations[size_t(loc)] : fallback;
}

void emitFaults(ArrayRef<model::Fault> faults, Location fallback, const LocationTable &locations) {
  auto at = [&](int32_t loc) { return locationAt(loc, locations, fallback); };
  for (const model::Fault &fault : faults) {
    InFlightDiagnostic d = emitError(at(fault.loc)) << fault.message;
    for (const model::Note &note : fault.notes)
      d.attachNote(at(note.loc)) << note.message;
  }
}

void recordInPlace(AlgorithmOp algorithm, bool holds) {
  algorithm->setAttr("ccl.in_place", BoolAttr::get(algorithm.getContext(), holds));
}

FailureOr<model::AlgorithmReport> checkAlgorithm(AlgorithmOp algorithm) {
  auto contract = getModelContract(algorithm);
  if (failed(contract))
    return failure();
  LocationTable locations;
  auto moves = expand(algorithm, locations);
  if (failed(moves))
    return failure();
  model::AlgorithmReport report = model::check(*moves, *contract);
  emitFaults(report.faults, algorithm.getLoc(), locations);
  if (!report.ok())
    return failure();
  recordInPlace(algorithm, report.inPlace);
  return report;
}

/// Instructions of all ranks, if those of one program execute equally many, or `limit`.
static uint64_t estimateInstructions(AlgorithmOp algorithm, uint64_t limit) {
  uint64_t total = 0;
  for (ProgramOp program : getPrograms(algorithm)) {
    SmallVector<int64_t> ranks = program.getRankList();
    uint64_t one = 0;
    // Fails where the visitor has had enough.
    (void)forEachInstruction(program, ranks.front(), [&](Operation *, const model::Instruction &) {
      return ++one * ranks.size() + total < limit;
    });
    total += one * ranks.size();
  }
  return std::min(total, limit);
}

LogicalResult ProgramProof::findSymmetry() {
  auto found = ccl::findSymmetry(algorithm, theLocations, why);
  if (failed(found))
    return failure();
  one = std::move(*found);
  return success();
}

LogicalResult ProgramProof::prepare() {
  prepared = true;
  auto found = getModelContract(algorithm);
  if (failed(found))
    return failure();
  contract = std::move(*found);
  // One rank must be small enough itself.
  uint64_t limit = (options.maxInstructions + 1) * uint64_t(contract.ranks);
  instructions = estimateInstructions(algorithm, limit);
  bool wanted = options.symmetry == BySymmetry::Always ||
                (options.symmetry == BySymmetry::Auto && instructions > options.manyInstructions);
  return wanted && instructions < limit ? findSymmetry() : success();
}

FailureOr<model::ProgramReport> ProgramProof::checkAll(const model::ProgramCheckOptions &form) {
  if (!all) {
    auto expanded = expandPrograms(algorithm, theLocations);
    if (failed(expanded))
      return failure();
    all = std::move(*expanded);
  }
  theBuffers = all->buffers;
  return model::check(*all, contract, form);
}

FailureOr<std::optional<model::ProgramReport>> ProgramProof::check(bool inPlace) {
  if (!prepared && failed(prepare()))
    return failure();
  model::ProgramCheckOptions form;
  form.slots = options.slots;
  form.inPlace = inPlace;
  form.findsEarly = options.findsEarly;
  std::optional<model::ProgramReport> report;
  if (one) {
    theBuffers = one->rankZero.buffers;
    report = model::checkSymmetric(one->rankZero, contract, one->symmetry, form, &why);
  }
  symmetric = report.has_value();
  if (report || options.symmetry == BySymmetry::Always)
    return report;
  if (instructions > options.maxInstructions) {
    if (why.empty())
      why = "one rank is not to stand for all";
    why = (Twine("over ") + Twine(options.maxInstructions) + " instructions, and " + why).str();
    return std::optional<model::ProgramReport>();
  }
  auto full = checkAll(form);
  if (failed(full))
    return failure();
  return std::optional(std::move(*full));
}

FailureOr<std::optional<FormsReport>> ProgramProof::checkForms(bool disjoint, bool inPlace) {
  FormsReport forms;
  bool decided = false, bySymmetry = false;
  for (bool second : {false, true}) {
    if (!(second ? inPlace : disjoint))
      continue;
    auto report = check(second);
    if (failed(report))
      return failure();
    if (!*report && !decided)
      return std::optional<FormsReport>();
    if (!*report)
      continue;
    decided = true;
    bySymmetry |= symmetric;
    if ((*report)->ok()) {
      forms.unevenSafe =
          (*report)->unevenSafe && (forms.unevenSafe || !(forms.disjoint || forms.inPlace));
      forms.entryBarrier |= (*report)->entryBarrier;
      forms.exitBarrier |= (*report)->exitBarrier;
      forms.batchBarrier |= (*report)->batchBarrier;
      for (auto part : {&model::ProgramReport::tooLate, &model::ProgramReport::tooEarly}) {
        auto &mine = part == &model::ProgramReport::tooLate ? forms.tooLate : forms.tooEarly;
        if (!mine)
          mine = std::move((**report).*part);
      }
    }
    (second ? forms.inPlace : forms.disjoint) = (*report)->ok();
    forms.divisible |= (*report)->divisible;
    forms.instructions = (*report)->instructions;
    forms.minSlots = std::max(forms.minSlots, (*report)->minSlots);
    if (forms.faults.empty())
      forms.faults = std::move((*report)->faults);
  }
  symmetric = bySymmetry;
  return std::optional(std::move(forms));
}

FailureOr<std::optional<FormsReport>> ProgramProof::checkLowered() {
  bool inout = hasInOut(algorithm);
  auto forms = checkForms(!inout, true);
  if (succeeded(forms) && *forms && !inout)
    (*forms)->inPlace &= (*forms)->disjoint;
  return forms;
}

std::string ProgramProof::remark() const {
  if (!symmetric)
    return "";
  return (Twine("proved on one rank of ") + Twine(contract.ranks) + " by symmetry").str();
}

namespace {
struct CheckAlgorithm : impl::CclCheckAlgorithmBase<CheckAlgorithm> {
  using CclCheckAlgorithmBase::CclCheckAlgorithmBase;
  void runOnOperation() override {
    for (auto algorithm : getOperation().getOps<AlgorithmOp>()) {
      if (algorithm.getLowered()) // there is nothing to prove here
        continue;
      auto report = checkAlgorithm(algorithm);
      if (failed(report)) {
        signalPassFailure();
        continue;
      }
      if (!remark)
        continue;
      auto contract = getModelContract(algorithm);
      algorithm.emitRemark() << model::verdict({}, *contract) << ": " << contract->str() << " on "
                             << contract->ranks << " ranks, " << report->moves << " moves, "
                             << (report->inPlace ? "disjoint and in place" : "disjoint only")
                             << (report->divisible ? ", divisible counts" : "")
                             << (report->unevenSafe ? ", uneven shards" : "");
    }
  }
};

struct CheckProgram : impl::CclCheckProgramBase<CheckProgram> {
  using CclCheckProgramBase::CclCheckProgramBase;
  void runOnOperation() override {
    for (auto algorithm : getOperation().getOps<AlgorithmOp>())
      if (failed(prove(algorithm)))
        signalPassFailure();
  }

  LogicalResult prove(AlgorithmOp algorithm) {
    auto way = llvm::StringSwitch<std::optional<BySymmetry>>(symmetric)
                   .Case("auto", BySymmetry::Auto)
                   .Case("always", BySymmetry::Always)
                   .Case("never", BySymmetry::Never)
                   .Default(std::nullopt);
    if (!way)
      return getOperation().emitError()
             << "option symmetric: '" << symmetric << "' is none of auto, always, never";
    ProgramProofOptions options;
    options.symmetry = *way;
    options.slots = slots;
    ProgramProof proof(algorithm, options);
    auto known = algorithm->getAttrOfType<BoolAttr>("ccl.in_place");
    bool both = known && known.getValue();
    bool lowered = algorithm.getLowered();
    auto forms = lowered ? proof.checkLowered() : proof.checkForms(true, both);
    if (failed(forms))
      return failure();
    if (!*forms)
      return algorithm.emitOpError() << "cannot be proved: " << proof.obstacle();
    bool ok = lowered ? (*forms)->disjoint || (*forms)->inPlace
                      : (*forms)->disjoint && (!both || (*forms)->inPlace);
    if (!ok || !lowered)
      emitFaults((*forms)->faults, algorithm.getLoc(), proof.locations());
    if (!ok)
      return failure();
    if (!remark)
      return success();
    InFlightDiagnostic d = algorithm.emitRemark()
                           << "programs ok: " << (*forms)->instructions
                           << " instructions, least slots " << (*forms)->minSlots;
    if (proof.isSymmetric())
      d << ", " << proof.remark();
    if ((*forms)->unevenSafe)
      d << ", uneven shards";
    return success();
  }
};
} // namespace
} // namespace ccl
