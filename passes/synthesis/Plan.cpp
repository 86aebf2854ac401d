//===- Plan.cpp -----------------------------------------------------------===//
#include "passes/synthesis/Plan.h"

#include "passes/synthesis/PlanClock.h"
#include "passes/synthesis/PlanSearch.h"

#include <fmt/format.h>

namespace ccl {

llvm::ArrayRef<model::Collective> plannedCollectives() {
  static constexpr model::Collective list[] = {
      model::Collective::AllGather, model::Collective::ReduceScatter, model::Collective::AllReduce,
      model::Collective::Broadcast, model::Collective::Reduce,        model::Collective::Scatter,
      model::Collective::Gather};
  return list;
}

std::string PlanRequest::check(const model::Topology &topology) const {
  if (!llvm::is_contained(plannedCollectives(), generator.collective))
    return fmt::format("there are no plans for {}", model::name(generator.collective));
  if (topology.ranks() < 2)
    return "one rank has nothing to send";
  if (generator.ranks != topology.ranks())
    return fmt::format("{} ranks are asked for, the topology has {}", generator.ranks,
                       topology.ranks());
  if (generator.root < 0 || generator.root >= generator.ranks)
    return fmt::format("root {}: ranks are 0 to {}", generator.root, generator.ranks - 1);
  if (generator.root != 0 && !model::hasRoot(generator.collective))
    return fmt::format("{} has no root", model::name(generator.collective));
  if (std::string wrong = topology.check(); !wrong.empty())
    return wrong;
  if (bytes.empty() || llvm::any_of(bytes, [](int64_t size) { return size <= 0; }))
    return "sizes have to be positive";
  return "";
}

namespace {
class Planner {
public:
  Planner(mlir::MLIRContext &context, const model::Topology &topology, const PlanRequest &request)
      : context(context), topology(topology), request(request) {}

  PlanReport run() {
    findBound();
    solver::Network::Options options;
    options.symmetric = request.symmetric && !model::hasRoot(request.generator.collective);
    const solver::Network network(topology, options);
    report.symmetric = network.isSymmetric();
    Packings packings(topology, network, request, treesGBps());
    {
      PlanClock clock(report.seconds.pack);
      report.error = packings.find();
    }
    for (const Packing &packing : packings.best())
      report.trades.push_back({packing.height, packing.kind.chunks, ratioOf(packing),
                               packing.kind.mostGBps / report.bound.algbw, packing.kind.pairs});
    if (report.error.empty())
      search(network, packings);
    if (report.error.empty())
      copyModules();
    report.stopped |= request.isOver();
    return std::move(report);
  }

private:
  double ratioOf(const Packing &packing) const { return packing.fluidGBps / report.bound.algbw; }

  model::BoundOptions boundOptions() const {
    model::BoundOptions options;
    options.root = request.generator.root;
    options.seconds = request.boundSeconds;
    return options;
  }

  void findBound() {
    PlanClock clock(report.seconds.bound);
    request.tell("bound");
    report.bound = *model::bandwidthBound(topology, request.generator.collective, boundOptions());
    lines = model::timeLines(topology, report.bound);
  }

  /// What trees do not beat: switches copy and add nothing for them.
  double treesGBps() const {
    const bool helps = llvm::any_of(
        topology.switches, [](const model::Switch &node) { return node.multicast || node.reduce; });
    if (!helps)
      return report.bound.algbw;
    model::Topology plain = topology;
    for (model::Switch &node : plain.switches)
      node.multicast = node.reduce = false;
    return model::bandwidthBound(plain, request.generator.collective, boundOptions())->algbw;
  }

  /// Large sizes first: if time runs out, small ones use their programs.
  void search(const solver::Network &network, Packings &packings) {
    PlanSearch search(context, topology, network, packings, request, report.seconds);
    std::vector<size_t> order(request.bytes.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    llvm::sort(order, [&](size_t a, size_t b) {
      return std::pair(request.bytes[b], a) < std::pair(request.bytes[a], b);
    });
    report.sizes.resize(order.size());
    for (size_t i : order) {
      std::optional<PlanTrial> best =
          search.best(request.bytes[i], model::timeBound(lines, request.bytes[i]));
      report.simulated = search.getSimulated(), report.rejected = search.getRejected();
      report.stopped |= search.hasSkipped();
      if (!best) {
        report.error = search.getError(), report.broken = true;
        return;
      }
      SizePlan &size = report.sizes[i];
      size.bytes = best->bytes, size.count = best->count, size.us = best->us;
      size.algbw = double(best->bytes) / best->us / 1e3;
      size.boundUs = model::timeBound(lines, best->bytes);
      size.algorithm = numberOf(*best, packings.best()[best->shape.packing]);
    }
  }

  size_t numberOf(const PlanTrial &trial, const Packing &packing) {
    for (size_t i = 0; i < programs.size(); ++i)
      if (programs[i] == trial.program && report.algorithms[i].batches == trial.shape.batches)
        return i;
    programs.push_back(trial.program);
    PlannedAlgorithm &algorithm = report.algorithms.emplace_back();
    algorithm.chunks = packing.kind.chunks, algorithm.pieces = trial.shape.pieces;
    algorithm.agents = trial.shape.agents, algorithm.height = packing.height;
    algorithm.fluidRatio = ratioOf(packing);
    algorithm.moves = trial.program->getMoves();
    algorithm.slots = trial.program->isStaged() ? trial.shape.slots : 0;
    algorithm.batches = trial.shape.batches;
    return programs.size() - 1;
  }

  void copyModules() {
    for (size_t i = 0; i < programs.size(); ++i) {
      PlannedAlgorithm &algorithm = report.algorithms[i];
      algorithm.minSlots = programs[i]->getMinSlots();
      algorithm.remark = programs[i]->getRemark();
      algorithm.holdsInPlace = programs[i]->holdsInPlace();
      algorithm.module = programs[i]->copyModule();
      AlgorithmOp written = *algorithm.module->getOps<AlgorithmOp>().begin();
      written->setAttr(microBatchesAttr,
                       mlir::Builder(&context).getI64IntegerAttr(algorithm.batches));
      algorithm.name = written.getSymName().str();
    }
  }

  mlir::MLIRContext &context;
  const model::Topology &topology;
  const PlanRequest &request;
  PlanReport report;
  std::vector<model::TimeLine> lines;
  std::vector<std::shared_ptr<PlanProgram>> programs; ///< as report.algorithms
};
} // namespace

PlanReport plan(mlir::MLIRContext &context, const model::Topology &topology,
                const PlanRequest &request) {
  return Planner(context, topology, request).run();
}

} // namespace ccl
