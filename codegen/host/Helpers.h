//===- Helpers.h - Internal functions that the kernels of a module call ----===//
//
// What takes part in every transfer is a function of its own: inlined, it would make up
// most of the time that LLVM needs. Each is emitted when it is first asked for.
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/host/Patterns.h"

namespace ccl::host {

class Helpers {
public:
  Helpers(llvm::Module &module, const Plan &plan, Patterns &patterns)
      : module(module), plan(plan), patterns(patterns) {}

  /// Next operation of an end: ++next.
  static llvm::Value *nextOperation(llvm::IRBuilderBase &builder, llvm::Value *end);
  /// `void publish(end)`: *depart = ++next.
  llvm::Function *publish();
  /// `ptr slot(end)`: the slot of the operation that comes next.
  llvm::Function *slot();

  /// Whether shards may be cut unevenly, which `slice` has to look up.
  bool mayBeUneven() const { return model::hasUnevenForm(plan.contract.collective); }
  /// Where slice `i` of `m` of chunk `k` begins in a shard row, and its length:
  /// `{i64, i64} slice(k, count, i, m)`, or `slice(k, count, i, m, shards, row)` if shards
  /// may be uneven. `shards` is KernelArgs::shards, `row` an index into it.
  llvm::Function *slice();

  /// The pattern for sources of which one is remote at least: `i32 fetch_S_D(args, r0 .. ,
  /// s0 .. , d0 .. , n)`, where r0 .. are the ranks that own the sources (any number for a
  /// source that is not remote). What KernelArgs::read returned if that was not 0.
  llvm::Function *fetch(unsigned sources, unsigned destinations);

private:
  llvm::Function *create(llvm::StringRef name, llvm::Type *result,
                         llvm::ArrayRef<llvm::Type *> parameters,
                         llvm::function_ref<void(llvm::IRBuilderBase &, llvm::Function *)> emit);
  std::pair<llvm::Value *, llvm::Value *> emitShard(llvm::IRBuilderBase &builder,
                                                    llvm::Function *slice, llvm::Value *shard);
  void emitSlice(llvm::IRBuilderBase &builder, llvm::Function *function);
  void emitFetchCopy(llvm::IRBuilderBase &builder, llvm::Function *function);
  void emitFetchPieces(llvm::IRBuilderBase &builder, llvm::Function *function, unsigned sources,
                       unsigned destinations);
  llvm::Value *emitRead(llvm::IRBuilderBase &builder, llvm::Value *args, llvm::Value *rank,
                        llvm::Value *address, llvm::Value *to, llvm::Value *elements);

  llvm::Module &module;
  const Plan &plan;
  Patterns &patterns;
};

} // namespace ccl::host
