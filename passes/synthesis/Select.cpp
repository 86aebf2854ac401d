//===- Select.cpp - The fastest algorithm for a size ------------------------------===//
#include "passes/Passes.h"
#include "passes/synthesis/Stages.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLSELECT
#include "passes/Passes.h.inc"

namespace {

/// An algorithm that might do, as a program.
struct Entrant {
  AlgorithmOp algorithm;
  PlanProgram program;
};

struct Select : impl::CclSelectBase<Select> {
  using CclSelectBase::CclSelectBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<model::CostModel> cost = readModel(module, getArgument(), model);
    if (failed(cost))
      return signalPassFailure();
    costModel = *cost;
    sizes.assign(bytes.begin(), bytes.end());
    if (sizes.empty())
      sizes.push_back(int64_t(64) << 20);
    llvm::sort(sizes);
    sizes.erase(llvm::unique(sizes), sizes.end());
    const llvm::StringSet<> applied = appliedSymbols(module);
    for (auto op : module.getOps<CollectiveOpInterface>())
      if (!applied.contains(SymbolTable::getSymbolName(op).getValue()) &&
          failed(select(op, applied)))
        signalPassFailure();
    if (prune)
      eraseUnused();
  }

private:
  LogicalResult select(CollectiveOpInterface op, const llvm::StringSet<> &applied) {
    const model::Topology topology = getModelTopology(topologyOf(op));
    if (!isWhole(op, topology))
      return success();
    if (std::string wrong = topology.check(); !wrong.empty())
      return op->emitOpError() << "has a topology that nothing is simulated on: " << wrong;
    std::string why;
    std::vector<Entrant> entrants = findEntrants(op, topology, applied, why);
    SmallVector<std::pair<int64_t, AlgorithmOp>> winners;
    std::string report;
    for (int64_t size : sizes) {
      Entrant *best = fastest(op, topology, size, entrants, report, why);
      if (!best)
        return op->emitOpError() << "has no algorithm to select: "
                                 << (why.empty() ? "none meets its contract on " +
                                                       std::to_string(topology.ranks()) + " ranks"
                                                 : why);
      if (best->program.isStaged()) // as it was simulated
        raiseSlots(best->algorithm, PlanRequest().slots);
      winners.emplace_back(size, best->algorithm);
    }
    op->emitRemark() << report;
    op.setAlgorithmAttr(FlatSymbolRefAttr::get(winners.back().second.getSymNameAttr()));
    if (sizes.size() > 1)
      op.setChoicesAttr(choicesOf(winners));
    return success();
  }

  std::vector<Entrant> findEntrants(CollectiveOpInterface op, const model::Topology &topology,
                                    const llvm::StringSet<> &applied, std::string &why) {
    std::vector<Entrant> entrants;
    for (auto algorithm : getOperation().getOps<AlgorithmOp>()) {
      if (algorithm.getContract() != op.getContract() || algorithm.getLowered() ||
          algorithm.getNumArguments() || applied.contains(algorithm.getSymName()))
        continue;
      FailureOr<model::Contract> contract = getModelContract(algorithm);
      if (failed(contract) || contract->ranks != topology.ranks())
        continue;
      const PlanRequest request = makeRequest(op.getContract(), topology.ranks(), 1, costModel);
      std::optional<PlanProgram> program =
          PlanProgram::wrap(extract(algorithm), request.slots, /*isWhole=*/true, why);
      if (program)
        entrants.push_back({algorithm, std::move(*program)});
    }
    return entrants;
  }

  /// The first of equal ones.
  Entrant *fastest(CollectiveOpInterface op, const model::Topology &topology, int64_t size,
                   std::vector<Entrant> &entrants, std::string &report, std::string &why) {
    const PlanRequest request = makeRequest(op.getContract(), topology.ranks(), size, costModel);
    Entrant *best = nullptr;
    double leastUs = 0;
    report += fmt::format("{}{} bytes:", report.empty() ? "" : "; ", size);
    for (Entrant &entrant : entrants) {
      const int64_t batches = std::max<int64_t>(getMicroBatches(entrant.algorithm),
                                                entrant.program.leastBatches(request, size));
      const model::SimulateReport result =
          entrant.program.simulate(topology, request, size, batches);
      if (!result.ok()) {
        why = result.faults.front().message;
        continue;
      }
      report += fmt::format(" @{} {:.2f} us", entrant.algorithm.getSymName().str(), result.us);
      if (best && result.us >= leastUs)
        continue;
      if (const std::string &wrong = entrant.program.prove(); !wrong.empty()) {
        why = wrong;
        continue;
      }
      best = &entrant, leastUs = result.us;
    }
    return best;
  }

  /// Sizes in a row that one algorithm is best for are one entry.
  ArrayAttr choicesOf(ArrayRef<std::pair<int64_t, AlgorithmOp>> winners) {
    Builder b(&getContext());
    SmallVector<Attribute> choices;
    for (size_t i = 0; i < winners.size(); ++i) {
      auto [size, algorithm] = winners[i];
      const bool isLast = i + 1 == winners.size();
      if (!isLast && winners[i + 1].second == algorithm)
        continue;
      SmallVector<NamedAttribute> entry = {
          b.getNamedAttr("algorithm", FlatSymbolRefAttr::get(algorithm.getSymNameAttr()))};
      if (int64_t batches = getMicroBatches(algorithm))
        entry.push_back(b.getNamedAttr("micro_batches", b.getI64IntegerAttr(batches)));
      if (!isLast)
        entry.push_back(b.getNamedAttr("up_to", b.getI64IntegerAttr(size)));
      choices.push_back(b.getDictionaryAttr(entry));
    }
    return b.getArrayAttr(choices);
  }

  /// Algorithms that no collective names, and what only those apply.
  void eraseUnused() {
    const llvm::StringSet<> applied = appliedSymbols(getOperation());
    for (bool erased = true; erased;) {
      erased = false;
      for (Operation &op : llvm::make_early_inc_range(*getOperation().getBody())) {
        const bool isStage = isa<CollectiveOpInterface>(op) &&
                             applied.contains(SymbolTable::getSymbolName(&op).getValue());
        if ((isStage || isa<AlgorithmOp>(op)) &&
            SymbolTable::symbolKnownUseEmpty(&op, getOperation())) {
          op.erase();
          erased = true;
        }
      }
    }
  }

  model::CostModel costModel;
  SmallVector<int64_t> sizes;
};

} // namespace
} // namespace ccl
