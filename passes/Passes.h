//===- Passes.h - Constructors of all passes --------------------------------===//
#pragma once

#include "dialect/Ccl.h"
#include "passes/ByteSize.h"

#include "mlir/Pass/Pass.h"

namespace ccl {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace ccl
