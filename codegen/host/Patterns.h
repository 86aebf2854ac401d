//===- Patterns.h - The loops that move and combine elements ---------------===//
//
// One internal function for every (sources, destinations) that a module uses, named
// for it: `reduce_3_1(s0, s1, s2, d0, n)`, n in elements. Each makes one pass over
// memory. A source and a destination may be the same memory, exactly.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace ccl::host {

class Patterns {
public:
  Patterns(llvm::Module &module, ElementType type, model::Reduction reduction)
      : module(module), type(type), reduction(reduction) {}

  /// "" if elements can be combined, else the reason.
  std::string whyNotReducible() const;
  /// Every destination becomes the combination of all sources, from left to right;
  /// with one source, a copy of it. Several sources need `whyNotReducible` to be "".
  llvm::Function *get(unsigned sources, unsigned destinations);

private:
  llvm::Type *elementType();
  llvm::Value *combine(llvm::IRBuilderBase &builder, llvm::Value *a, llvm::Value *b);
  void emitMemcpy(llvm::Function *function);
  void emitLoop(llvm::Function *function, unsigned sources);

  llvm::Module &module;
  ElementType type;
  model::Reduction reduction;
};

} // namespace ccl::host
