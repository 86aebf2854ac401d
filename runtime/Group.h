//===- Group.h - One rank's view of a control block ---------------------------===//
//
// Entering operations together, waiting for each other, failing together. It knows nothing
// of programs. docs/protocol.md is the protocol in words.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Agreement.h"
#include "runtime/Backoff.h"
#include "runtime/Member.h"
#include "runtime/World.h"

#include <functional>

namespace ccl {

/// What a time-out says of ranks that only were slow: `rank` went on less than `agoMs`
/// milliseconds before.
std::string describeSlow(int64_t rank, int64_t agoMs, int64_t microBatches);

class Group final : private World::Listener {
public:
  /// `control` lies in memory of `world`.
  Group(std::shared_ptr<World> world, ControlBlock *control, int64_t rank);
  /// Leaves: others hear of it, and the block lives until the last has left.
  ~Group() override;
  /// What this rank gives back once all have left.
  void giveBack(std::vector<Block> blocks) { leftovers = std::move(blocks); }
  Group(const Group &) = delete;

  const int64_t rank, ranks;
  World &world() { return *theWorld; }
  const std::shared_ptr<World> &sharedWorld() const { return theWorld; }
  int64_t worldRank(int64_t r) const { return control.worldRanks()[r]; }
  ControlBlock &block() { return control; }
  RankState &self() { return control.rank(rank); }

  // Failing. The first failure is kept and ends every wait of every rank.
  void fail(Failure category, std::string text, int64_t culprit = -1);
  llvm::Error fail(llvm::Error error);
  bool hasFailed() const { return control.failedBy.load(std::memory_order_acquire) != 0; }
  std::optional<RuntimeError> failure() const;
  llvm::Error firstFailure() const;

  // Operations. `begin` gives the announcement to fill, which begins as `start`; `enter`
  // publishes it, waits for all and compares. `what` names the operation in reports.
  Announcement &begin(Operation operation, Milliseconds timeout, std::function<std::string()> what,
                      const Announcement &start = {});
  llvm::Error enter();
  /// A barrier within the operation under way, of which it keeps the deadline. It is an
  /// operation of its own for all that waits.
  llvm::Error meet(Operation operation, std::function<std::string()> what);
  void end() { self().done.store(operation, std::memory_order_release); }
  size_t parity() const { return operation % 2; }
  /// Of the operation under way, from 1.
  uint64_t number() const { return operation; }
  /// Whether this process reaches the memory of rank r.
  bool isNear(int64_t r) const;
  const Announcement &announcement(int64_t r) const {
    return control.rank(r).announcements[parity()];
  }
  enum class Wait : int32_t { Done = 0, Aborted = 1, TimedOut = 2 };
  /// Whom some part of this rank waits for, and which part that is: see KernelArgs. Agent -1:
  /// what is said there is right.
  struct Awaited {
    int32_t peer;
    int64_t agent = -1, instruction = 0;
  };
  using AwaitedPeers = llvm::function_ref<llvm::ArrayRef<Awaited>()>;
  /// Waits until ready(). `peer` is whom it waits for, for the reports of others;
  /// describe() says in our own what is missing.
  template <typename Ready, typename Describe>
  Wait waitUntil(int32_t peer, Ready ready, Describe describe) {
    const Awaited one{peer};
    return waitUntil([&one] { return llvm::ArrayRef<Awaited>(one); }, ready, describe);
  }
  /// The same for something of any of peers(), which are asked for if it takes long. Reports
  /// name one, waitedFor(): who seems to hold this rank up.
  template <typename Ready, typename Describe>
  Wait waitUntil(AwaitedPeers peers, Ready ready, Describe describe);
  int32_t waitedFor() const { return lastPeer; }

  /// Whom this rank waited for last: "rank 1", "all ranks", "".
  std::string lastWait() const;
  /// See Member.
  std::optional<std::string> notRunning(int64_t r) const;
  /// What every rank but this one does, for reports.
  std::string describeOthers() const;

private:
  void onGone(int64_t worldRank, const std::string &how) override;
  /// On the slow path of a wait: false if it is over.
  bool keepWaiting(AwaitedPeers peers, Clock::time_point now,
                   llvm::function_ref<std::string()> describe);
  /// Tells others whom this rank waits for, the one of `peers` that most likely is to blame.
  void publishWait(llvm::ArrayRef<Awaited> peers);
  struct Blame {
    int64_t rank = -1;
    std::string why;
    /// Ranks that wait, or work; empty if what is said does not depend on whether they go on.
    std::vector<int64_t> alive{};
  };
  /// Who is at the end of the chain of ranks that wait for each other.
  Blame findCulprit(int32_t peer) const;
  Blame findCulprit(llvm::ArrayRef<Awaited> peers) const;
  /// The same after a second look: nobody, if those who seem to hold this rank up still go on.
  Blame judge(llvm::ArrayRef<Awaited> peers, Clock::time_point now);
  /// What a time-out says.
  std::string describeTimeout(const std::string &missing, const Blame &blame) const;
  /// How far a rank has come.
  struct Progress {
    uint64_t entered = 0, turns = 0;
    int64_t microBatch = 0;
    bool operator==(const Progress &) const = default;
  };
  Progress progressOf(int64_t r) const;
  /// Notes which ranks have gone on since the last look.
  void lookAround(Clock::time_point now);
  int64_t firstMissing(uint64_t operation) const;
  std::string describeMissing() const;
  std::string describeRank(int64_t r) const;
  void leaveWait();
  /// Tells others that this rank goes on.
  void countTurn();
  /// The deadline of what begins now.
  void setDeadline(Milliseconds timeout);

  std::shared_ptr<World> theWorld;
  ControlBlock &control;
  SpinBudget spinBudget;
  uint64_t operation = 0;
  std::function<std::string()> what; ///< names the operation under way
  std::vector<const Announcement *> announced;
  Milliseconds timeout{0};
  Clock::time_point begun, deadline;
  bool published = false, reported = false; ///< of the wait under way
  Clock::time_point nextLook;               ///< at who is to blame
  struct Sight {
    Progress progress;
    Clock::time_point since; ///< seen like that
  };
  std::vector<Sight> sights; ///< of every rank, if some wait took long
  int32_t lastPeer = waitsForNobody;
  mutable std::mutex failureMutex;
  bool wroteRecord = false;
  std::vector<Block> leftovers;
};

template <typename Ready, typename Describe>
Group::Wait Group::waitUntil(AwaitedPeers peers, Ready ready, Describe describe) {
  Backoff backoff(spinBudget.spins());
  Wait result = Wait::Done;
  while (!ready()) {
    if (!backoff.pause())
      continue;
    if (hasFailed()) {
      result = Wait::Aborted;
      break;
    }
    const Clock::time_point now = Clock::now();
    if (keepWaiting(peers, now, describe))
      continue;
    // Whoever looks last may still find it done; a late result is a result.
    if (ready())
      break;
    const Blame blame = judge(peers(), now);
    fail(Failure::Timeout, describeTimeout(describe(), blame), blame.rank);
    result = Wait::TimedOut;
    break;
  }
  spinBudget.learn(backoff);
  if (published)
    leaveWait();
  return result;
}

} // namespace ccl
