//===- VerifyLevel.cpp - What a phase must have left behind -------------------===//

#include "passes/Passes.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLVERIFYLEVEL
#include "passes/Passes.h.inc"

namespace {
struct VerifyLevel : impl::CclVerifyLevelBase<VerifyLevel> {
  using CclVerifyLevelBase::CclVerifyLevelBase;

  void runOnOperation() override {
    bool ok = true;
    if (level != "algorithm" && level != "program") {
      getOperation().emitError() << "ccl-verify-level: level is algorithm or program, not '"
                                 << level << "'";
      ok = false;
    }
    for (auto algorithm : getOperation().getOps<AlgorithmOp>())
      ok &= succeeded(verifyAlgorithm(algorithm)) &&
            (level == "algorithm" || succeeded(verifyPrograms(algorithm)));
    if (!ok)
      signalPassFailure();
  }

  LogicalResult verifyAlgorithm(AlgorithmOp algorithm) {
    if (algorithm.getNumArguments())
      return algorithm.emitOpError()
             << "size parameter '" << algorithm.getParameterName(0) << "' is not bound";
    WalkResult walk = algorithm.getBody().walk([&](Operation *op) {
      if (!isa<ApplyOp, PipelineOp>(op))
        return WalkResult::advance();
      op->emitOpError("is left over: run ccl-expand-apply");
      return WalkResult::interrupt();
    });
    return failure(walk.wasInterrupted());
  }

  LogicalResult verifyPrograms(AlgorithmOp algorithm) {
    if (algorithm.getLowered())
      return success(); // its programs are as they were written
    SmallVector<ProgramOp> programs = getPrograms(algorithm);
    for (ProgramOp program : programs)
      for (auto buffer : program.getBody().getOps<BufferOp>())
        if (buffer.getRole() == BufferRole::InOut)
          return buffer.emitOpError("is still inout: run ccl-peel-inout");
    if (programs.empty())
      return algorithm.emitOpError("has no program");
    return success();
  }
};
} // namespace
} // namespace ccl
