//===- HostAddress.cpp ------------------------------------------------------===//
#include "runtime/bootstrap/HostAddress.h"

#include "runtime/Deadline.h"

#include "llvm/ADT/StringExtras.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ccl::bootstrap {
namespace {

using namespace std::chrono_literals;

/// A resolver that has no answer now may have one later.
constexpr auto pause = 200ms;

template <typename Get>
HostAddress addressBy(int socket, Get get) {
  HostAddress address;
  address.bytes = sizeof address.storage;
  if (get(socket, reinterpret_cast<sockaddr *>(&address.storage), &address.bytes) != 0)
    address.bytes = 0;
  return address;
}

struct Resolved {
  std::vector<HostAddress> addresses;
  int code = 0; ///< of getaddrinfo
  int error = 0;
};

Resolved ask(const HostPort &where) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  Resolved resolved;
  resolved.code =
      getaddrinfo(where.host.c_str(), fmt::format("{}", where.port).c_str(), &hints, &list);
  resolved.error = errno;
  if (resolved.code != 0)
    return resolved;
  for (const addrinfo *entry = list; entry; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6)
      continue;
    HostAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.bytes = entry->ai_addrlen;
    resolved.addresses.push_back(address);
  }
  freeaddrinfo(list);
  return resolved;
}

bool isSame(const HostAddress &a, const HostAddress &b) {
  return a.bytes == b.bytes && std::memcmp(&a.storage, &b.storage, a.bytes) == 0;
}

/// Listens at `address`; without a socket errno says why not.
Descriptor tryToListen(const HostAddress &address) {
  Descriptor socket(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (!socket || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    return {};
  if (address.storage.ss_family == AF_INET6)
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (bind(socket.get(), reinterpret_cast<const sockaddr *>(&address.storage), address.bytes) !=
          0 ||
      listen(socket.get(), 4096) != 0) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

} // namespace

std::string HostAddress::host() const {
  char host[NI_MAXHOST] = "";
  if (getnameinfo(reinterpret_cast<const sockaddr *>(&storage), bytes, host, sizeof host, nullptr,
                  0, NI_NUMERICHOST) != 0)
    return "unknown";
  return host;
}

std::string HostAddress::text() const {
  char port[NI_MAXSERV] = "";
  if (getnameinfo(reinterpret_cast<const sockaddr *>(&storage), bytes, nullptr, 0, port,
                  sizeof port, NI_NUMERICSERV) != 0)
    return "unknown";
  return storage.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host(), port)
                                       : fmt::format("{}:{}", host(), port);
}

HostAddress HostAddress::ofPeer(int socket) { return addressBy(socket, getpeername); }
HostAddress HostAddress::ofSocket(int socket) { return addressBy(socket, getsockname); }

llvm::Expected<HostPort> parseAddress(const std::string &text) {
  auto wrong = [&](std::string_view why) {
    return makeFailure(Failure::BadArgument,
                       "the address of rank 0 '{}' (CCL_ADDRESS) {}: expected host:port or "
                       "[v6]:port, as in node1:29500",
                       printable(text), why);
  };
  const auto [host, port] = llvm::StringRef(text).rsplit(':');
  HostPort where;
  if (host.size() == text.size())
    return wrong("names no port");
  if (host.contains('\0') || port.empty() || !llvm::all_of(port, llvm::isDigit) ||
      port.getAsInteger(10, where.port) || where.port == 0)
    return wrong("has no port from 1 to 65535 at its end");
  where.host = host.str();
  if (host.starts_with("[") && host.ends_with("]"))
    where.host = host.drop_front().drop_back().str();
  else if (host.contains(':'))
    return wrong("has colons in its host; IPv6 is written in brackets");
  if (where.host.empty())
    return wrong("names no host");
  return where;
}

llvm::Expected<std::vector<HostAddress>> resolve(const std::string &text,
                                                 Clock::time_point deadline) {
  llvm::Expected<HostPort> where = parseAddress(text);
  if (!where)
    return where.takeError();
  std::string last = "there is no answer";
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    // A resolver asks around for as long as it likes.
    std::optional<Resolved> resolved =
        within<Resolved>(std::max(left, 1ms), [where = *where] { return ask(where); });
    if (resolved && resolved->code == 0 && !resolved->addresses.empty())
      return std::move(resolved->addresses);
    if (resolved)
      last = resolved->code == 0            ? "it has no address of IPv4 or IPv6"
             : resolved->code == EAI_SYSTEM ? std::strerror(resolved->error)
                                            : gai_strerror(resolved->code);
    if (resolved && resolved->code != EAI_AGAIN && resolved->code != EAI_SYSTEM)
      return makeFailure(Failure::BadArgument,
                         "the host '{}' of rank 0 (CCL_ADDRESS) cannot be found: {}", where->host,
                         last);
    if (Clock::now() + pause >= deadline)
      return makeFailure(Failure::Timeout,
                         "timed out: the host '{}' of rank 0 (CCL_ADDRESS) cannot be found: {}",
                         where->host, last);
    std::vector<pollfd> nothing;
    pollUntil(nothing, Clock::now() + pause);
  }
}

llvm::Expected<Descriptor> listenAt(const std::vector<HostAddress> &addresses,
                                    const std::string &text) {
  int error = EADDRNOTAVAIL;
  for (const HostAddress &address : addresses) {
    if (Descriptor socket = tryToListen(address))
      return socket;
    // That it is none of ours says less than any other reason.
    if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)
      error = errno;
  }
  const std::string numeric = addresses.front().text();
  const std::string where = numeric == text ? text : fmt::format("{} ({})", text, numeric);
  switch (error) {
  case EADDRNOTAVAIL:
    return makeFailure(Failure::BadArgument,
                       "{} is no address of this host, but rank 0 is to listen there "
                       "(CCL_ADDRESS): name one of its own, or run rank 0 there",
                       where);
  case EADDRINUSE:
    return makeFailure(Failure::BadArgument,
                       "another process listens at {}: choose another port (CCL_ADDRESS)", where);
  case EACCES:
    return makeFailure(Failure::BadArgument,
                       "this user may not listen at {}: choose a port over 1023 (CCL_ADDRESS)",
                       where);
  default:
    return makeFailure(Failure::Machine, "cannot listen at {}: {}", where, std::strerror(error));
  }
}

HostAttempt connectTo(const HostAddress &address, Clock::time_point deadline) {
  HostAttempt attempt;
  Descriptor socket(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    attempt.error = errno;
    return attempt;
  }
  // A port of ours must not keep rank 0 from listening at the same one.
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (connect(socket.get(), reinterpret_cast<const sockaddr *>(&address.storage), address.bytes) !=
      0) {
    attempt.error = errno;
    if (attempt.error != EINPROGRESS)
      return attempt;
    std::vector<pollfd> one{{socket.get(), POLLOUT, 0}};
    socklen_t size = sizeof attempt.error;
    if (pollUntil(one, deadline) <= 0)
      attempt.error = ETIMEDOUT;
    else if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &attempt.error, &size) != 0)
      attempt.error = errno;
    if (attempt.error != 0)
      return attempt;
  }
  // Where nobody listens at a port that the kernel may choose for us, one meets oneself.
  if (isSame(HostAddress::ofSocket(socket.get()), HostAddress::ofPeer(socket.get()))) {
    attempt.error = ECONNREFUSED;
    return attempt;
  }
  attempt.socket = std::move(socket);
  return attempt;
}

} // namespace ccl::bootstrap
