//===- Crew.cpp ---------------------------------------------------------------------===//
#include "test/soak/Crew.h"

#include "frontend/cli/Forked.h"
#include "runtime/Backoff.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace ccl::soak {
namespace {

/// The first thing that some rank had to say.
struct Report {
  std::atomic<bool> taken;
  char text[4096];
};

void report(Report &report, const std::string &text) {
  if (!report.taken.exchange(true))
    std::strncpy(report.text, text.c_str(), sizeof(report.text) - 1);
}

using Body = std::function<llvm::Error(std::unique_ptr<Member>)>;

MemberOptions memberOptions(const Crew &crew) {
  MemberOptions options;
  if (crew.slotBytes)
    options.slotBytes = crew.slotBytes;
  return options;
}

llvm::Error onThreads(const Crew &crew, const Body &body) {
  auto members = Member::createThreads(crew.ranks, memberOptions(crew));
  if (!members)
    return members.takeError();
  return onEveryRank(crew.ranks, [&](int64_t r) { return body(std::move((*members)[size_t(r)])); });
}

llvm::Error onProcesses(const Crew &crew, const Body &body, Report &found) {
  auto join = [&](int64_t rank, std::vector<int> sockets) -> llvm::Error {
    JoinOptions joining;
    joining.rank = rank;
    joining.ranks = crew.ranks;
    joining.sockets = std::move(sockets);
    joining.timeout = crew.timeout;
    joining.member = memberOptions(crew);
    auto member = Member::join(std::move(joining));
    return member ? body(std::move(*member)) : member.takeError();
  };
  auto forked = cli::ForkedRanks::start(crew.ranks, [&](int64_t rank, std::vector<int> sockets) {
    llvm::Error error = join(rank, std::move(sockets));
    if (!error)
      return 0;
    report(found, fmt::format("rank {}: {}", rank, llvm::toString(std::move(error))));
    return 1;
  });
  if (!forked)
    return forked.takeError();
  if (llvm::Error error = join(0, forked->takeSockets())) {
    // It may have come from a rank that crashed.
    llvm::Error late = forked->wait(Milliseconds(2000));
    return late ? llvm::joinErrors(std::move(error), std::move(late)) : std::move(error);
  }
  // Without an error they are as far as this one, up to the ends of their bodies.
  return forked->wait(4 * crew.timeout);
}

} // namespace

std::string_view name(Kind kind) { return kind == Kind::Threads ? "threads" : "processes"; }

llvm::Expected<std::vector<Kind>> parseKinds(std::string_view text) {
  if (text == "threads")
    return std::vector{Kind::Threads};
  if (text == "processes")
    return std::vector{Kind::Processes};
  if (text == "both")
    return std::vector{Kind::Threads, Kind::Processes};
  return makeFailure(Failure::BadArgument, "expected threads, processes or both, got {}", text);
}

std::string waitForChild(pid_t child, const std::atomic<int64_t> &progress, Milliseconds patience) {
  Clock::time_point moved = Clock::now();
  int64_t last = progress;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (int64_t now = progress; now != last) {
      last = now;
      moved = Clock::now();
    } else if (Clock::now() - moved > patience) {
      kill(-child, SIGKILL);
      waitpid(child, nullptr, 0);
      return fmt::format("no progress for {} ms: killed", patience.count());
    }
    usleep(500);
  }
  kill(-child, SIGKILL); // whatever it left behind
  if (WIFSIGNALED(status))
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return WEXITSTATUS(status) ? fmt::format("exit status {}", WEXITSTATUS(status)) : "";
}

/// `found` is also for what processes of the body say, which may say it first.
static std::string runApart(const std::function<llvm::Error()> &body,
                            const std::atomic<int64_t> &progress, Milliseconds patience,
                            const Shared<Report> &found) {
  const pid_t child = cli::forkChild([&] {
    setpgid(0, 0);
    llvm::Error error = body();
    const bool failed = bool(error);
    if (failed)
      report(*found, llvm::toString(std::move(error)));
    return int(failed);
  });
  if (child < 0)
    return fmt::format("cannot fork: {}", strerror(errno));
  setpgid(child, child); // so that it is done whoever comes first
  std::string ended = waitForChild(child, progress, patience);
  return found->taken ? std::string(found->text) : ended;
}

std::string runApart(const std::function<llvm::Error()> &body, const std::atomic<int64_t> &progress,
                     Milliseconds patience) {
  return runApart(body, progress, patience, Shared<Report>());
}

std::string runCrew(const Crew &crew, const Body &body, const std::atomic<int64_t> &progress) {
  const Shared<Report> found;
  return runApart(
      [&] {
        return crew.kind == Kind::Threads ? onThreads(crew, body) : onProcesses(crew, body, *found);
      },
      progress, 4 * crew.timeout, found);
}

void say(const std::string &line) {
  const std::string text = line + "\n";
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (written <= 0)
      return; // nobody listens any more; the exit status still tells
    done += size_t(written);
  }
}

} // namespace ccl::soak
