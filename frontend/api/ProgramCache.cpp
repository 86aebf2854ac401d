//===- ProgramCache.cpp ----------------------------------------------------------------===//
#include "frontend/api/ProgramCache.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace ccl {
inline namespace jit {
namespace {

struct Entry {
  std::mutex mutex; ///< held by who compiles
  std::shared_ptr<const Program::Impl> program;
  uint64_t lastUse = 0; ///< guarded by the cache's mutex
};

class ProgramCache {
public:
  static ProgramCache &get() {
    // Never destroyed: streams may still compile while the process ends.
    static ProgramCache &cache = *new ProgramCache;
    return cache;
  }

  std::shared_ptr<Entry> find(const std::string &key) {
    std::lock_guard lock(mutex);
    auto found = entries.find(key);
    if (found == entries.end()) {
      if (entries.size() >= mostEntries)
        dropOldest();
      found = entries.emplace(key, std::make_shared<Entry>()).first;
    }
    found->second->lastUse = ++uses;
    return found->second;
  }

private:
  // Permutations alone are without number.
  static constexpr size_t mostEntries = 512;

  void dropOldest() {
    entries.erase(std::min_element(entries.begin(), entries.end(), [](auto &a, auto &b) {
      return a.second->lastUse < b.second->lastUse;
    }));
  }

  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries;
  uint64_t uses = 0;
};

std::string keyOf(Collective collective, const ProgramOptions &options) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {}", int(collective), options.ranks,
                     int(options.type), options.op ? int(*options.op) : -1, options.algorithm,
                     options.root, fmt::join(options.grid, "x"), fmt::join(options.targets, ","),
                     options.via ? int(*options.via) : -1, options.slots);
}

} // namespace

Result<std::shared_ptr<const Program::Impl>> cachedProgram(Collective collective,
                                                           const ProgramOptions &options) {
  std::shared_ptr<Entry> entry = ProgramCache::get().find(keyOf(collective, options));
  std::lock_guard lock(entry->mutex);
  if (!entry->program) {
    Result<std::shared_ptr<const Program::Impl>> made =
        makeProgram({{}, {}, {}, collective}, options);
    if (!made)
      return made;
    entry->program = *made;
  }
  return entry->program;
}

} // namespace jit
} // namespace ccl
