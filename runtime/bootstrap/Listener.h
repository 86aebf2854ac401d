//===- Listener.h - The socket that ranks meet at -----------------------------===//
//
// The socket lies in a folder of this user that nobody else may enter or write: whoever
// could put another socket in its place could pose as rank 0.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Failure.h"
#include "runtime/bootstrap/Descriptor.h"

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

namespace ccl::bootstrap {

class Listener {
public:
  /// Makes the folder if it does not exist (its parent must), replaces a socket that nobody
  /// listens at any more, and listens. Errors: Failure::BadArgument and Machine.
  static llvm::Expected<std::unique_ptr<Listener>> open(const std::string &path);
  /// Removes the socket; the folder stays.
  ~Listener();

  int get() const { return socket.get(); }
  /// The next connection, non-blocking and closed on exec; -1 with errno.
  Descriptor accept();

private:
  Listener() = default;
  std::string path;
  Descriptor folder, socket;
  dev_t device = 0;
  ino_t inode = 0;
};

/// One attempt to connect. Errors: a path at which rank 0 could not listen either, a listener
/// that is not this user's.
struct Attempt {
  Descriptor socket; ///< not open: nobody is there yet
  bool busy = false; ///< somebody listens, with a full queue
};
llvm::Expected<Attempt> connectTo(const std::string &path);

/// Who made the other end, if that can be told.
struct PeerIdentity {
  pid_t pid = 0;
  uid_t uid = uid_t(-1);
};
std::optional<PeerIdentity> identityOf(int socket);

} // namespace ccl::bootstrap
