//===- ToModule.h - A foreign program as a module ---------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"

#include "dialect/Ccl.h"

namespace ccl::interchange {

/// `foreign` as a module: a `lowered` algorithm, which holds the buffers, and a program
/// `@name.r` for every rank r, whose channels and peers stand at its top. Buffers and
/// instructions have the place in `fileName` that they were read from.
///
/// Null, after diagnostics at those places, if the verifiers do not take it: a move of more
/// chunks than there are, or a number that no op can hold.
mlir::OwningOpRef<mlir::ModuleOp> toModule(const Foreign &foreign, llvm::StringRef fileName,
                                           mlir::MLIRContext &context);

/// A symbol that needs no quotes: what an identifier cannot hold becomes `_`, and of long
/// names the end is left out. "program" for a name without any letter.
std::string legalSymbol(llvm::StringRef name);

/// The place in a file. What stands for the file as a whole (0) is its first line.
mlir::Location placeIn(llvm::StringRef fileName, TextPlace place, mlir::MLIRContext &context);

} // namespace ccl::interchange
