//===- Synthesize.cpp - An algorithm for every collective -----------------------===//
#include "passes/Passes.h"
#include "passes/synthesis/Candidates.h"
#include "passes/synthesis/Stages.h"
#include "passes/synthesis/generators/Builder.h"

#include <fmt/format.h>

#include <numeric>

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLSYNTHESIZE
#include "passes/Passes.h.inc"

namespace {

using solver::RankGroup;
using solver::RankGroups;

/// All stages of an algorithm share its pieces, a common multiple of chunks times pieces of each;
/// micro-batches cut further.
constexpr int32_t mostChunksOfStages = 4, mostPiecesOfStages = 4;

struct Synthesize : impl::CclSynthesizeBase<Synthesize> {
  using CclSynthesizeBase::CclSynthesizeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<model::CostModel> cost = readModel(module, getArgument(), model);
    if (failed(cost) || failed(checkLimits()))
      return signalPassFailure();
    costModel = *cost;
    start = std::chrono::steady_clock::now();
    solved.clear();
    for (auto op : llvm::to_vector(module.getOps<CollectiveOpInterface>()))
      if (failed(synthesize(op)))
        signalPassFailure();
  }

private:
  LogicalResult checkLimits() {
    for (auto [name, value] : {std::pair<const char *, int64_t>("k", chunks),
                               {"height", height},
                               {"pieces", pieces},
                               {"seed", seed}})
      if (value < 0 || value > std::numeric_limits<int32_t>::max())
        return getOperation().emitError() << getArgument() << ": " << name << " is " << value;
    if (!(timeLimit >= 0 && timeLimit <= 1e9))
      return getOperation().emitError() << getArgument() << ": time-limit is seconds from 0 on";
    return success();
  }

  LogicalResult synthesize(CollectiveOpInterface op) {
    const model::Topology topology = getModelTopology(topologyOf(op));
    const bool whole = isWhole(op, topology);
    if (op.getAlgorithmAttr() && !(direct && whole && isPlanned(op)))
      return success();
    if (std::string wrong = topology.check(); whole && !wrong.empty())
      return op->emitOpError() << "gets no algorithm: " << wrong;
    return whole ? solveWhole(op, topology) : solveStage(op, topology);
  }

  static bool isPlanned(CollectiveOpInterface op) {
    return llvm::is_contained(plannedCollectives(), toModel(op.getContract().getKind()));
  }

  LogicalResult solveWhole(CollectiveOpInterface op, const model::Topology &topology) {
    const bool isStage = !usesOf(op).empty();
    FlatSymbolRefAttr found = solve(op, topology, bytes, isStage, "");
    if (!found)
      return failure();
    if (!op.getAlgorithmAttr())
      attach(op, found, usesOf(op));
    return success();
  }

  /// In the groups that take part, as far as those who apply it tell.
  LogicalResult solveStage(CollectiveOpInterface op, const model::Topology &topology) {
    const std::vector<StageUse> uses = usesOf(op);
    double share = uses.empty() ? 1 : 0;
    for (const StageUse &use : uses)
      share = std::max(share, use.share);
    std::vector<int64_t> only;
    if (!uses.empty() && llvm::all_of(uses, [&](auto &use) { return use.only == uses[0].only; }))
      only = uses[0].only;
    RankGroups groups = solver::findGroups(topology, axesOf(op, topology), only);
    if (auto listed = op.getGroupsAttr())
      keepListed(groups, listed.asArrayRef());
    const auto size = std::max<int64_t>(int64_t(double(bytes) * share), 1);
    std::vector<FlatSymbolRefAttr> found;
    for (size_t representative : groups.representatives) {
      const RankGroup &group = groups.groups[representative];
      found.push_back(
          solve(op, group.topology, size, /*isStage=*/true, whereIs(group, topology, op)));
      if (!found.back())
        return failure();
    }
    if (found.size() == 1)
      attach(op, found.front(), uses);
    else
      split(op, groups, found, uses);
    return success();
  }

  static void keepListed(RankGroups &groups, ArrayRef<int64_t> listed) {
    std::erase_if(groups.groups,
                  [&](const RankGroup &g) { return !llvm::is_contained(listed, g.number); });
    std::vector<size_t> classes, first;
    for (size_t g = 0; g < groups.groups.size(); ++g) {
      size_t &mine = groups.groups[g].classNumber;
      auto known = llvm::find(classes, mine);
      if (known == classes.end()) {
        classes.push_back(mine), first.push_back(g);
        mine = classes.size() - 1;
      } else {
        mine = size_t(known - classes.begin());
      }
    }
    groups.representatives = first;
  }

  static std::string whereIs(const RankGroup &group, const model::Topology &topology,
                             CollectiveOpInterface op) {
    std::string ranks;
    constexpr size_t shown = 4;
    for (size_t i = 0; i < std::min(group.ranks.size(), shown); ++i)
      ranks += fmt::format("{}{}", i ? ", " : "", group.ranks[i]);
    if (group.ranks.size() > shown)
      ranks += ", ...";
    return fmt::format(" along {}, among ranks {} (counted from 0 here)",
                       solver::axisNames(topology, axesOf(op, topology)), ranks);
  }

  /// The name of an algorithm for that, which is made once.
  FlatSymbolRefAttr solve(CollectiveOpInterface op, const model::Topology &topology, int64_t size,
                          bool isStage, const std::string &where) {
    std::string key;
    llvm::raw_string_ostream os(key);
    os << op.getContract() << ' ' << size << ' ' << isStage << ' ' << solver::topologyKey(topology);
    if (FlatSymbolRefAttr known = solved.lookup(key))
      return known;
    PlanRequest request = makeRequest(op.getContract(), topology.ranks(), size, costModel);
    request.limits = {int32_t(chunks), int32_t(height), 0, int32_t(pieces)};
    if (isStage && pieces == 0)
      request.limits.pieces = mostPiecesOfStages;
    if (isStage)
      request.limits.batches = 1; // all stages have the same
    if (isStage && chunks == 0)
      request.limits.chunks = mostChunksOfStages;
    request.seed = uint64_t(seed);
    if (timeLimit > 0)
      request.deadline = start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                     std::chrono::duration<double>(timeLimit));
    std::string why;
    std::optional<Candidate> best = findCandidate(getContext(), topology, request, isStage, why);
    if (!best) {
      op->emitOpError() << "gets no algorithm" << where << ": " << why;
      return {};
    }
    OpBuilder b = OpBuilder::atBlockEnd(getOperation().getBody());
    auto copy = cast<AlgorithmOp>(b.clone(*best->algorithm()));
    copy.setSymName(freeName(getOperation(), best->algorithm().getSymName()));
    op->emitRemark() << "@" << copy.getSymName() << " (" << best->name
                     << "): " << fmt::format("{:.2f}", best->us) << " us" << where;
    return solved[key] = FlatSymbolRefAttr::get(copy.getSymNameAttr());
  }

  void attach(CollectiveOpInterface op, FlatSymbolRefAttr found,
              const std::vector<StageUse> &uses) {
    op.setAlgorithmAttr(found);
    for (const StageUse &use : uses)
      widen(use.apply, op);
  }

  /// The last chunk axis of the applying algorithm's buffer becomes a multiple of what fits.
  void widen(ApplyOp apply, CollectiveOpInterface stage) {
    auto buffer = apply.getBuffers().front().getDefiningOp<BufferOp>();
    std::optional<SmallVector<int64_t>> chunkShape = buffer.getChunkShape();
    auto topology = topologyOf(stage);
    auto algorithm = getOperation().lookupSymbol<AlgorithmOp>(stage.getAlgorithmAttr().getAttr());
    FailureOr<model::Contract> contract = getModelContract(algorithm);
    if (failed(contract) || !chunkShape || chunkShape->size() != topology.getSizes().size() + 1)
      return; // ccl-expand-apply says what does not fit
    int64_t extents = 1;
    for (auto [axis, extent] :
         llvm::zip(topology.getAxes().getAsValueRange<StringAttr>(), *chunkShape))
      extents *= isAlong(stage, axis) ? extent : 1;
    chunkShape->back() = std::lcm(chunkShape->back(), piecesFor(*contract, extents));
    SmallVector<AffineExpr> shape;
    for (int64_t extent : *chunkShape)
      shape.push_back(getAffineConstantExpr(extent, &getContext()));
    buffer.setChunks(AffineMap::get(0, 0, shape, &getContext()));
    buffer.getChunkOperandsMutable().clear();
  }

  /// One collective for each kind of groups.
  void split(CollectiveOpInterface op, const RankGroups &groups,
             const std::vector<FlatSymbolRefAttr> &found, const std::vector<StageUse> &uses) {
    OpBuilder b(op);
    const StringRef name = SymbolTable::getSymbolName(op).getValue();
    for (size_t c = 0; c < found.size(); ++c) {
      SmallVector<int64_t> numbers;
      for (const RankGroup &group : groups.groups)
        if (group.classNumber == c)
          numbers.push_back(group.number);
      auto part = cast<CollectiveOpInterface>(b.clone(*op));
      SymbolTable::setSymbolName(part, freeName(getOperation(), (name + "_kind" + Twine(c)).str()));
      part.setGroupsAttr(b.getDenseI64ArrayAttr(numbers));
      part.setAlgorithmAttr(found[c]);
      const auto symbol = FlatSymbolRefAttr::get(SymbolTable::getSymbolName(part));
      for (const StageUse &use : uses) {
        auto apply = cast<ApplyOp>(OpBuilder(use.apply).clone(*use.apply));
        apply.setCalleeAttr(symbol);
        widen(apply, part);
      }
    }
    for (const StageUse &use : uses)
      ApplyOp(use.apply).erase();
    op.erase();
  }

  model::CostModel costModel;
  std::chrono::steady_clock::time_point start;
  llvm::StringMap<FlatSymbolRefAttr> solved;
};

} // namespace
} // namespace ccl
