//===- Pipelines.cpp --------------------------------------------------------===//

#include "passes/Pipelines.h"
#include "passes/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ccl {

void buildAlgorithmPipeline(OpPassManager &pm, const LoweringOptions &options) {
  std::vector<std::string> sizes;
  for (auto &[name, value] : options.sizes)
    sizes.push_back(name + "=" + std::to_string(value));
  CclSpecializeOptions specialize;
  specialize.sizes = sizes;
  pm.addPass(createCclSpecialize(specialize));
  // Constants reach maps and bounds by folding.
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCclExpandApply());
  CclVerifyLevelOptions level;
  level.level = "algorithm";
  pm.addPass(createCclVerifyLevel(level));
}

void buildLoweringPipeline(OpPassManager &pm, const LoweringOptions &options) {
  buildAlgorithmPipeline(pm, options);
  CclAssignChannelsOptions assign;
  assign.via = options.via;
  assign.hosts = options.hosts;
  pm.addPass(createCclAssignChannels(assign));
  CclProjectToRanksOptions project;
  project.rank = options.rank;
  project.slots = options.slots;
  project.protocol = options.protocol;
  pm.addPass(createCclProjectToRanks(project));
  pm.addPass(createCclPruneSync());
  if (options.fuse)
    pm.addPass(createCclFuseTransfers());
  pm.addPass(createCclPeelInOut());
  pm.addPass(createCclSplitAgents());
  // Folds one-trip arithmetic and drops channels that fusion left unused.
  pm.addPass(createCanonicalizerPass());
  CclVerifyLevelOptions level;
  level.level = "program";
  pm.addPass(createCclVerifyLevel(level));
}

llvm::Expected<std::vector<int32_t>> parseHosts(StringRef text, int64_t ranks) {
  auto wrong = [&](const Twine &why) {
    return llvm::createStringError("hosts '" + text + "': " + why);
  };
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  SmallVector<int32_t> numbers;
  for (StringRef part : parts)
    if (part.trim().getAsInteger(10, numbers.emplace_back()) || numbers.back() < 0)
      return wrong("expected ranks of a host (4), or the host of each rank (0,0,1,1)");
  std::vector<int32_t> hosts(numbers.begin(), numbers.end());
  if (numbers.size() == 1) {
    if (numbers.front() < 1)
      return wrong("a host has at least one rank");
    hosts.resize(size_t(ranks));
    for (int64_t r = 0; r < ranks; ++r)
      hosts[size_t(r)] = int32_t(r / numbers.front());
  }
  if (int64_t(hosts.size()) != ranks)
    return wrong(Twine(hosts.size()) + " hosts are named for " + Twine(ranks) + " ranks");
  return hosts;
}

LogicalResult runPipeline(ModuleOp module, void (*build)(OpPassManager &, const LoweringOptions &),
                          const LoweringOptions &options) {
  if (llvm::all_of(module.getOps<AlgorithmOp>(),
                   [](AlgorithmOp algorithm) { return algorithm.getLowered(); }))
    return success();
  PassManager passes(module.getContext());
  passes.enableVerifier(false); // between passes it takes a fifth of the time
  build(passes, options);
  return success(succeeded(passes.run(module)) && succeeded(verify(module)));
}

namespace {
/// The textual form of LoweringOptions.
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  ListOption<std::string> sizes{*this, "sizes", llvm::cl::desc("name=value, comma separated")};
  Option<int64_t> rank{*this, "rank", llvm::cl::desc("one rank only; -1: all"), llvm::cl::init(-1)};
  Option<std::string> via{*this, "via", llvm::cl::desc("auto, staged or direct"),
                          llvm::cl::init("auto")};
  Option<int64_t> slots{*this, "slots", llvm::cl::desc("slots of data channels"),
                        llvm::cl::init(4)};
  Option<std::string> protocol{*this, "protocol",
                               llvm::cl::desc("of data channels: simple, ll, ll128 or lamport"),
                               llvm::cl::init("simple")};
  Option<bool> fuse{*this, "fuse", llvm::cl::desc("fuse transfers"), llvm::cl::init(true)};
  Option<std::string> hosts{
      *this, "hosts", llvm::cl::desc("ranks of a host, or the host of each rank: 4 or 0,0,1,1")};

  LoweringOptions get() const {
    LoweringOptions options;
    for (const std::string &text : sizes) {
      auto [name, value] = StringRef(text).split('=');
      int64_t number = 0; // ccl-specialize reports what is no number
      (void)value.getAsInteger(10, number);
      options.sizes[name.str()] = number;
    }
    options.rank = rank;
    options.via = via;
    options.slots = slots;
    options.fuse = fuse;
    options.protocol = protocol;
    options.hosts = hosts;
    return options;
  }
};
} // namespace

void registerPipelines() {
  PassPipelineRegistration<PipelineOptions>(
      "ccl-expand-algorithm", "specialize and expand apply and pipeline",
      [](OpPassManager &pm, const PipelineOptions &o) { buildAlgorithmPipeline(pm, o.get()); });
  PassPipelineRegistration<PipelineOptions>(
      "ccl-lower-to-program", "lower algorithms to one program per class of ranks",
      [](OpPassManager &pm, const PipelineOptions &o) { buildLoweringPipeline(pm, o.get()); });
}

FailureOr<AlgorithmOp> findAlgorithm(ModuleOp module, StringRef name) {
  if (!name.empty()) {
    if (auto algorithm = module.lookupSymbol<AlgorithmOp>(name))
      return algorithm;
    return module.emitError() << "there is no algorithm @" << name;
  }
  // What an L0 op asks for comes first, then what nothing applies.
  const llvm::StringSet<> applied = appliedSymbols(module);
  SmallVector<AlgorithmOp> candidates;
  for (auto collective : module.getOps<CollectiveOpInterface>())
    if (auto ref = collective.getAlgorithmAttr();
        ref && !applied.contains(SymbolTable::getSymbolName(collective).getValue()))
      if (auto algorithm = module.lookupSymbol<AlgorithmOp>(ref.getAttr());
          algorithm && !llvm::is_contained(candidates, algorithm))
        candidates.push_back(algorithm);
  if (candidates.empty())
    for (auto algorithm : module.getOps<AlgorithmOp>())
      if (!applied.contains(algorithm.getSymName()))
        candidates.push_back(algorithm);
  if (candidates.size() == 1)
    return candidates.front();
  if (candidates.empty())
    return module.emitError("has no algorithm: write ccl.algorithm, or name a generator");
  InFlightDiagnostic d = module.emitError("has several algorithms: say which one");
  for (AlgorithmOp algorithm : candidates)
    d.attachNote(algorithm.getLoc()) << "@" << algorithm.getSymName();
  return d;
}

} // namespace ccl
