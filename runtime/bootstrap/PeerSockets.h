//===- PeerSockets.h - A socket between every two ranks that have met ---------------===//
//
// For what cannot go through shared memory: descriptors. The sockets are made without a name in
// any file system. Who connects has to be of this user, and to know a secret that only the
// members of the communicator share.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"
#include "runtime/bootstrap/Descriptor.h"

#include <string>

namespace ccl::bootstrap {

class PeerSockets {
public:
  /// Collective. Errors: Machine; Timeout; that of `member`.
  static llvm::Expected<PeerSockets> connect(Member &member, Milliseconds timeout);

  /// Sends `bytes` (a few hundred at most), and a descriptor unless it is negative, to `rank`. It
  /// does not wait for the receiver as long as that takes what it is sent before long.
  llvm::Error send(int64_t rank, llvm::StringRef bytes, int descriptor) const;
  struct Received {
    std::string bytes;
    Descriptor descriptor; ///< not open: none came
  };
  /// The next `bytes` of `rank`; waits until `deadline`, or until the communicator fails.
  llvm::Expected<Received> receive(int64_t rank, size_t bytes,
                                   std::chrono::steady_clock::time_point deadline) const;

private:
  explicit PeerSockets(Member &member) : member(&member), sockets(size_t(member.ranks())) {}
  Member *member;
  std::vector<Descriptor> sockets; ///< by rank
};

} // namespace ccl::bootstrap
