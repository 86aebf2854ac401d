//===- Forked.h - The ranks of `ccl run` as child processes --------------------===//
//
// This process becomes rank 0 and forks the others, which inherit compiled programs. A
// child ends with its parent, however that ends; none outlives this object.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"
#include "runtime/bootstrap/Star.h"

#include <sched.h>
#include <sys/types.h>

namespace ccl::cli {

/// A child that ends with this process, or with the status that `body` returns. -1: errno
/// says why there is none.
pid_t forkChild(const std::function<int()> &body);

/// What `question` answers in a child process: what it does to its process is gone then.
llvm::Expected<std::string> askChild(const std::function<llvm::Expected<std::string>()> &question);

class ForkedRanks {
public:
  ForkedRanks() = default;
  ForkedRanks(ForkedRanks &&) = default;
  /// Kills and reaps what is left.
  ~ForkedRanks();

  /// Calls child(rank, sockets) for ranks 1 to ranks - 1, each in a process of its own that
  /// ends with the status that it returns. `sockets` are for JoinOptions, here and there.
  /// Fails if this process has several threads, as fork copies only one of them.
  using Child = std::function<int(int64_t rank, std::vector<int> sockets)>;
  static llvm::Expected<ForkedRanks> start(int64_t ranks, const Child &child);

  /// Rank 0's ends; to be used once.
  std::vector<int> takeSockets() { return star.keep(0); }
  /// Waits for all children, at most so long. Errors tell of one that was killed or is late.
  llvm::Error wait(Milliseconds longest);
  /// Then: of the first child that a signal ended, which only its parent sees; "": none.
  const std::string &killed() const { return firstKilled; }

private:
  std::vector<pid_t> children; ///< by rank - 1; 0: reaped
  bootstrap::Star star;
  std::string firstKilled;
};

/// Keeps the calling thread on a core of its own, if there are as many cores as ranks, as
/// MPI's launchers do; ends with the object.
class CoreBinding {
public:
  CoreBinding(int64_t rank, int64_t ranks);
  ~CoreBinding();
  CoreBinding(const CoreBinding &) = delete;

private:
  cpu_set_t before;
  bool bound = false;
};

} // namespace ccl::cli
