//===- Plan.cpp - Fuzzing entries of the code cache ---------------------------------------===//
//
// What is in an entry gets executed, so only what was stored may come back: whatever the
// bytes are, an entry is taken exactly if it is the one that its key and object have.
//===----------------------------------------------------------------------===//
#include "codegen/Cache.h"
#include "test/fuzz/Foreign.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <sys/stat.h>
#include <unistd.h>

using namespace ccl;
using namespace ccl::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

static const std::string key(64, 'a');

/// Random bytes never have the right hash: now and then it is made right, or nearly.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  std::minstd_rand random(seed);
  std::string entry(reinterpret_cast<const char *>(data), size);
  const size_t trailer = cacheEntry(key, "").size();
  std::string object = entry.substr(0, entry.size() < trailer ? 0 : entry.size() - trailer);
  if (random() % 2)
    return LLVMFuzzerMutate(data, size, maxSize);
  object.resize(object.size() + 16);
  object.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(object.data()), object.size() - 16,
                                 object.size()));
  switch (random() % 4) {
  case 0: entry = cacheEntry(key, object); break;
  case 1:
    entry = cacheEntry(std::string(64, 'b'), object); // renamed
    break;
  case 2: // one bit
    entry = cacheEntry(key, object);
    entry[random() % entry.size()] ^= char(1u << (random() % 8));
    break;
  case 3: // truncated, or with something behind
    entry = cacheEntry(key, object);
    entry.resize(random() % 2 ? entry.size() - 1 - random() % entry.size() : entry.size() + 1);
    break;
  }
  size = std::min(entry.size(), maxSize);
  std::memcpy(data, entry.data(), size);
  return size;
}

/// Through a file, as it happens; "" if it was not taken.
static std::optional<std::string> throughFile(std::string_view entry) {
  static const std::string folder = [] {
    std::string path = std::filesystem::temp_directory_path() / "ccl-fuzz-XXXXXX";
    require(mkdtemp(path.data()) != nullptr, "there is a folder for temporary files");
    static std::string kept = path;
    std::atexit([] { std::filesystem::remove_all(kept); });
    return path;
  }();
  static llvm::Expected<ObjectCache> cache = ObjectCache::open(folder);
  require(bool(cache), "the cache opens");
  const std::string file = folder + "/" + key + ".o";
  std::ofstream(file, std::ios::binary) << entry;
  chmod(file.c_str(), 0600);
  return cache->load(key);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string entry(reinterpret_cast<const char *>(data), size);
  std::optional<std::string> object = objectInEntry(key, entry);
  if (object)
    require(cacheEntry(key, *object) == entry, "what is taken is what was stored");
  // Anything else that is as long would have been taken, too, if it were right.
  const size_t trailer = cacheEntry(key, "").size();
  if (size >= trailer)
    require(object.has_value() ==
                (cacheEntry(key, std::string_view(entry).substr(0, size - trailer)) == entry),
            "an entry that is right is taken");
  uint32_t sum = 0;
  for (size_t i = 0; i < size; ++i)
    sum = sum * 31 + data[i];
  if (sum % 512 == 0)
    require(throughFile(entry) == object, "a file is what its bytes are");
  return 0;
}
