//===- Patterns.h - The loops that move and combine elements ---------------===//
//
// One internal function for every (sources, destinations) that a module uses, named
// for it: `reduce_3_1(s0, s1, s2, d0, n)`, n in elements. Each makes one pass over
// memory. A source and a destination may be the same memory, exactly.
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/host/Elements.h"

#include "llvm/IR/Module.h"

namespace ccl::host {

class Patterns {
public:
  Patterns(llvm::Module &module, ElementType type, model::Reduction reduction,
           Processor processor = hostProcessor())
      : module(module), type(type), elements(module.getContext(), type, reduction, processor) {}

  /// "" if elements can be combined, else the reason.
  std::string whyNotReducible() const { return elements.whyNotReducible(); }
  /// Every destination becomes the combination of all sources, from left to right;
  /// with one source, a copy of it unless it is that source. Several sources need `whyNotReducible`
  /// to be "".
  llvm::Function *get(unsigned sources, unsigned destinations);
  /// Emits a FinishFunction (see Plan.h) of this name, for other modules to call: it divides.
  llvm::Function *emitFinish(llvm::StringRef name);

private:
  using Body = llvm::function_ref<llvm::Value *(llvm::IRBuilderBase &,
                                                llvm::ArrayRef<llvm::Value *> loaded)>;
  llvm::Function *create(llvm::StringRef name, llvm::ArrayRef<llvm::Type *> parameters,
                         llvm::Function::LinkageTypes linkage);
  void emitMemcpy(llvm::Function *function);
  /// `builder` stands at the end of the function's entry. `lanes`: how many iterations at a
  /// time, 0: LLVM's choice.
  void emitLoop(llvm::IRBuilderBase &builder, llvm::ArrayRef<llvm::Value *> sources,
                llvm::ArrayRef<llvm::Value *> destinations, llvm::Value *n, unsigned lanes,
                Body body);

  llvm::Module &module;
  ElementType type;
  Elements elements;
};

} // namespace ccl::host
