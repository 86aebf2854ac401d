//===- ProcessWorld.h - Ranks as processes of one machine ----------------------===//
//
// Every rank owns an arena: a large sparse memfd, sealed against resizing, that all others
// map as a whole when they meet. Pages exist once something is allocated there, and are
// taken from the system at that moment, so that a full machine is an error and no SIGBUS.
// Names in no file system, nothing to clean up: the last unmapping ends it.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"
#include "runtime/World.h"

namespace ccl {

/// See Member::join.
llvm::Expected<std::unique_ptr<Member>> joinProcesses(JoinOptions options);

/// The processes of one host: a world of them alone, and the control block of a communicator of
/// `ranks` that they lend each other memory for, of which they are `near`, by rank there.
struct NearProcesses {
  std::shared_ptr<World> world;
  ControlBlock *control = nullptr;
  bool canRead = false; ///< this process may read the memory of all others
};
llvm::Expected<NearProcesses> meetNear(JoinOptions options, int64_t ranks,
                                       const std::vector<int64_t> &near);

} // namespace ccl
