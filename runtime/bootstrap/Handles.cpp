//===- Handles.cpp ----------------------------------------------------------===//
#include "runtime/bootstrap/Handles.h"

#include "llvm/ADT/StringRef.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <tuple>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 // the same on every architecture
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace ccl::bootstrap {
namespace {

/// The rest of the line of `text` that begins with `key`.
std::optional<llvm::StringRef> findLine(llvm::StringRef text, llvm::StringRef key) {
  for (llvm::StringRef line = text; !text.empty();) {
    std::tie(line, text) = text.split('\n');
    if (line.consume_front(key))
      return line.trim();
  }
  return std::nullopt;
}

/// The file's beginning; "" if it cannot be read.
std::string readStart(const std::string &path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[4096];
  const ssize_t size = file ? read(file.get(), buffer, sizeof buffer) : -1;
  return size > 0 ? std::string(buffer, size_t(size)) : std::string();
}

/// Open descriptors of this process; -1 without /proc.
int64_t countDescriptors() {
  DIR *folder = opendir("/proc/self/fd");
  if (!folder)
    return -1;
  int64_t count = 0;
  while (const dirent *entry = readdir(folder))
    count += entry->d_name[0] != '.';
  closedir(folder);
  return count - 1; // opendir's own
}

} // namespace

llvm::Expected<Descriptor> openOwnPidfd() {
  Descriptor pidfd(int(syscall(SYS_pidfd_open, getpid(), 0)));
  if (pidfd)
    return pidfd;
  const int error = errno;
  std::string_view hint = "";
  if (error == ENOSYS)
    hint = " (Linux is older than 5.3, or a seccomp filter hides the call)";
  else if (error == EPERM || error == EACCES)
    hint = " (a seccomp filter forbids it; containers allow it with a newer profile)";
  return makeFailure(Failure::Machine,
                     "process ranks need pidfd_open to notice that a rank has died, and this "
                     "machine refuses it: {}{}",
                     std::strerror(error), hint);
}

std::optional<pid_t> pidOf(int pidfd) {
  const std::string text = readStart(fmt::format("/proc/self/fdinfo/{}", pidfd));
  if (text.empty())
    return 0;
  const std::optional<llvm::StringRef> line = findLine(text, "Pid:");
  if (!line)
    return std::nullopt;
  // The number is that of the namespace that /proc was mounted for. If this is not ours, we
  // have more than one number there.
  const std::string own = readStart("/proc/self/status");
  if (findLine(own, "NSpid:").value_or("?").find_first_of(" \t") != llvm::StringRef::npos)
    return 0;
  pid_t pid = 0;
  // 0: in a namespace that is not below ours; -1: it has ended.
  return line->getAsInteger(10, pid) || pid < 0 ? 0 : pid;
}

bool hasEnded(int pidfd, int milliseconds) {
  pollfd one{pidfd, POLLIN, 0};
  return pidfd >= 0 && poll(&one, 1, milliseconds) > 0 && (one.revents & POLLIN);
}

std::string arenaProblem(int arena, int64_t bytes) {
  const int seals = fcntl(arena, F_GET_SEALS);
  if (seals < 0)
    return "it is no memfd";
  constexpr int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if ((seals & wanted) != wanted)
    return "it is not sealed against resizing";
  if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) ||
      (fcntl(arena, F_GETFL) & O_ACCMODE) != O_RDWR)
    return "it cannot be written";
  struct stat status{};
  if (fstat(arena, &status) != 0)
    return std::strerror(errno);
  if (status.st_size != bytes)
    return fmt::format("it has {} bytes, not {}", status.st_size, bytes);
  return "";
}

llvm::Error checkDescriptorLimit(int64_t rank, int64_t ranks, int64_t more) {
  rlimit limit{};
  const int64_t used = countDescriptors();
  if (used < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      used + more <= int64_t(limit.rlim_cur))
    return llvm::Error::success();
  return makeFailureOf(
      rank, Failure::Machine,
      "rank {} needs {} more file descriptors to meet {} ranks and has {} open, but RLIMIT_NOFILE "
      "is {}: raise it to at least {} (ulimit -n {})",
      rank, more, ranks, used, limit.rlim_cur, used + more, used + more);
}

llvm::Error noDescriptorsLeft(int64_t rank, int64_t ranks) {
  return makeFailureOf(rank, Failure::Machine,
                       "rank {} has no file descriptors left to meet {} ranks: raise RLIMIT_NOFILE "
                       "(ulimit -n) by at least {}",
                       rank, ranks, (rank == 0 ? 3 : 2) * ranks);
}

std::string nameRank(int64_t rank, pid_t pid) {
  return pid > 0 ? fmt::format("rank {} (process {})", rank, pid) : fmt::format("rank {}", rank);
}

std::string nameRanks(const std::vector<int64_t> &ranks) {
  constexpr size_t most = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i == most)
      return text + fmt::format(" and {} more", ranks.size() - most);
    text += i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ";
    text += fmt::format("{}", ranks[i]);
  }
  return text;
}

} // namespace ccl::bootstrap
