//===- Mlir.cpp - Fuzzing MLIR text: parse, verify, specialize, expand, check --------------===//
#include "dialect/Expand.h"
#include "dialect/model/Check.h"
#include "frontend/cli/Source.h"
#include "passes/Pipelines.h"
#include "test/fuzz/Foreign.h"
#include "test/fuzz/Mutate.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace ccl;
using namespace ccl::fuzz;

static const Vocabulary vocabulary = {
    Language::Mlir,
    {"ccl",        "algorithm",  "buffer",     "copy",       "reduce",     "apply",
     "pipeline",   "schedule",   "program",    "block",      "proxy",      "channel",
     "peer",       "transfer",   "signal",     "wait",       "topology",   "link",
     "switch",     "implements", "contract",   "in",         "out",        "inout",
     "scratch",    "ranks",      "chunks",     "into",       "x",          "via",
     "staged",     "direct",     "along",      "on",         "by",         "affine",
     "for",        "parallel",   "if",         "to",         "step",       "mod",
     "floordiv",   "ceildiv",    "symbol",     "index",      "min",        "max",
     "affine_map", "groups",     "lowered",    "all_reduce", "all_gather", "broadcast",
     "all_to_all", "permute",    "custom",     "rows",       "root",       "reduce_scatter",
     "gather",     "scatter",    "sum",        "from",       "slots",      "tag",
     "protocol",   "simple",     "ll",         "at",         "of",         "dense",
     "tensor",     "i64",        "affine_set", "arith",      "constant"},
    {"{ ccl.copy %x[#, #] into %x[#, #]\n", "{ ccl.reduce %x[#, #] into %x[#, #] x #\n",
     "{ affine.for %i = # to # {", "{ affine.parallel (%p) = (#) to (#) {", "[(%r + #) mod #, ",
     "[%r floordiv # * #, ", ") x #", "] x #", "{ %y = ccl.buffer scratch ranks(#) chunks(#)\n",
     "{ ccl.signal %c\n", "{ ccl.wait %c\n", "{ ccl.transfer from %x[#] to %x[#]\n", "(#, ",
     "} {\n}"}};
CCL_FUZZ_MUTATOR(vocabulary)

namespace {

/// A context, and how often it was used: what MLIR makes unique stays as long as that.
struct Context {
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry dialects;
    registerDialects(dialects);
    return dialects;
  }
  Context() : context(registry(), mlir::MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
      errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
      require(!diagnostic.str().empty(), "a message has words");
      return mlir::success();
    });
  }
  mlir::MLIRContext context;
  int errors = 0, used = 0;
};

Context &context() {
  static std::unique_ptr<Context> current;
  if (!current || ++current->used > 200)
    current = std::make_unique<Context>();
  current->errors = 0;
  return *current;
}

} // namespace

/// Numbers that would only take time.
static bool isSmall(const model::Contract &contract, const std::vector<model::Buffer> &buffers) {
  int64_t places = 0;
  for (const model::Buffer &buffer : buffers)
    places += std::min<int64_t>(buffer.chunks, 1 << 20);
  return contract.ranks <= 64 && places * contract.ranks <= 4096;
}

static void checkMoves(AlgorithmOp algorithm) {
  auto contract = getModelContract(algorithm);
  if (mlir::failed(contract) || algorithm.getLowered())
    return;
  LocationTable locations;
  mlir::FailureOr<model::Moves> moves = expand(algorithm, locations, std::nullopt, 4096);
  if (mlir::succeeded(moves) && isSmall(*contract, moves->buffers))
    (void)model::check(*moves, *contract);
}

static void checkPrograms(AlgorithmOp algorithm) {
  auto contract = getModelContract(algorithm);
  if (mlir::failed(contract) || contract->ranks > 64)
    return;
  // What a loop of a program makes long is not for here.
  bool loops = false;
  algorithm->getParentOp()->walk([&](mlir::affine::AffineForOp) { loops = true; });
  LocationTable locations;
  if (loops)
    return;
  auto programs = expandPrograms(algorithm, locations);
  if (mlir::succeeded(programs) && isSmall(*contract, programs->buffers))
    (void)model::check(*programs, *contract);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // MLIR's lexer looks for a zero behind the end, which all that reads files gives it.
  const std::string text(reinterpret_cast<const char *>(data), size);
  if (cli::findTooDeep(text))
    return 0;
  Context &here = context();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(&here.context));
  require(module || here.errors > 0, "what does not parse has an error");
  if (!module)
    return 0;
  mlir::FailureOr<AlgorithmOp> algorithm = findAlgorithm(*module);
  require(mlir::succeeded(algorithm) || here.errors > 0, "a missing algorithm is an error");
  if (mlir::failed(algorithm))
    return 0;
  const std::string name = algorithm->getSymName().str();
  if (!module->getOps<ProgramOp>().empty())
    checkPrograms(*algorithm);
  LoweringOptions options;
  for (unsigned i = 0; i < algorithm->getNumArguments(); ++i)
    options.sizes[algorithm->getParameterName(i).str()] = 3;
  here.errors = 0;
  if (mlir::failed(runPipeline(*module, buildAlgorithmPipeline, options))) {
    require(here.errors > 0, "a pass that fails says why");
    return 0;
  }
  require(mlir::succeeded(mlir::verify(*module)), "passes leave what verifies");
  if (mlir::succeeded(algorithm = findAlgorithm(*module, name)))
    checkMoves(*algorithm);
  return 0;
}
