//===- AssignChannels.cpp - Staged or direct, and tags -----------------------===//

#include "passes/Passes.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLASSIGNCHANNELS
#include "passes/Passes.h.inc"

namespace {
struct AssignChannels : impl::CclAssignChannelsBase<AssignChannels> {
  using CclAssignChannelsBase::CclAssignChannelsBase;

  void runOnOperation() override {
    // Put is a claim about each move.
    if (auto known = symbolizeVia(via); via != "auto" && (!known || known == Via::Put)) {
      getOperation().emitError() << "ccl-assign-channels: via is auto, staged or direct, not '"
                                 << via << "'";
      return signalPassFailure();
    }
    for (auto algorithm : getOperation().getOps<AlgorithmOp>())
      assign(algorithm);
  }

  static bool touchesPeers(Operation *op) {
    auto attr = op->getAttrOfType<ViaAttr>("via");
    return attr && attr.getValue() != Via::Staged;
  }

  /// One agent receives a message: the first of those that would wait for the put. The others are
  /// ordered behind it when agents are split.
  static void sendInstead(Operation *op) {
    op->removeAttr("via");
    if (auto agents = op->getAttrOfType<DenseI64ArrayAttr>("agents"))
      op->setAttr("agents",
                  DenseI64ArrayAttr::get(op->getContext(), agents.asArrayRef().take_front(2)));
    auto schedule = dyn_cast<ScheduleOp>(op);
    if (!schedule || !schedule.getAgents())
      return;
    SmallVector<int64_t> pairs;
    for (size_t row = 0; row < schedule.getNumRows(); ++row)
      llvm::append_range(pairs, ArrayRef(schedule.getAgentsOf(row)).take_front(2));
    schedule.setAgentsAttr(ScheduleOp::makeTable(op->getContext(), pairs, 2));
  }

  void assign(AlgorithmOp algorithm) {
    Via chosen = Via::Direct;
    if (via != "auto")
      chosen = *symbolizeVia(via);
    else if (hasInOut(algorithm))
      chosen = Via::Staged;
    ViaAttr attr = ViaAttr::get(&getContext(), chosen);
    algorithm.getBody().walk([&](Operation *op) {
      if (!isa<CopyOp, ReduceOp, ScheduleOp>(op))
        return;
      if (via == "staged" && touchesPeers(op))
        sendInstead(op);
      if (!op->hasAttr("via"))
        op->setAttr("via", attr);
    });
    // The outermost parallel loop is a step; its moves are told apart by their tags.
    algorithm.getBody().walk<WalkOrder::PreOrder>([&](affine::AffineParallelOp step) {
      int64_t next = 0;
      step.getBody()->walk([&](Operation *op) {
        if (!isa<CopyOp, ReduceOp>(op))
          return;
        if (next)
          op->setAttr("tag", OpBuilder(op).getI64IntegerAttr(next));
        ++next;
      });
      return WalkResult::skip();
    });
  }
};
} // namespace
} // namespace ccl
