//===- Runs.h - Modules compiled and run with numbers --------------------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include "dialect/Ccl.h"

namespace ccl::random {

struct RunReport {
  std::string error; ///< what the compiler or a rank said; "" if all launches came to an end
  int64_t launches = 0, wrong = 0;
};

/// Compiles what is in `module`, which is lowered in place, and launches it on threads with
/// some counts, most of which the chunks do not divide, in every form that is proved. What is
/// wrong is counted by the reference of `ccl run`.
RunReport run(mlir::ModuleOp module, ElementType type, llvm::StringRef via);

} // namespace ccl::random
