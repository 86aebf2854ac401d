//===- Compiler.cpp -------------------------------------------------------------===//
#include "frontend/api/Compiler.h"

#include "frontend/api/Border.h"
#include "frontend/api/Diagnostics.h"
#include "frontend/api/Lowered.h"
#include "frontend/builder/Emit.h"
#include "frontend/cli/CompileSettings.h"
#include "frontend/interchange/Formats.h"
#include "passes/checks/CheckProofs.h"
#include "passes/synthesis/generators/Generators.h"

#include "mlir/IR/Verifier.h"

#include <fmt/format.h>

namespace ccl {
inline namespace jit {
namespace {

/// One compilation: its context, and what it has to say.
class Compilation {
public:
  Compilation(const Source &source, const ProgramOptions &options)
      : source(source), options(options),
        module(mlir::ModuleOp::create(mlir::UnknownLoc::get(&heard->context()))) {}

  Result<Compiled> compile();
  /// Without loading it; `arch` is "" for the host.
  Result<Plan> plan(const std::string &arch);
  Result<std::string> print(Program::Stage stage);
  Result<std::shared_ptr<const Lowered>> lower();

private:
  std::optional<Error> prepare();
  std::optional<Error> parse();
  std::optional<Error> generate();
  std::optional<Error> build();
  std::optional<Error> bindSizes(AlgorithmOp algorithm);
  std::optional<Error> checkRanks(AlgorithmOp algorithm);
  std::optional<Error> proveAllRanks(AlgorithmOp algorithm, const Plan &plan, Lowered &lowered);
  std::optional<Error> runPasses(void (*pipeline)(mlir::OpPassManager &, const LoweringOptions &));
  Error refused() const { return heard->refused(); }

  const Source &source;
  const ProgramOptions &options;
  std::shared_ptr<Diagnostics> heard = std::make_shared<Diagnostics>();
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string symbol;
  LoweringOptions lowering;
  Settings settings;
};

} // namespace

//===----------------------------------------------------------------------===//
// The algorithm
//===----------------------------------------------------------------------===//

std::optional<Error> Compilation::parse() {
  // What other runtimes mind is no concern of who runs it here.
  module = interchange::readFile(interchange::formatOf(source.label, source.text),
                                 llvm::MemoryBuffer::getMemBufferCopy(source.text, source.label),
                                 heard->sources(), heard->context(), /*warn=*/false)
               .module;
  if (!module)
    return refused();
  mlir::FailureOr<AlgorithmOp> algorithm = findAlgorithm(*module, options.algorithm);
  if (mlir::failed(algorithm))
    return refused();
  symbol = algorithm->getSymName().str();
  return bindSizes(*algorithm);
}

/// As `ccl run` does with -n and --size.
std::optional<Error> Compilation::bindSizes(AlgorithmOp algorithm) {
  std::vector<std::string> parameters, unbound;
  for (unsigned i = 0; i < algorithm.getNumArguments(); ++i)
    parameters.push_back(algorithm.getParameterName(i).str());
  for (const auto &[name, value] : options.sizes) {
    if (!llvm::is_contained(parameters, name))
      return argumentError(fmt::format("sizes: @{} has no size parameter %{}", symbol, name));
    if (!lowering.sizes.emplace(name, value).second)
      return argumentError(fmt::format("sizes: %{} is bound twice", name));
  }
  for (const std::string &parameter : parameters)
    if (!lowering.sizes.count(parameter))
      unbound.push_back(parameter);
  if (unbound.size() == 1 && options.ranks > 0)
    lowering.sizes[unbound.front()] = options.ranks;
  else if (!unbound.empty())
    return argumentError(fmt::format("@{} has the size parameters %{}: bind each in sizes, or the "
                                     "last one by ranks",
                                     symbol, fmt::join(parameters, ", %")));
  return std::nullopt;
}

std::optional<Error> Compilation::build() {
  mlir::FailureOr<AlgorithmOp> algorithm = emit(*source.algorithm, *module);
  if (mlir::failed(algorithm) || mlir::failed(mlir::verify(*module)))
    return refused();
  symbol = algorithm->getSymName().str();
  if (!options.sizes.empty() || !options.algorithm.empty())
    return argumentError("sizes and algorithm are for texts; a builder is one algorithm of fixed "
                         "size");
  return std::nullopt;
}

std::optional<Error> Compilation::generate() {
  GeneratorRequest request;
  request.collective = toInternal(*source.generated);
  request.reduction = model::reduces(request.collective) ? toInternal(options.op.value_or(Op::sum))
                                                         : model::Reduction::None;
  request.ranks = options.ranks;
  request.root = options.root;
  request.grid.assign(options.grid.begin(), options.grid.end());
  request.targets.assign(options.targets.begin(), options.targets.end());
  const Generator *generator = findGenerator(request.collective, options.algorithm);
  if (!generator)
    return argumentError(fmt::format("nothing called '{}' generates {}; there are: {}",
                                     options.algorithm, name(*source.generated),
                                     fmt::join(Program::generators(*source.generated), ", ")));
  if (std::string reason = generator->refuses(request); !reason.empty())
    return argumentError(fmt::format("{} does not generate {} on {} ranks: {}",
                                     generator->name.str(), name(*source.generated), options.ranks,
                                     reason));
  symbol = generator->generate(*module, request).getSymName().str();
  return std::nullopt;
}

std::optional<Error> Compilation::checkRanks(AlgorithmOp algorithm) {
  mlir::FailureOr<model::Contract> contract = getModelContract(algorithm);
  if (mlir::failed(contract))
    return refused();
  if (options.ranks > 0 && contract->ranks != options.ranks)
    return argumentError(fmt::format("@{} is written for {} ranks, not for {}", symbol,
                                     contract->ranks, options.ranks));
  return std::nullopt;
}

/// Why `options` cannot be, or nothing.
static std::optional<Error> refuseOptions(const ProgramOptions &options) {
  if (!isValid(options.type) || (options.op && !isValid(*options.op)))
    return argumentError("there is no such type or op");
  if (options.ranks < 0)
    return argumentError(fmt::format("{} ranks: needs at least 1", options.ranks));
  if (options.slots < 1 || options.slots > 1024)
    return argumentError(fmt::format("{} slots: needs 1 to 1024", options.slots));
  if (options.via && *options.via > ProgramOptions::Via::direct)
    return argumentError("there is no such via");
  return std::nullopt;
}

/// Up to the algorithm with all sizes bound.
std::optional<Error> Compilation::prepare() {
  if (std::optional<Error> error = refuseOptions(options))
    return error;
  llvm::Expected<Settings> environment = Settings::fromEnvironment();
  if (!environment)
    return toError(environment.takeError());
  settings = std::move(*environment);
  lowering.slots = options.slots;
  lowering.via = settings.text(Setting::Via);
  if (options.via) {
    constexpr const char *names[] = {"auto", "staged", "direct"};
    lowering.via = names[size_t(*options.via)];
  }
  std::optional<Error> error = source.algorithm ? build() : source.generated ? generate() : parse();
  if (error)
    return error;
  if (auto failed = runPasses(buildAlgorithmPipeline))
    return failed;
  mlir::FailureOr<AlgorithmOp> algorithm = findAlgorithm(*module, symbol);
  return mlir::failed(algorithm) ? refused() : checkRanks(*algorithm);
}

std::optional<Error> Compilation::runPasses(void (*pipeline)(mlir::OpPassManager &,
                                                             const LoweringOptions &)) {
  return mlir::succeeded(runPipeline(*module, pipeline, lowering)) ? std::nullopt
                                                                   : std::optional(refused());
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Result<Plan> Compilation::plan(const std::string &arch) {
  if (std::optional<Error> error = prepare())
    return *error;
  CompileOptions compiling = cli::compileOptions(settings);
  compiling.wires = true; // which communicators it is for is not known yet
  compiling.lowering = lowering;
  compiling.lowering.sizes.clear(); // they are bound by now
  compiling.algorithm = symbol;
  compiling.arch = arch;
  compiling.type = toInternal(options.type);
  if (options.op)
    compiling.reduction = toInternal(*options.op);
  CompileStats stats;
  mlir::FailureOr<Plan> plan = ccl::compile(*module, compiling, stats);
  if (mlir::failed(plan))
    return refused();
  if (!stats.unproved.empty())
    heard->say("warning: @" + symbol + " not proved: " + stats.unproved);
  return std::move(*plan);
}

Result<Compiled> Compilation::compile() {
  Result<Plan> made = plan("");
  if (!made)
    return made.error();
  llvm::Expected<std::shared_ptr<LoadedProgram>> loaded = LoadedProgram::load(std::move(*made));
  if (!loaded)
    return toError(loaded.takeError());
  return Compiled{std::move(*loaded), heard->text()};
}

Result<std::string> Compilation::print(Program::Stage stage) {
  if (std::optional<Error> error = prepare())
    return *error;
  lowering.sizes.clear();
  if (stage == Program::Stage::program)
    if (std::optional<Error> error = runPasses(buildLoweringPipeline))
      return *error;
  return textOf(*module);
}

std::optional<Error> Compilation::proveAllRanks(AlgorithmOp algorithm, const Plan &plan,
                                                Lowered &lowered) {
  ProgramProofOptions wanted;
  wanted.symmetry = BySymmetry::Never;
  wanted.maxInstructions = UINT64_MAX / 2 / uint64_t(plan.ranks());
  ProgramProof proof(algorithm, wanted);
  auto forms = algorithm.getLowered() ? proof.checkLowered()
                                      : proof.checkForms(plan.disjointProved, plan.inPlaceProved);
  if (mlir::failed(forms))
    return refused();
  lowered.locations = proof.locations();
  if (*forms && !(*forms)->disjoint && !(*forms)->inPlace)
    return lowered.refused((*forms)->faults);
  std::optional<model::Program> programs = proof.takePrograms();
  if (!*forms || !programs)
    return Error{Error::Kind::program,
                 fmt::format("the programs of @{} have {}", symbol, proof.obstacle()), -1};
  lowered.program = std::move(*programs);
  const bool divisible = algorithm.getLowered() ? (*forms)->divisible : plan.divisible;
  lowered.unevenSafe = (*forms)->unevenSafe && !divisible;
  return std::nullopt;
}

/// The programs of all ranks are wanted, even if one could stand for all.
Result<std::shared_ptr<const Lowered>> Compilation::lower() {
  if (std::optional<Error> error = prepare())
    return *error;
  lowering.sizes.clear();
  mlir::FailureOr<AlgorithmOp> algorithm = findAlgorithm(*module, symbol);
  if (mlir::failed(algorithm))
    return refused();
  mlir::FailureOr<model::Contract> contract = getModelContract(*algorithm);
  if (mlir::failed(contract))
    return refused();
  Plan plan;
  plan.contract = *contract;
  if (!algorithm->getLowered() && mlir::failed(proveMoves(*algorithm, plan, UINT64_MAX)))
    return refused();
  if (std::optional<Error> error = runPasses(buildLoweringPipeline))
    return *error;
  algorithm = findAlgorithm(*module, symbol);
  if (mlir::failed(algorithm))
    return refused();
  auto lowered = std::make_shared<Lowered>(heard, algorithm->getLoc());
  lowered->name = source.generated ? options.algorithm : symbol;
  lowered->type = toInternal(options.type);
  lowered->contract = std::move(*contract);
  lowered->microBatches = getMicroBatches(*algorithm);
  if (std::optional<Error> error = proveAllRanks(*algorithm, plan, *lowered))
    return *error;
  return std::shared_ptr<const Lowered>(std::move(lowered));
}

Error Lowered::refused(llvm::ArrayRef<model::Fault> faults) const {
  std::lock_guard lock(mutex);
  heard->clear();
  emitFaults(faults, fallback, locations);
  return heard->refused();
}

Result<Plan> compileForGpus(const Source &source, const ProgramOptions &options,
                            const std::string &arch) {
  return Compilation(source, options).plan(arch);
}

Result<std::shared_ptr<const Lowered>> lowerSource(const Source &source,
                                                   const ProgramOptions &options) {
  return Compilation(source, options).lower();
}

Result<Compiled> compileSource(const Source &source, const ProgramOptions &options) {
  return Compilation(source, options).compile();
}

Result<std::string> printStage(const Source &source, const ProgramOptions &options,
                               Program::Stage stage) {
  return Compilation(source, options).print(stage);
}

Result<std::string> Algorithm::text() const {
  return guarded([&]() -> Result<std::string> {
    return printStage({{}, {}, *this, {}}, {}, Program::Stage::algorithm);
  });
}

} // namespace jit
} // namespace ccl
