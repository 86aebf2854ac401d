//===- WriteFile.h - Results that go to files ----------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace ccl::cli {

/// Writes `text` to the file, which has all of it or is as it was before: nobody ever sees a
/// part. What is no ordinary file (a pipe, a device) is just written to; `-` is stdout. "", or
/// why it could not be done.
std::string writeFile(const std::string &path, llvm::StringRef text);

} // namespace ccl::cli
