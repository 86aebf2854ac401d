//===- Settings.cpp ---------------------------------------------------------===//
#include "runtime/Settings.h"

#include "dialect/model/Sizes.h"
#include "runtime/Failure.h"
#include "runtime/Faults.h"
#include "runtime/Log.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <optional>

extern char **environ;

namespace ccl {
namespace {

enum class Kind : uint8_t {
  Level,
  Subsystems,
  Text,
  Secret,
  Path,
  Flag,
  Seconds,
  Bytes,
  Via,
  Number
};

struct Entry {
  Setting setting;
  std::string_view name;
  Kind kind;
  std::string_view defaultText;
  std::string_view description;
  /// Of a number.
  uint32_t least = 0, most = std::numeric_limits<uint32_t>::max();
  bool powerOfTwo = false;
};

constexpr std::array<Entry, 37> table = {{
    {Setting::Debug, "CCL_DEBUG", Kind::Level, "WARN",
     "How much is logged; each level includes those before it."},
    {Setting::DebugSubsys, "CCL_DEBUG_SUBSYS", Kind::Subsystems, "ALL",
     "Which parts log at INFO and TRACE; `^` in front means all but these."},
    {Setting::DebugFile, "CCL_DEBUG_FILE", Kind::Path, "",
     "File for the log instead of stderr; %h becomes the host, %p the process."},
    {Setting::CollTrace, "CCL_COLL_TRACE", Kind::Flag, "0",
     "Log a line for each collective: which program ran, on what, and why."},
    {Setting::CacheDir, "CCL_CACHE_DIR", Kind::Path, "${XDG_CACHE_HOME:-~/.cache}/ccl",
     "Folder of compiled programs; `none` turns the cache off."},
    {Setting::DumpDir, "CCL_DUMP_DIR", Kind::Path, "",
     "Folder that gets every stage of every compilation."},
    {Setting::OverrideDir, "CCL_OVERRIDE_DIR", Kind::Path, "",
     "Folder with stages that replace those of the same name in a dump, algorithm.mlir and "
     "program.mlir; they are proved again."},
    {Setting::AlwaysCompile, "CCL_ALWAYS_COMPILE", Kind::Flag, "0",
     "Do not read compiled programs from the cache."},
    {Setting::Algo, "CCL_ALGO", Kind::Text, "", "Algorithm to use for collectives that name none."},
    {Setting::Timeout, "CCL_TIMEOUT", Kind::Seconds, "30",
     "Time that a collective has; then the communicator is aborted."},
    {Setting::SlotBytes, "CCL_SLOT_BYTES", Kind::Bytes, "128K",
     "Size of one slot of a channel; larger transfers take more micro-batches."},
    {Setting::Via, "CCL_VIA", Kind::Via, "auto",
     "How data moves: through slots (staged), from memory to memory (direct), or either."},
    {Setting::Rank, "CCL_RANK", Kind::Number, "",
     "Rank of this process among those that an application opens a communicator of."},
    {Setting::Size, "CCL_SIZE", Kind::Number, "", "How many those are."},
    {Setting::Socket, "CCL_SOCKET", Kind::Path, "",
     "Path of the Unix socket at which they meet, in a folder that nobody else may enter."},
    {Setting::Address, "CCL_ADDRESS", Kind::Text, "",
     "Where rank 0 of ranks on several hosts listens, and the others find it: host:port or "
     "[v6]:port."},
    {Setting::Secret, "CCL_SECRET", Kind::Secret, "",
     "What ranks on several hosts prove to each other that they know. Never logged."},
    {Setting::SecretFile, "CCL_SECRET_FILE", Kind::Path, "",
     "File with the secret in its first line, instead of CCL_SECRET; nobody else may read it."},
    {Setting::HostId, "CCL_HOST_ID", Kind::Text, "",
     "Name of this host: ranks with the same one share memory. By boot id and namespaces if not "
     "set."},
    {Setting::FlightRecorder, "CCL_FLIGHT_RECORDER", Kind::Path, "",
     "Where each rank writes its last operations when a communicator fails, for PyTorch's "
     "fr_trace: the rank is appended, or put before `.json` if the path ends so."},
    {Setting::CudaLibrary, "CCL_CUDA_LIBRARY", Kind::Path, "",
     "CUDA's driver instead of libcuda.so.1; `shim` is a stand-in that runs kernels on this "
     "machine's processor."},
    {Setting::ShimDevices, "CCL_SHIM_DEVICES", Kind::Number, "1", "How many GPUs the stand-in has.",
     1, 16},
    {Setting::ShimSms, "CCL_SHIM_SMS", Kind::Number, "16",
     "How many multiprocessors each of them has; 8 blocks run on one at once.", 1, 256},
    {Setting::CudaInstances, "CCL_CUDA_INSTANCES", Kind::Number, "",
     "Copies of every program's blocks that a launch on GPUs cuts its data into; by its size if "
     "not set.",
     1, 64, true},
    {Setting::NvrtcLibrary, "CCL_NVRTC_LIBRARY", Kind::Path, "",
     "NVIDIA's run-time compiler instead of the libnvrtc that is found."},
    {Setting::ShimCxx, "CCL_SHIM_CXX", Kind::Path, "",
     "C++ compiler of kernels for the stand-in instead of the first of clang++-19, clang++, g++ "
     "and c++."},
    {Setting::ShimWarps, "CCL_SHIM_WARPS", Kind::Number, "0",
     "Warps of 32 threads that a block has on the stand-in, for tests of kernels; slow. 0: one "
     "thread.",
     0, 32},
    {Setting::NvmlLibrary, "CCL_NVML_LIBRARY", Kind::Path, "",
     "NVIDIA's management library instead of libnvidia-ml.so.1: it tells the NVLinks of this "
     "machine."},
    {Setting::VerbsLibrary, "CCL_VERBS_LIBRARY", Kind::Path, "",
     "libibverbs instead of libibverbs.so.1: it drives RDMA NICs."},
    {Setting::Nics, "CCL_NICS", Kind::Text, "",
     "RDMA NICs to use, as in `mlx5_0,mlx5_1:2` (device, or device and port); all that are active "
     "if not set."},
    {Setting::GidIndex, "CCL_GID_INDEX", Kind::Number, "",
     "Index of a NIC's address (GID); if not set that of RoCE v2 with an IPv4 address, or else "
     "IPv6.",
     0, 255},
    {Setting::PkeyIndex, "CCL_PKEY_INDEX", Kind::Number, "0", "Index of the partition key of NICs.",
     0, 65535},
    {Setting::TrafficClass, "CCL_TRAFFIC_CLASS", Kind::Number, "0",
     "Traffic class of what NICs send: DSCP times 4.", 0, 255},
    {Setting::ServiceLevel, "CCL_SERVICE_LEVEL", Kind::Number, "0",
     "Service level of what NICs send.", 0, 15},
    {Setting::IbTimeout, "CCL_IB_TIMEOUT", Kind::Number, "14",
     "How long a NIC waits for an acknowledgement: 4.096 us times 2 to this power.", 1, 31},
    {Setting::IbRetries, "CCL_IB_RETRIES", Kind::Number, "6",
     "How often a NIC sends again before the peer counts as gone; Soft-RoCE takes 7 for ever.", 0,
     7},
    {Setting::RdmaMtu, "CCL_RDMA_MTU", Kind::Number, "",
     "Bytes of a packet between NICs, at most; if not set what both ports have.", 256, 4096, true},
}};

constexpr bool isInEnumOrder() {
  for (size_t i = 0; i < table.size(); ++i)
    if (static_cast<size_t>(table[i].setting) != i)
      return false;
  return true;
}
static_assert(isInEnumOrder());

constexpr std::array<std::string_view, 3> viaNames = {"auto", "staged", "direct"};

/// What is expected of a number.
std::string describeNumber(const Entry &entry) {
  if (entry.most == std::numeric_limits<uint32_t>::max())
    return "whole number";
  return fmt::format("{} from {} to {}", entry.powerOfTwo ? "power of two" : "whole number",
                     entry.least, entry.most);
}

/// "a, b or c".
template <size_t n>
std::string oneOf(const std::array<std::string_view, n> &names) {
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

/// What is expected. Of a closed set all of it.
std::string describe(const Entry &entry) {
  switch (entry.kind) {
  case Kind::Level: return oneOf(log::levelNames);
  case Kind::Subsystems:
    return fmt::format("ALL, or a list of {}", fmt::join(log::subsystemNames, ", "));
  case Kind::Text:
  case Kind::Secret: return "text";
  case Kind::Path: return "path";
  case Kind::Flag: return "0 or 1";
  case Kind::Seconds: return "seconds, over 0";
  case Kind::Bytes: return "bytes, K, M and G are binary";
  case Kind::Via: return oneOf(viaNames);
  case Kind::Number: return describeNumber(entry);
  }
  return "";
}

std::optional<double> parseFlag(llvm::StringRef text) {
  const std::string lower = text.lower();
  if (lower == "1" || lower == "true" || lower == "yes" || lower == "on")
    return 1;
  if (lower == "0" || lower == "false" || lower == "no" || lower == "off")
    return 0;
  return std::nullopt;
}

std::optional<double> parseSeconds(llvm::StringRef text) {
  double seconds = 0;
  // A deadline has to exist: infinity, zero and NaN are none. A year is plenty.
  if (text.getAsDouble(seconds) || !(seconds > 0) || !(seconds <= 365.0 * 86400))
    return std::nullopt;
  return seconds;
}

std::optional<double> parseBytes(llvm::StringRef text) {
  int64_t bytes = 0;
  if (!model::parseSize(text, bytes).empty() || bytes < 1 || bytes > int64_t(1) << 40)
    return std::nullopt;
  return double(bytes);
}

std::optional<double> parseNumber(llvm::StringRef text, const Entry &entry) {
  uint32_t value = 0;
  if (text.empty()) // the default: not known
    return -1;
  if (text.getAsInteger(10, value) || value < entry.least || value > entry.most ||
      (entry.powerOfTwo && !std::has_single_bit(value)))
    return std::nullopt;
  return double(value);
}

std::string expandPath(Setting setting, llvm::StringRef text, bool isDefault) {
  if (setting == Setting::CacheDir) {
    if (text == "none")
      return "";
    if (isDefault) {
      const char *cache = std::getenv("XDG_CACHE_HOME");
      if (cache && *cache == '/')
        return std::string(cache) + "/ccl";
      const char *home = std::getenv("HOME");
      return home && *home ? std::string(home) + "/.cache/ccl" : "";
    }
  }
  const char *home = std::getenv("HOME");
  if (home && (text == "~" || text.starts_with("~/")))
    return home + text.drop_front(1).str();
  return text.str();
}

/// The name of the table that `unknown` was probably meant to be, or "".
std::string_view nearest(llvm::StringRef unknown) {
  std::string_view best;
  unsigned bestDistance = unsigned(unknown.size() / 2) + 1;
  for (const Entry &entry : table) {
    const unsigned distance = unknown.edit_distance(llvm::StringRef(entry.name));
    if (distance < bestDistance) {
      bestDistance = distance;
      best = entry.name;
    }
  }
  return best;
}

} // namespace

Settings::Settings() : values(table.size()) {
  for (size_t i = 0; i < table.size(); ++i) {
    // The table's own defaults parse; a unit test goes through all of them.
    llvm::consumeError(set(i, table[i].defaultText));
    values[i].fromEnvironment = false;
    if (table[i].kind == Kind::Path)
      values[i].text = expandPath(table[i].setting, table[i].defaultText, true);
  }
}

llvm::Error Settings::set(size_t index, std::string_view text) {
  const Entry &entry = table[index];
  Value value{std::string(text), true, 0};
  std::optional<double> number = 0;
  switch (entry.kind) {
  case Kind::Level:
    if (!log::parseLevel(text))
      number = std::nullopt;
    break;
  case Kind::Subsystems:
    if (!log::parseSubsystems(text))
      number = std::nullopt;
    break;
  case Kind::Via:
    if (std::find(viaNames.begin(), viaNames.end(), text) == viaNames.end())
      number = std::nullopt;
    break;
  case Kind::Flag: number = parseFlag(text); break;
  case Kind::Seconds: number = parseSeconds(text); break;
  case Kind::Bytes: number = parseBytes(text); break;
  case Kind::Number: number = parseNumber(text, entry); break;
  case Kind::Path: value.text = expandPath(entry.setting, text, false); break;
  case Kind::Text:
  case Kind::Secret: break;
  }
  if (!number)
    return makeFailure(Failure::BadArgument, "{}={}: expected {}", entry.name, text,
                       describe(entry));
  value.number = *number;
  values[index] = std::move(value);
  return llvm::Error::success();
}

llvm::Expected<Settings> Settings::fromEnvironment(const char *const *environment) {
  Settings settings;
  for (const char *const *e = environment ? environment : environ; e && *e; ++e) {
    auto [name, value] = llvm::StringRef(*e).split('=');
    if (!name.starts_with("CCL_") || value.empty())
      continue;
    const auto *entry = std::find_if(table.begin(), table.end(), [&](const Entry &t) {
      return std::string_view(name) == t.name;
    });
    if (entry != table.end()) {
      if (llvm::Error e = settings.set(size_t(entry - table.begin()), value))
        return e;
      continue;
    }
    // Not in the table: a release does not have it.
    if (faults::enabled() && name == "CCL_FAULT") {
      llvm::Expected<faults::Fault> fault = faults::parse(value);
      if (!fault)
        return fault.takeError();
      continue;
    }
    const std::string_view guess = nearest(name);
    settings.unknown.push_back(
        guess.empty()
            ? fmt::format("unknown setting {}", std::string_view(name))
            : fmt::format("unknown setting {}: did you mean {}?", std::string_view(name), guess));
  }
  // The order of the environment is an accident of the shell.
  std::sort(settings.unknown.begin(), settings.unknown.end());
  return settings;
}

void Settings::report() const {
  log::Options options;
  options.level = log::parseLevel(text(Setting::Debug)).value_or(log::Level::Warn);
  options.subsystems = log::parseSubsystems(text(Setting::DebugSubsys)).value_or(~0u);
  options.file = text(Setting::DebugFile);
  options.collectives = flag(Setting::CollTrace);
  if (std::optional<std::string> problem = log::configure(options))
    log::warn(log::Subsystem::Env, -1, "CCL_DEBUG_FILE: {}", *problem);
  if (source(Setting::Debug) == "env") // who asks for logs wants to know whose they are
    log::print(log::Level::Version, log::Subsystem::Init, -1, "ccl {}", CCL_VERSION);
  for (const std::string &warning : unknown)
    log::warn(log::Subsystem::Env, -1, "{}", warning);
  for (const Row &row : list())
    if (row.source != "default")
      log::info(log::Subsystem::Env, -1, "{} {} (from {})", row.name, row.value, row.source);
}

const std::string &Settings::text(Setting setting) const { return values[size_t(setting)].text; }

bool Settings::flag(Setting setting) const { return values[size_t(setting)].number != 0; }

int64_t Settings::number(Setting setting) const { return int64_t(values[size_t(setting)].number); }

int64_t Settings::bytes(Setting setting) const { return int64_t(values[size_t(setting)].number); }

std::chrono::milliseconds Settings::duration(Setting setting) const {
  return std::chrono::milliseconds(
      std::max<int64_t>(1, int64_t(values[size_t(setting)].number * 1000)));
}

std::string_view Settings::source(Setting setting) const {
  return values[size_t(setting)].fromEnvironment ? "env" : "default";
}

std::vector<Settings::Row> Settings::list() const {
  std::vector<Row> rows;
  for (size_t i = 0; i < table.size(); ++i) {
    const bool isHidden = table[i].kind == Kind::Secret && !values[i].text.empty();
    rows.push_back({table[i].name, describe(table[i]), table[i].defaultText, table[i].description,
                    source(table[i].setting), isHidden ? "(set)" : values[i].text});
  }
  return rows;
}

std::string Settings::toMarkdown() {
  std::string page = "| variable | value | default | meaning |\n|---|---|---|---|\n";
  for (const Entry &entry : table)
    page += fmt::format("| `{}` | {} | {} | {} |\n", entry.name, describe(entry),
                        entry.defaultText.empty() ? "" : fmt::format("`{}`", entry.defaultText),
                        entry.description);
  return page;
}

} // namespace ccl
