//===- FaultRank.cpp - What a rank does until something happens, and then -----------------===//
#include "runtime/rdma/Nic.h"
#include "test/soak/Dice.h"
#include "test/soak/FaultCase.h"
#include "test/soak/Launches.h"

#include <unistd.h>

#include <cstring>

namespace ccl::soak {
namespace {

constexpr int64_t mostRowBytes = 4 << 20;
/// A stopped rank is waited for in vain, as it might come.
constexpr Milliseconds rebuildTimeout{1000}, rebuildTimeoutOfDead{8000};

template <size_t n>
void note(char (&to)[n], const std::string &text) {
  if (!to[0])
    std::strncpy(to, text.c_str(), n - 1);
}

class FaultRank {
public:
  FaultRank(const FaultCase &fault, int64_t rank, const Pool &pool, RankReport &report)
      : fault(fault), rank(rank), pool(pool), report(report), buffers(mostRowBytes + rowMargin),
        timeout(fault.place                            ? hostsTimeout
                : fault.action == faults::Action::Stop ? stoppedTimeout
                                                       : deadTimeout) {}
  void run(std::vector<int> sockets);

private:
  void enter(Phase phase) {
    if (phase <= Phase::Launching)
      report.lastStep.store(nowNanoseconds());
    report.phase.store(phase);
  }
  void problem(const std::string &text) { note(report.problem, text); }
  void failed(llvm::Error error, bool joining);
  llvm::Expected<std::string> launch(Member &member, Dice dice);
  bool launchUntilError(Member &member);
  void expectFirstError(Member &member);
  void rebuild(std::unique_ptr<Member> old);

  const FaultCase &fault;
  const int64_t rank;
  const Pool &pool;
  RankReport &report;
  LaunchingRank buffers;
  const Milliseconds timeout;
};

void FaultRank::failed(llvm::Error error, bool joining) {
  report.category = -1;
  report.culprit = -1;
  llvm::handleAllErrors(
      std::move(error),
      [&](const RuntimeError &e) {
        report.category = int32_t(e.category);
        report.culprit = e.culprit;
        note(report.text, e.message);
      },
      [&](const llvm::ErrorInfoBase &e) { note(report.text, e.message()); });
  report.failedToJoin = joining;
  report.failedAt.store(nowNanoseconds());
  enter(Phase::Failed);
}

/// A random launch, the same on all ranks. Returns what is wrong with its result, or "".
llvm::Expected<std::string> FaultRank::launch(Member &member, Dice dice) {
  const Compiled &program = dice.pick(pool.ofRanks(member.ranks()));
  Launch launch;
  launch.program = &program;
  const int64_t most = dice.chance(20) ? 30000 : 700;
  launch.lengths = dice.below(std::min(most, mostElements(program, mostRowBytes)));
  launch.inPlace = dice.chance(50);
  launch.round = dice.next();
  launch.microBatches = dice.chance(20) ? 3 : 0;
  launch.timeout = timeout;
  llvm::Expected<Findings> found = buffers.run(member, launch);
  if (!found)
    return found.takeError();
  return found->any() ? fmt::format("{}: {}", launch.command("processes"), found->str()) : "";
}

/// True if it ended with an error.
bool FaultRank::launchUntilError(Member &member) {
  for (int64_t i = 0; !fault.point || i < fault.launches; ++i) {
    report.launches.store(i + 1);
    enter(Phase::Launching);
    llvm::Expected<std::string> wrong = launch(member, Dice(fault.seed, uint64_t(i)));
    if (!wrong) {
      failed(wrong.takeError(), false);
      return true;
    }
    if (!wrong->empty())
      problem(*wrong);
  }
  return false;
}

/// A dead communicator answers every call alike.
void FaultRank::expectFirstError(Member &member) {
  const std::string first(report.text);
  auto expect = [&](const char *call, const std::string &text) {
    if (text != first)
      problem(fmt::format("{} after the error says '{}'", call, text));
  };
  std::optional<RuntimeError> failure = member.failure();
  expect("failure()", failure ? failure->message : "nothing");
  expect("exchange()", llvm::toString(member.exchange({}, timeout).takeError()));
  expect("allocate()", llvm::toString(member.allocate(64, timeout).takeError()));
  expect("split()", llvm::toString(member.split(0, 0, timeout).takeError()));
}

void FaultRank::rebuild(std::unique_ptr<Member> old) {
  while (fault.link >= 0 && !report.mayRebuild.load())
    usleep(1000);
  enter(Phase::Rebuilding);
  report.rebuildsAt.store(nowNanoseconds());
  llvm::Expected<std::unique_ptr<Member>> made =
      old->rebuild(fault.action == faults::Action::Stop ? rebuildTimeout : rebuildTimeoutOfDead);
  if (!made) {
    note(report.refused, llvm::toString(made.takeError()));
    return;
  }
  Member &member = **made;
  report.newRanks.store(member.ranks());
  enter(Phase::Checking);
  // The old one may go before the new one or after it.
  if (fault.seed % 2)
    old.reset();
  for (uint64_t i = 0; i < 4; ++i) {
    llvm::Expected<std::string> wrong = launch(member, Dice(fault.seed ^ 0x5eed, i));
    if (!wrong || !wrong->empty())
      return problem("after rebuild: " + (wrong ? *wrong : llvm::toString(wrong.takeError())));
    report.rightLaunches.store(int64_t(i) + 1);
  }
  // Nobody leaves before all have what they want: there is no barrier at the end of a launch.
  if (llvm::Error error = member.exchange({}, timeout).takeError())
    problem("after rebuild: " + llvm::toString(std::move(error)));
}

void FaultRank::run(std::vector<int> sockets) {
  JoinOptions joining;
  if (fault.place) {
    joining = fault.place->joining(rank, timeout);
    // What libibverbs keeps is there from now on.
    if (auto nics = joining.nics(); !nics)
      return failed(nics.takeError(), true);
  }
  Footprint before = Footprint::now();
  before.descriptors -= int64_t(sockets.size()); // join closes them
  if (fault.point && rank == fault.victim)
    faults::arm(faults::Fault{*fault.point, rank, fault.action, {}, fault.nth});
  else
    faults::arm(std::nullopt);
  joining.rank = rank;
  joining.ranks = fault.ranks;
  joining.sockets = std::move(sockets);
  // Where nothing happens then, time does not matter.
  joining.timeout = fault.point || fault.early ? timeout : deadTimeout;
  enter(Phase::Joining);
  llvm::Expected<std::unique_ptr<Member>> member = Member::join(std::move(joining));
  if (!member) {
    failed(member.takeError(), true);
  } else if (launchUntilError(**member)) {
    expectFirstError(**member);
    rebuild(std::move(*member));
  } else {
    member->reset();
  }
  if (std::string more = Footprint::now().growthSince(before); !more.empty())
    problem("left behind: " + more);
  enter(Phase::Left);
}

} // namespace

void runFaultRank(const FaultCase &fault, int64_t rank, std::vector<int> sockets, const Pool &pool,
                  RankReport &report) {
  FaultRank(fault, rank, pool, report).run(std::move(sockets));
}

} // namespace ccl::soak
