//===- Compiler.cpp ---------------------------------------------------------------===//
#include "test/soak/Compiler.h"

#include "codegen/Compile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"

#include <fmt/format.h>

namespace ccl::soak {
namespace {

/// One compilation. It has a context of its own: what MLIR uniques lives as long as that.
class Compilation {
public:
  explicit Compilation(const Unit &unit)
      : unit(unit), context(dialects(), mlir::MLIRContext::Threading::DISABLED),
        recorder(&context, [this](mlir::Diagnostic &diagnostic) { return record(diagnostic); }),
        module(mlir::ModuleOp::create(mlir::UnknownLoc::get(&context))) {
    context.loadDialect<CclDialect>();
    context.printOpOnDiagnostic(false);
    unit.algorithm.generator->generate(*module, unit.request());
  }

  mlir::FailureOr<Plan> run() {
    CompileOptions options;
    options.type = unit.type;
    options.lowering.via = unit.via;
    options.lowering.slots = 2;
    options.wires = unit.wires;
    if (unit.onShim()) {
      options.arch = "shim";
      options.lowering.protocol = unit.protocol;
    }
    CompileStats stats;
    mlir::FailureOr<Plan> plan = compile(*module, options, stats);
    if (mlir::succeeded(plan) && !stats.unproved.empty()) {
      said += "not proved: " + stats.unproved + "\n";
      return mlir::failure();
    }
    return plan;
  }

  /// Replaces the module by its own text, so that its ops have places.
  bool writeAndParse() {
    std::string text;
    llvm::raw_string_ostream(text) << *module;
    sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, "generated.mlir"),
                               llvm::SMLoc());
    module = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
    return bool(module);
  }

  std::string said;         ///< all diagnostics
  bool errorsPlaced = true; ///< whether every error had a place in the text

private:
  static mlir::DialectRegistry dialects() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }

  mlir::LogicalResult record(mlir::Diagnostic &diagnostic) {
    bool placed = false;
    diagnostic.getLocation()->walk([&](mlir::Location inner) {
      placed |= mlir::isa<mlir::FileLineColLoc>(inner);
      return mlir::WalkResult::advance();
    });
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
      errorsPlaced &= placed;
    said += diagnostic.str() + "\n";
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      said += note.str() + "\n";
    return mlir::success();
  }

  const Unit &unit;
  llvm::SourceMgr sources;
  mlir::MLIRContext context;
  mlir::ScopedDiagnosticHandler recorder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace

llvm::Expected<Plan> compilePlan(const Unit &unit) {
  Compilation compilation(unit);
  mlir::FailureOr<Plan> plan = compilation.run();
  if (mlir::failed(plan))
    return llvm::createStringError(llvm::inconvertibleErrorCode(), compilation.said.c_str());
  return std::move(*plan);
}

llvm::Expected<Compiled> compileUnit(const Unit &unit) {
  llvm::Expected<Plan> plan = compilePlan(unit);
  if (!plan)
    return plan.takeError();
  auto workload = std::make_unique<cli::Workload>(plan->contract, unit.type);
  auto program = LoadedProgram::load(std::move(*plan));
  if (!program)
    return program.takeError();
  return Compiled{unit, std::move(*program), std::move(workload)};
}

std::string expectRefused(const Unit &unit) {
  Compilation compilation(unit);
  if (!compilation.writeAndParse())
    return "its text does not parse: " + compilation.said;
  if (mlir::succeeded(compilation.run()))
    return fmt::format("{} of {} was compiled", model::name(unit.reduction), name(unit.type));
  if (compilation.said.empty())
    return "refused without an error";
  return compilation.errorsPlaced ? "" : "refused without a place: " + compilation.said;
}

} // namespace ccl::soak
