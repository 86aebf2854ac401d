//===- RankMember.h - Launches and other operations of one rank ---------------===//
//
// A launch goes through four steps:
//   1. prepare: channels of the program (cached), form, cut, buffers;
//   2. enter: announce it, wait until every rank has, compare. This barrier costs
//      about a microsecond when ranks have cores of their own; it orders everything
//      that ranks publish for each other (buffer addresses, new scratch) and keeps
//      ranks less than one operation apart, so two sets of published values suffice;
//   3. run the kernel, whose waits come back here when they take long;
//   4. finish: copy out of stand-ins.
// There is no barrier at the end, unless the proof of the program asks for one: a rank could
// end before others have done with its memory.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Channels.h"
#include "runtime/FlightRecorder.h"
#include "runtime/Group.h"
#include "runtime/RankMemory.h"
#include "runtime/hosts/FarChannels.h"

#include <atomic>
#include <unordered_map>

namespace ccl {

/// What a rank records of its launches in all its communicators.
struct Recording {
  Recording(std::string prefix, int64_t worldRank)
      : prefix(std::move(prefix)), recorder(worldRank) {}
  /// Null without a prefix.
  static std::shared_ptr<Recording> make(const std::string &prefix, int64_t worldRank) {
    return prefix.empty() ? nullptr : std::make_shared<Recording>(prefix, worldRank);
  }
  const std::string prefix; ///< of the file
  FlightRecorder recorder;
};

class RankMember final : public Member {
public:
  /// `recording` may be null.
  RankMember(std::shared_ptr<World> world, ControlBlock *control, int64_t rank,
             std::shared_ptr<Recording> recording);
  ~RankMember() override;

  int64_t rank() const override { return group.rank; }
  int64_t ranks() const override { return group.ranks; }
  bool isDirect() const override { return direct; }
  llvm::Error launch(const std::shared_ptr<LoadedProgram> &program,
                     const LaunchArgs &args) override;
  llvm::Expected<SymmetricBuffer> allocate(int64_t bytes, Milliseconds timeout) override;
  llvm::Expected<std::vector<Words>> exchange(const Words &mine, Milliseconds timeout) override;
  llvm::Expected<std::unique_ptr<Member>> split(int64_t color, int64_t key,
                                                Milliseconds timeout) override;
  llvm::Expected<std::unique_ptr<Member>> rebuild(Milliseconds timeout) override;
  llvm::Error fail(llvm::Error error) override;
  void abort(std::string reason) override { group.fail(Failure::Aborted, std::move(reason)); }
  std::optional<RuntimeError> failure() const override { return group.failure(); }
  std::optional<std::string> notRunning(int64_t rank) const override {
    return group.notRunning(rank);
  }

  /// Only at the start, before others use it: what all ranks agreed on.
  void setDirect(bool value) { direct = value; }

private:
  /// What a program means for this rank.
  struct Prepared {
    std::weak_ptr<LoadedProgram> program;
    RankFacts facts;
    Kernel kernel = nullptr; ///< null: there is nothing to do, or `agents`
    std::unique_ptr<Agents> agents;
    Announcement announcement; ///< what all of it say alike
    std::string name;          ///< "ring (hash ab12)", if it is recorded
    bool resolved = false;     ///< after the first launch's entry
    std::vector<ChannelEnd *> channels;
    FarProgram far;
  };

  /// Runs body() if this member may be used now, and makes its error the communicator's.
  llvm::Error guarded(Milliseconds timeout, std::string_view what,
                      llvm::function_ref<llvm::Error()> body);
  llvm::Expected<Prepared *> prepare(const std::shared_ptr<LoadedProgram> &program);
  llvm::Error run(const std::shared_ptr<LoadedProgram> &program, const LaunchArgs &args);
  llvm::Error announce(Announcement &mine, const LaunchShape &shape, const LaunchArgs &args);
  /// The shards of an uneven launch. Those of an all_to_all follow from what all ranks
  /// state: that takes an operation of its own.
  llvm::Error findShards(const Prepared &prepared, const LaunchArgs &args);
  llvm::Error gatherCounts(const Prepared &prepared, const LaunchArgs &args,
                           std::vector<UnevenCounts> &counts);
  /// Memory that others read in the operation under way, by its parity.
  llvm::Expected<uint64_t *> sharedWords(size_t words);
  llvm::Error resolve(Prepared &prepared);
  llvm::Error execute(const Prepared &prepared, const LaunchShape &shape);
  llvm::Error checkHosts() const;
  std::string describeLaunch() const;
  llvm::Error executeBatches(const Prepared &prepared, KernelArgs &args);
  void reachPeers();
  void record(const Prepared &prepared, const LaunchShape &shape, const LaunchArgs &args);
  /// Writes the recording, once, after the communicator failed.
  void dump();
  void trace(const LaunchShape &shape, const LaunchArgs &args) const;
  llvm::Error runAllocation(int64_t bytes, Milliseconds timeout, SymmetricBuffer &buffer);
  llvm::Error runSplit(int64_t color, int64_t key, Milliseconds timeout,
                       std::unique_ptr<Member> &child);
  /// Who makes the block of `members` on this host.
  int64_t firstNear(const std::vector<int64_t> &members) const;
  uint64_t numberFor(int64_t first, uint64_t occasion);
  llvm::Error offerBlock(const std::vector<int64_t> &members, uint64_t occasion,
                         std::atomic<uint64_t> &place);
  llvm::Error offerSuccessor(const std::vector<int64_t> &members);
  std::unique_ptr<Member> adoptSuccessor(int64_t decider);
  llvm::Error awaitDecision(Milliseconds timeout);
  llvm::Error refuseLost();
  llvm::Error wentOnWithout() const;
  bool decidesWithOthers();
  std::vector<int64_t> survivors(bool &complete);
  std::unique_ptr<Member> adopt(int64_t offerer, uint64_t address);

  std::string describeWait(int64_t agent, int64_t instruction, const ChannelEnd &end,
                           uint64_t value);
  /// Until some agent can go on.
  int32_t waitForAgents(Agents &agents);
  static int32_t waitInKernel(KernelArgs *args, ChannelEnd *end, uint64_t value);
  static int32_t readInKernel(KernelArgs *args, int64_t rank, const void *address, void *to,
                              int64_t bytes);

  /// Ends after `group`: peers hear that this rank has left before its NIC answers no more.
  FarChannels far;
  Group group;
  bool direct;
  std::atomic<bool> busy{false};
  ChannelSet channels;
  WorldMemory memorySource;
  RankMemory memory;
  std::unordered_map<const LoadedProgram *, Prepared> programs;
  std::vector<Block> symmetric; ///< what allocate() gave out
  AlignedBuffer bounce;         ///< KernelArgs::bounce
  /// By parity of the operation: this rank's buffers as others see them.
  std::array<Block, 2> shared;
  std::vector<void *> pointers;
  std::optional<UnevenShards> shards; ///< of an uneven launch
  /// Every rank's buffers as this process sees them, and where each rank's begin.
  std::vector<void *> peerPointers;
  std::vector<void *const *> peerTable;

  const std::shared_ptr<Recording> recording;
  uint64_t recordedGroup = 0;
  std::optional<FlightRecorder::Id> recorded; ///< of the launch under way
  bool dumped = false;

  std::vector<Group::Awaited> awaited; ///< of the agents

  // Of the launch under way.
  uint64_t launches = 0;
  const Plan *plan = nullptr;
};

} // namespace ccl
