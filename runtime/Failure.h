//===- Failure.h - What goes wrong at run time ------------------------------===//
#pragma once

#include "llvm/Support/Error.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace ccl {

/// Category of a runtime failure: decides the exit status of tools (1, 2, 3).
enum class Failure : uint8_t { BadArgument, Unproved, Machine, Timeout, Aborted, Mismatch };
/// 1: the input is wrong; 2: usage; 3: the machine failed, or another rank.
int exitStatus(Failure category);

class RuntimeError : public llvm::ErrorInfo<RuntimeError> {
public:
  static char ID;
  RuntimeError(Failure category, std::string message, int64_t culprit = -1)
      : category(category), message(std::move(message)), culprit(culprit) {}
  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override;
  Failure category;
  std::string message;
  int64_t culprit; ///< rank of the communicator that is to blame, or -1
};

template <typename... T>
llvm::Error makeFailureOf(int64_t culprit, Failure category, fmt::format_string<T...> format,
                          T &&...values) {
  return llvm::make_error<RuntimeError>(category, fmt::format(format, std::forward<T>(values)...),
                                        culprit);
}
/// One that no rank is to blame for.
template <typename... T>
llvm::Error makeFailure(Failure category, fmt::format_string<T...> format, T &&...values) {
  return makeFailureOf(-1, category, format, std::forward<T>(values)...);
}

} // namespace ccl
