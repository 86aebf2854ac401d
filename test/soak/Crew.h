//===- Crew.h - Ranks of one job, apart from this process -------------------------===//
//
// A job runs in child processes, so that a crash or a hang of a rank is a finding and not the
// end of the run.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"

#include <fmt/format.h>

#include <sys/mman.h>

#include <atomic>
#include <new>

namespace ccl::soak {

/// What a rank is.
enum class Kind : uint8_t { Threads, Processes };
std::string_view name(Kind kind);
/// "threads", "processes", "both".
llvm::Expected<std::vector<Kind>> parseKinds(std::string_view text);

/// Values that children share with this process; zero at first.
template <typename T>
class Shared {
public:
  explicit Shared(size_t count = 1) : bytes(std::max(count, size_t(1)) * sizeof(T)) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw std::bad_alloc();
  }
  ~Shared() { munmap(memory, bytes); }
  Shared(const Shared &) = delete;
  Shared &operator=(const Shared &) = delete;

  T &operator[](size_t i) const { return static_cast<T *>(memory)[i]; }
  T *operator->() const { return static_cast<T *>(memory); }
  T &operator*() const { return *operator->(); }

private:
  size_t bytes;
  void *memory;
};

struct Crew {
  Kind kind = Kind::Threads;
  int64_t ranks = 1;
  int64_t slotBytes = 0;                 ///< 0: the default
  Milliseconds timeout = defaultTimeout; ///< of joining; without progress a job gets four of it
};

/// Calls `body` in another process. Returns "" or what went wrong: its error, a crash, no change of
/// `progress`, which must be shared (Shared), for so long.
std::string runApart(const std::function<llvm::Error()> &body, const std::atomic<int64_t> &progress,
                     Milliseconds patience);

/// Calls body(member) for every rank of a new communicator, in other processes. Returns "" or
/// what went wrong: the error of a rank, a crash, no change of `progress` for too long. `progress`
/// must be shared (Shared).
std::string runCrew(const Crew &crew,
                    const std::function<llvm::Error(std::unique_ptr<Member>)> &body,
                    const std::atomic<int64_t> &progress);

/// Waits until `child`, a process of this one that leads a group, has ended, and ends it if it
/// makes no progress for so long; in any case it ends its group. Returns "" if the exit status
/// was 0, else what happened.
std::string waitForChild(pid_t child, const std::atomic<int64_t> &progress, Milliseconds patience);

/// One line to stdout in one piece, whoever else writes.
void say(const std::string &line);

} // namespace ccl::soak
