//===- Compile.cpp ----------------------------------------------------------===//
#include "codegen/Compile.h"

#include "codegen/Cache.h"
#include "codegen/Count.h"
#include "codegen/PlanText.h"
#include "codegen/Stages.h"
#include "codegen/Timer.h"
#include "codegen/cuda/CompileCuda.h"
#include "codegen/cuda/SplitLoops.h"
#include "codegen/host/Agents.h"
#include "codegen/host/EmitHost.h"
#include "passes/checks/CheckProofs.h"

#include "mlir/IR/Verifier.h"

#include "llvm/Config/llvm-config.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl {

//===----------------------------------------------------------------------===//
// Proof
//===----------------------------------------------------------------------===//

static void addUnproved(CompileStats &stats, std::string text) {
  stats.unproved += (stats.unproved.empty() ? "" : "; ") + text;
}

/// What may be relied on without a proof: nothing, so lengths are assumed to differ.
static void assumeUnproved(AlgorithmOp algorithm, Plan &plan, bool vouchedFor) {
  // The programs of a lowered algorithm with `inout` have but one form.
  const bool inPlace = algorithm.getLowered() && hasInOut(algorithm);
  plan.disjointProved = vouchedFor && !inPlace;
  plan.inPlaceProved = vouchedFor && inPlace;
  plan.exitBarrier = plan.batchBarrier = algorithm.getLowered();
  plan.divisible = true;
}

LogicalResult proveMoves(AlgorithmOp algorithm, Plan &plan, uint64_t most) {
  LocationTable locations;
  FailureOr<model::Moves> moves = expand(algorithm, locations, std::nullopt, most);
  if (failed(moves))
    return failure();
  model::AlgorithmReport report = model::check(*moves, plan.contract);
  plan.disjointProved = report.ok();
  plan.inPlaceProved = report.inPlace;
  plan.divisible = report.divisible;
  recordInPlace(algorithm, report.inPlace);
  if (report.ok() || report.inPlace)
    return success();
  emitFaults(report.faults, algorithm.getLoc(), locations);
  return failure();
}

LogicalResult proveAlgorithm(ModuleOp module, AlgorithmOp algorithm, Plan &plan,
                             CompileStats &stats) {
  Timer timer(stats.proveMs);
  FailureOr<model::Contract> contract = getModelContract(algorithm);
  if (failed(contract))
    return failure();
  plan.contract = *contract;
  stats.moves = countMoves(algorithm, UINT64_MAX);
  stats.proofPending = stats.moves > manyToProve;
  if (!stats.proofPending && !algorithm.getLowered())
    return proveMoves(algorithm, plan, mostToProve);
  assumeUnproved(algorithm, plan, /*vouchedFor=*/false);
  return success();
}

/// Fails if no form holds.
static LogicalResult take(const FormsReport &forms, const ProgramProof &proof,
                          AlgorithmOp algorithm, Plan &plan, CompileStats &stats) {
  stats.instructions = forms.instructions;
  stats.bySymmetry = proof.remark();
  plan.disjointProved = forms.disjoint;
  plan.inPlaceProved = forms.inPlace;
  plan.unevenSafe = forms.unevenSafe; // the programs are what runs
  plan.entryBarrier = forms.entryBarrier;
  plan.exitBarrier = forms.exitBarrier;
  plan.batchBarrier = forms.batchBarrier;
  plan.minSlots = std::max(plan.minSlots, forms.minSlots);
  if (forms.disjoint || forms.inPlace)
    return success();
  emitFaults(forms.faults, algorithm.getLoc(), proof.locations());
  return failure();
}

/// What one rank tells about all, if the programs are symmetric: then nothing is pending.
static LogicalResult proveBySymmetry(AlgorithmOp algorithm, Plan &plan, CompileStats &stats) {
  ProgramProofOptions options;
  options.symmetry = BySymmetry::Always;
  ProgramProof proof(algorithm, options);
  FailureOr<std::optional<FormsReport>> forms = proof.checkForms(true, true);
  if (failed(forms))
    return failure();
  if (!*forms)
    return success();
  stats.proofPending = false;
  plan.divisible = (*forms)->divisible;
  return take(**forms, proof, algorithm, plan, stats);
}

LogicalResult provePrograms(AlgorithmOp algorithm, Plan &plan, CompileStats &stats) {
  Timer timer(stats.proveMs);
  if (stats.proofPending) {
    if (failed(proveBySymmetry(algorithm, plan, stats)))
      return failure();
    if (!stats.proofPending)
      return success();
    stats.proofPending = false;
    if (stats.moves > mostToProve) {
      addUnproved(stats, fmt::format("the algorithm has over {} moves", mostToProve));
      return success();
    }
    if (failed(proveMoves(algorithm, plan, mostToProve)))
      return failure();
  }
  const bool lowered = algorithm.getLowered();
  if (!lowered && !plan.disjointProved && !plan.inPlaceProved)
    return success();
  ProgramProof proof(algorithm);
  FailureOr<std::optional<FormsReport>> forms =
      lowered ? proof.checkLowered() : proof.checkForms(plan.disjointProved, plan.inPlaceProved);
  if (failed(forms))
    return failure();
  if (!*forms) {
    addUnproved(stats, "the programs have " + proof.obstacle());
    return success();
  }
  if (lowered) // there were no moves that could have told
    plan.divisible = (*forms)->divisible;
  return take(**forms, proof, algorithm, plan, stats);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

static HostOptions hostOptions(const CompileOptions &options, const model::Contract &contract) {
  HostOptions host{options.type, contract.reduction, options.sanitizer, options.lowering.rank,
                   options.wires};
  if (options.reduction && contract.reduction != model::Reduction::None)
    host.reduction = *options.reduction;
  return host;
}

/// To be raised when the same program gets other code, or code another ABI.
constexpr int codeVersion = 5;

/// What all code depends on, as text.
static std::string cacheHead(const Plan &plan, const HostOptions &options) {
  return fmt::format("ccl {} code {}\nLLVM {}\n{}\n{} {} '{}' rank {}\n{} ranks {} chunks {}\n",
                     CCL_VERSION, codeVersion, LLVM_VERSION_STRING, hostTargetKey(),
                     name(options.type), model::name(options.reduction), options.sanitizer,
                     options.rank, model::name(plan.contract.collective), plan.ranks(),
                     plan.contract.chunks);
}

/// The same of the code that tables refer to: many programs have it in common.
static std::string transfersText(const Plan &plan, const HostOptions &options) {
  std::string text = cacheHead(plan, options) + "transfers";
  for (const TransferPattern &transfer : plan.transfers)
    text += fmt::format(" {}_{}", transfer.sources, transfer.destinations);
  return text + (host::mayReadRemote(plan) ? " remote" : "");
}

/// What programs say, be they compiled or executed from tables.
static std::string programText(AlgorithmOp algorithm, const Plan &plan,
                               const HostOptions &options) {
  if (!plan.slice.empty()) {
    std::string text = transfersText(plan, options);
    appendTables(text, plan);
    return text;
  }
  std::string text = cacheHead(plan, options);
  llvm::raw_string_ostream stream(text);
  for (ProgramOp program : getPrograms(algorithm)) {
    program->print(stream, OpPrintingFlags().useLocalScope());
    stream << '\n';
  }
  return text;
}

static std::optional<ObjectCache> openCache(AlgorithmOp algorithm, StringRef folder) {
  if (folder.empty())
    return std::nullopt;
  llvm::Expected<ObjectCache> cache = ObjectCache::open(folder);
  if (cache)
    return std::move(*cache);
  emitWarning(algorithm.getLoc()) << "object cache not used: " << llvm::toString(cache.takeError());
  return std::nullopt;
}

/// Emits and optimizes; fills plan.object.
static LogicalResult compileCode(AlgorithmOp algorithm, const HostOptions &options, Plan &plan,
                                 CompileStats &stats, std::string *ir) {
  llvm::LLVMContext context;
  auto code = emitHost(algorithm, options, context, plan);
  if (failed(code))
    return failure();
  llvm::Expected<std::string> object = compileToObject(**code, options, ir);
  stats.machineFailed = !object;
  if (!object)
    return emitError(algorithm.getLoc())
           << "cannot generate code: " << llvm::toString(object.takeError());
  plan.object = std::move(*object);
  return success();
}

/// Code for this machine's processor, from the cache or made.
static LogicalResult compileHost(AlgorithmOp algorithm, const model::Contract &contract,
                                 const HostOptions &host, const std::optional<ObjectCache> &cache,
                                 Plan &plan, CompileStats &stats, std::string *ir) {
  if (failed(planHost(algorithm, contract, host, plan)))
    return failure();
  plan.hash = hashHex(programText(algorithm, plan, host));
  const std::string key = plan.slice.empty() ? plan.hash : hashHex(transfersText(plan, host));
  if (cache && !ir)
    if (std::optional<std::string> object = cache->load(key)) {
      plan.object = std::move(*object);
      stats.fromCache = true;
      return success();
    }
  if (failed(compileCode(algorithm, host, plan, stats, ir)))
    return failure();
  if (cache)
    if (llvm::Error error = cache->store(key, plan.object))
      emitWarning(algorithm.getLoc()) << "object not cached: " << llvm::toString(std::move(error));
  return success();
}

LogicalResult generate(AlgorithmOp algorithm, const CompileOptions &options, Plan &plan,
                       CompileStats &stats, std::string *ir) {
  Timer timer(stats.jitMs);
  FailureOr<model::Contract> contract = getModelContract(algorithm);
  if (failed(contract))
    return failure();
  plan.program = algorithm.getSymName().str();
  plan.pipelineStages = 1;
  if (auto stages = algorithm->getAttrOfType<IntegerAttr>(stagesAttr))
    plan.pipelineStages = int32_t(stages.getInt());
  plan.microBatches = getMicroBatches(algorithm);
  plan.hosts.clear();
  if (!options.lowering.hosts.empty()) {
    llvm::Expected<std::vector<int32_t>> hosts =
        parseHosts(options.lowering.hosts, contract->ranks);
    if (!hosts)
      return algorithm.emitOpError() << llvm::toString(hosts.takeError());
    plan.hosts = std::move(*hosts);
  }
  HostOptions host = hostOptions(options, *contract);
  std::optional<ObjectCache> cache = openCache(algorithm, options.cacheDir);
  if (!options.arch.empty())
    return compileCuda(algorithm, *contract, host.reduction, options, cache, plan, stats, ir);
  return compileHost(algorithm, *contract, host, cache, plan, stats, ir);
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

namespace {

class Compilation {
public:
  Compilation(ModuleOp module, const CompileOptions &options, CompileStats &stats)
      : module(module), options(options), stats(stats) {}

  FailureOr<Plan> run() {
    if (failed(toAlgorithm()))
      return failure();
    Stages stages(options.dumpDir, options.overrideDir, algorithm.getSymName(), algorithm.getLoc());
    stages.checkOverrides();
    std::string ir;
    if (failed(replaceAlgorithm(stages)) || failed(prove()) || failed(toPrograms()) ||
        failed(replacePrograms(stages)) || failed(proveLowered()))
      return failure();
    const LogicalResult generated =
        generate(algorithm, options, plan, stats, stages.dumps() ? &ir : nullptr);
    if (!ir.empty()) // what did not compile is wanted most
      stages.dump(options.arch.empty() ? "kernel.ll" : "kernel.cu", ir);
    if (failed(generated))
      return failure();
    return std::move(plan);
  }

private:
  LogicalResult runPasses(void (*build)(OpPassManager &, const LoweringOptions &)) {
    return runPipeline(module, build, options.lowering);
  }

  LogicalResult toAlgorithm() {
    Timer timer(stats.specializeMs);
    if (failed(runPasses(buildAlgorithmPipeline)))
      return failure();
    FailureOr<AlgorithmOp> found = findAlgorithm(module, options.algorithm);
    if (failed(found))
      return failure();
    algorithm = *found;
    stats.algorithmOps = countOps(algorithm);
    return success();
  }

  LogicalResult replaceAlgorithm(const Stages &stages) {
    FailureOr<OwningOpRef<ModuleOp>> other = stages.replacement("algorithm.mlir");
    if (failed(other))
      return failure();
    if (*other) {
      module.getBodyRegion().takeBody((*other)->getBodyRegion());
      if (failed(toAlgorithm()))
        return failure();
    }
    stages.dump("algorithm.mlir", module);
    return success();
  }

  LogicalResult prove() {
    if (options.prove)
      return proveAlgorithm(module, algorithm, plan, stats);
    assumeUnproved(algorithm, plan, /*vouchedFor=*/true);
    addUnproved(stats, "no proof was asked for");
    return success();
  }

  LogicalResult toPrograms() {
    Timer timer(stats.lowerMs);
    // Lowering may rebuild the algorithm: find it again by its name.
    std::string name = algorithm.getSymName().str();
    if (failed(runPasses(buildLoweringPipeline)))
      return failure();
    FailureOr<AlgorithmOp> found = findAlgorithm(module, name);
    if (failed(found))
      return failure();
    algorithm = *found;
    if (!options.arch.empty() && options.prove && options.lowering.rank < 0 && !stats.proofPending)
      cuda::splitLoops(algorithm, plan);
    return success();
  }

  /// Programs may be replaced, the contract that they are held to may not.
  LogicalResult replacePrograms(const Stages &stages) {
    FailureOr<OwningOpRef<ModuleOp>> other = stages.replacement("program.mlir");
    if (failed(other))
      return failure();
    if (*other) {
      for (auto program : llvm::make_early_inc_range(module.getOps<ProgramOp>()))
        program.erase();
      for (auto program : llvm::make_early_inc_range((*other)->getOps<ProgramOp>()))
        program->moveBefore(module.getBody(), module.getBody()->end());
      if (failed(verify(module)))
        return failure();
    }
    stats.programOps = 0;
    for (auto program : module.getOps<ProgramOp>())
      stats.programOps += countOps(program);
    stages.dump("program.mlir", module);
    return success();
  }

  LogicalResult proveLowered() {
    if (!options.prove)
      return success();
    // One rank alone says nothing about the others, which are all there if it is lowered.
    if (options.lowering.rank < 0 || algorithm.getLowered())
      return provePrograms(algorithm, plan, stats);
    if (stats.proofPending)
      addUnproved(stats, fmt::format("{} moves, and the program of one rank", stats.moves));
    return success();
  }

  ModuleOp module;
  const CompileOptions &options;
  CompileStats &stats;
  AlgorithmOp algorithm;
  Plan plan;
};

} // namespace

FailureOr<Plan> compile(ModuleOp module, const CompileOptions &options, CompileStats &stats) {
  return Compilation(module, options, stats).run();
}

} // namespace ccl
