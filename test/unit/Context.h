// The MLIR context of a test program: one for all its tests, with our dialects loaded.
#pragma once

#include "dialect/Ccl.h"

namespace ccl::test {

inline mlir::MLIRContext &context() {
  static mlir::MLIRContext *context = [] {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    auto *made = new mlir::MLIRContext(registry, mlir::MLIRContext::Threading::DISABLED);
    made->loadAllAvailableDialects();
    return made;
  }();
  return *context;
}

} // namespace ccl::test
