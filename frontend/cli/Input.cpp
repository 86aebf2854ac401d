//===- Input.cpp - The algorithm a command works on ---------------------------===//
#include "frontend/cli/Input.h"

#include "frontend/cli/Output.h"
#include "frontend/cli/Sizes.h"
#include "frontend/cli/Source.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <numeric>

namespace ccl::cli {

void addInputOptions(CLI::App &command, InputOptions &options, std::vector<std::string> *files) {
  constexpr const char *what = ".mlir, .xml (MSCCL) or .json (MSCCL++); - is stdin";
  if (files)
    command.add_option("FILE", *files, what);
  else
    command.add_option("FILE", options.file, what);
  command.add_option("--collective", options.collective, "generate an algorithm for it (no FILE)");
  command.add_option("--algorithm", options.algorithm,
                     "name of a generator, or of an algorithm in FILE");
  command.add_option("-n", options.ranks, "ranks: 4, 2,3,8 or 2..8; binds the size parameter");
  command.add_option("--size", options.sizes, "name=value: binds one size parameter")
      ->type_size(1)
      ->allow_extra_args(false);
  command.add_option("--grid", options.grid, "2x4: ranks per axis of a hierarchical generator");
  command.add_option("-r,--root", options.root, "root rank of broadcast, reduce, gather, scatter");
  command.add_option("--to", options.targets,
                     "1,2,0: of permute, where each rank's input goes (default: the next rank)");
}

void addLoweringOptions(CLI::App &command, LoweringFlags &flags) {
  command.add_option("--via", flags.via,
                     "how moves between ranks are lowered: staged, direct, auto");
  command
      .add_option("--slots", flags.slots,
                  "slots of every data channel (default 2, or as the programs of FILE say)")
      ->check([](auto &text) {
        int64_t slots = 0;
        bool good = !llvm::StringRef(text).getAsInteger(10, slots) && slots > 0 && slots <= 1024;
        return good ? std::string() : "expected 1 to 1024 slots, got " + text;
      });
  command
      .add_option(
          "--protocol", flags.protocol,
          "of every data channel, on GPUs: simple, ll, ll128, lamport (default simple, or as "
          "the programs of FILE say)")
      ->check(CLI::IsMember({"simple", "ll", "ll128", "lamport"}));
  command.add_option("--hosts", flags.hosts,
                     "ranks that share no memory: 4 (so many on each host, in order) or 0,0,1,1 "
                     "(the host of each); what goes between hosts is staged");
  command.add_flag("--no-fuse", flags.noFuse, "leave every move a transfer of its own");
}

AlgorithmOp Instance::op() {
  return mlir::SymbolTable::lookupNearestSymbolFrom<AlgorithmOp>(
      *module, mlir::StringAttr::get(module->getContext(), algorithm));
}

Instance Instance::clone() {
  return {mlir::OwningOpRef<mlir::ModuleOp>(module->clone()), algorithm, lowering};
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

int Input::open(Session &theSession, const InputOptions &theOptions,
                const LoweringFlags &theFlags) {
  session = &theSession;
  options = theOptions;
  flags = theFlags;
  if (options.file.empty() == options.collective.empty())
    return session->usage(options.file.empty()
                              ? "name a FILE or a --collective"
                              : "FILE and --collective exclude each other; the algorithm of a "
                                "file is named by --algorithm");
  if (flags.via.empty())
    flags.via = session->settings.text(Setting::Via);
  if (flags.via != "auto" && flags.via != "staged" && flags.via != "direct")
    return session->usage(fmt::format("--via {}: expected staged, direct or auto", flags.via));
  if (!options.ranks.empty()) {
    llvm::Expected<std::vector<int64_t>> counts = parseRanks(options.ranks);
    if (!counts)
      return session->usage("-n: " + llvm::toString(counts.takeError()));
    rankCounts = std::move(*counts);
  }
  if (!options.grid.empty()) {
    llvm::Expected<std::vector<int64_t>> sizes = parseGrid(options.grid);
    if (!sizes)
      return session->usage("--grid: " + llvm::toString(sizes.takeError()));
    grid = std::move(*sizes);
  }
  if (!options.targets.empty() && options.collective != "permute")
    return session->usage("--to goes with --collective permute");
  return options.file.empty() ? openGenerator() : openFile();
}

int Input::openFile() {
  if (!grid.empty())
    return session->usage("--grid goes with --collective");
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readSource(options.file);
  theLabel = options.file == "-" ? "<stdin>" : options.file;
  if (!buffer)
    return session->badInput(
        fmt::format("cannot read '{}': {}", theLabel, llvm::toString(buffer.takeError())));
  if (int status = readModule(std::move(*buffer)))
    return status;
  if (!options.algorithm.empty() && !module->lookupSymbol<AlgorithmOp>(options.algorithm)) {
    std::vector<std::string> names;
    for (auto algorithm : module->getOps<AlgorithmOp>())
      names.push_back("@" + algorithm.getSymName().str());
    return session->usage(
        fmt::format("--algorithm {}: {} has {}", options.algorithm, theLabel,
                    names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  mlir::FailureOr<AlgorithmOp> algorithm = findAlgorithm(*module, options.algorithm);
  if (mlir::failed(algorithm))
    return session->refused();

  if (rankCounts.empty() && !options.fallbackRanks.empty() &&
      algorithm->getNumArguments() == options.sizes.size() + 1)
    rankCounts = llvm::cantFail(parseRanks(options.fallbackRanks));

  symbol = algorithm->getSymName().str();
  theReason = "the only one of its file";
  if (!options.algorithm.empty())
    theReason = "named by --algorithm";
  else
    for (CollectiveOpInterface collective : module->getOps<CollectiveOpInterface>())
      if (auto selected = collective->getAttrOfType<mlir::FlatSymbolRefAttr>("algorithm");
          selected && selected.getValue() == algorithm->getSymName())
        theReason = fmt::format("selected by @{}",
                                mlir::SymbolTable::getSymbolName(collective).getValue().str());
  return Fine;
}

int Input::readModule(std::unique_ptr<llvm::MemoryBuffer> file) {
  const interchange::Format format = interchange::formatOf(options.file, file->getBuffer());
  interchange::Imported imported =
      interchange::readFile(format, std::move(file), session->sources(), session->context(),
                            options.warnings == InputOptions::Warnings::Show);
  theRefusal = imported.verdict;
  if (!imported.module)
    return session->refused();
  module = std::move(imported.module);
  theForeign = std::move(imported.foreign);
  const size_t hidden = theForeign ? theForeign->warnings.size() : 0;
  if (hidden && options.warnings == InputOptions::Warnings::Count)
    printError("ccl: note: {}: {} of what other systems mind; `ccl check` shows {}\n", theLabel,
               plural(hidden, "warning"), hidden == 1 ? "it" : "them");
  return Fine;
}

static std::string listGenerators(std::optional<model::Collective> collective) {
  std::vector<std::string> names;
  for (const Generator &generator : generators())
    if (!collective || llvm::is_contained(generator.collectives, *collective))
      names.push_back(generator.name.str());
  return fmt::format("{}", fmt::join(names, ", "));
}

int Input::openGenerator() {
  std::optional<model::Collective> collective = model::parseCollective(options.collective);
  if (!collective || !findGenerator(*collective, "")) {
    std::vector<std::string> names;
    for (uint32_t c = 0; c <= uint32_t(model::Collective::Custom); ++c)
      if (findGenerator(model::Collective(c), ""))
        names.emplace_back(model::name(model::Collective(c)));
    return session->usage(fmt::format("nothing generates the collective '{}'; there are: {}",
                                      options.collective, fmt::join(names, ", ")));
  }
  bool fromSetting = options.algorithm.empty();
  if (fromSetting)
    options.algorithm = session->settings.text(Setting::Algo);
  generator = findGenerator(*collective, options.algorithm);
  if (!generator)
    return session->usage(fmt::format("no generator '{}'{} for {}; there are: {}",
                                      options.algorithm, fromSetting ? " (CCL_ALGO)" : "",
                                      options.collective, listGenerators(collective)));
  if (!options.sizes.empty())
    return session->usage("--size binds a parameter of a FILE; a generator takes -n and --grid");
  if (rankCounts.empty() && !grid.empty())
    rankCounts = {std::accumulate(grid.begin(), grid.end(), int64_t(1), std::multiplies<>())};
  std::optional<model::Reduction> reduction = model::parseReduction(
      options.reduction.empty() ? std::string_view("sum") : std::string_view(options.reduction));
  if (!reduction)
    return session->usage(fmt::format("unknown reduction '{}'", options.reduction));
  request.collective = *collective;
  request.reduction = model::reduces(*collective) ? *reduction : model::Reduction::None;
  request.root = options.root.value_or(0);
  if (request.root != 0 && !model::hasRoot(*collective))
    return session->usage(fmt::format("-r {}: {} has no root", request.root, options.collective));
  request.grid.assign(grid.begin(), grid.end());
  if (!options.targets.empty())
    for (llvm::StringRef text : llvm::split(options.targets, ',')) {
      int64_t &target = request.targets.emplace_back();
      if (text.trim().getAsInteger(10, target))
        return session->usage(fmt::format("--to: '{}' is not a rank", text.str()));
    }
  if (rankCounts.empty() && !request.targets.empty())
    rankCounts = {int64_t(request.targets.size())};
  if (rankCounts.empty())
    return session->usage("a generator needs a number of ranks: -n 4");
  theLabel = fmt::format("{}/{}", options.collective, generator->name.str());
  theRefusal = "unsupported"; // of numbers of ranks
  theReason = options.algorithm.empty() ? fmt::format("default for {}", options.collective)
              : fromSetting             ? "named by CCL_ALGO"
                                        : "named by --algorithm";
  return Fine;
}

//===----------------------------------------------------------------------===//
// Instances
//===----------------------------------------------------------------------===//

int Input::generate(size_t index, Instance &instance) {
  request.ranks = rankCounts[index];
  if (request.root < 0 || request.root >= request.ranks)
    return session->usage(fmt::format("-r {}: with {} ranks roots are 0 to {}", request.root,
                                      request.ranks, request.ranks - 1));
  if (std::string reason = generator->refuses(request); !reason.empty())
    return session->badInput(fmt::format("{} does not generate {} on {} ranks: {}",
                                         generator->name.str(), options.collective, request.ranks,
                                         reason));
  instance.module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&session->context()));
  instance.algorithm = generator->generate(*instance.module, request).getSymName().str();
  return Fine;
}

int Input::bindSizes(size_t index, AlgorithmOp algorithm, std::map<std::string, int64_t> &sizes) {
  std::vector<std::string> parameters;
  for (unsigned i = 0; i < algorithm.getNumArguments(); ++i)
    parameters.push_back(algorithm.getParameterName(i).str());
  std::string listed = fmt::format("%{}", fmt::join(parameters, ", %"));
  for (const std::string &text : options.sizes) {
    auto binding = parseBinding(text);
    if (!binding)
      return session->usage("--size: " + llvm::toString(binding.takeError()));
    if (!llvm::is_contained(parameters, binding->first))
      return session->usage(
          fmt::format("--size {}: @{} has {}", text, algorithm.getSymName().str(),
                      parameters.empty() ? "no size parameter" : "the size parameters " + listed));
    if (!sizes.emplace(binding->first, binding->second).second)
      return session->usage(fmt::format("--size {}: %{} is bound twice", text, binding->first));
  }
  std::vector<std::string> unbound;
  for (const std::string &parameter : parameters)
    if (!sizes.count(parameter))
      unbound.push_back(parameter);
  if (unbound.size() == 1 && !rankCounts.empty())
    sizes[unbound.front()] = rankCounts[index];
  else if (!unbound.empty())
    return session->usage(
        unbound.size() == 1
            ? fmt::format("@{} has the size parameter %{}: give the number of ranks, -n 4",
                          algorithm.getSymName().str(), unbound.front())
            : fmt::format("@{} has the size parameters {}: bind each with --size name=value",
                          algorithm.getSymName().str(), listed));
  return Fine;
}

/// An algorithm of fixed size cannot be stretched by -n or --root.
int Input::checkRanks(size_t index, AlgorithmOp algorithm) {
  mlir::FailureOr<model::Contract> contract = getModelContract(algorithm);
  if (mlir::failed(contract))
    return session->refused();
  if (!rankCounts.empty() && contract->ranks != rankCounts[index])
    return session->usage(fmt::format("@{} is written for {} ranks; -n {} does not fit",
                                      algorithm.getSymName().str(), contract->ranks,
                                      rankCounts[index]));
  return Fine;
}

/// Programs that need no lowering have channels already.
static void setChannels(mlir::ModuleOp module, const LoweringFlags &flags) {
  module.walk([&](ChannelOp channel) {
    if (!channel.getSlots())
      return;
    if (flags.slots)
      channel.setSlots(uint64_t(*flags.slots));
    if (!flags.protocol.empty())
      channel.setProtocol(*symbolizeProtocol(flags.protocol));
  });
}

int Input::instantiate(size_t index, Instance &instance) {
  instance.lowering = LoweringOptions();
  instance.lowering.via = flags.via;
  instance.lowering.hosts = flags.hosts;
  instance.lowering.slots = flags.slots.value_or(2);
  instance.lowering.fuse = !flags.noFuse;
  if (!flags.protocol.empty())
    instance.lowering.protocol = flags.protocol;
  if (generator)
    return generate(index, instance);
  // The last one may have it.
  instance.module =
      index + 1 < size() ? mlir::OwningOpRef<mlir::ModuleOp>(module->clone()) : std::move(module);
  mlir::FailureOr<AlgorithmOp> algorithm = findAlgorithm(*instance.module, options.algorithm);
  if (mlir::failed(algorithm))
    return session->refused();
  instance.algorithm = algorithm->getSymName().str();
  if (algorithm->getLowered())
    setChannels(*instance.module, flags);
  if (int status = bindSizes(index, *algorithm, instance.lowering.sizes))
    return status;
  if (instance.lowering.sizes.empty()) {
    if (int status = checkRanks(index, *algorithm))
      return status;
  } else if (!rankCounts.empty() && options.sizes.size() == algorithm->getNumArguments()) {
    // --size has decided how many ranks there are: -n may only confirm it.
    Instance bound = instance.clone();
    if (int status = specialize(*session, bound))
      return status;
    if (int status = checkRanks(index, bound.op()))
      return status;
  }
  int64_t root = algorithm->getContract().getRoot();
  model::Collective kind = toModel(algorithm->getContract().getKind());
  if (options.root && *options.root != 0 && !model::hasRoot(kind))
    return session->usage(fmt::format("-r {}: {} has no root", *options.root, model::name(kind)));
  if (options.root && *options.root != root)
    return session->usage(fmt::format("@{} has root {}; -r {} does not fit", instance.algorithm,
                                      root, *options.root));
  return Fine;
}

int openOne(Session &session, const std::string &command, const InputOptions &options,
            const LoweringFlags &flags, Input &input, Instance &instance) {
  if (int status = input.open(session, options, flags))
    return status;
  if (input.size() > 1)
    return session.usage(command + " takes one number of ranks");
  return input.instantiate(0, instance);
}

std::string moduleText(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  return text + "\n";
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

static int runPipeline(Session &session, Instance &instance,
                       void (*build)(mlir::OpPassManager &, const LoweringOptions &)) {
  return mlir::succeeded(ccl::runPipeline(*instance.module, build, instance.lowering))
             ? Fine
             : session.refused();
}

int specialize(Session &session, Instance &instance) {
  return runPipeline(session, instance, buildAlgorithmPipeline);
}

int lower(Session &session, Instance &instance) {
  return runPipeline(session, instance, buildLoweringPipeline);
}

} // namespace ccl::cli
