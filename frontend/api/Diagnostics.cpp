//===- Diagnostics.cpp -----------------------------------------------------------===//
#include "frontend/api/Diagnostics.h"

#include "dialect/Ccl.h"

namespace ccl {
inline namespace jit {

static mlir::DialectRegistry dialects() {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  return registry;
}

Diagnostics::Diagnostics()
    : theContext(dialects(), mlir::MLIRContext::Threading::DISABLED),
      printer(theSources, &theContext, said),
      unplaced(&theContext,
               [this](mlir::Diagnostic &diagnostic) { return sayUnplaced(diagnostic); }) {
  // Builders and generators make ops without parsing any.
  theContext.loadDialect<CclDialect>();
  theContext.printOpOnDiagnostic(false);
}

static bool isPlaced(mlir::Location location) {
  bool found = false;
  location->walk([&](mlir::Location inner) {
    found |= mlir::isa<mlir::FileLineColLoc>(inner);
    return found ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  });
  return found;
}

mlir::LogicalResult Diagnostics::sayUnplaced(mlir::Diagnostic &diagnostic) {
  if (isPlaced(diagnostic.getLocation()))
    return mlir::failure();
  bool isError = diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
  said << (isError ? "error: " : "warning: ") << diagnostic.str() << "\n";
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    said << "note: " << note.str() << "\n";
  return mlir::success();
}

std::string Diagnostics::text() const { return llvm::StringRef(all).rtrim().str(); }

Error Diagnostics::refused() const {
  std::string message = text();
  return {Error::Kind::program,
          message.empty() ? std::string("refused without a reason") : std::move(message), -1};
}

std::string textOf(mlir::ModuleOp module) {
  std::string printed;
  llvm::raw_string_ostream os(printed);
  module.print(os);
  return printed;
}

} // namespace jit
} // namespace ccl
