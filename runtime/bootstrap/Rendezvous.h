//===- Rendezvous.h - Processes of one machine find each other ---------------===//
//
// Rank 0 is the hub: each other rank has a stream socket to it, made before fork or by
// connecting to a path. Every rank hands in its arena (a sealed memfd) and a pidfd of
// itself; the hub gives every rank those of all others. Everything after that goes through
// the arenas; the sockets stay open only to tell that a peer is gone.
//
// Only processes of the same user are let in (SO_PEERCRED, both ways). Messages are fixed
// structs. A connection that sends rubbish, or nothing, is dropped and keeps nobody waiting.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"
#include "runtime/bootstrap/Descriptor.h"

#include <sys/types.h>

namespace ccl {

struct PeerLink {
  Descriptor arena;  ///< checked: a memfd of the agreed size, sealed against resizing
  Descriptor pidfd;  ///< readable once the process has ended; works across pid namespaces
  Descriptor socket; ///< on rank 0: to each rank; on others: to rank 0; else closed
  pid_t pid = 0;     ///< in our namespace; 0 if it cannot be seen from here
};

struct Meeting {
  int64_t rank = 0, ranks = 1;
  std::vector<PeerLink> peers; ///< by rank; one's own has an arena only
};

/// Meets the others within options.timeout. `arena` is this rank's memfd of `arenaBytes`,
/// sealed. Errors (Failure::Machine, Timeout, Mismatch, BadArgument) say which rank is
/// missing or what differs (ranks, version, arena size, slot size), on all ranks alike where
/// that can be told.
llvm::Expected<Meeting> meet(const JoinOptions &options, Descriptor arena, int64_t arenaBytes);

} // namespace ccl
