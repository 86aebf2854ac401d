//===- HostIdentity.cpp - Which host this is, and what it was told ----------===//
#include "runtime/bootstrap/Descriptor.h"
#include "runtime/bootstrap/HostLink.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ccl::bootstrap {
namespace {

constexpr size_t mostSecretBytes = 4096;

/// Up to `most` bytes; -1 with errno.
ssize_t readSome(int file, char *to, size_t most) {
  size_t have = 0;
  while (have < most) {
    const ssize_t got = read(file, to + have, most - have);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return -1;
    if (got == 0)
      break;
    have += size_t(got);
  }
  return ssize_t(have);
}

std::string readLine(const char *path) {
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 256> text{};
  const ssize_t got = file ? readSome(file.get(), text.data(), text.size()) : -1;
  return llvm::StringRef(text.data(), got < 0 ? 0 : size_t(got)).split('\n').first.str();
}

} // namespace

std::string hostIdentity(const std::string &given) {
  if (!given.empty())
    return given;
  std::string identity = readLine("/proc/sys/kernel/random/boot_id");
  for (const char *name : {"pid", "ipc", "mnt", "user"}) {
    std::array<char, 64> link{};
    const ssize_t got =
        readlink(fmt::format("/proc/self/ns/{}", name).c_str(), link.data(), link.size());
    identity += fmt::format(" {}", got > 0 ? std::string_view(link.data(), size_t(got)) : name);
  }
  return identity;
}

llvm::Expected<std::string> readSecret(const std::string &secret, const std::string &path) {
  if (path.empty())
    return secret;
  if (!secret.empty())
    return makeFailure(Failure::BadArgument,
                       "there are both a secret (CCL_SECRET) and a file with one "
                       "(CCL_SECRET_FILE): set one of them");
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0)
    return makeFailure(Failure::BadArgument, "cannot read the secret in {} (CCL_SECRET_FILE): {}",
                       path, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return makeFailure(Failure::BadArgument, "{} (CCL_SECRET_FILE) is no file", path);
  if (status.st_mode & 077)
    return makeFailure(
        Failure::BadArgument,
        "others may read or write the secret in {} (CCL_SECRET_FILE, mode {:04o}): chmod 600 {}",
        path, status.st_mode & 07777, path);
  std::array<char, mostSecretBytes + 1> text;
  const ssize_t got = readSome(file.get(), text.data(), text.size());
  if (got < 0)
    return makeFailure(Failure::BadArgument, "cannot read the secret in {} (CCL_SECRET_FILE): {}",
                       path, std::strerror(errno));
  const llvm::StringRef line =
      llvm::StringRef(text.data(), size_t(got)).split('\n').first.rtrim("\r");
  if (line.empty() || line.size() > mostSecretBytes)
    return makeFailure(Failure::BadArgument,
                       "the first line of {} (CCL_SECRET_FILE) has {} bytes: a secret has 1 to {}",
                       path, line.size(), mostSecretBytes);
  return line.str();
}

} // namespace ccl::bootstrap
