//===- Compiler.h - Units become programs ---------------------------------------===//
#pragma once

#include "frontend/cli/Workload.h"
#include "runtime/LoadedProgram.h"
#include "test/soak/Units.h"

namespace ccl::soak {

struct Compiled {
  Unit unit;
  std::shared_ptr<LoadedProgram> program;
  std::unique_ptr<cli::Workload> workload;
};

/// Proves and compiles. The error is what the compiler said.
llvm::Expected<Plan> compilePlan(const Unit &unit);
/// The same for ranks of the host, and loads.
llvm::Expected<Compiled> compileUnit(const Unit &unit);

/// Compiles, from text, a pair of type and reduction that does not exist. Returns "" if that is
/// refused by an error with a place in the text, else what happened instead.
std::string expectRefused(const Unit &unit);

} // namespace ccl::soak
