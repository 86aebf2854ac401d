//===- AssignChannels.cpp - Staged or direct, and tags -----------------------===//

#include "dialect/Expand.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

#include "llvm/ADT/DenseSet.h"

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
    for (auto algorithm : getOperation().getOps<AlgorithmOp>()) {
      DenseSet<Operation *> crossing;
      if (failed(findCrossing(algorithm, crossing)))
        return signalPassFailure();
      assign(algorithm, crossing);
    }
  }

  /// Ops of which some moves go from one host to another.
  LogicalResult findCrossing(AlgorithmOp algorithm, DenseSet<Operation *> &crossing) {
    if (hosts.empty() || algorithm.getLowered())
      return success();
    LocationTable locations;
    std::vector<Operation *> owners;
    FailureOr<model::Moves> moves =
        expand(algorithm, locations, std::nullopt, uint64_t(1) << 25, &owners);
    if (failed(moves))
      return failure();
    llvm::Expected<std::vector<int32_t>> hostOf = parseHosts(hosts, moves->ranks);
    if (!hostOf)
      return algorithm.emitOpError() << llvm::toString(hostOf.takeError());
    auto known = [&](int32_t rank) { return rank >= 0 && rank < moves->ranks; };
    for (auto [move, owner] : llvm::zip_equal(moves->moves, owners))
      if (known(move.src.rank) && known(move.dst.rank) &&
          (*hostOf)[size_t(move.src.rank)] != (*hostOf)[size_t(move.dst.rank)])
        crossing.insert(owner);
    return success();
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

  void assign(AlgorithmOp algorithm, const DenseSet<Operation *> &crossing) {
    Via chosen = Via::Direct;
    if (via != "auto")
      chosen = *symbolizeVia(via);
    else if (hasInOut(algorithm))
      chosen = Via::Staged;
    ViaAttr attr = ViaAttr::get(&getContext(), chosen);
    algorithm.getBody().walk([&](Operation *op) {
      if (!isa<CopyOp, ReduceOp, ScheduleOp>(op))
        return;
      const bool crosses = crossing.contains(op);
      if ((via == "staged" || crosses) && touchesPeers(op))
        sendInstead(op);
      if (crosses)
        op->setAttr("via", ViaAttr::get(&getContext(), Via::Staged));
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
