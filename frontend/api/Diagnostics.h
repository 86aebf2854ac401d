//===- Diagnostics.h - An MLIR context, and what was said in it ------------------===//
#pragma once

#include <ccl/ccl.h>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/SourceMgr.h"

namespace ccl {
inline namespace jit {

/// With the dialects of programs, and no threads. Diagnostics become text, with the line that they
/// are about.
class Diagnostics {
public:
  Diagnostics();
  Diagnostics(const Diagnostics &) = delete;

  mlir::MLIRContext &context() { return theContext; }
  /// The texts whose lines are shown.
  llvm::SourceMgr &sources() { return theSources; }

  void say(const std::string &line) { said << line << "\n"; }
  /// What was said so far, without a line end.
  std::string text() const;
  /// That, of what the compiler did not take.
  Error refused() const;
  void clear() { all.clear(); }

private:
  mlir::LogicalResult sayUnplaced(mlir::Diagnostic &diagnostic);

  std::string all;
  llvm::raw_string_ostream said{all};
  llvm::SourceMgr theSources;
  mlir::MLIRContext theContext;
  mlir::SourceMgrDiagnosticHandler printer;
  // Asked first: what has no place in a file would be shown as <unknown>:0.
  mlir::ScopedDiagnosticHandler unplaced;
};

std::string textOf(mlir::ModuleOp module);

} // namespace jit
} // namespace ccl
