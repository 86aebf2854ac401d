//===- Log.cpp --------------------------------------------------------------===//
#include "runtime/Log.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace ccl::log {
namespace {

/// Read by every thread, changed at start-up: atomics, and no lock on the way.
struct State {
  std::atomic<Level> level{Level::Warn};
  std::atomic<uint32_t> subsystems{~0u};
  std::atomic<bool> collectives{false};
  std::atomic<int> descriptor{STDERR_FILENO};
};
State state;

std::string hostName() {
  char buffer[256] = {};
  if (gethostname(buffer, sizeof buffer - 1) != 0)
    return "?";
  return std::string(llvm::StringRef(buffer).split('.').first);
}

std::string expandFileName(llvm::StringRef pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'h' && next != 'p')) {
      out += pattern[i];
      continue;
    }
    out += next == 'h' ? hostName() : std::to_string(getpid());
    ++i;
  }
  return out;
}

} // namespace

std::optional<Level> parseLevel(std::string_view text) {
  for (size_t i = 0; i < levelNames.size(); ++i)
    if (llvm::StringRef(text).equals_insensitive(levelNames[i]))
      return Level(i);
  return std::nullopt;
}

std::optional<uint32_t> parseSubsystems(std::string_view text) {
  llvm::StringRef list(text);
  const bool allBut = list.consume_front("^");
  uint32_t mask = 0;
  for (llvm::StringRef part : llvm::split(list, ',')) {
    part = part.trim();
    if (part.equals_insensitive("ALL")) {
      mask = ~0u;
      continue;
    }
    size_t i = 0;
    while (i < subsystemNames.size() && !part.equals_insensitive(subsystemNames[i]))
      ++i;
    if (i == subsystemNames.size())
      return std::nullopt;
    mask |= 1u << i;
  }
  return allBut ? ~mask : mask;
}

std::optional<std::string> configure(const Options &options) {
  state.level = options.level;
  state.subsystems = options.subsystems;
  state.collectives = options.collectives;
  int descriptor = STDERR_FILENO;
  std::optional<std::string> problem;
  if (!options.file.empty()) {
    const std::string path = expandFileName(options.file);
    descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor < 0) {
      problem = fmt::format("cannot open {}: {}", path, std::strerror(errno));
      descriptor = STDERR_FILENO;
    }
  }
  const int old = state.descriptor.exchange(descriptor);
  if (old != STDERR_FILENO)
    close(old);
  return problem;
}

bool enabled(Level level, Subsystem subsystem) {
  if (level > state.level.load(std::memory_order_relaxed))
    return false;
  return level <= Level::Warn ||
         (state.subsystems.load(std::memory_order_relaxed) >> unsigned(subsystem) & 1);
}

bool tracesCollectives() { return state.collectives.load(std::memory_order_relaxed); }

void write(Level level, int64_t rank, std::string_view text) {
  static const std::string host = hostName();
  const time_t now = time(nullptr);
  tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &local);
  const std::string who = rank < 0 ? "" : fmt::format(" [{}]", rank);
  const std::string line = fmt::format("[{}] {}:{}:{}{} CCL {} {}\n", stamp, host, getpid(),
                                       syscall(SYS_gettid), who, levelNames[size_t(level)], text);
  // A log that cannot be written must not stop a collective.
  [[maybe_unused]] ssize_t written =
      ::write(state.descriptor.load(std::memory_order_relaxed), line.data(), line.size());
}

} // namespace ccl::log
