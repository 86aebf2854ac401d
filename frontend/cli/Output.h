//===- Output.h - Writing to stdout and stderr ------------------------------===//
//
// A full disk or a closed pipe must not end the process by an exception that nobody
// catches, least of all on a rank's thread: text that cannot be written is dropped here,
// and the command's exit status tells (finishOutput).
//===----------------------------------------------------------------------===//
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace ccl::cli {

void writeText(std::FILE *file, std::string_view text);

/// Results.
template <typename... T>
void printOut(fmt::format_string<T...> format, T &&...values) {
  writeText(stdout, fmt::format(format, std::forward<T>(values)...));
}

/// Errors and notes.
template <typename... T>
void printError(fmt::format_string<T...> format, T &&...values) {
  writeText(stderr, fmt::format(format, std::forward<T>(values)...));
}

/// "1 chunk", "3 chunks".
std::string plural(uint64_t count, std::string_view what);

/// Lets results be seen now.
void flushOut();

/// Flushes stdout. "", or why some of what was printed there is lost.
std::string finishOutput();

} // namespace ccl::cli
