//===- FaultCase.cpp - Forks the ranks, lets one fail, judges ------------------------------===//
#include "test/soak/FaultCase.h"

#include "frontend/cli/Forked.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ccl::soak {
namespace {

using faults::Action;
using faults::Point;

/// A dead rank must be known to all after that.
constexpr Milliseconds deathKnown{2000};
/// More than that is a hang, whatever happened.
constexpr Milliseconds longestCase{30000};

class Job {
public:
  Job(const FaultCase &fault, const Pool &pool)
      : fault(fault), pool(pool), reports(size_t(fault.ranks)), processes(size_t(fault.ranks)) {}
  ~Job();
  Verdict run();
  std::string whereAll() const;

private:
  struct Process {
    pid_t pid = 0;
    bool ended = false, stopped = false;
    int status = 0;
  };
  void problem(const std::string &text) {
    if (verdict.problem.empty())
      verdict.problem = text;
  }
  bool forkRanks();
  void look();
  bool waitUntil(const std::function<bool()> &ready, const char *what);
  void strike();
  void judge();
  void judgeSurvivor(int64_t rank);
  void judgeVictim();
  void release();
  void setLink(const char *how);
  void bringLinkUp();
  bool isNearTo(int64_t a, int64_t b) const {
    return !fault.place || fault.place->hostOf(a) == fault.place->hostOf(b);
  }
  /// Survivors that had a communicator to rebuild.
  int64_t countJoined(int64_t rank) const;
  void judgeAfterLink(int64_t rank);
  /// Whether ranks may be through before they notice anything.
  bool mayEndWell() const {
    return fault.point && (fault.point == Point::Destroy || fault.action == Action::Close);
  }
  bool isSurvivor(int64_t rank) const { return rank != fault.victim; }
  bool hasLeft(int64_t rank) const {
    return processes[size_t(rank)].ended || reports[size_t(rank)].phase.load() == Phase::Left;
  }

  const FaultCase &fault;
  const Pool &pool;
  Shared<RankReport> reports;
  std::vector<Process> processes;
  const int64_t begun = nowNanoseconds();
  bool released = false;
  int64_t struck = 0; ///< when the fault was seen to have happened, ns
  Verdict verdict;
};

Job::~Job() {
  for (const Process &process : processes)
    if (process.pid > 0 && !process.ended) {
      kill(process.pid, SIGKILL);
      waitpid(process.pid, nullptr, 0);
    }
}

bool Job::forkRanks() {
  llvm::Expected<bootstrap::Star> star = bootstrap::Star::make(fault.ranks);
  if (!star)
    return problem(llvm::toString(star.takeError())), false;
  for (int64_t r = 0; r < fault.ranks; ++r) {
    const pid_t pid = cli::forkChild([&] {
      runFaultRank(fault, r, fault.place ? std::vector<int>() : star->keep(r), pool,
                   reports[size_t(r)]);
      return 0;
    });
    if (pid < 0)
      problem(fmt::format("no fork: {}", strerror(errno)));
    processes[size_t(r)].pid = pid;
  }
  return verdict.problem.empty();
}

/// Which ranks have ended or stopped.
void Job::look() {
  for (int64_t r = 0; r < fault.ranks; ++r) {
    Process &process = processes[size_t(r)];
    int status = 0;
    if (process.ended || waitpid(process.pid, &status, WNOHANG | WUNTRACED) <= 0)
      continue;
    if (WIFSTOPPED(status)) {
      process.stopped = true;
      // It may get there only when the others have long gone.
      if (released)
        kill(process.pid, fault.killStopped ? SIGKILL : SIGCONT);
    } else {
      process.ended = true;
      process.status = status;
      const bool wanted = r == fault.victim && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      if (status != 0 && !wanted)
        problem(WIFSIGNALED(status)
                    ? fmt::format("rank {} was killed by signal {}", r, WTERMSIG(status))
                    : fmt::format("rank {} ended with status {}", r, WEXITSTATUS(status)));
    }
    if (r == fault.victim && struck == 0 && (process.stopped || status != 0))
      struck = nowNanoseconds();
  }
}

bool Job::waitUntil(const std::function<bool()> &ready, const char *what) {
  while (!ready()) {
    look();
    if (!verdict.problem.empty())
      return false;
    if (nowNanoseconds() - begun > std::chrono::nanoseconds(longestCase).count()) {
      problem(
          fmt::format("HANG: {} took more than {} ms; {}", what, longestCase.count(), whereAll()));
      return false;
    }
    usleep(100);
  }
  look();
  return true;
}

std::string Job::whereAll() const {
  std::string text;
  for (int64_t r = 0; r < fault.ranks; ++r) {
    const Process &process = processes[size_t(r)];
    const RankReport &report = reports[size_t(r)];
    text += fmt::format("\n  rank {}: {}, launch {}{}", r, name(report.phase.load()),
                        report.launches.load(),
                        process.ended     ? ", ended"
                        : process.stopped ? ", stopped"
                                          : "");
    if (report.failedAt.load())
      text += fmt::format("; error after {} ms: {}", (report.failedAt.load() - begun) / 1'000'000,
                          report.text);
    if (report.rebuildsAt.load())
      text +=
          fmt::format("; rebuild after {} ms: {}", (report.rebuildsAt.load() - begun) / 1'000'000,
                      report.refused[0] ? std::string(report.refused)
                                        : fmt::format("{} ranks", report.newRanks.load()));
  }
  return text;
}

/// Signals the victim, if it does not do that itself.
void Job::strike() {
  if (fault.point)
    return;
  if (!fault.early && !waitUntil(
                          [&] {
                            for (int64_t r = 0; r < fault.ranks; ++r)
                              if (reports[size_t(r)].phase.load() == Phase::Joining)
                                return false;
                            return true;
                          },
                          "joining"))
    return;
  usleep(useconds_t(fault.after.count()));
  struck = nowNanoseconds();
  if (fault.link >= 0)
    return setLink("down");
  kill(processes[size_t(fault.victim)].pid, fault.action == Action::Kill ? SIGKILL : SIGSTOP);
}

void Job::setLink(const char *how) {
  const std::string command = fmt::format("{} {} {}", fault.linkCommand, how, fault.link);
  if (const int status = std::system(command.c_str()); status != 0)
    problem(fmt::format("'{}' ended with {}", command, status));
}

/// When all know it, the link is up again and they may go on.
void Job::bringLinkUp() {
  auto known = [&] {
    for (int64_t r = 0; r < fault.ranks; ++r)
      if (reports[size_t(r)].phase.load() < Phase::Failed && !hasLeft(r))
        return false;
    return true;
  };
  waitUntil(known, "noticing the link");
  setLink("up");
  for (int64_t r = 0; r < fault.ranks; ++r)
    reports[size_t(r)].mayRebuild.store(true);
}

/// Lets a stopped victim go on, or ends it.
void Job::release() {
  released = true;
  if (fault.victim < 0)
    return;
  const Process &victim = processes[size_t(fault.victim)];
  if (!victim.ended && fault.action == Action::Stop)
    kill(victim.pid, fault.killStopped && victim.stopped ? SIGKILL : SIGCONT);
}

void Job::judgeSurvivor(int64_t rank) {
  const RankReport &report = reports[size_t(rank)];
  const RankReport *first = nullptr; ///< the first survivor that had an error
  for (int64_t r = 0; r < fault.ranks && !first; ++r)
    if (isSurvivor(r) && reports[size_t(r)].failedAt.load())
      first = &reports[size_t(r)];
  if (report.problem[0])
    return problem(fmt::format("rank {}: {}", rank, report.problem));
  if (!report.failedAt.load()) {
    // Fine only for one who had nothing left to do with the victim.
    if (!mayEndWell())
      problem(fmt::format("rank {} ended without an error", rank));
    return;
  }
  if (fault.link >= 0)
    return judgeAfterLink(rank);
  // Over TCP who dies before it is known is one who did not come.
  const bool isMissed = fault.place && report.failedToJoin;
  const Failure expected =
      fault.action == Action::Stop || (isMissed && report.category == int32_t(Failure::Timeout))
          ? Failure::Timeout
          : Failure::Machine;
  if (report.category != int32_t(expected) || report.culprit != fault.victim)
    return problem(fmt::format("rank {} has category {} and culprit {}, expected {} and {}: {}",
                               rank, report.category, report.culprit, int(expected), fault.victim,
                               report.text));
  // While ranks meet, each may know it from another; hosts may notice it at once.
  if (!fault.place && !report.failedToJoin && !first->failedToJoin &&
      strcmp(report.text, first->text) != 0)
    return problem(
        fmt::format("two survivors, two errors: '{}' and '{}'", report.text, first->text));
  // What happened in the victim itself is seen a moment later; closing is not seen at all.
  const int64_t since = struck ? struck : reports[size_t(fault.victim)].lastStep.load();
  const auto took = std::chrono::duration_cast<Milliseconds>(
      std::chrono::nanoseconds(report.failedAt.load() - since));
  verdict.slowest = std::max(verdict.slowest, took);
  const Milliseconds allowed = isMissed                       ? hostsTimeout + deathKnown
                               : fault.action == Action::Kill ? deathKnown
                               : fault.place                  ? hostsTimeout + deathKnown
                               : fault.action == Action::Stop ? stoppedTimeout + Milliseconds(1000)
                                                              : deathKnown;
  if (took > allowed)
    problem(fmt::format("rank {} had its error after {} ms, {} are allowed: {}", rank, took.count(),
                        allowed.count(), report.text));
  if (report.failedToJoin)
    return; // there was no communicator yet
  // While rank 0 is stopped, hosts cannot decide alike; that is said, and waiting ends.
  if (fault.place && fault.action == Action::Stop && fault.victim == 0 && !report.newRanks.load() &&
      llvm::StringRef(report.refused).contains("process of rank 0"))
    return;
  if (!report.newRanks.load())
    return problem(fmt::format("rank {} was refused by rebuild: {}", rank, report.refused));
  ++verdict.survivorsRebuilt;
  if (mayEndWell() ? report.newRanks.load() >= fault.ranks
                   : report.newRanks.load() != countJoined(rank))
    problem(fmt::format("rank {} goes on with {} ranks, not {}", rank, report.newRanks.load(),
                        countJoined(rank)));
}

/// Without rank 0 those of a host reach nobody else.
int64_t Job::countJoined(int64_t rank) const {
  int64_t count = 0;
  for (int64_t r = 0; r < fault.ranks; ++r)
    count += isSurvivor(r) && !reports[size_t(r)].failedToJoin &&
             (fault.victim != 0 || isNearTo(r, rank));
  return count;
}

/// No rank is to blame, and all go on.
void Job::judgeAfterLink(int64_t rank) {
  const RankReport &report = reports[size_t(rank)];
  if (report.category != int32_t(Failure::Machine) ||
      !llvm::StringRef(report.text).contains(fault.place->nic))
    return problem(fmt::format("rank {} does not name a NIC, category {}: {}", rank,
                               report.category, report.text));
  const auto took = std::chrono::duration_cast<Milliseconds>(
      std::chrono::nanoseconds(report.failedAt.load() - struck));
  verdict.slowest = std::max(verdict.slowest, took);
  if (took > hostsTimeout)
    return problem(fmt::format("rank {} had its error after {} ms, {} are allowed: {}", rank,
                               took.count(), hostsTimeout.count(), report.text));
  if (report.newRanks.load() != fault.ranks)
    return problem(fmt::format("rank {} goes on with {} ranks, not {}: {}", rank,
                               report.newRanks.load(), fault.ranks, report.refused));
  ++verdict.survivorsRebuilt;
}

/// Who was stopped and goes on. One that lives has the error of all, and nobody goes on with it.
void Job::judgeVictim() {
  if (fault.victim < 0)
    return;
  const Process &victim = processes[size_t(fault.victim)];
  const RankReport &report = reports[size_t(fault.victim)];
  if (WIFSIGNALED(victim.status))
    return;
  if (report.problem[0])
    return problem(fmt::format("rank {} (the victim): {}", fault.victim, report.problem));
  if (!report.failedAt.load()) {
    if (!mayEndWell())
      problem(fmt::format("rank {} (the victim) ended without an error", fault.victim));
    return;
  }
  for (int64_t r = 0; r < fault.ranks; ++r)
    if (!fault.place && isSurvivor(r) && reports[size_t(r)].failedAt.load() &&
        !reports[size_t(r)].failedToJoin && !report.failedToJoin &&
        strcmp(reports[size_t(r)].text, report.text) != 0)
      return problem(fmt::format("the victim has another error than rank {}: '{}' and '{}'", r,
                                 report.text, reports[size_t(r)].text));
  // Alone it may, if nobody else ever was in that communicator.
  if (report.newRanks.load() > 1 || (report.newRanks.load() && countJoined(fault.victim) > 0))
    problem(
        fmt::format("the victim goes on in a communicator of {} ranks", report.newRanks.load()));
}

void Job::judge() {
  for (int64_t r = 0; r < fault.ranks; ++r)
    verdict.failed |= reports[size_t(r)].failedAt.load() != 0;
  if (fault.point && struck == 0 && !verdict.failed &&
      (fault.action != Action::Close || fault.point != Point::Destroy)) {
    // Nobody passed the point often enough, so all must be well.
    verdict.reached = false;
    for (int64_t r = 0; r < fault.ranks; ++r)
      if (reports[size_t(r)].problem[0])
        problem(fmt::format("rank {}: {}", r, reports[size_t(r)].problem));
    return;
  }
  for (int64_t r = 0; r < fault.ranks; ++r)
    if (isSurvivor(r))
      judgeSurvivor(r);
  judgeVictim();
}

Verdict Job::run() {
  if (!forkRanks())
    return verdict;
  strike();
  if (fault.link >= 0)
    bringLinkUp();
  auto survivorsLeft = [&] {
    for (int64_t r = 0; r < fault.ranks; ++r)
      if (isSurvivor(r) && !hasLeft(r))
        return false;
    return true;
  };
  if (!waitUntil(survivorsLeft, "the survivors' part"))
    return verdict;
  release();
  auto allEnded = [&] {
    return std::all_of(processes.begin(), processes.end(),
                       [](const Process &p) { return p.ended; });
  };
  if (!waitUntil(allEnded, "ending"))
    return verdict;
  judge();
  if (waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD)
    problem("there are processes left");
  return verdict;
}

} // namespace

std::string_view name(Phase phase) {
  switch (phase) {
  case Phase::Joining: return "joins";
  case Phase::Launching: return "launches";
  case Phase::Failed: return "had an error";
  case Phase::Rebuilding: return "rebuilds";
  case Phase::Checking: return "goes on";
  case Phase::Left: return "is done";
  }
  return "?";
}

int64_t nowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string FaultCase::str() const {
  if (link >= 0)
    return fmt::format("link of host {} down {} us after all had joined (seed {})", link,
                       after.count(), seed);
  static constexpr std::string_view verbs[] = {"kill", "stop", "close"};
  std::string where;
  if (point)
    for (const faults::PointRow &row : faults::points())
      if (row.point == *point)
        where = fmt::format("at {}, time {}", row.name, nth);
  if (!point)
    where = fmt::format("{} us after {}", after.count(), early ? "the start" : "all had joined");
  return fmt::format("{} rank {} of {} {} (seed {})", verbs[size_t(action)], victim, ranks, where,
                     seed);
}

Verdict runFaultCase(const FaultCase &fault, const Pool &pool) {
  Job job(fault, pool);
  Verdict verdict = job.run();
  if (!verdict.problem.empty())
    verdict.problem += job.whereAll();
  return verdict;
}

} // namespace ccl::soak
