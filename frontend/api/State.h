//===- State.h - What the handles of the public interface share -------------------===//
#pragma once

#include <ccl/ccl.h>

#include "runtime/Member.h"

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ccl {
inline namespace jit {

/// Calls of one communicator happen one after the other, in the order of their tickets: a
/// member is used by one thread at a time, and ranks must agree on the order.
class Turns {
public:
  uint64_t take() noexcept {
    std::lock_guard lock(mutex);
    return next++;
  }
  void await(uint64_t ticket) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return serving == ticket; });
  }
  void done() noexcept {
    std::lock_guard lock(mutex);
    ++serving;
    changed.notify_all();
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t next = 0, serving = 0;
};

/// From the moment at which it is its turn until it ends.
class Turn {
public:
  explicit Turn(Turns &turns) : Turn(turns, turns.take()) {}
  Turn(Turns &turns, uint64_t ticket) : turns(turns) { turns.await(ticket); }
  Turn(const Turn &) = delete;
  ~Turn() { turns.done(); }

private:
  Turns &turns;
};

struct [[gnu::visibility("hidden")]] Communicator::Impl {
  /// Why an operation with that time-out cannot be: `impl` is null, or it is negative.
  static std::optional<Error> refuse(const std::shared_ptr<Impl> &impl,
                                     Milliseconds timeout = Milliseconds(0));
  /// What a call takes that asked for `wanted`; 0 is none.
  Milliseconds limit(Milliseconds wanted) const { return wanted.count() ? wanted : timeout; }

  Impl(std::unique_ptr<Member> member, const Impl &like)
      : Impl(std::move(member), like.timeout, like.algorithm) {}
  Impl(std::unique_ptr<Member> member, Milliseconds timeout, std::string algorithm)
      : member(std::move(member)), timeout(timeout), algorithm(std::move(algorithm)) {}

  const std::unique_ptr<Member> member;
  const Milliseconds timeout;
  const std::string algorithm; ///< what CCL_ALGO said when it was opened
  Turns turns;

  /// Memory that was given back on this rank. Which of it is handed out again the ranks
  /// decide together: by number, which is the same everywhere.
  struct FreeBlock {
    uint64_t number;
    SymmetricBuffer buffer;
  };
  std::mutex blocksMutex;
  std::vector<FreeBlock> freeBlocks;
  uint64_t nextBlock = 1; ///< used by whose turn it is
};

struct [[gnu::visibility("hidden")]] Event::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Status status; ///< of what was before the mark
};

struct [[gnu::visibility("hidden")]] Stream::Impl {
  /// Why nothing can be done with the stream, or nothing.
  static std::optional<Error> refuse(const std::shared_ptr<Impl> &impl);

  explicit Impl(std::shared_ptr<Communicator::Impl> communicator)
      : communicator(std::move(communicator)) {}
  ~Impl();

  struct Task {
    std::function<Status()> body;      ///< null: nothing to do
    std::shared_ptr<Event::Impl> mark; ///< done as soon as this task counts as finished
    std::optional<uint64_t> ticket;    ///< of a call of the communicator
  };
  /// Queues a call of the communicator: it is executed in its turn.
  void call(std::function<Status()> body);
  /// Queues what is no call.
  void other(Task task);
  void work();
  /// Whether this is the copy of a child of fork, which has no worker.
  bool isOrphaned() const { return process != getpid(); }

  const std::shared_ptr<Communicator::Impl> communicator;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
  uint64_t queued = 0, finished = 0;
  bool closing = false;
  Status first; ///< the first failure
  std::thread worker;
  const pid_t process = getpid(); ///< that has the worker
};

} // namespace jit
} // namespace ccl
