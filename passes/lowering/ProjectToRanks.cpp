//===- ProjectToRanks.cpp - From the choreography to rank programs -----------===//
//
// Starts with one class of all ranks and lets the Projector say where ranks differ.
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/lowering/Projector.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLPROJECTTORANKS
#include "passes/Passes.h.inc"

namespace {

struct ProjectToRanks : impl::CclProjectToRanksBase<ProjectToRanks> {
  using CclProjectToRanksBase::CclProjectToRanksBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto algorithm : llvm::to_vector(module.getOps<AlgorithmOp>()))
      if (failed(project(algorithm)))
        return signalPassFailure();
  }

  LogicalResult project(AlgorithmOp algorithm) {
    // Programs that were written by hand, or by an earlier run, are kept.
    if (!getPrograms(algorithm).empty())
      return success();
    auto contract = getModelContract(algorithm);
    if (failed(contract))
      return failure();
    if (rank >= contract->ranks)
      return algorithm.emitOpError()
             << "rank " << int64_t(rank) << " is outside [0, " << contract->ranks << ")";
    constexpr int64_t limit = 1 << 20; // of ranks that are listed one by one
    if (rank < 0 && contract->ranks > limit)
      return algorithm.emitOpError() << "has " << contract->ranks << " ranks; of more than "
                                     << limit << " only a single one can be projected";
    std::vector<SmallVector<int64_t>> work(1);
    if (rank >= 0)
      work[0].push_back(rank);
    else
      work[0] = llvm::to_vector(llvm::seq<int64_t>(0, contract->ranks));
    SmallVector<ProgramOp> programs;
    const AgentPairs pairs(algorithm);
    const int64_t enough = std::max<int64_t>(slots, getSlots(algorithm));
    const std::optional<Protocol> known = symbolizeProtocol(protocol);
    if (!known)
      return algorithm.emitError() << "ccl-project-to-ranks: a protocol is simple, ll, ll128 or "
                                      "lamport, not '"
                                   << protocol << "'";
    constexpr uint64_t most = (1 << 20) / AgentPairs::channelsOfMove; // as of ccl.channel
    if (pairs.end() > most)
      return algorithm.emitOpError()
             << "needs " << pairs.end() << " channels between two ranks, at most " << most
             << " have tags: use lower tags, or fewer pairs of agents";
    while (!work.empty()) {
      SmallVector<int64_t> ranks = std::move(work.back());
      work.pop_back();
      Projector projector(algorithm, pairs, ranks, enough, *known, maxOps);
      std::string name = freeName(algorithm.getSymName() + ".r" + Twine(ranks.front()));
      Control control = projector.run(name);
      if (control == Control::Done) {
        programs.push_back(projector.program);
        continue;
      }
      projector.program.erase();
      if (control == Control::Failed)
        return failure();
      if (control == Control::Unroll)
        return algorithm.emitOpError("has a loop whose bounds or ranks are not affine in a way "
                                     "that can be projected; bounds must be constant once size "
                                     "parameters are bound");
      SmallVector<int64_t> rest;
      if (control == Control::Singletons) {
        for (int64_t r : llvm::reverse(ranks))
          work.push_back({r});
        continue;
      }
      std::set_difference(ranks.begin(), ranks.end(), projector.splitOff.begin(),
                          projector.splitOff.end(), std::back_inserter(rest));
      work.push_back(rest);
      work.push_back(projector.splitOff);
    }
    if (rank < 0 && programs.size() == 1)
      programs.front().setSymName(freeName(algorithm.getSymName() + ".p"));
    else if (rank < 0)
      sortByFirstRank(algorithm, programs);
    return success();
  }

  /// `base`, or with a number behind it if the module has that name already.
  std::string freeName(const Twine &base) {
    std::string name = base.str();
    for (int i = 1; getOperation().lookupSymbol(name); ++i)
      name = (base + "." + Twine(i)).str();
    return name;
  }

  void sortByFirstRank(AlgorithmOp algorithm, SmallVector<ProgramOp> &programs) {
    llvm::sort(programs,
               [](ProgramOp a, ProgramOp b) { return a.getRanks()[0] < b.getRanks()[0]; });
    Operation *last = algorithm;
    for (auto [i, p] : llvm::enumerate(programs)) {
      p->moveAfter(last);
      last = p;
      p.setSymName(freeName(algorithm.getSymName() + ".p" + Twine(i)));
    }
  }
};

} // namespace
} // namespace ccl
