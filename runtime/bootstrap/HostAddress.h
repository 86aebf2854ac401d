//===- HostAddress.h - Where rank 0 listens ---------------------------------------===//
#pragma once

#include "runtime/bootstrap/Connection.h"

#include <sys/socket.h>

namespace ccl::bootstrap {

/// A numeric address with its port.
struct HostAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  std::string host() const; ///< "10.0.0.1", "fd00::1"
  std::string text() const; ///< "10.0.0.1:29500", "[fd00::1]:29500"
  static HostAddress ofPeer(int socket);
  static HostAddress ofSocket(int socket);
};

struct HostPort {
  std::string host;
  uint16_t port = 0;
};
/// Of "host:port", "[v6]:port". Error (Failure::BadArgument): what is wrong with it.
llvm::Expected<HostPort> parseAddress(const std::string &text);

/// At least one address, in the order of the resolver. Errors: Failure::BadArgument: there is no
/// such name; Failure::Timeout: the resolver did not know by the deadline.
llvm::Expected<std::vector<HostAddress>> resolve(const std::string &text,
                                                 Clock::time_point deadline);

/// Listens at the first of `addresses` that this host has, there alone. Errors
/// (Failure::BadArgument, Machine): none is of this host, the port is in use. `text`: what the user
/// wrote.
llvm::Expected<Descriptor> listenAt(const std::vector<HostAddress> &addresses,
                                    const std::string &text);

/// Tries to connect, until `deadline`. Without a socket nobody answered; `error` says why.
struct HostAttempt {
  Descriptor socket;
  int error = 0;
};
HostAttempt connectTo(const HostAddress &address, Clock::time_point deadline);

} // namespace ccl::bootstrap
