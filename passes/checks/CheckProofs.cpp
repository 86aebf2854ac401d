//===- CheckProofs.cpp - ccl-check-algorithm, ccl-check-program ---------------===//
//
// Shells over dialect/model/Check.h: expand, check, and say it in diagnostics.
//===----------------------------------------------------------------------===//

#include "passes/checks/CheckProofs.h"
#include "passes/Passes.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLCHECKALGORITHM
#define GEN_PASS_DEF_CCLCHECKPROGRAM
#include "passes/Passes.h.inc"

void emitFaults(ArrayRef<model::Fault> faults, Operation *op, const LocationTable &locations) {
  auto at = [&](int32_t loc) {
    return loc >= 0 && size_t(loc) < locations.size() ? locations[loc] : op->getLoc();
  };
  for (const model::Fault &fault : faults) {
    InFlightDiagnostic d = emitError(at(fault.loc)) << fault.message;
    for (const model::Note &note : fault.notes)
      d.attachNote(at(note.loc)) << note.message;
  }
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
  emitFaults(report.faults, algorithm, locations);
  if (!report.ok())
    return failure();
  algorithm->setAttr("ccl.in_place", BoolAttr::get(algorithm.getContext(), report.inPlace));
  return report;
}

FailureOr<model::ProgramReport> checkPrograms(AlgorithmOp algorithm,
                                              const model::ProgramCheckOptions &options) {
  auto contract = getModelContract(algorithm);
  if (failed(contract))
    return failure();
  LocationTable locations;
  auto program = expandPrograms(algorithm, locations);
  if (failed(program))
    return failure();
  model::ProgramReport report = model::check(*program, *contract, options);
  emitFaults(report.faults, algorithm, locations);
  if (!report.ok())
    return failure();
  return report;
}

namespace {
struct CheckAlgorithm : impl::CclCheckAlgorithmBase<CheckAlgorithm> {
  using CclCheckAlgorithmBase::CclCheckAlgorithmBase;
  void runOnOperation() override {
    for (auto algorithm : getOperation().getOps<AlgorithmOp>()) {
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
                             << (report->divisible ? ", divisible counts" : "");
    }
  }
};

struct CheckProgram : impl::CclCheckProgramBase<CheckProgram> {
  using CclCheckProgramBase::CclCheckProgramBase;
  void runOnOperation() override {
    for (auto algorithm : getOperation().getOps<AlgorithmOp>()) {
      model::ProgramCheckOptions options;
      options.slots = slots;
      auto report = checkPrograms(algorithm, options);
      if (succeeded(report))
        if (auto inPlace = algorithm->getAttrOfType<BoolAttr>("ccl.in_place");
            inPlace && inPlace.getValue()) {
          options.inPlace = true;
          if (failed(checkPrograms(algorithm, options)))
            report = failure();
        }
      if (failed(report)) {
        signalPassFailure();
        continue;
      }
      if (remark)
        algorithm.emitRemark() << "programs ok: " << report->instructions
                               << " instructions, least slots " << report->minSlots;
    }
  }
};
} // namespace
} // namespace ccl
