//===- Source.h - Reading program text ----------------------------------------===//
#pragma once

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace ccl::cli {

/// The file, or stdin for `-`. Devices that never end are refused like files that are too
/// large.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readSource(const std::string &path);

/// Where text is nested so deeply, or an expression so long, that the parser, which works
/// by recursion, would run out of stack.
struct TooDeep {
  size_t line, column; ///< from 1
  std::string message;
};
std::optional<TooDeep> findTooDeep(llvm::StringRef text);

} // namespace ccl::cli
