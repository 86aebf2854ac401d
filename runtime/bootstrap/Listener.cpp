//===- Listener.cpp ---------------------------------------------------------===//
#include "runtime/bootstrap/Listener.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace ccl::bootstrap {
namespace {

/// Whose fault it is that a call with the user's path failed.
Failure categoryOf(int error) {
  switch (error) {
  case EACCES:
  case ELOOP:
  case ENOENT:
  case ENOTDIR:
  case EPERM:
  case EROFS: return Failure::BadArgument;
  default: return Failure::Machine;
  }
}

std::string folderOf(const std::string &path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

llvm::Expected<sockaddr_un> addressOf(const std::string &path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.back() == '/')
    return makeFailure(Failure::BadArgument, "the path of the socket '{}' names no file", path);
  if (path.find('\0') != std::string::npos)
    return makeFailure(Failure::BadArgument,
                       "the path of the socket has a zero byte in it, after '{}'", path.c_str());
  if (path.size() >= sizeof address.sun_path)
    return makeFailure(
        Failure::BadArgument,
        "the path of the socket has {} bytes, the limit is {}: choose a shorter one than "
        "{}",
        path.size(), sizeof address.sun_path - 1, path);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

/// The folder of the socket, if it exists; it is this user's alone.
llvm::Expected<Descriptor> openFolder(const std::string &path) {
  const std::string name = folderOf(path);
  Descriptor folder(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) {
    if (errno == ENOENT)
      return Descriptor();
    if (errno == ELOOP || errno == ENOTDIR)
      return makeFailure(Failure::BadArgument,
                         "{}, where the socket should lie, is no folder: choose another path",
                         name);
    return makeFailure(categoryOf(errno), "cannot open the folder {} of the socket: {}", name,
                       std::strerror(errno));
  }
  struct stat status{};
  if (fstat(folder.get(), &status) != 0)
    return makeFailure(Failure::Machine, "{}: {}", name, std::strerror(errno));
  if (status.st_uid != geteuid())
    return makeFailure(
        Failure::BadArgument,
        "the folder {} of the socket belongs to user {}, not to {} who runs this: choose "
        "one of your own",
        name, status.st_uid, geteuid());
  if (status.st_mode & (S_IWGRP | S_IXGRP | S_IWOTH | S_IXOTH))
    return makeFailure(
        Failure::BadArgument,
        "others may enter or write the folder {} of the socket (mode {:04o}): chmod 700 "
        "{}, or choose another path",
        name, status.st_mode & 07777, name);
  return folder;
}

/// False if somebody else holds it for long; it takes microseconds unless they are stopped.
bool lock(int folder) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (flock(folder, LOCK_EX | LOCK_NB) == 0)
      return true;
    if (errno != EWOULDBLOCK && errno != EINTR)
      return false;
    usleep(1000);
  }
  return false;
}

/// Whether there is a socket at `path`; an error if something else is, or it cannot be seen.
llvm::Expected<bool> hasSocket(const std::string &path) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT)
      return false;
    return makeFailure(categoryOf(errno), "cannot look for the socket {}: {}", path,
                       std::strerror(errno));
  }
  if (!S_ISSOCK(status.st_mode))
    return makeFailure(Failure::BadArgument, "{} exists and is no socket: choose another path",
                       path);
  return true;
}

llvm::Expected<Descriptor> makeSocket() {
  Descriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made)
    return makeFailure(Failure::Machine, "cannot make a socket: {}", std::strerror(errno));
  return made;
}

/// Makes room for a new socket at `path`: removes one that nobody listens at.
llvm::Error removeStale(const std::string &path, const sockaddr_un &address) {
  llvm::Expected<bool> exists = hasSocket(path);
  if (!exists)
    return exists.takeError();
  if (!*exists)
    return llvm::Error::success();
  llvm::Expected<Descriptor> probe = makeSocket();
  if (!probe)
    return probe.takeError();
  const bool connected =
      connect(probe->get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0;
  if (!connected && errno == ECONNREFUSED) {
    if (unlink(path.c_str()) != 0 && errno != ENOENT)
      return makeFailure(categoryOf(errno), "cannot remove the old socket {}: {}", path,
                         std::strerror(errno));
    return llvm::Error::success();
  }
  if (!connected && errno != EAGAIN)
    return makeFailure(categoryOf(errno), "cannot see whether another job uses {}: {}", path,
                       std::strerror(errno));
  const std::optional<PeerIdentity> other = connected ? identityOf(probe->get()) : std::nullopt;
  return makeFailure(
      Failure::BadArgument, "another job uses {}{}: give each job a path of its own", path,
      other && other->pid > 0 ? fmt::format(" (process {} listens there)", other->pid) : "");
}

} // namespace

llvm::Expected<std::unique_ptr<Listener>> Listener::open(const std::string &path) {
  llvm::Expected<sockaddr_un> address = addressOf(path);
  if (!address)
    return address.takeError();
  const std::string folderName = folderOf(path);
  if (mkdir(folderName.c_str(), 0700) != 0 && errno != EEXIST)
    return makeFailure(Failure::BadArgument, "cannot make the folder {} for the socket: {}",
                       folderName, std::strerror(errno));
  llvm::Expected<Descriptor> folder = openFolder(path);
  if (!folder)
    return folder.takeError();
  if (!*folder)
    return makeFailure(Failure::Machine, "the folder {} of the socket is gone", folderName);
  // Two jobs that start at once must not remove each other's socket as an old one.
  if (!lock(folder->get()))
    return makeFailure(Failure::Machine,
                       "cannot lock the folder {} of the socket: a stopped process may hold it",
                       folderName);
  if (llvm::Error error = removeStale(path, *address))
    return error;

  llvm::Expected<Descriptor> made = makeSocket();
  if (!made)
    return made.takeError();
  std::unique_ptr<Listener> listener(new Listener);
  listener->socket = std::move(*made);
  if (bind(listener->get(), reinterpret_cast<sockaddr *>(&*address), sizeof *address) != 0)
    return makeFailure(categoryOf(errno), "cannot make the socket {}: {}", path,
                       std::strerror(errno));
  struct stat status{};
  if (lstat(path.c_str(), &status) == 0) {
    listener->device = status.st_dev;
    listener->inode = status.st_ino;
  }
  listener->path = path;
  listener->folder = std::move(*folder);
  // The kernel caps it at net.core.somaxconn.
  if (listen(listener->get(), 4096) != 0)
    return makeFailure(Failure::Machine, "cannot listen at {}: {}", path, std::strerror(errno));
  flock(listener->folder.get(), LOCK_UN);
  return listener;
}

Listener::~Listener() {
  if (path.empty())
    return;
  // Somebody may have removed our socket and listen at another one of that name.
  // Without the lock this is still right but for the moment between look and removal.
  lock(folder.get());
  struct stat status{};
  if (lstat(path.c_str(), &status) == 0 && status.st_dev == device && status.st_ino == inode)
    unlink(path.c_str());
}

Descriptor Listener::accept() {
  while (true) {
    const int number = accept4(get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (number >= 0 || (errno != EINTR && errno != ECONNABORTED))
      return Descriptor(number);
  }
}

llvm::Expected<Attempt> connectTo(const std::string &path) {
  llvm::Expected<sockaddr_un> address = addressOf(path);
  if (!address)
    return address.takeError();
  llvm::Expected<Descriptor> folder = openFolder(path);
  if (!folder)
    return folder.takeError();
  Attempt attempt;
  if (!*folder)
    return attempt;
  // Connecting to what is no socket fails as if nobody listened yet.
  llvm::Expected<bool> exists = hasSocket(path);
  if (!exists)
    return exists.takeError();
  if (!*exists)
    return attempt;
  llvm::Expected<Descriptor> socket = makeSocket();
  if (!socket)
    return socket.takeError();
  if (connect(socket->get(), reinterpret_cast<sockaddr *>(&*address), sizeof *address) != 0) {
    if (errno == EAGAIN || errno == EINTR)
      attempt.busy = true;
    else if (errno != ENOENT && errno != ECONNREFUSED)
      return makeFailure(categoryOf(errno), "cannot connect to {}: {}", path, std::strerror(errno));
    return attempt;
  }
  const std::optional<PeerIdentity> hub = identityOf(socket->get());
  if (!hub || hub->uid != geteuid())
    return makeFailure(Failure::Machine,
                       "{} is served by another user ({}), not by {} who runs this: refused", path,
                       hub ? fmt::format("{}", hub->uid) : "unknown", geteuid());
  attempt.socket = std::move(*socket);
  return attempt;
}

std::optional<PeerIdentity> identityOf(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
      size != sizeof credentials)
    return std::nullopt;
  return PeerIdentity{credentials.pid, credentials.uid};
}

} // namespace ccl::bootstrap
