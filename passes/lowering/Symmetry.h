//===- Symmetry.h - Programs that all ranks execute alike, found in IR --------===//
//
// A program of all ranks is symmetric if a shift of the rank grid shifts every place,
// channel and peer that it names: then one rank stands for all (model/Symmetry.h).
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Expand.h"
#include "dialect/model/Symmetry.h"

namespace ccl {

struct SymmetricProgram {
  model::Program rankZero; ///< of one rank
  model::Symmetry symmetry;
};

/// The symmetry of the programs of `algorithm`, with what rank 0 executes. Nothing if
/// there is none that can be seen in the index expressions; `why` says why not. Fails
/// after a diagnostic.
mlir::FailureOr<std::optional<SymmetricProgram>>
findSymmetry(AlgorithmOp algorithm, LocationTable &locations, std::string &why);

} // namespace ccl
