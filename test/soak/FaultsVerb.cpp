//===- FaultsVerb.cpp - soak faults: ranks die, stop and go deaf ----------------------------===//
#include "frontend/cli/Forked.h"
#include "test/soak/Dice.h"
#include "test/soak/FaultCase.h"
#include "test/soak/Soak.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

namespace ccl::soak {
namespace {

using faults::Action;
using faults::Point;

/// Of all cases; lies in memory that all workers share.
struct FaultTally {
  std::atomic<size_t> next;
  std::atomic<int64_t> progress, cases, wrong, hangs, notReached, unnoticed, rebuilt;
  std::atomic<int64_t> slowestDeath, slowestStop; ///< ms
};

class FaultSoak {
public:
  explicit FaultSoak(const FaultOptions &options) : options(options) {}
  int run();

private:
  void planRandom(Action action, int64_t count, uint64_t seed);
  void planLinks();
  void planMatrix();
  llvm::Error compilePrograms();
  void runCase(size_t number);
  void work();
  void summarize(double seconds) const;

  const FaultOptions &options;
  std::vector<FaultCase> cases;
  Pool pool;
  Shared<FaultTally> tally;
};

//===----------------------------------------------------------------------===//
// What to do
//===----------------------------------------------------------------------===//

void FaultSoak::planRandom(Action action, int64_t count, uint64_t seed) {
  for (int64_t i = 0; i < count; ++i) {
    Dice dice(seed, uint64_t(i));
    FaultCase fault;
    fault.ranks = dice.pick(options.ranks);
    fault.victim = dice.below(fault.ranks);
    fault.action = action;
    fault.early = dice.chance(15);
    // Most within the first few launches, where caches are cold and memory is new.
    fault.after = std::chrono::microseconds(dice.below(dice.chance(50) ? 2000 : 40000));
    fault.killStopped = dice.chance(25);
    fault.seed = dice.next();
    fault.place = options.place;
    cases.push_back(fault);
  }
}

void FaultSoak::planLinks() {
  for (int64_t i = 0; i < options.links; ++i) {
    Dice dice(options.seed * 3 + 2, uint64_t(i));
    FaultCase fault;
    fault.ranks = options.place->ranks();
    fault.victim = -1;
    fault.place = options.place;
    fault.link = dice.below(options.place->hosts);
    fault.linkCommand = options.linkCommand;
    fault.after = std::chrono::microseconds(dice.below(dice.chance(50) ? 2000 : 40000));
    fault.seed = dice.next();
    cases.push_back(fault);
  }
}

/// Every point, what can happen there, every rank, and for points that are passed again and
/// again three times.
void FaultSoak::planMatrix() {
  std::vector<FaultCase> all;
  for (int64_t ranks : options.ranks)
    for (const faults::PointRow &row : faults::points())
      for (Action action : {Action::Kill, Action::Stop, Action::Close})
        for (int64_t victim = 0; victim < ranks; ++victim) {
          const bool once = row.point == Point::Connect || row.point == Point::Exchange ||
                            row.point == Point::Destroy;
          for (uint64_t nth : once ? std::vector<uint64_t>{1} : std::vector<uint64_t>{1, 2, 5}) {
            // Rank 0 is who is connected to.
            if (row.point == Point::Connect && victim == 0)
              continue;
            FaultCase fault;
            fault.ranks = ranks;
            fault.victim = victim;
            fault.action = action;
            fault.point = row.point;
            fault.nth = nth;
            fault.seed = options.seed + all.size();
            fault.killStopped = all.size() % 4 == 0;
            // Not every launch has to wait in its kernel; a closed connection is not given up
            // at once.
            fault.launches = row.point == Point::MidSlot ? 2000
                             : action == Action::Close   ? 400
                                                         : 16;
            all.push_back(fault);
          }
        }
  if (options.sample > 0 && options.sample < int64_t(all.size())) {
    // Spread over all of them, and others for another seed.
    Dice(options.seed).shuffle(all);
    all.resize(size_t(options.sample));
  }
  cases.insert(cases.end(), all.begin(), all.end());
}

/// For each number of ranks that there can be, now or after a rebuild.
llvm::Error FaultSoak::compilePrograms() {
  int64_t most = 1;
  for (const FaultCase &fault : cases)
    most = std::max(most, fault.ranks);
  llvm::Expected<Pool> made = Pool::make(
      most, options.seed, [&](int64_t) { return options.programs; }, options.place.has_value());
  if (!made)
    return made.takeError();
  pool = std::move(*made);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Doing it
//===----------------------------------------------------------------------===//

void raise(std::atomic<int64_t> &most, int64_t value) {
  int64_t before = most.load();
  while (before < value && !most.compare_exchange_weak(before, value))
    ;
}

void FaultSoak::runCase(size_t number) {
  const FaultCase &fault = cases[number];
  const Footprint before = Footprint::now();
  Verdict verdict = runFaultCase(fault, pool);
  if (verdict.problem.empty())
    if (std::string more = Footprint::now().growthSince(before); !more.empty())
      verdict.problem = "left behind in the process that started the ranks: " + more;
  ++tally->cases;
  ++tally->progress;
  tally->notReached += !verdict.reached;
  tally->unnoticed += verdict.reached && !verdict.failed;
  tally->rebuilt += verdict.survivorsRebuilt > 0;
  raise(fault.action == Action::Stop ? tally->slowestStop : tally->slowestDeath,
        verdict.slowest.count());
  if (!verdict.problem.empty()) {
    ++tally->wrong;
    tally->hangs += verdict.problem.starts_with("HANG");
  }
  if (!verdict.problem.empty() || options.verbose)
    say(fmt::format("{}: case {}: {}{}{}", verdict.problem.empty() ? "fine" : "wrong", number,
                    fault.str(), verdict.problem.empty() ? "" : ": ", verdict.problem));
}

void FaultSoak::work() {
  for (size_t number; (number = tally->next++) < cases.size();)
    if (options.only < 0 || size_t(options.only) == number)
      runCase(number);
}

/// Folders where ranks of a host meet; they are gone with the job.
std::set<std::string> meetingPlaces() {
  std::set<std::string> found;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator("/tmp", error))
    if (const std::string name = entry.path().filename().string();
        name.starts_with("ccl-") && name.size() > 21 && name[20] == '-') // 16 digits of the job
      found.insert(entry.path().string());
  return found;
}

void FaultSoak::summarize(double seconds) const {
  say(fmt::format(
      "{} faults in {:.0f} s: {} wrong ({} hangs); {} points were not reached, {} faults "
      "harmed nobody, {} communicators rebuilt; known to all after at most {} ms if a "
      "rank died or went deaf, {} ms if it stopped (time-out {} ms)",
      tally->cases.load(), seconds, tally->wrong.load(), tally->hangs.load(),
      tally->notReached.load(), tally->unnoticed.load(), tally->rebuilt.load(),
      tally->slowestDeath.load(), tally->slowestStop.load(),
      (options.place ? hostsTimeout : stoppedTimeout).count()));
}

int FaultSoak::run() {
  if (!faults::enabled() && options.sample != 0) {
    say("this build has no fault points: CCL_FAULTS is off");
    return 3;
  }
  planRandom(Action::Kill, options.kills, options.seed * 3);
  planRandom(Action::Stop, options.stops, options.seed * 3 + 1);
  planLinks();
  if (options.sample != 0)
    planMatrix();
  if (llvm::Error error = compilePrograms()) {
    say("programs: " + llvm::toString(std::move(error)));
    return 3;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::vector<std::string> names = sharedMemoryNames();
  const std::set<std::string> places = meetingPlaces();
  const int64_t begun = nowNanoseconds();
  std::vector<pid_t> workers;
  for (int64_t job = 0; job < options.jobs; ++job) {
    const pid_t worker = cli::forkChild([&] {
      setpgid(0, 0);
      prctl(PR_SET_CHILD_SUBREAPER, 1);
      work();
      return 0;
    });
    if (worker > 0)
      workers.push_back(worker);
  }
  for (pid_t worker : workers)
    if (std::string ended = waitForChild(worker, tally->progress, Milliseconds(60000));
        !ended.empty()) {
      ++tally->wrong;
      say("wrong: a worker: " + ended);
    }
  if (waitpid(-1, nullptr, WNOHANG) >= 0) {
    ++tally->wrong;
    say("wrong: processes were left behind");
  }
  const double seconds = double(nowNanoseconds() - begun) * 1e-9;
  if (auto left = sharedMemoryLeftSince(names); !left.empty()) {
    ++tally->wrong;
    say(fmt::format("wrong: left in /dev/shm: {}", fmt::join(left, ", ")));
  }
  if (options.place)
    for (const std::string &place : meetingPlaces())
      if (!places.contains(place)) {
        ++tally->wrong;
        say("wrong: left behind: " + place);
      }
  summarize(seconds);
  return tally->wrong ? 1 : 0;
}

} // namespace

int runFaults(const FaultOptions &options) { return FaultSoak(options).run(); }

} // namespace ccl::soak
