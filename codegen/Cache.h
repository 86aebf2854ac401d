//===- Cache.h - Object code on disk, by hash ------------------------------===//
//
// What is in the cache gets executed. So the folder must be ours and writable by
// nobody else, and an entry ends with its length and a hash of key and content: a
// truncated, altered or renamed file is no entry. Entries appear by rename, so
// processes may share a folder.
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace ccl {

/// BLAKE3 of `text`, as 64 hex digits.
std::string hashHex(llvm::StringRef text);

/// The form of an entry: the object, its length, a hash of `key` and object, a magic word.
std::string cacheEntry(llvm::StringRef key, llvm::StringRef object);
/// The object in an entry; nothing if that is not the one of its key and object.
std::optional<std::string> objectInEntry(llvm::StringRef key, std::string entry);

class ObjectCache {
public:
  /// Creates `folder` (mode 0700) and its parents if need be. The error says what is
  /// wrong with a folder that exists.
  static llvm::Expected<ObjectCache> open(llvm::StringRef folder);
  ObjectCache(ObjectCache &&other) noexcept;
  ObjectCache(const ObjectCache &) = delete;
  ObjectCache &operator=(const ObjectCache &) = delete;
  ~ObjectCache();

  /// The object stored as `key` (hex digits); nothing if there is none or the entry is
  /// damaged.
  std::optional<std::string> load(llvm::StringRef key) const;
  llvm::Error store(llvm::StringRef key, llvm::StringRef object) const;

private:
  ObjectCache(int folder, std::string path) : folder(folder), path(std::move(path)) {}
  int folder; ///< descriptor: the folder that was checked is the one that is used
  std::string path;
};

} // namespace ccl
