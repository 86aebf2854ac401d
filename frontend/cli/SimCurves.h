//===- SimCurves.h - Measured times for ccl sim -------------------------------===//
#pragma once

#include "dialect/simulate/Simulate.h"

#include "llvm/Support/Error.h"

#include <string>

namespace ccl::cli {

/// "KIND=FILE" or "KIND=FILE#NAME". KIND: any, nvlink, pci, net, or two ranks, "0-1". The file
/// holds nccl-tests' output or CSV, and NAME says which of its curves, if there are several; of
/// nccl-tests' two it is out-of-place unless said.
struct SimCurve {
  std::string text, kind, file, name;
  model::WayCurve way; ///< its curve: from `readCurve` on
};
llvm::Expected<SimCurve> parseCurve(llvm::StringRef text);
/// Reads and fits. Fails with words that name the file and the line, else says what came out.
llvm::Expected<std::string> readCurve(SimCurve &curve);

} // namespace ccl::cli
