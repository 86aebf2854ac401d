//===- Log.h - What the runtime says on stderr ------------------------------===//
//
//   [2026-11-29 10:00:00] host:pid:tid [rank] CCL WARN text
//
// stdout belongs to tables and JSON, so nothing is ever written there. A line is one
// write, and lines of several threads and processes do not mix.
//===----------------------------------------------------------------------===//
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ccl::log {

/// Each level includes those before it.
enum class Level : uint8_t { Version, Warn, Info, Trace };
enum class Subsystem : uint8_t { Init, Env, Plan, Check, Compile, Cache, Coll, Wait, Abort };
/// In the order of the enums.
constexpr std::array<std::string_view, 4> levelNames = {"VERSION", "WARN", "INFO", "TRACE"};
constexpr std::array<std::string_view, 9> subsystemNames = {
    "INIT", "ENV", "PLAN", "CHECK", "COMPILE", "CACHE", "COLL", "WAIT", "ABORT"};

std::optional<Level> parseLevel(std::string_view text);
/// "INIT,COLL", "^WAIT" (all but), "ALL"; upper or lower case. A bit per subsystem.
std::optional<uint32_t> parseSubsystems(std::string_view text);

struct Options {
  Level level = Level::Warn;
  uint32_t subsystems = ~0u; ///< of INFO and TRACE; WARN is never filtered
  std::string file;          ///< "": stderr; %h is the host, %p the process
  bool collectives = false;  ///< a line for each collective
};
/// Errors when the file cannot be opened, with the cause; stderr stays in use then.
std::optional<std::string> configure(const Options &options);

bool enabled(Level level, Subsystem subsystem);
bool tracesCollectives();
/// Writes a line whatever the level. rank -1: none.
void write(Level level, int64_t rank, std::string_view text);

template <typename... T>
void print(Level level, Subsystem subsystem, int64_t rank, fmt::format_string<T...> format,
           T &&...values) {
  if (enabled(level, subsystem))
    write(level, rank, fmt::format(format, std::forward<T>(values)...));
}
template <typename... T>
void warn(Subsystem s, int64_t rank, fmt::format_string<T...> format, T &&...values) {
  print(Level::Warn, s, rank, format, std::forward<T>(values)...);
}
template <typename... T>
void info(Subsystem s, int64_t rank, fmt::format_string<T...> format, T &&...values) {
  print(Level::Info, s, rank, format, std::forward<T>(values)...);
}
template <typename... T>
void trace(Subsystem s, int64_t rank, fmt::format_string<T...> format, T &&...values) {
  print(Level::Trace, s, rank, format, std::forward<T>(values)...);
}

} // namespace ccl::log
