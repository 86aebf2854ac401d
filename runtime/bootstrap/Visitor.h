//===- Visitor.h - The other ranks' part in a meeting -------------------------===//
#pragma once

#include "runtime/bootstrap/Connection.h"
#include "runtime/bootstrap/Rendezvous.h"

#include <optional>

namespace ccl::bootstrap {

class Visitor {
public:
  /// `socket` leads to rank 0; not open: one is made to options.path.
  Visitor(const JoinOptions &options, Descriptor arena, int64_t arenaBytes, Descriptor socket);
  llvm::Expected<Meeting> run();

private:
  llvm::Error prepare();
  llvm::Error connect();
  llvm::Error talk();
  llvm::Error handle();
  llvm::Error takePeers();
  llvm::Error tell(llvm::Error error);
  llvm::Error lost();
  bool waitForMessage(Clock::time_point until);
  bool sendAll(Clock::time_point until);
  Message makeHello() const;

  const JoinOptions &options;
  Descriptor arena, pidfd;
  int64_t arenaBytes;
  const bool byPath;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point deadline;
  std::unique_ptr<Connection> connection;
  std::optional<Clock::time_point> refusedSince; ///< there was a hub, and now there is none
  bool wasConnected = false, accepted = false, done = false;
  bool broken = false; ///< nothing can be sent any more; there may be something to read
  Meeting meeting;
  int64_t met = 0; ///< ranks below this have been received
};

} // namespace ccl::bootstrap
