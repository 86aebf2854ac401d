//===- Forked.cpp -----------------------------------------------------------===//
#include "frontend/cli/Forked.h"

#include "runtime/Backoff.h"
#include "runtime/bootstrap/Handles.h"

#include <fmt/format.h>

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace ccl::cli {
namespace {

template <typename... T>
llvm::Error machine(fmt::format_string<T...> format, T &&...values) {
  return llvm::make_error<RuntimeError>(Failure::Machine,
                                        fmt::format(format, std::forward<T>(values)...));
}

/// Threads of this process, or 1 where that cannot be seen.
int64_t countThreads() {
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks)
    return 1;
  int64_t count = 0;
  while (const dirent *entry = readdir(tasks))
    count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

} // namespace

ForkedRanks::~ForkedRanks() {
  for (int socket : sockets)
    close(socket);
  for (pid_t child : children)
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
}

llvm::Expected<ForkedRanks> ForkedRanks::start(int64_t ranks, const Child &child) {
  // A sanitizer has a thread of its own, which survives nothing it would be needed for.
  if (int64_t threads = countThreads(); threads > 1 && std::string_view(CCL_SANITIZE).empty())
    return machine("cannot fork ranks: this process has {} threads", threads);
  // Both ends of a pair for every child, and two to look how many are open.
  if (llvm::Error e = bootstrap::checkDescriptorLimit(0, ranks, 2 * (ranks - 1) + 2))
    return e;
  ForkedRanks forked;
  std::vector<int> theirs;
  auto closeTheirs = [&] {
    for (int socket : theirs)
      close(socket);
  };
  for (int64_t r = 1; r < ranks; ++r) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      const int error = errno;
      closeTheirs();
      return machine("cannot make sockets for {} ranks: {}{}", ranks, strerror(error),
                     error == EMFILE ? " (ulimit -n)" : "");
    }
    forked.sockets.push_back(ends[0]);
    theirs.push_back(ends[1]);
  }
  std::fflush(nullptr); // or every child would write it again
  const pid_t parent = getpid();
  for (int64_t r = 1; r < ranks; ++r) {
    const pid_t pid = fork();
    if (pid < 0) {
      const int error = errno;
      closeTheirs();
      return machine("cannot fork rank {}: {}", r, strerror(error));
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent)
        _exit(3); // it went before we asked to hear of it
      const int mine = theirs[size_t(r - 1)];
      for (int socket : forked.sockets)
        close(socket);
      for (int socket : theirs)
        if (socket != mine)
          close(socket);
      forked.children.clear(); // siblings are none of our business
      forked.sockets.clear();
      const int status = child(r, {mine});
      std::fflush(nullptr);
      _exit(status);
    }
    forked.children.push_back(pid);
  }
  closeTheirs();
  return forked;
}

llvm::Error ForkedRanks::wait(Milliseconds longest) {
  const Clock::time_point deadline = Clock::now() + longest;
  Backoff backoff;
  std::string first; // what is said; the others still get the time to end by themselves
  auto say = [&](std::string text) {
    if (first.empty())
      first = std::move(text);
  };
  for (size_t i = 0; i < children.size(); ++i)
    while (children[i] > 0) {
      int status = 0;
      const pid_t found = waitpid(children[i], &status, WNOHANG);
      if (found == 0) {
        if (Clock::now() >= deadline) {
          say(fmt::format("rank {} (process {}) did not end within {} ms", i + 1, children[i],
                          longest.count()));
          break; // the destructor ends it
        }
        backoff.pause();
        continue;
      }
      const pid_t child = std::exchange(children[i], 0);
      if (found > 0 && WIFSIGNALED(status))
        say(fmt::format("rank {} (process {}) was killed by signal {}", i + 1, child,
                        WTERMSIG(status)));
      if (found > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        say(fmt::format("rank {} (process {}) ended with status {}", i + 1, child,
                        WEXITSTATUS(status)));
    }
  return first.empty() ? llvm::Error::success() : machine("{}", first);
}

CoreBinding::CoreBinding(int64_t rank, int64_t ranks) {
  CPU_ZERO(&before);
  if (sched_getaffinity(0, sizeof before, &before) != 0 || CPU_COUNT(&before) < ranks)
    return;
  int core = -1;
  for (int64_t left = rank; left >= 0; left -= CPU_ISSET(core, &before))
    ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  bound = sched_setaffinity(0, sizeof one, &one) == 0;
}

CoreBinding::~CoreBinding() {
  if (bound)
    sched_setaffinity(0, sizeof before, &before);
}

} // namespace ccl::cli
