//===- FlightRecorder.cpp ---------------------------------------------------===//
//
// Names and order of the keys: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp; what is
// made of them: torch/distributed/flight_recorder/components/types.py.
//===----------------------------------------------------------------------===//
#include "runtime/FlightRecorder.h"

#include "runtime/bootstrap/Descriptor.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/ranges.h>

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace ccl {
namespace {

namespace json = llvm::json;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

struct Entry {
  FlightRecorder::Operation operation; ///< its `program` is kept in `program`
  uint64_t id = 0, record = 0;
  std::string program, step, waitsFor;
  int64_t created = 0, started = 0, completed = 0; ///< ns since 1970; 0: not yet
  bool retired = false;
};

struct Group {
  std::string name, description;
  std::vector<int64_t> ranks;
  uint64_t enqueued = 0, started = 0, completed = 0;
};

/// The tool knows torch's collectives only, and compares the sizes of each. What does not
/// fit is "coalesced", which it only looks for on every rank.
std::string_view torchName(const FlightRecorder::Operation &operation) {
  using C = model::Collective;
  if (model::isAllToAll(operation.collective))
    return "all_to_all";
  if (operation.collective == C::Barrier)
    return "all_reduce_barrier";
  if (operation.uneven || operation.collective == C::Permute || operation.collective == C::Custom)
    return "coalesced";
  return model::name(operation.collective);
}

std::string_view torchName(ElementType type) {
  switch (type) {
  case ElementType::I8: return "Char";
  case ElementType::U8: return "Byte";
  case ElementType::I32: return "Int";
  case ElementType::U32: return "UInt32";
  case ElementType::I64: return "Long";
  case ElementType::U64: return "UInt64";
  case ElementType::F16: return "Half";
  case ElementType::BF16: return "BFloat16";
  case ElementType::F32: return "Float";
  case ElementType::F64: return "Double";
  case ElementType::F8E4M3: return "Float8_e4m3fn";
  case ElementType::F8E5M2: return "Float8_e5m2";
  }
  return "Float";
}

/// One tensor of one dimension. (Braces in braces would be a copy of the inner list.)
json::Array sizes(int64_t elements) {
  json::Array list;
  list.push_back(json::Array{elements});
  return list;
}

json::Value timeOrNull(int64_t time) { return time ? json::Value(time) : json::Value(nullptr); }

json::Object toJson(const Entry &entry, const Group &group) {
  const FlightRecorder::Operation &operation = entry.operation;
  const std::string type(torchName(operation.type));
  json::Object object{
      {"record_id", int64_t(entry.record)},
      {"pg_id", int64_t(operation.group)},
      {"process_group", json::Array{group.name, group.description}},
      {"collective_seq_id", int64_t(operation.sequence)},
      {"p2p_seq_id", 0},
      {"op_id", int64_t(operation.sequence)},
      // Until torch 2.14 the tool refuses every library but nccl and xccl.
      {"profiling_name", fmt::format("nccl:{}", torchName(operation))},
      {"time_created_ns", entry.created},
      {"input_sizes", sizes(operation.inElements)},
      {"input_dtypes", json::Array{type}},
      {"output_sizes", sizes(operation.outElements)},
      {"output_dtypes", json::Array{type}},
      {"state", entry.completed ? "completed"
                : entry.started ? "started"
                                : "scheduled"},
      {"time_discovered_started_ns", timeOrNull(entry.started)},
      {"time_discovered_completed_ns", timeOrNull(entry.completed)},
      {"retired", entry.retired},
      {"timeout_ms", int64_t(operation.timeout.count())},
      {"is_p2p", false},
      {"frames", json::Array{}},
      {"ccl_program", json::fixUTF8(entry.program)},
      {"ccl_step", json::fixUTF8(entry.step)},
      {"ccl_waits_for", json::fixUTF8(entry.waitsFor)},
  };
  if (entry.completed)
    object["duration_ms"] = double(entry.completed - entry.started) / 1e6;
  return object;
}

/// Python's pickle, protocol 2, of what JSON can hold.
class Pickler {
public:
  std::string pickle(const json::Value &value) {
    out = "\x80\x02";
    write(value);
    return std::move(out) + '.';
  }

private:
  void number(uint64_t value, int bytes) { // little-endian
    for (int i = 0; i < bytes; ++i)
      out += char(value >> (8 * i));
  }
  void text(llvm::StringRef value) {
    out += 'X'; // BINUNICODE
    number(value.size(), 4);
    out += value;
  }
  void write(const json::Value &value) {
    if (auto boolean = value.getAsBoolean()) {
      out += *boolean ? '\x88' : '\x89'; // NEWTRUE, NEWFALSE
    } else if (auto integer = value.getAsInteger()) {
      out += "\x8a\x08"; // LONG1 of 8 bytes
      number(uint64_t(*integer), 8);
    } else if (auto real = value.getAsNumber()) {
      uint64_t bits = 0;
      std::memcpy(&bits, &*real, sizeof bits);
      out += 'G'; // BINFLOAT, big-endian
      number(__builtin_bswap64(bits), 8);
    } else if (auto string = value.getAsString()) {
      text(*string);
    } else if (const json::Array *array = value.getAsArray()) {
      out += "]("; // EMPTY_LIST MARK ... APPENDS
      for (const json::Value &element : *array)
        write(element);
      out += 'e';
    } else if (const json::Object *object = value.getAsObject()) {
      out += "}("; // EMPTY_DICT MARK ... SETITEMS
      for (const auto &[key, element] : *object) {
        text(key);
        write(element);
      }
      out += 'u';
    } else {
      out += 'N'; // NONE
    }
  }
  std::string out;
};

llvm::Error cannotWrite(const std::string &file, int error) {
  return makeFailure(Failure::Machine, "cannot write {}: {}", file, std::strerror(error));
}

/// Opens a new file beside `path`, whose name nobody can have guessed and put there.
Descriptor openBeside(const std::string &path, std::string &name) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    name = fmt::format("{}.{}.{}.tmp", path, getpid(), attempt);
    Descriptor file(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file || errno != EEXIST)
      return file;
  }
  return Descriptor();
}

llvm::Error writeAtOnce(const std::string &path, llvm::StringRef content) {
  std::string temporary;
  Descriptor file = openBeside(path, temporary);
  if (!file)
    return cannotWrite(path, errno);
  for (llvm::StringRef rest = content; !rest.empty();) {
    const ssize_t written = write(file.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0) {
      const int error = errno;
      unlink(temporary.c_str());
      return cannotWrite(path, error);
    }
    rest = rest.drop_front(size_t(written));
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return cannotWrite(path, error);
  }
  return llvm::Error::success();
}

} // namespace

struct FlightRecorder::State {
  State(int64_t rank, size_t capacity) : rank(rank), entries(std::max<size_t>(1, capacity)) {}
  int64_t rank;
  mutable std::mutex mutex;
  std::vector<Group> groups;
  std::vector<Entry> entries; ///< a ring: id i is at (i - 1) % size
  Id last = 0;                ///< ids begin at 1

  /// Null if it has been overwritten.
  Entry *find(Id id) {
    Entry &entry = entries[(id - 1) % entries.size()];
    return id != 0 && entry.id == id ? &entry : nullptr;
  }
  json::Value toJson() const;
};

json::Value FlightRecorder::State::toJson() const {
  std::lock_guard<std::mutex> lock(mutex);
  json::Array list;
  const uint64_t size = entries.size();
  for (Id id = last > size ? last - size + 1 : 1; id <= last; ++id) {
    const Entry &entry = entries[(id - 1) % size];
    list.push_back(ccl::toJson(entry, groups[entry.operation.group]));
  }
  json::Object config, status;
  for (size_t i = 0; i < groups.size(); ++i) {
    const Group &group = groups[i];
    config[group.name] = json::Object{{"name", group.name},
                                      {"desc", group.description},
                                      {"ranks", fmt::format("[{}]", fmt::join(group.ranks, ", "))}};
    status[fmt::format("{}", i)] =
        json::Object{{"last_enqueued_collective", int64_t(group.enqueued)},
                     {"last_started_collective", int64_t(group.started)},
                     {"last_completed_collective", int64_t(group.completed)}};
  }
  return json::Object{{"version", "2.10"},
                      {"comm_lib_version", "ccl " CCL_VERSION},
                      {"pg_config", std::move(config)},
                      {"pg_status", std::move(status)},
                      {"entries", std::move(list)}};
}

FlightRecorder::FlightRecorder(int64_t worldRank, size_t capacity)
    : state(std::make_unique<State>(worldRank, capacity)) {}

FlightRecorder::~FlightRecorder() = default;

uint64_t FlightRecorder::addGroup(const std::string &name, const std::string &description,
                                  std::vector<int64_t> ranks) {
  std::lock_guard<std::mutex> lock(state->mutex);
  state->groups.push_back({json::fixUTF8(name), json::fixUTF8(description), std::move(ranks)});
  return state->groups.size() - 1;
}

FlightRecorder::Id FlightRecorder::begin(const Operation &operation) {
  const int64_t time = now();
  std::lock_guard<std::mutex> lock(state->mutex);
  if (operation.group >= state->groups.size())
    return 0;
  const Id id = ++state->last;
  // Strings are assigned, not made: after the first round nothing is allocated.
  Entry &entry = state->entries[(id - 1) % state->entries.size()];
  entry.operation = operation;
  entry.program.assign(operation.program);
  entry.operation.program = {};
  entry.step.clear();
  entry.waitsFor.clear();
  entry.id = id;
  entry.record = id - 1;
  entry.created = time;
  entry.started = entry.completed = 0;
  entry.retired = false;
  state->groups[operation.group].enqueued = operation.sequence;
  return id;
}

void FlightRecorder::started(Id id) {
  const int64_t time = now();
  std::lock_guard<std::mutex> lock(state->mutex);
  if (Entry *entry = state->find(id)) {
    entry->started = time;
    state->groups[entry->operation.group].started = entry->operation.sequence;
  }
}

void FlightRecorder::completed(Id id) {
  const int64_t time = now();
  std::lock_guard<std::mutex> lock(state->mutex);
  if (Entry *entry = state->find(id)) {
    entry->completed = time;
    entry->started = entry->started ? entry->started : time;
    entry->retired = true;
    state->groups[entry->operation.group].completed = entry->operation.sequence;
  }
}

void FlightRecorder::failed(Id id, std::string_view step, std::string_view waitsFor) {
  std::lock_guard<std::mutex> lock(state->mutex);
  if (Entry *entry = state->find(id)) {
    entry->step.assign(step);
    entry->waitsFor.assign(waitsFor);
    entry->retired = true; // and not completed: it has failed
  }
}

std::string FlightRecorder::toJson() const {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0}", state->toJson());
  return text;
}

std::string FlightRecorder::toPickle() const { return Pickler().pickle(state->toJson()); }

llvm::Expected<std::string> FlightRecorder::dump(std::string_view prefix) const {
  llvm::StringRef base(prefix);
  const bool asJson = base.consume_back(".json");
  const std::string path =
      fmt::format("{}{}{}", std::string_view(base), state->rank, asJson ? ".json" : "");
  if (llvm::Error error = writeAtOnce(path, asJson ? toJson() + "\n" : toPickle()))
    return error;
  return path;
}

} // namespace ccl
