//===- Decompose.cpp - Collectives as stages along axes -------------------------===//
#include "dialect/Indexing.h"
#include "passes/Passes.h"
#include "passes/synthesis/Stages.h"
#include "passes/synthesis/generators/Builder.h"
#include "passes/synthesis/solver/Decompositions.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLDECOMPOSE
#include "passes/Passes.h.inc"

namespace {

using solver::Decomposer;
using solver::Decomposition;

/// Candidates that a remark lists.
constexpr size_t mostListed = 8;

struct Decompose : impl::CclDecomposeBase<Decompose> {
  using CclDecomposeBase::CclDecomposeBase;

  void runOnOperation() override {
    for (auto op : llvm::to_vector(getOperation().getOps<CollectiveOpInterface>()))
      if (!op.getAlgorithmAttr() && failed(decompose(op)))
        signalPassFailure();
  }

  LogicalResult decompose(CollectiveOpInterface op) {
    const model::Topology topology = getModelTopology(topologyOf(op));
    const model::Collective kind = toModel(op.getContract().getKind());
    const size_t axes = llvm::count_if(topology.axes, [](auto &axis) { return axis.size > 1; });
    if (axes < 2 || !isWhole(op, topology) || !Decomposer::handles(kind))
      return success();
    if (axes > Decomposer::mostAxes) {
      op->emitRemark() << "stays whole: it has " << axes << " axes; at most "
                       << Decomposer::mostAxes << " are decomposed";
      return success();
    }
    if (std::string wrong = topology.check(); !wrong.empty())
      return op->emitOpError() << "cannot be decomposed: " << wrong;
    const int64_t root = op.getContract().getRoot();
    if (root >= topology.ranks())
      return op->emitOpError() << "has root " << root << "; ranks are 0 to "
                               << topology.ranks() - 1;
    std::string why;
    const std::vector<Decomposition> found = Decomposer(topology, kind, root, bytes).run(why);
    if (found.empty()) {
      op->emitRemark() << "stays whole: no order of axes works: " << why;
      return success();
    }
    tell(op, topology, found);
    write(op, topology, found.front());
    return success();
  }

  void tell(CollectiveOpInterface op, const model::Topology &topology,
            const std::vector<Decomposition> &found) {
    InFlightDiagnostic remark = op->emitRemark();
    remark << "at least " << fmt::format("{:.2f}", found.front().us)
           << " us: " << found.front().text(topology);
    for (size_t i = 1; i < std::min(found.size(), mostListed); ++i)
      remark.attachNote() << fmt::format("{:.2f} us: {}", found[i].us, found[i].text(topology));
    if (found.size() > mostListed)
      remark.attachNote() << fmt::format("and {} that take longer", found.size() - mostListed);
  }

  void write(CollectiveOpInterface op, const model::Topology &topology, const Decomposition &best) {
    OpBuilder b(op);
    const StringRef name = SymbolTable::getSymbolName(op).getValue();
    SmallVector<Attribute> stages;
    solver::AxisSet scattered(topology.axes.size());
    for (const solver::DecomposedStage &stage : best.stages) {
      stages.push_back(writeStage(b, op, topology, stage));
      if (stage.collective == model::Collective::ReduceScatter ||
          stage.collective == model::Collective::AllGather)
        for (size_t a = 0; a < scattered.size(); ++a)
          scattered[a] = scattered[a] || stage.axes[a];
    }
    SmallVector<int64_t> ranks, chunks;
    for (const model::Axis &axis : topology.axes)
      ranks.push_back(axis.size);
    for (size_t a = 0; a < scattered.size(); ++a)
      chunks.push_back(scattered[a] ? ranks[a] : 1);
    chunks.push_back(1); // pieces
    AlgorithmOp algorithm = writeAlgorithm(op, name.str() + "_stages", ranks, chunks, stages);
    op.setAlgorithmAttr(FlatSymbolRefAttr::get(algorithm.getSymNameAttr()));
  }

  FlatSymbolRefAttr writeStage(OpBuilder &b, CollectiveOpInterface op,
                               const model::Topology &topology,
                               const solver::DecomposedStage &stage) {
    const bool isReduce = stage.collective == model::Collective::Reduce;
    SmallVector<StringRef> axes;
    std::string name = SymbolTable::getSymbolName(op).getValue().str() + "_" +
                       std::string(model::name(stage.collective));
    for (size_t a = 0; a < stage.axes.size(); ++a)
      if (stage.axes[a]) {
        axes.push_back(topology.axes[a].name);
        name += "_" + topology.axes[a].name;
      }
    name = freeName(getOperation(), name);
    OperationState state(op.getLoc(), isReduce
                                          ? std::string("ccl.reduce_to")
                                          : "ccl." + std::string(model::name(stage.collective)));
    state.addAttribute("sym_name", b.getStringAttr(name));
    if (model::reduces(stage.collective))
      state.addAttribute("reduction",
                         ReductionKindAttr::get(b.getContext(), op.getContract().getReduction()));
    if (model::hasRoot(stage.collective))
      state.addAttribute("root", b.getI64IntegerAttr(stage.root));
    state.addAttribute("topology", op.getTopologyAttr());
    state.addAttribute("axes", b.getStrArrayAttr(axes));
    b.create(state);
    return FlatSymbolRefAttr::get(b.getContext(), name);
  }

  AlgorithmOp writeAlgorithm(CollectiveOpInterface op, StringRef name, ArrayRef<int64_t> ranks,
                             ArrayRef<int64_t> chunks, ArrayRef<Attribute> stages) {
    const PlanRequest request = makeRequest(op.getContract(), product(ranks), 1, {});
    AlgorithmBuilder a(getOperation(), name, request.generator, ranks, topologyOf(op));
    Buffer x = a.inout("x", chunks);
    for (Attribute stage : stages)
      a.applyStage(cast<FlatSymbolRefAttr>(stage), x);
    a.getAlgorithm()->setLoc(op.getLoc());
    return a.getAlgorithm();
  }
};

} // namespace
} // namespace ccl
