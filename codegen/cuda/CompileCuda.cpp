//===- CompileCuda.cpp ------------------------------------------------------===//
#include "codegen/cuda/CompileCuda.h"

#include "codegen/PlanText.h"
#include "codegen/Timer.h"
#include "codegen/cuda/Embedded.h"
#include "codegen/cuda/EmitCuda.h"
#include "codegen/cuda/ShimCompile.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl {

namespace {

/// To be raised when the form of an entry of the cache changes.
constexpr int entryVersion = 1;

/// Whoever makes images of sources.
struct ImageCompiler {
  const Nvrtc *nvrtc = nullptr; ///< or
  std::optional<ShimCompiler> shim;

  static llvm::Expected<ImageCompiler> find(const CompileOptions &options) {
    ImageCompiler compiler;
    if (options.arch == "shim") {
      llvm::Expected<ShimCompiler> shim =
          ShimCompiler::find(options.shimCompiler, options.sanitizer, options.shimThreads);
      if (!shim)
        return shim.takeError();
      compiler.shim = std::move(*shim);
      return compiler;
    }
    llvm::Expected<const Nvrtc *> nvrtc = Nvrtc::get(options.nvrtcLibrary);
    if (!nvrtc)
      return nvrtc.takeError();
    if (llvm::Error error = (*nvrtc)->check(options.arch))
      return error;
    compiler.nvrtc = *nvrtc;
    return compiler;
  }

  std::string identity() const { return shim ? shim->identity() : nvrtc->identity(); }

  llvm::Expected<Cubin> compile(const std::string &source, const std::string &arch) const {
    if (nvrtc)
      return nvrtc->compile(source, arch);
    llvm::Expected<std::string> image = shim->compile(source);
    if (!image)
      return image.takeError();
    return Cubin{std::move(*image), {}};
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// The cache: an image, and behind a zero what its kernels need, a line for each
//===----------------------------------------------------------------------===//

static std::string toEntry(const Cubin &cubin) {
  std::string entry = cubin.image + '\0';
  for (const KernelResources &kernel : cubin.kernels)
    entry += fmt::format("{} {} {} {} {}\n", kernel.name, kernel.registers, kernel.sharedBytes,
                         kernel.spillBytes, kernel.stackBytes);
  return entry;
}

/// Nothing if it is not in that form: then it is compiled again.
static std::optional<Cubin> fromEntry(StringRef entry) {
  const size_t zero = entry.rfind('\0');
  if (zero == StringRef::npos)
    return std::nullopt;
  Cubin cubin{entry.take_front(zero).str(), {}};
  SmallVector<StringRef, 4> lines;
  entry.drop_front(zero + 1).split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines) {
    SmallVector<StringRef, 5> fields;
    line.split(fields, ' ');
    KernelResources kernel;
    if (fields.size() != 5 || fields[1].getAsInteger(10, kernel.registers) ||
        fields[2].getAsInteger(10, kernel.sharedBytes) ||
        fields[3].getAsInteger(10, kernel.spillBytes) ||
        fields[4].getAsInteger(10, kernel.stackBytes))
      return std::nullopt;
    kernel.name = fields[0].str();
    cubin.kernels.push_back(std::move(kernel));
  }
  return cubin;
}

//===----------------------------------------------------------------------===//
// From the algorithm
//===----------------------------------------------------------------------===//

static void take(Cubin cubin, Plan &plan, CompileStats &stats) {
  plan.cuda.image = std::move(cubin.image);
  stats.kernels = std::move(cubin.kernels);
}

/// The machine is to blame, not the program: no compiler, or one that cannot cope with what we
/// wrote.
static LogicalResult refuse(AlgorithmOp algorithm, const CompileOptions &options,
                            CompileStats &stats, llvm::Error error, bool isSource) {
  stats.machineFailed = true;
  const bool isChosen = options.arch == "shim" && !options.shimCompiler.empty();
  InFlightDiagnostic diagnostic = emitError(algorithm.getLoc())
                                  << "cannot generate code for " << options.arch << ": "
                                  << llvm::toString(std::move(error));
  if (isSource) {
    if (isChosen)
      diagnostic.attachNote() << "that compiler is CCL_SHIM_CXX=" << options.shimCompiler
                              << "; if it makes no shared objects of C++20, name another";
    else
      diagnostic.attachNote() << "this is a fault of the compiler, not of the program";
    if (options.dumpDir.empty())
      diagnostic.attachNote() << "CCL_DUMP_DIR=FOLDER (of ccl compile: --dump-phases-to FOLDER) "
                                 "keeps the source, kernel.cu";
  }
  return failure();
}

LogicalResult compileCuda(AlgorithmOp algorithm, const model::Contract &contract,
                          model::Reduction reduction, const CompileOptions &options,
                          const std::optional<ObjectCache> &cache, Plan &plan, CompileStats &stats,
                          std::string *text) {
  CudaOptions cuda;
  cuda.type = options.type;
  cuda.reduction = reduction;
  cuda.arch = options.arch;
  cuda.rank = options.lowering.rank;
  cuda.multimem = options.multimem;
  cuda.tma = options.tma;
  cuda.copyEngines = options.copyEngines;
  if (failed(emitCuda(algorithm, contract, cuda, plan)))
    return failure();
  plan.cuda.arch = options.arch;
  const std::string source = selfContained(
      plan.cuda.source, options.arch == "shim" ? CudaDialect::Shim : CudaDialect::Device);
  if (text)
    *text = source;
  if (options.sourceOnly)
    return success();
  llvm::Expected<ImageCompiler> compiler = [&] {
    Timer timer(stats.nvrtcMs); // a library of 100 MB
    return ImageCompiler::find(options);
  }();
  if (!compiler)
    return refuse(algorithm, options, stats, compiler.takeError(), /*isSource=*/false);

  std::string head = fmt::format("ccl {} cuda {} {}\n{}\n{}", CCL_VERSION, entryVersion,
                                 options.arch, compiler->identity(), source);
  const std::string key = hashHex(head);
  appendTables(head, plan);
  plan.hash = hashHex(head);
  if (cache && !text)
    if (std::optional<std::string> entry = cache->load(key))
      if (std::optional<Cubin> cubin = fromEntry(*entry)) {
        take(std::move(*cubin), plan, stats);
        stats.fromCache = true;
        return success();
      }
  llvm::Expected<Cubin> cubin = [&] {
    Timer timer(stats.nvrtcMs);
    return compiler->compile(source, options.arch);
  }();
  if (!cubin) {
    llvm::Error error = cubin.takeError();
    const bool isSource = options.arch != "shim" || error.isA<CompilerFailed>();
    return refuse(algorithm, options, stats, std::move(error), isSource);
  }
  if (cache)
    if (llvm::Error error = cache->store(key, toEntry(*cubin)))
      emitWarning(algorithm.getLoc()) << "image not cached: " << llvm::toString(std::move(error));
  take(std::move(*cubin), plan, stats);
  return success();
}

} // namespace ccl
