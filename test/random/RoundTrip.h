//===- RoundTrip.h - A module written as a file and read back ------------------------===//
#pragma once

#include "frontend/interchange/Formats.h"

namespace ccl::random {

/// What a module promises and keeps.
struct Proved {
  std::string error; ///< "" if it is proved in some form
  model::Contract contract;
  bool disjoint = false, inPlace = false;
};
/// Of the programs in `module`, lowered if need be.
Proved prove(mlir::ModuleOp module);

/// Lowers `module` in place, if it is not. Size parameters become 4.
mlir::LogicalResult lower(mlir::ModuleOp module, llvm::StringRef via);

struct RoundTrip {
  bool refused = false; ///< the format has no such thing; a diagnostic said so
  std::string error;
  std::string text;                         ///< of the file
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< what was read back
};
/// Writes the programs of a lowered module, within the limits of `runtime` if there is one,
/// and reads what was written.
RoundTrip writeAndRead(mlir::ModuleOp module, interchange::Format format,
                       std::optional<interchange::Runtime> runtime);

} // namespace ccl::random
