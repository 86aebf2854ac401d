//===- Stages.h - Intermediate forms, written out and replaced -------------===//
//
// The stages of a compilation are files `<program>/algorithm.mlir`,
// `<program>/program.mlir` and `<program>/kernel.ll` or `kernel.cu` in the dump folder. The first
// two are read back from the override folder, by the same name or directly in it.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Ccl.h"

#include <string>

namespace ccl {

class Stages {
public:
  /// An empty folder turns that direction off. `program` names the files' folder.
  Stages(llvm::StringRef dumpDir, llvm::StringRef overrideDir, llvm::StringRef program,
         mlir::Location location);

  /// Emits a warning if the override folder has nothing for this program, or has code, which is
  /// not read.
  void checkOverrides() const;
  bool dumps() const { return !dumpDir.empty(); }
  /// Emits a warning if the file cannot be written.
  void dump(llvm::StringRef file, llvm::StringRef text) const;
  void dump(llvm::StringRef file, mlir::ModuleOp module) const;
  /// The module that replaces a stage; null if there is no such file. Emits the
  /// diagnostics of a file that does not parse.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> replacement(llvm::StringRef file) const;

private:
  /// Where the override folder has it; "": nowhere.
  std::string overrideOf(llvm::StringRef file) const;

  std::string dumpDir, overrideDir, folder;
  mlir::Location location;
};

} // namespace ccl
