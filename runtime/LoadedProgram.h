//===- LoadedProgram.h - A plan that can be executed ------------------------===//
#pragma once

#include "runtime/Agents.h"
#include "runtime/Failure.h"
#include "runtime/plan/Plan.h"

#include <memory>

namespace ccl {

/// A plan whose code is linked into this process; immutable, shared by all ranks.
class LoadedProgram {
public:
  static llvm::Expected<std::shared_ptr<LoadedProgram>> load(Plan plan);
  virtual ~LoadedProgram() = default;
  const Plan &plan() const { return thePlan; }
  /// Null if `rank` has nothing to do, or a table.
  virtual Kernel kernel(int64_t rank) const = 0;
  /// For the tables in the plan.
  const AgentFunctions &agentFunctions() const { return functions; }
  /// Plan::finish, or null.
  virtual FinishFunction finish() const { return nullptr; }
  /// Index into plan().kernels, -1 if `rank` has none.
  int kernelIndex(int64_t rank) const;

protected:
  explicit LoadedProgram(Plan plan) : thePlan(std::move(plan)) {}
  Plan thePlan;
  AgentFunctions functions;
};

} // namespace ccl
