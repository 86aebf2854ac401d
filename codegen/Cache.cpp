//===- Cache.cpp ------------------------------------------------------------===//
#include "codegen/Cache.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;

namespace ccl {

std::string hashHex(StringRef text) {
  BLAKE3Result<> hash = BLAKE3::hash(arrayRefFromStringRef(text));
  return toHex(ArrayRef<uint8_t>(hash), /*LowerCase=*/true);
}

//===----------------------------------------------------------------------===//
// The form of an entry: object, length, hash, magic. The object comes first, so that
// objdump and friends read an entry as it is.
//===----------------------------------------------------------------------===//

static constexpr StringRef magic = "CCLOBJ1\n";
static constexpr size_t trailerBytes = sizeof(uint64_t) + LLVM_BLAKE3_OUT_LEN + magic.size();

static std::string trailerFor(StringRef key, StringRef object) {
  BLAKE3 hasher;
  hasher.update(key);
  hasher.update(object);
  BLAKE3Result<> hash = hasher.final();
  char length[sizeof(uint64_t)];
  support::endian::write64le(length, object.size());
  std::string trailer(length, sizeof(length));
  trailer.append(reinterpret_cast<const char *>(hash.data()), hash.size());
  trailer += magic;
  return trailer;
}

std::string cacheEntry(StringRef key, StringRef object) {
  return object.str() + trailerFor(key, object);
}

std::optional<std::string> objectInEntry(StringRef key, std::string entry) {
  if (entry.size() < trailerBytes)
    return std::nullopt;
  StringRef object = StringRef(entry).drop_back(trailerBytes);
  if (!StringRef(entry).ends_with(trailerFor(key, object)))
    return std::nullopt;
  entry.resize(object.size());
  return entry;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static Error systemError(StringRef what, StringRef path) {
  int code = errno;
  return createStringError(std::error_code(code, std::generic_category()), "%s %s: %s",
                           what.str().c_str(), path.str().c_str(), std::strerror(code));
}

/// "" if a file or folder with these attributes can only be changed by us.
static std::string whyNotPrivate(const struct stat &status) {
  if (status.st_uid != geteuid())
    return fmt::format("belongs to user {}, not to us ({})", status.st_uid, geteuid());
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return fmt::format("can be written by others (mode {:o}); expected 700",
                       status.st_mode & 07777);
  return "";
}

Expected<ObjectCache> ObjectCache::open(StringRef folder) {
  std::string path = folder.str();
  if (std::error_code error =
          sys::fs::create_directories(path, /*IgnoreExisting=*/true, sys::fs::owner_all))
    return createStringError(error, "cannot create %s: %s", path.c_str(), error.message().c_str());
  int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return systemError("cannot open", path);
  ObjectCache cache(descriptor, path);
  struct stat status;
  if (fstat(descriptor, &status) != 0)
    return systemError("cannot read the attributes of", path);
  if (std::string why = whyNotPrivate(status); !why.empty())
    return createStringError(std::errc::permission_denied, "%s %s", path.c_str(), why.c_str());
  return cache;
}

ObjectCache::ObjectCache(ObjectCache &&other) noexcept
    : folder(other.folder), path(std::move(other.path)) {
  other.folder = -1;
}

ObjectCache::~ObjectCache() {
  if (folder >= 0)
    ::close(folder);
}

static std::optional<std::string> readAll(int file, size_t bytes) {
  std::string content(bytes, '\0');
  for (size_t done = 0; done < bytes;) {
    ssize_t got = ::read(file, content.data() + done, bytes - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return std::nullopt;
    done += size_t(got);
  }
  return content;
}

static bool writeAll(int file, StringRef content) {
  while (!content.empty()) {
    ssize_t done = ::write(file, content.data(), content.size());
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return false;
    content = content.drop_front(size_t(done));
  }
  return true;
}

std::optional<std::string> ObjectCache::load(StringRef key) const {
  int file = openat(folder, (key + ".o").str().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0)
    return std::nullopt;
  std::optional<std::string> entry;
  struct stat status;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && whyNotPrivate(status).empty())
    entry = readAll(file, size_t(status.st_size));
  ::close(file);
  return entry ? objectInEntry(key, std::move(*entry)) : std::nullopt;
}

Error ObjectCache::store(StringRef key, StringRef object) const {
  static std::atomic<unsigned> serial{0};
  std::string temporary = fmt::format(".{}.{}.{}", key.str(), getpid(), serial++);
  int file =
      openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0)
    return systemError("cannot write to", path);
  bool written = writeAll(file, object) && writeAll(file, trailerFor(key, object));
  written = ::close(file) == 0 && written;
  if (written && renameat(folder, temporary.c_str(), folder, (key + ".o").str().c_str()) == 0)
    return Error::success();
  Error error = systemError("cannot write to", path);
  unlinkat(folder, temporary.c_str(), 0);
  return error;
}

} // namespace ccl
