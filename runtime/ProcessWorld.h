//===- ProcessWorld.h - Ranks as processes of one machine ----------------------===//
//
// Every rank owns an arena: a large sparse memfd, sealed against resizing, that all others
// map as a whole when they meet. Pages exist once something is allocated there, and are
// taken from the system at that moment, so that a full machine is an error and no SIGBUS.
// Names in no file system, nothing to clean up: the last unmapping ends it.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"

namespace ccl {

/// See Member::join.
llvm::Expected<std::unique_ptr<Member>> joinProcesses(JoinOptions options);

} // namespace ccl
