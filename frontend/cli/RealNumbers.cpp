//===- RealNumbers.cpp --------------------------------------------------------===//
#include "frontend/cli/RealNumbers.h"

#include "llvm/ADT/StringRef.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <cmath>

namespace ccl::cli {

static std::string check(const std::string &text, double least, double most, bool isOpen) {
  double value = 0;
  if (!llvm::StringRef(text).getAsDouble(value) && std::isfinite(value) && value <= most &&
      (isOpen ? value > least : value >= least))
    return "";
  return fmt::format("'{}' is no finite number {} {}{}", text, isOpen ? "above" : "from", least,
                     most < std::numeric_limits<double>::max() ? fmt::format(" to {}", most) : "");
}

CLI::Validator realFrom(double least, double most) {
  return {[=](const std::string &text) { return check(text, least, most, /*isOpen=*/false); }, ""};
}

CLI::Validator realAboveZero() {
  constexpr double most = std::numeric_limits<double>::max();
  return {[](const std::string &text) { return check(text, 0, most, /*isOpen=*/true); }, ""};
}

} // namespace ccl::cli
