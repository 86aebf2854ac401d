//===- Output.cpp -----------------------------------------------------------===//
#include "frontend/cli/Output.h"

#include <atomic>
#include <cerrno>
#include <cstring>

namespace ccl::cli {

/// The reason of the first failure: errno is another one by the time of the exit.
static std::atomic<int> firstError = 0;

static void remember(int error) {
  int none = 0;
  firstError.compare_exchange_strong(none, error ? error : EIO);
}

void writeText(std::FILE *file, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() && file == stdout)
    remember(errno);
}

std::string plural(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void flushOut() {
  if (std::fflush(stdout) != 0)
    remember(errno);
}

std::string finishOutput() {
  flushOut();
  if (std::ferror(stdout)) // be it that somebody else wrote there
    remember(EIO);
  int error = firstError.load();
  return error ? std::strerror(error) : "";
}

} // namespace ccl::cli
