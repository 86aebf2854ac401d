//===- Batch.h - Many launches on one communicator ----------------------------------===//
#pragma once

#include "test/soak/Crew.h"
#include "test/soak/Hosts.h"
#include "test/soak/Launches.h"

namespace ccl::soak {

/// What was found so far; lies in memory that all processes share.
struct Tally {
  std::atomic<int64_t> programs; ///< compiled and run
  std::atomic<int64_t> refusals; ///< of pairs that do not exist, as it should be
  std::atomic<int64_t> launches; ///< judged, over all ranks
  std::atomic<int64_t> wrong;    ///< launches with wrong elements, pairs that were not refused
  std::atomic<int64_t> failures; ///< launches or programs that ended with an error
  std::atomic<int64_t> progress; ///< grows as long as something happens
  std::atomic<int64_t> byCollective[uint32_t(model::Collective::Custom)]; ///< launches
  /// 0, 1 if something is wrong, 3 if something failed.
  int exitStatus() const { return wrong ? 1 : failures ? 3 : 0; }
};

/// Which launches a program gets.
struct LaunchSet {
  std::vector<int64_t> counts;
  int64_t uneven = 2;     ///< so many kinds of uneven ones, of `counts`
  int64_t largeCount = 0; ///< in one of the two forms, by turns; 0: none
  Milliseconds timeout{0};
};
/// All of `set`, uneven ones where they exist, in place and not. `number` makes them differ between
/// programs.
std::vector<Launch> matrixLaunches(const Compiled &program, int64_t number, const LaunchSet &set);

/// Runs launches of programs for the same ranks and slots. What is wrong is said in a line; after
/// an error the other launches of that program are left out.
void runBatch(const std::vector<Launch> &launches, Kind kind, Tally &tally);
/// The same on several hosts; judges what ranks of this machine get.
void runBatch(const std::vector<Launch> &launches, const HostsPlace &place, Tally &tally);

} // namespace ccl::soak
