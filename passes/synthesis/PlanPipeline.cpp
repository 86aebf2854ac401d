//===- PlanPipeline.cpp ---------------------------------------------------===//
#include "passes/synthesis/PlanPipeline.h"
#include "passes/Passes.h"
#include "passes/synthesis/Stages.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace ccl {

namespace {
struct PlanPipelineOptions : PassPipelineOptions<PlanPipelineOptions> {
  Option<ByteSize> bytes{*this, "bytes", llvm::cl::desc("size, as of nccl-tests: 64M"),
                         llvm::cl::init(int64_t(64) << 20)};
  Option<std::string> model{*this, "model", llvm::cl::desc("cost model"), llvm::cl::init("ccl")};
  Option<int64_t> most{*this, "max", llvm::cl::desc("micro-batches, at most"), llvm::cl::init(64)};
  Option<int64_t> pieces{*this, "pieces",
                         llvm::cl::desc("pieces of a chunk of the planner, at most; 0: any"),
                         llvm::cl::init(0)};
  Option<int64_t> seed{*this, "seed", llvm::cl::desc("of random choices"), llvm::cl::init(1)};
  Option<double> timeLimit{*this, "time-limit",
                           llvm::cl::desc("seconds of ccl-synthesize; 0: none"), llvm::cl::init(0)};
};

void build(OpPassManager &pm, const PlanPipelineOptions &options) {
  CclDecomposeOptions decompose;
  decompose.bytes = options.bytes;
  pm.addPass(createCclDecompose(decompose));
  CclSynthesizeOptions synthesize;
  synthesize.bytes = options.bytes;
  synthesize.model = options.model;
  synthesize.pieces = options.pieces;
  synthesize.seed = options.seed;
  synthesize.timeLimit = options.timeLimit;
  synthesize.direct = true;
  pm.addPass(createCclSynthesize(synthesize));
  CclPipelineMicroBatchesOptions pipeline;
  pipeline.bytes = options.bytes;
  pipeline.model = options.model;
  pipeline.most = options.most;
  pm.addPass(createCclPipelineMicroBatches(pipeline));
  CclSelectOptions select;
  const ByteSize bytes = options.bytes;
  select.bytes = bytes;
  select.model = options.model;
  select.prune = true;
  pm.addPass(createCclSelect(select));
}

/// What is wrong with the options, if anything: known before the first pass has planned.
std::string faultOf(const PlanPipelineOptions &options) {
  const std::string &model = options.model;
  if (!model::parseCostModel(model))
    return unknownModel(model);
  if (options.most < 1 || options.most > mostMicroBatches)
    return "max is 1 to " + std::to_string(mostMicroBatches) + ", not " +
           std::to_string(options.most);
  return "";
}
} // namespace

void registerPlanPipeline() {
  registerPassPipeline(
      "ccl-plan", "decompose collectives, find algorithms, pipeline them and select the fastest",
      [](OpPassManager &pm, StringRef text, function_ref<LogicalResult(const Twine &)> fail) {
        PlanPipelineOptions options;
        if (failed(options.parseFromString(text)))
          return failure();
        if (std::string fault = faultOf(options); !fault.empty())
          return fail("ccl-plan: " + fault);
        build(pm, options);
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> list) {
        list(PlanPipelineOptions());
      });
}

} // namespace ccl
