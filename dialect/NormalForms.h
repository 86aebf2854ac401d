//===- NormalForms.h - Normal forms of indices, each worked out once -----------===//
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/DialectInterface.h"
#include "llvm/ADT/DenseMap.h"

#include <shared_mutex>

namespace ccl {

/// Of a context, which keeps all expressions as long as it lives. The `ccl` dialect holds it.
class NormalForms : public mlir::DialectInterface::Base<NormalForms> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NormalForms)
  explicit NormalForms(mlir::Dialect *dialect) : Base(dialect) {}

  /// Null if `expr` was not noted yet.
  mlir::AffineExpr lookup(mlir::AffineExpr expr) const {
    std::shared_lock lock(mutex);
    return forms.lookup(expr);
  }
  void note(mlir::AffineExpr expr, mlir::AffineExpr form) const {
    std::unique_lock lock(mutex);
    forms.try_emplace(expr, form);
    forms.try_emplace(form, form);
  }

private:
  mutable std::shared_mutex mutex;
  mutable llvm::DenseMap<mlir::AffineExpr, mlir::AffineExpr> forms;
};

} // namespace ccl
