//===- PeerSockets.cpp ------------------------------------------------------===//
#include "runtime/bootstrap/PeerSockets.h"

#include "runtime/bootstrap/Listener.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace ccl::bootstrap {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

/// What a rank says first on a socket that it has made.
struct Greeting {
  uint64_t secret = 0;
  int64_t rank = -1;
};

/// An address of a socket without a name in a file system: a zero, then what the system chose.
constexpr size_t addressBytes = 16;
using Address = std::array<uint64_t, addressBytes / sizeof(uint64_t)>;

llvm::Error broken(std::string_view what) {
  const int error = errno;
  return makeFailure(Failure::Machine, "cannot {} a socket between ranks: {}", what,
                     std::strerror(error));
}

/// Waits until `socket` can be read.
llvm::Error awaitReadable(const Member &member, int socket, Deadline deadline,
                          std::string_view what) {
  for (;;) {
    if (std::optional<RuntimeError> failure = member.failure())
      return llvm::make_error<RuntimeError>(*failure);
    pollfd one{socket, POLLIN, 0};
    const int ready = poll(&one, 1, 20);
    if (ready > 0)
      return llvm::Error::success();
    if (ready < 0 && errno != EINTR)
      return broken("wait for");
    if (std::chrono::steady_clock::now() > deadline)
      return makeFailure(Failure::Timeout, "rank {} timed out: {} has not come", member.rank(),
                         what);
  }
}

/// One that the system has given an address; what of it fits `address`.
llvm::Expected<Descriptor> listenAnywhere(int64_t ranks, Address &address, socklen_t &length) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    return broken("make");
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // An address of the family only: the system chooses one that nobody has.
  if (bind(socket.get(), reinterpret_cast<sockaddr *>(&name), sizeof name.sun_family) != 0 ||
      listen(socket.get(), int(ranks)) != 0)
    return broken("open");
  length = sizeof name;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr *>(&name), &length) != 0 ||
      length > sizeof name.sun_family + addressBytes)
    return broken("name");
  std::memcpy(address.data(), name.sun_path, addressBytes);
  return socket;
}

llvm::Expected<Descriptor> reachSocket(const Address &address, socklen_t length) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.data(), addressBytes);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket)
    return broken("make");
  if (length > sizeof name.sun_family + addressBytes ||
      connect(socket.get(), reinterpret_cast<sockaddr *>(&name), length) != 0)
    return broken("connect");
  const std::optional<PeerIdentity> other = identityOf(socket.get());
  if (!other || other->uid != geteuid())
    return makeFailure(Failure::Machine, "a socket between ranks is served by another user");
  return socket;
}

} // namespace

llvm::Expected<PeerSockets> PeerSockets::connect(Member &member, Milliseconds timeout) {
  PeerSockets result(member);
  const int64_t me = member.rank(), ranks = member.ranks();
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  Address address{};
  socklen_t length = 0;
  llvm::Expected<Descriptor> listener = listenAnywhere(ranks, address, length);
  if (!listener)
    return listener.takeError();
  uint64_t secret = 0;
  if (getrandom(&secret, sizeof secret, 0) != ssize_t(sizeof secret))
    return makeFailure(Failure::Machine, "the system has no random numbers: {}",
                       std::strerror(errno));
  auto all = member.exchange({secret, uint64_t(length), address[0], address[1]}, timeout);
  if (!all)
    return all.takeError();
  for (int64_t r = 0; r < me; ++r) {
    const Member::Words &there = (*all)[size_t(r)];
    llvm::Expected<Descriptor> socket = reachSocket({there[2], there[3]}, socklen_t(there[1]));
    if (!socket)
      return socket.takeError();
    result.sockets[size_t(r)] = std::move(*socket);
    const Greeting greeting{there[0], me};
    if (llvm::Error e = result.send(r, {reinterpret_cast<const char *>(&greeting), sizeof greeting},
                                    /*descriptor=*/-1))
      return e;
  }
  for (int64_t missing = ranks - 1 - me; missing > 0;) {
    if (llvm::Error e = awaitReadable(member, listener->get(), deadline, "a socket of some rank"))
      return e;
    Descriptor socket(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::optional<PeerIdentity> other =
        socket ? identityOf(socket.get()) : std::optional<PeerIdentity>();
    if (!other || other->uid != geteuid())
      continue;
    // Ranks say who they are before they accept; whoever is silent is none.
    const timeval patience{1, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    Greeting greeting;
    if (recv(socket.get(), &greeting, sizeof greeting, MSG_WAITALL) != ssize_t(sizeof greeting) ||
        greeting.secret != secret || greeting.rank <= me || greeting.rank >= ranks ||
        result.sockets[size_t(greeting.rank)])
      continue;
    result.sockets[size_t(greeting.rank)] = std::move(socket);
    --missing;
  }
  return result;
}

llvm::Error PeerSockets::send(int64_t rank, llvm::StringRef bytes, int descriptor) const {
  iovec data{const_cast<char *>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  ssize_t sent = 0;
  do
    sent = sendmsg(sockets[size_t(rank)].get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent != ssize_t(bytes.size()))
    return makeFailureOf(rank, Failure::Machine, "rank {} cannot send memory to rank {}: {}",
                         member->rank(), rank,
                         sent < 0 ? std::strerror(errno) : "only a part of a message went out");
  return llvm::Error::success();
}

llvm::Expected<PeerSockets::Received> PeerSockets::receive(int64_t rank, size_t bytes,
                                                           Deadline deadline) const {
  Received result;
  result.bytes.resize(bytes);
  for (size_t have = 0; have < bytes;) {
    const int socket = sockets[size_t(rank)].get();
    if (llvm::Error e =
            awaitReadable(*member, socket, deadline, fmt::format("memory of rank {}", rank)))
      return e;
    iovec data{result.bytes.data() + have, bytes - have};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (got <= 0)
      return makeFailureOf(rank, Failure::Machine, "rank {} has closed its socket to rank {}{}{}",
                           rank, member->rank(), got < 0 ? ": " : "",
                           got < 0 ? std::strerror(errno) : "");
    have += size_t(got);
    for (cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h))
      if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
        int number = -1;
        std::memcpy(&number, CMSG_DATA(h), sizeof number);
        result.descriptor = Descriptor(number);
      }
    if (message.msg_flags & MSG_CTRUNC)
      return makeFailure(Failure::Machine,
                         "rank {} has no room for a descriptor of rank {}: raise `ulimit -n`",
                         member->rank(), rank);
  }
  return result;
}

} // namespace ccl::bootstrap
