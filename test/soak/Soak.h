//===- Soak.h - Long runs that look for what is wrong ---------------------------------===//
//
// Each verb says what is wrong on stdout, a line each, then a summary; progress goes to stderr.
// Exit status: 0 nothing is wrong, 1 something is, 2 usage, 3 something failed.
//===----------------------------------------------------------------------===//
#pragma once

#include "test/soak/Crew.h"
#include "test/soak/Hosts.h"
#include "test/soak/Units.h"

namespace ccl::soak {

/// Every of-th thing, from the number-th on, which is at least 1.
struct Part {
  int64_t number = 1, of = 1;
};

struct MatrixOptions {
  UnitFilter filter;
  std::optional<int64_t> sample; ///< pairwise, at most so many programs (0: as needed)
  uint64_t seed = 1;
  Part part; ///< of the programs
  std::vector<Kind> kinds;
  int64_t jobs = 1;
  Milliseconds timeout{30000};
};
/// Collectives x generators x types x reductions x counts x ranks x forms x kinds of ranks; on
/// the stand-in x protocols x instances.
int runMatrix(const MatrixOptions &options);

struct RandomOptions {
  int64_t collectives = 20000; ///< launches for each kind of ranks
  uint64_t seed = 1;
  int64_t ranks = 4;
  int64_t onlyEpoch = -1; ///< to see one again
  std::vector<Kind> kinds;
  Milliseconds timeout{30000};
};
/// Random programs, sizes, forms, memory, sleeps; communicators that come and go.
int runRandom(const RandomOptions &options);

struct HostsOptions {
  HostsPlace place;
  UnitFilter filter;
  Part part; ///< of the programs
  std::vector<int64_t> counts{0, 1, 3, 17, 1023, 4097};
  int64_t largeCount = 100003; ///< once in each program, in turn in place and not; 0: not at all
  bool allPairs = true;        ///< every generator with all types and reductions, not in turn
  Milliseconds timeout{30000};
};
/// Collectives x generators x types x reductions x counts x forms on several hosts.
int runHostsMatrix(const HostsOptions &options);

struct LargeOptions {
  int64_t elements = 10556587;
  int64_t bytes = int64_t(5) << 30; ///< of the largest buffer; 0: without it
  bool onShim = false;              ///< only that, on the stand-in for GPUs
  std::vector<Kind> kinds;
  Milliseconds timeout{120000};
};
/// 10556587 elements of some types, and one buffer of 5 GiB.
int runLarge(const LargeOptions &options);

struct FaultOptions {
  int64_t kills = 100, stops = 100; ///< at random moments
  int64_t sample = -1;              ///< of the kill matrix; -1: all of it
  std::vector<int64_t> ranks{2, 3, 8};
  int64_t programs = 6; ///< for each number of ranks
  uint64_t seed = 1;
  int64_t jobs = 1;
  int64_t only = -1; ///< the number of a case, to see it again
  bool verbose = false;
  /// On several hosts: nothing but random moments, and links that go down.
  std::optional<HostsPlace> place;
  int64_t links = 0;
  std::string linkCommand; ///< "COMMAND down 1" takes the link of host 1 down, "up 1" brings it up
};
/// Ranks are killed, stopped, cut off, at random moments and at every fault point.
int runFaults(const FaultOptions &options);

} // namespace ccl::soak
