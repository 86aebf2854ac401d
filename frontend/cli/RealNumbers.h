//===- RealNumbers.h - Options that are real numbers --------------------------===//
//
// CLI11's own checks take nan for a number of any range, and print what they want in 300 digits.
//===----------------------------------------------------------------------===//
#pragma once

#include <limits>

namespace CLI {
class Validator;
}

namespace ccl::cli {

/// Finite numbers from `least` to `most`.
CLI::Validator realFrom(double least, double most = std::numeric_limits<double>::max());
/// Finite numbers above 0.
CLI::Validator realAboveZero();

} // namespace ccl::cli
