//===- PlanProgram.cpp ----------------------------------------------------===//
#include "passes/synthesis/PlanProgram.h"

#include "dialect/model/Sizes.h"
#include "passes/Pipelines.h"
#include "passes/checks/CheckProofs.h"
#include "passes/lowering/RollLoops.h"
#include "passes/synthesis/PlanClock.h"
#include "passes/synthesis/solver/GroupByAgent.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl {

namespace {
/// The first error, instead of all of them on stderr.
class FirstError {
public:
  explicit FirstError(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error && text.empty())
            text = diagnostic.str();
          return success();
        }) {}
  std::string take(std::string fallback) { return text.empty() ? fallback : std::move(text); }

private:
  std::string text;
  ScopedDiagnosticHandler handler;
};
} // namespace

static std::string nameOf(const PlanRequest &request, const Packing &packing,
                          const PlanShape &shape) {
  std::string name = fmt::format(
      "{}_{}{}_height{}_pieces{}", model::name(request.generator.collective),
      packing.kind.pairs ? "pairs" : "k", packing.kind.chunks, packing.height, shape.pieces);
  return shape.agents > 1 ? name + fmt::format("_agents{}", shape.agents) : name;
}

std::optional<PlanProgram> PlanProgram::make(MLIRContext &context, const solver::Network &network,
                                             const Packing &packing, const PlanShape &shape,
                                             const PlanRequest &request, int64_t bytes,
                                             PlanSeconds &seconds, std::string &why) {
  PlanProgram program;
  FirstError error(&context);
  program.module = ModuleOp::create(UnknownLoc::get(&context));
  if (packing.inSwitch) {
    findGenerator(request.generator.collective, "in_switch")
        ->generate(*program.module, request.generator);
    program.moves = packing.forest.trees.size() * uint64_t(network.ranks() - 1) *
                    (network.isSymmetric() ? uint64_t(network.ranks()) : 1);
  } else {
    PlanClock clock(seconds.order);
    PlanOrder order(network, packing, shape, request, bytes);
    if (network.isSymmetric())
      order.hops = solver::groupByAgent(network, order.forest, order.problem, order.hops);
    const TreeAlgorithm trees = {request.generator, std::move(order.chunks),
                                 packing.kind.chunks * shape.pieces, shape.agents,
                                 std::move(order.hops)};
    AlgorithmOp written =
        writeTrees(*program.module, nameOf(request, packing, shape), network, order.forest, trees);
    if (network.isSymmetric())
      rollLoops(written.getBody().front());
    raiseSlots(written, shape.slots);
    program.moves = trees.hops.size() * (network.isSymmetric() ? uint64_t(network.ranks()) : 1);
  }
  PlanClock clock(seconds.lower);
  if (succeeded(program.lower(/*slots=*/1)))
    return program;
  why = error.take("it cannot be lowered");
  return std::nullopt;
}

std::optional<PlanProgram> PlanProgram::wrap(OwningOpRef<ModuleOp> module, int32_t slots,
                                             bool isWhole, std::string &why) {
  PlanProgram program;
  FirstError error(module->getContext());
  program.module = std::move(module);
  program.moves = isWhole ? 0 : mostToProve;
  if (succeeded(program.lower(slots)))
    return program;
  why = error.take("it cannot be lowered");
  return std::nullopt;
}

AlgorithmOp PlanProgram::algorithm() { return *lowered->getOps<AlgorithmOp>().begin(); }

LogicalResult PlanProgram::lower(int32_t slots) {
  lowered = OwningOpRef<ModuleOp>(module->clone());
  LoweringOptions options;
  options.slots = slots;
  if (failed(runPipeline(*lowered, buildAlgorithmPipeline, options)))
    return failure();
  FailureOr<model::Contract> promised = getModelContract(algorithm());
  if (failed(promised))
    return failure();
  contract = std::move(*promised);
  // Programs depend on whether the in-place form holds; of many moves, one rank's program has to
  // show it.
  if (moves <= manyToProve) {
    FailureOr<model::AlgorithmReport> report = checkAlgorithm(algorithm());
    if (failed(report))
      return failure();
    disjoint = report->ok(), inPlace = report->inPlace;
  }
  if (failed(runPipeline(*lowered, buildLoweringPipeline, options)))
    return failure();
  LocationTable locations;
  std::string asymmetric;
  FailureOr<std::optional<SymmetricProgram>> found =
      findSymmetry(algorithm(), locations, asymmetric);
  if (failed(found))
    return failure();
  one = std::move(*found);
  return one ? success() : expandAll();
}

LogicalResult PlanProgram::expandAll() {
  LocationTable locations;
  FailureOr<model::Program> programs = expandPrograms(algorithm(), locations);
  if (failed(programs))
    return failure();
  all = std::move(*programs);
  return success();
}

model::SimulateReport PlanProgram::simulate(const model::Topology &topology,
                                            const PlanRequest &request, int64_t bytes,
                                            int64_t microBatches) {
  model::SimulateOptions options;
  options.batches = microBatches;
  options.model = request.model;
  options.elementBytes = request.elementBytes;
  options.count = model::countFor(contract, bytes, request.elementBytes);
  options.batchOrder = model::BatchOrder::Agent;
  if (one)
    if (auto report =
            model::simulateSymmetric(one->rankZero, contract, one->symmetry, topology, options))
      return std::move(*report);
  FirstError error(module->getContext());
  if (!all && failed(expandAll())) {
    model::SimulateReport none;
    none.faults.emplace_back().message = error.take("it cannot be expanded");
    return none;
  }
  return model::simulate(*all, contract, topology, options);
}

int64_t PlanProgram::leastBatches(const PlanRequest &request, int64_t bytes) const {
  if (!isStaged())
    return 1;
  const int64_t count = model::countFor(contract, bytes, request.elementBytes);
  const int64_t longest = model::longestChunk(count, contract.chunks) * request.elementBytes;
  return model::leastBatches(longest);
}

bool PlanProgram::isStaged() const {
  return one ? model::isStaged(one->rankZero) : all && model::isStaged(*all);
}

const std::string &PlanProgram::prove() {
  if (!verdict)
    verdict = findFault();
  return *verdict;
}

std::string PlanProgram::findFault() {
  FirstError error(module->getContext());
  ProgramProofOptions options;
  options.manyInstructions = 1 << 12; // of more, one rank takes a fraction of what all take
  ProgramProof proof(algorithm(), options);
  FailureOr<std::optional<FormsReport>> forms = proof.checkForms(disjoint, inPlace);
  if (failed(forms))
    return error.take("it cannot be proved");
  if (!*forms)
    return proof.obstacle();
  remark = proof.remark();
  minSlots = (*forms)->minSlots, inPlaceHolds = (*forms)->inPlace;
  if ((*forms)->disjoint || (*forms)->inPlace)
    return "";
  return (*forms)->faults.empty() ? "it is wrong" : (*forms)->faults.front().message;
}

} // namespace ccl
