//===- Settings.h - Everything that the environment can set -----------------===//
//
// One table makes the parsing, `ccl info -c` and the page of the documentation.
// An explicit argument (a flag of a tool, a field of an options struct) always wins
// over the environment.
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/Support/Error.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ccl {

enum class Setting : uint8_t {
  Debug,
  DebugSubsys,
  DebugFile,
  CollTrace,
  CacheDir,
  DumpDir,
  OverrideDir,
  AlwaysCompile,
  Algo,
  Timeout,
  SlotBytes,
  Via,
  Rank,
  Size,
  Socket,
  Address,
  Secret,
  SecretFile,
  HostId,
  FlightRecorder,
  CudaLibrary,
  ShimDevices,
  ShimSms,
  CudaInstances,
  NvrtcLibrary,
  ShimCxx,
  ShimWarps,
  NvmlLibrary,
  VerbsLibrary,
  Nics,
  GidIndex,
  PkeyIndex,
  TrafficClass,
  ServiceLevel,
  IbTimeout,
  IbRetries,
  RdmaMtu
};

class Settings {
public:
  /// Defaults, without a look at the environment.
  Settings();
  /// Reads CCL_* from `environment` ("NAME=value", null at the end; null: this process').
  /// An empty value counts as not set. A value that cannot be parsed is an error
  /// (Failure::BadArgument); a name that does not exist is kept for `report`.
  static llvm::Expected<Settings> fromEnvironment(const char *const *environment = nullptr);

  /// Sets the log up as told and logs, once, what a user should know: unknown names
  /// (WARN) and every value that is no default, with its source (INFO ENV).
  void report() const;

  /// The value as text; paths are expanded, CCL_CACHE_DIR=none and an unset path are "".
  const std::string &text(Setting setting) const;
  bool flag(Setting setting) const;     ///< CollTrace, AlwaysCompile
  int64_t bytes(Setting setting) const; ///< SlotBytes
  /// Rank, Size, ShimDevices, ShimSms, ShimWarps, CudaInstances and those of NICs; -1 if it is not
  /// set.
  int64_t number(Setting setting) const;
  std::chrono::milliseconds duration(Setting setting) const; ///< Timeout
  /// "default" or "env".
  std::string_view source(Setting setting) const;

  struct Row {
    std::string_view name;
    std::string kind; ///< what is expected; of a closed set all of it
    std::string_view defaultText, description, source;
    std::string value; ///< of a secret only that it is set
  };
  /// One row a setting, in the order of the table.
  std::vector<Row> list() const;
  /// A sentence for each unknown CCL_* variable, with the nearest name.
  const std::vector<std::string> &warnings() const { return unknown; }
  /// The table as documentation; does not depend on the environment.
  static std::string toMarkdown();

private:
  struct Value {
    std::string text;
    bool fromEnvironment = false;
    double number = 0; ///< bytes, seconds, 0 or 1, a number
  };
  llvm::Error set(size_t index, std::string_view text);

  std::vector<Value> values;
  std::vector<std::string> unknown;
};

} // namespace ccl
