//===- Elements.h - Arithmetic on one element type -------------------------===//
//
// Elements lie in memory as integers or floats (`memoryType`). 16- and 8-bit floats are
// computed in f32: `fromMemory` is exact, `toMemory` rounds to nearest even. All of it is
// free of branches and tables, so that loops vectorize, and of calls, so that code links
// against nothing. docs/semantics.md says what happens to NaN, infinity and overflow.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include "llvm/IR/IRBuilder.h"

namespace ccl::host {

/// What of a processor decides how its loops look.
struct Processor {
  unsigned vectorBits = 128;
  bool convertsHalf = false; ///< between half and float, in one instruction
};
/// Of this machine.
Processor hostProcessor();

class Elements {
public:
  Elements(llvm::LLVMContext &context, ElementType type, model::Reduction reduction,
           Processor processor);

  /// "" if elements can be combined, else the reason.
  std::string whyNotReducible() const;

  llvm::Type *memoryType() const;
  llvm::Value *fromMemory(llvm::IRBuilderBase &builder, llvm::Value *value) const;
  llvm::Value *toMemory(llvm::IRBuilderBase &builder, llvm::Value *value) const;
  /// Elements that a vector register holds while they are computed; 0 if they are what
  /// they are in memory: then LLVM chooses well by itself. `divided`: what `divide` does.
  unsigned lanes(bool divided) const;
  /// Of two values that came from memory.
  llvm::Value *combine(llvm::IRBuilderBase &builder, llvm::Value *a, llvm::Value *b) const;

  /// `ranks` (i64, positive) as `divide` wants it: to be computed once.
  llvm::Value *divisor(llvm::IRBuilderBase &builder, llvm::Value *ranks) const;
  /// value / ranks; integers are truncated toward zero.
  llvm::Value *divide(llvm::IRBuilderBase &builder, llvm::Value *value, llvm::Value *divisor) const;

private:
  /// A sign, exponent and mantissa, with subnormals. Without infinities (E4M3FN) the
  /// largest code is NaN and the largest exponent is an ordinary one.
  struct SmallFloat {
    unsigned exponentBits, mantissaBits;
    bool hasInfinity;
    unsigned width() const { return exponentBits + mantissaBits; }
    uint32_t sign() const { return uint32_t(1) << width(); }
    /// What exponents grow by in f32, at its place there.
    uint32_t rebias() const { return (128u - (1u << (exponentBits - 1))) << 23; }
    uint32_t infinity() const { return sign() - (1u << mantissaBits); }
  };

  llvm::Value *widen(llvm::IRBuilderBase &builder, llvm::Value *code) const;
  llvm::Value *widenThroughHalf(llvm::IRBuilderBase &builder, llvm::Value *code) const;
  llvm::Value *narrow(llvm::IRBuilderBase &builder, llvm::Value *value) const;
  llvm::Value *divideInteger(llvm::IRBuilderBase &builder, llvm::Value *value,
                             llvm::Value *divisor) const;

  llvm::LLVMContext &context;
  ElementType type;
  model::Reduction reduction;
  Processor processor;
  std::optional<SmallFloat> small; ///< f16, f8e4m3, f8e5m2
};

} // namespace ccl::host
