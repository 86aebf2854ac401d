//===- PlanProgram.h - A shape of a plan as a program ---------------------------===//
#pragma once

#include "passes/synthesis/PlanOrder.h"

#include "dialect/simulate/Simulate.h"
#include "passes/lowering/Symmetry.h"
#include "passes/synthesis/TreeAlgorithm.h"

namespace ccl {

/// An algorithm, and what it is lowered to.
class PlanProgram {
public:
  /// Nothing: `why` says what is wrong with it.
  static std::optional<PlanProgram> make(mlir::MLIRContext &context, const solver::Network &network,
                                         const Packing &packing, const PlanShape &shape,
                                         const PlanRequest &request, int64_t bytes,
                                         PlanSeconds &seconds, std::string &why);

  /// The same of the one algorithm of `module` that nothing applies. Not `isWhole`: it is a part of
  /// something, and keeps no contract.
  static std::optional<PlanProgram> wrap(mlir::OwningOpRef<mlir::ModuleOp> module, int32_t slots,
                                         bool isWhole, std::string &why);

  /// Micro-batches that a launch takes at least: a slot has room for every slice.
  int64_t leastBatches(const PlanRequest &request, int64_t bytes) const;
  /// For `bytes` of nccl-tests' size, or what the next whole shards make.
  model::SimulateReport simulate(const model::Topology &topology, const PlanRequest &request,
                                 int64_t bytes, int64_t microBatches = 1);
  /// "", or what is wrong.
  const std::string &prove();

  const model::Contract &getContract() const { return contract; }
  uint64_t getMoves() const { return moves; }
  /// Whether channels have slots.
  bool isStaged() const;
  /// Once proved: of staged channels, that it needs.
  int32_t getMinSlots() const { return minSlots; }
  /// Once proved: whether `in` and `out` may be one memory.
  bool holdsInPlace() const { return inPlaceHolds; }
  const std::string &getRemark() const { return remark; }
  mlir::OwningOpRef<mlir::ModuleOp> copyModule() { return module->clone(); }

private:
  AlgorithmOp algorithm();
  /// `slots`: at least; the algorithm may ask for more.
  mlir::LogicalResult lower(int32_t slots);
  mlir::LogicalResult expandAll();
  std::string findFault();

  mlir::OwningOpRef<mlir::ModuleOp> module, lowered;
  model::Contract contract;
  uint64_t moves = 0;
  bool disjoint = true, inPlace = true; ///< forms that may hold
  std::optional<SymmetricProgram> one;
  std::optional<model::Program> all;
  std::string remark;
  int32_t minSlots = 0;
  bool inPlaceHolds = false;
  std::optional<std::string> verdict;
};

} // namespace ccl
