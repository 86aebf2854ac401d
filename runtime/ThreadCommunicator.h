//===- ThreadCommunicator.h - Ranks as threads of one process ---------------===//
//
// A launch goes through four steps:
//   1. prepare: channels of the program (cached), form, cut, buffers;
//   2. enter: announce it, wait until every rank has, compare. This barrier costs
//      about a microsecond when ranks have cores of their own; it orders everything
//      that ranks publish for each other (buffer addresses, new scratch) and keeps
//      ranks less than one launch apart, so two sets of published values suffice;
//   3. run the kernel, whose waits come back here when they take long;
//   4. finish: copy out of stand-ins.
// There is no barrier at the end.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Agreement.h"
#include "runtime/Backoff.h"
#include "runtime/Channels.h"

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>

namespace ccl {

class ThreadCommunicator final : public Communicator {
public:
  ThreadCommunicator(int64_t ranks, CommunicatorOptions options);

  int64_t ranks() const override { return numRanks; }
  llvm::Error launch(int64_t rank, const std::shared_ptr<LoadedProgram> &program,
                     const LaunchArgs &args) override;
  llvm::Expected<SymmetricBuffer> allocate(int64_t rank, int64_t bytes,
                                           std::chrono::milliseconds timeout) override;
  void abort(std::string reason) override { fail(Failure::Aborted, std::move(reason)); }

private:
  /// What a program means for one rank.
  struct Prepared {
    std::weak_ptr<LoadedProgram> program;
    RankFacts facts;
    Kernel kernel = nullptr;
    std::vector<ChannelEnd *> channels;
  };

  static constexpr int32_t nobody = -1, everybody = -2;

  struct alignas(cacheLine) Rank {
    ThreadCommunicator *communicator = nullptr;
    int64_t rank = 0;
    std::atomic<bool> busy{false};
    std::unordered_map<const LoadedProgram *, Prepared> programs;
    RankMemory memory;

    // Of the launch under way; read by this rank's thread only.
    uint64_t launch = 0;
    const Plan *plan = nullptr;
    Clock::time_point begin, deadline;
    std::chrono::milliseconds timeout{0};

    std::vector<AlignedBuffer> symmetric; ///< blocks that allocate() gave out

    // Read by other ranks: after the barrier of the allocation with this parity ...
    std::array<int64_t, 2> symmetricBytes{};
    std::array<void *, 2> symmetricBlock{};
    // ... after the barrier of the launch with this parity ...
    std::array<Announcement, 2> announcements;
    std::array<std::vector<void *>, 2> pointers;
    // ... or at any time, for reports.
    alignas(cacheLine) std::atomic<uint64_t> entered{0}; ///< launches
    std::atomic<int32_t> waitsFor{nobody};
    std::atomic<int64_t> instruction{0};
  };

  enum class Wait : int32_t { Done = 0, Aborted = 1, TimedOut = 2 };

  llvm::Expected<Prepared *> prepare(Rank &self, const std::shared_ptr<LoadedProgram> &program);
  llvm::Error run(Rank &self, const std::shared_ptr<LoadedProgram> &program,
                  const LaunchArgs &args);
  llvm::Error enter(Rank &self);
  llvm::Expected<SymmetricBuffer> runAllocation(Rank &self, int64_t bytes);
  void setDeadline(Rank &self, std::chrono::milliseconds timeout);
  llvm::Error execute(Rank &self, const Prepared &prepared, const LaunchShape &shape);
  void trace(const Rank &self, const LaunchShape &shape, const LaunchArgs &args) const;

  /// Waits until ready(). `peer` and `instruction` are for the reports of others,
  /// describe() for our own.
  template <typename Ready, typename Describe>
  Wait waitUntil(Rank &self, int32_t peer, int64_t instruction, Ready ready, Describe describe);
  static int32_t waitInKernel(KernelArgs *args, ChannelEnd *end, uint64_t value);

  std::string describe(const Rank &self) const;
  std::string describeMissing(const Rank &self) const;
  std::string describeOthers(const Rank &self) const;

  /// The first failure is kept and ends every wait.
  void fail(Failure category, std::string message);
  llvm::Error fail(llvm::Error error);
  llvm::Error firstFailure() const;
  bool hasFailed() const { return failed.load(std::memory_order_acquire); }

  const int64_t numRanks;
  const CommunicatorOptions options;
  const bool crowded; ///< more ranks than cores
  ChannelSet channels;
  std::unique_ptr<Rank[]> states;
  /// By parity of the launch: every rank's pointers, for KernelArgs::peers.
  std::array<std::vector<void *const *>, 2> tables;

  alignas(cacheLine) std::atomic<uint64_t> arrivals{0}; ///< of all ranks, all launches
  std::atomic<uint64_t> allocations{0};                 ///< of all ranks
  alignas(cacheLine) std::atomic<bool> failed{false};
  mutable std::mutex failureMutex;
  Failure failureCategory = Failure::Aborted;
  std::string failureMessage;
};

} // namespace ccl
