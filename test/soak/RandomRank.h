//===- RandomRank.h - What one rank does at random ------------------------------------===//
//
// Dice that all ranks of a communicator throw alike decide what they do together; dice of a
// rank's own decide where its memory is and when it sleeps.
//===----------------------------------------------------------------------===//
#pragma once

#include "test/soak/Dice.h"
#include "test/soak/Launches.h"
#include "test/soak/Pool.h"

#include <atomic>

namespace ccl::soak {

/// Lies in memory that all processes share.
struct RandomTally {
  std::atomic<int64_t> launches; ///< counted once for all ranks
  std::atomic<int64_t> wrong;    ///< ranks of launches
  std::atomic<int64_t> failures;
  std::atomic<int64_t> communicators, concurrent, orphans; ///< made; used by a second thread;
                                                           ///< left by their parent
  std::atomic<int64_t> symmetric, uneven, inPlace;         ///< launches
  std::atomic<int64_t> progress;
};

class RandomRank {
public:
  /// `again` is how to see it again, for messages.
  RandomRank(const Pool &pool, RandomTally &tally, Dice own, Milliseconds timeout,
             std::string again);

  /// Does so many launches, and other things in between, on a communicator and on others that are
  /// made of it; then that is gone. Members whose `common` are alike do the same.
  llvm::Error live(std::unique_ptr<Member> member, Dice common, int64_t launches, int depth = 0);

private:
  llvm::Error act(Member &member, Dice &common, int64_t launches, int depth);
  llvm::Error launchOne(Member &member, Dice &common);
  llvm::Error exchangeWords(Member &member, Dice &common);
  llvm::Error allocate(Member &member, Dice &common);
  llvm::Error onTwoThreads(Member &member, Dice &common, int64_t launches, int depth);
  llvm::Error inGroups(Member &member, Dice &common, int64_t launches, int depth);
  llvm::Expected<std::unique_ptr<Member>> split(Member &member, Dice &common, int64_t &color);
  Launch rollLaunch(int64_t ranks, Dice &common) const;
  Memory rollMemory(const Launch &launch, int64_t rank);
  void dawdle();
  void sayWrong(const std::string &what) const;

  const Pool &pool;
  RandomTally &tally;
  Dice own;
  const Milliseconds timeout;
  const std::string again;
  LaunchingRank buffers;
  std::vector<SymmetricBuffer> symmetric; ///< of the communicator in use
};

} // namespace ccl::soak
