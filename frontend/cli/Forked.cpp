//===- Forked.cpp -----------------------------------------------------------===//
#include "frontend/cli/Forked.h"

#include "runtime/Backoff.h"
#include "runtime/bootstrap/Handles.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace ccl::cli {
namespace {

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

pid_t forkChild(const std::function<int()> &body) {
  std::fflush(nullptr); // or the child would write it again
  const pid_t parent = getpid(), child = fork();
  if (child != 0)
    return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(3); // it went before we asked to hear of it
  const int status = body();
  std::fflush(nullptr);
  _exit(status);
}

llvm::Expected<std::string> askChild(const std::function<llvm::Expected<std::string>()> &question) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return makeFailure(Failure::Machine, "cannot make a pipe: {}", strerror(errno));
  Descriptor from(ends[0]), to(ends[1]);
  const pid_t child = forkChild([&] {
    std::string text(1, '.');
    if (llvm::Expected<std::string> answer = question())
      text += *answer;
    else
      llvm::handleAllErrors(answer.takeError(), [&](const RuntimeError &e) {
        text = char('0' + int(e.category)) + e.message;
      });
    // A pipe holds more than any answer has.
    return write(to.get(), text.data(), text.size()) == ssize_t(text.size()) ? 0 : 3;
  });
  if (child < 0)
    return makeFailure(Failure::Machine, "cannot fork: {}", strerror(errno));
  to.reset();
  std::string text;
  char part[512];
  for (ssize_t got = 0; (got = read(from.get(), part, sizeof part)) != 0;)
    if (got > 0)
      text.append(part, size_t(got));
    else if (errno != EINTR)
      break;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  if (text.empty())
    return makeFailure(Failure::Machine, "a process that was to look at this machine ended with {}",
                       WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                           : fmt::format("status {}", WEXITSTATUS(status)));
  if (text[0] == '.')
    return text.substr(1);
  return llvm::make_error<RuntimeError>(Failure(text[0] - '0'), text.substr(1));
}

ForkedRanks::~ForkedRanks() {
  for (pid_t child : children)
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
}

llvm::Expected<ForkedRanks> ForkedRanks::start(int64_t ranks, const Child &child) {
  // A sanitizer has a thread of its own, which survives nothing it would be needed for.
  if (int64_t threads = countThreads(); threads > 1 && std::string_view(CCL_SANITIZE).empty())
    return makeFailure(Failure::Machine, "cannot fork ranks: this process has {} threads", threads);
  // Both ends of a pair for every child, and two to look how many are open.
  if (llvm::Error e = bootstrap::checkDescriptorLimit(0, ranks, 2 * (ranks - 1) + 2))
    return e;
  llvm::Expected<bootstrap::Star> star = bootstrap::Star::make(ranks);
  if (!star)
    return star.takeError();
  ForkedRanks forked;
  forked.star = std::move(*star);
  for (int64_t r = 1; r < ranks; ++r) {
    const pid_t pid = forkChild([&] {
      forked.children.clear(); // siblings are none of our business
      return child(r, forked.star.keep(r));
    });
    if (pid < 0)
      return makeFailure(Failure::Machine, "cannot fork rank {}: {}", r, strerror(errno));
    forked.children.push_back(pid);
  }
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
      if (found > 0 && WIFSIGNALED(status)) {
        std::string text = fmt::format("rank {} (process {}) was killed by signal {}", i + 1, child,
                                       WTERMSIG(status));
        if (firstKilled.empty())
          firstKilled = text;
        say(std::move(text));
      }
      if (found > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        say(fmt::format("rank {} (process {}) ended with status {}", i + 1, child,
                        WEXITSTATUS(status)));
    }
  return first.empty() ? llvm::Error::success() : makeFailure(Failure::Machine, "{}", first);
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
