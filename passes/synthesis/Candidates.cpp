//===- Candidates.cpp -----------------------------------------------------===//
#include "passes/synthesis/Candidates.h"

using namespace mlir;

namespace ccl {

/// Generators with a message for each pair of ranks are of no use beyond.
static constexpr int64_t mostRanksOfAll = 64;

AlgorithmOp Candidate::algorithm() const {
  ModuleOp only = module.get();
  return *only.getOps<AlgorithmOp>().begin();
}

/// The one algorithm of a generator, or nothing if it applies others.
static OwningOpRef<ModuleOp> generate(MLIRContext &context, const Generator &generator,
                                      const GeneratorRequest &request) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  generator.generate(*module, request);
  return llvm::hasSingleElement(*module->getBody()) ? std::move(module) : OwningOpRef<ModuleOp>();
}

namespace {
class CandidateSearch {
public:
  CandidateSearch(MLIRContext &context, const model::Topology &topology, const PlanRequest &request,
                  bool isStage, std::string &error)
      : context(context), topology(topology), request(request), isStage(isStage), error(error) {}

  std::optional<Candidate> run() {
    tryPlanner();
    for (const Generator &generator : generators())
      if (llvm::is_contained(generator.collectives, request.generator.collective) &&
          !request.isOver())
        tryGenerator(generator);
    return std::move(best);
  }

private:
  void tryPlanner() {
    error = request.check(topology);
    if (!error.empty())
      return;
    PlanReport report = plan(context, topology, request);
    error = report.error;
    if (!error.empty())
      return;
    const SizePlan &size = report.sizes.front();
    PlannedAlgorithm &planned = report.algorithms[size.algorithm]; // it is proved
    if (isStage && !planned.holdsInPlace) {
      error = needsBoth;
      return;
    }
    if (isStage && planned.slots > 0)
      raiseSlots(*planned.module);
    best = Candidate{std::move(planned.module), "planner", size.us};
  }

  void tryGenerator(const Generator &generator) {
    // Where everybody sends to everybody at once, something else will do if there is something.
    const bool isOneStep = generator.steps == "1";
    if (!generator.refuses(request.generator).empty() ||
        (best && isOneStep && topology.ranks() > mostRanksOfAll))
      return;
    OwningOpRef<ModuleOp> module = generate(context, generator, request.generator);
    if (!module)
      return;
    keep(std::move(module), generator.name.str());
  }

  void keep(OwningOpRef<ModuleOp> module, std::string name) {
    std::string why;
    std::optional<PlanProgram> program = PlanProgram::wrap(OwningOpRef<ModuleOp>(module->clone()),
                                                           request.slots, /*isWhole=*/true, why);
    double us = 0;
    if (program) {
      const model::SimulateReport report =
          program->simulate(topology, request, request.bytes.front(),
                            program->leastBatches(request, request.bytes.front()));
      us = report.us;
      why = report.ok() ? "" : report.faults.front().message;
    }
    if (program && why.empty() && best && us >= best->us)
      return;
    if (program && why.empty())
      why = program->prove();
    if (program && why.empty() && isStage && !program->holdsInPlace())
      why = needsBoth;
    if (why.empty() && program->isStaged()) // as it was simulated
      raiseSlots(*module);
    if (why.empty())
      best = Candidate{std::move(module), std::move(name), us};
    else if (error.empty())
      error = why;
  }

  void raiseSlots(ModuleOp module) const {
    for (auto algorithm : module.getOps<AlgorithmOp>())
      ccl::raiseSlots(algorithm, request.slots);
  }

  static constexpr const char *needsBoth = "it needs input and output apart";

  MLIRContext &context;
  const model::Topology &topology;
  const PlanRequest &request;
  const bool isStage;
  std::string &error;
  std::optional<Candidate> best;
};
} // namespace

std::optional<Candidate> findCandidate(MLIRContext &context, const model::Topology &topology,
                                       const PlanRequest &request, bool isStage,
                                       std::string &error) {
  return CandidateSearch(context, topology, request, isStage, error).run();
}

} // namespace ccl
