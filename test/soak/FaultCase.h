//===- FaultCase.h - One job of which one rank fails -------------------------------------===//
//
// A process that is no rank forks the ranks, lets one of them fail, and judges what the others
// report: the same error everywhere, soon enough, with the right culprit; a communicator of
// those that are left which computes right; nothing left behind.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Faults.h"
#include "test/soak/Crew.h"
#include "test/soak/Footprint.h"
#include "test/soak/Hosts.h"
#include "test/soak/Pool.h"

namespace ccl::soak {

struct FaultCase {
  int64_t ranks = 2, victim = 0;
  faults::Action action = faults::Action::Kill;
  /// At this point for the nth time; nothing: `after` the last rank has joined, or after the
  /// first was forked (`early`).
  std::optional<faults::Point> point;
  uint64_t nth = 1;
  std::chrono::microseconds after{0};
  bool early = false;
  uint64_t seed = 1;        ///< of what the ranks launch
  int64_t launches = 16;    ///< each rank's, if nothing goes wrong; random cases go on for ever
  bool killStopped = false; ///< what was stopped is killed afterwards, not continued
  std::optional<HostsPlace> place{}; ///< ranks are of several hosts
  int64_t link = -1; ///< no rank fails, the link of this host's NIC goes down; `victim` is -1
  std::string linkCommand{}; ///< "COMMAND down 1", "COMMAND up 1" does it

  std::string str() const;
};

/// How long a call takes at most when a rank was stopped; when it is dead, that is noticed.
constexpr Milliseconds stoppedTimeout{1000}, deadTimeout{20000};
/// The same over NICs, whatever happens.
constexpr Milliseconds hostsTimeout{5000};

enum class Phase : int32_t { Joining, Launching, Failed, Rebuilding, Checking, Left };
std::string_view name(Phase phase);

/// What a rank says; lies in memory that it shares with who judges it.
struct RankReport {
  std::atomic<Phase> phase;
  std::atomic<int64_t> launches; ///< begun
  std::atomic<int64_t> lastStep; ///< when it last began one, or to join, ns
  // The error of the communicator. `failedAt` 0: none so far.
  std::atomic<int64_t> failedAt;
  bool failedToJoin;
  int32_t category;
  int64_t culprit;
  char text[2560];
  // After it.
  std::atomic<bool> mayRebuild; ///< the link is up again, if that was it
  std::atomic<int64_t> rebuildsAt;
  std::atomic<int64_t> newRanks; ///< of the rebuilt communicator, 0 if there is none
  std::atomic<int64_t> rightLaunches;
  char refused[1024]; ///< what rebuild answered, if that was an error
  char problem[2048]; ///< what should not be: wrong results, another error than the first, leaks
};

/// The part of one rank, in its own process.
void runFaultRank(const FaultCase &fault, int64_t rank, std::vector<int> sockets, const Pool &pool,
                  RankReport &report);

struct Verdict {
  std::string problem;     ///< "": all is as it should be
  bool reached = true;     ///< false: nobody passed the point so often
  bool failed = false;     ///< some rank had an error
  Milliseconds slowest{0}; ///< from the fault to the last survivor's error
  int64_t survivorsRebuilt = 0;
};
/// Runs it. At its end there are no children.
Verdict runFaultCase(const FaultCase &fault, const Pool &pool);

int64_t nowNanoseconds();

} // namespace ccl::soak
