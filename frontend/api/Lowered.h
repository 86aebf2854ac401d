//===- Lowered.h - A proved program without code, for simulations -----------------===//
#pragma once

#include "frontend/api/Compiler.h"
#include "frontend/api/Diagnostics.h"

#include "dialect/Expand.h"
#include "dialect/model/Check.h"

#include <mutex>

namespace ccl {
inline namespace jit {

/// The programs of all ranks, and what is needed to say where one of them goes wrong.
struct Lowered {
  Lowered(std::shared_ptr<Diagnostics> heard, mlir::Location fallback)
      : heard(std::move(heard)), fallback(fallback) {}

  std::string name; ///< the generator's, or the symbol in the text
  ElementType type = ElementType::F32;
  model::Contract contract;
  model::Program program;
  LocationTable locations;
  int64_t microBatches = 0; ///< that the algorithm wants; 0: any number
  bool unevenSafe = false;  ///< else uneven launches are padded to the longest shard

  /// Says each at its place. Any thread may ask.
  Error refused(llvm::ArrayRef<model::Fault> faults) const;

private:
  mutable std::mutex mutex; ///< of the context
  std::shared_ptr<Diagnostics> heard;
  mlir::Location fallback;
};

/// Proves the programs of all ranks, expanded.
Result<std::shared_ptr<const Lowered>> lowerSource(const Source &source,
                                                   const ProgramOptions &options);

} // namespace jit
} // namespace ccl
