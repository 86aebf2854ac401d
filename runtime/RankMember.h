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
// There is no barrier at the end.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Channels.h"
#include "runtime/Group.h"
#include "runtime/Launch.h"

#include <atomic>
#include <unordered_map>

namespace ccl {

class RankMember final : public Member {
public:
  RankMember(std::shared_ptr<World> world, ControlBlock *control, int64_t rank);
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
  void abort(std::string reason) override { group.fail(Failure::Aborted, std::move(reason)); }
  std::optional<RuntimeError> failure() const override { return group.failure(); }

  /// Only at the start, before others use it: what all ranks agreed on.
  void setDirect(bool value) { direct = value; }

private:
  /// What a program means for this rank.
  struct Prepared {
    std::weak_ptr<LoadedProgram> program;
    RankFacts facts;
    Kernel kernel = nullptr;
    uint64_t fingerprint = 0;
    bool resolved = false; ///< after the first launch's entry
    std::vector<ChannelEnd *> channels;
  };

  /// Runs body() if this member may be used now, and makes its error the communicator's.
  llvm::Error guarded(Milliseconds timeout, std::string_view what,
                      llvm::function_ref<llvm::Error()> body);
  llvm::Expected<Prepared *> prepare(const std::shared_ptr<LoadedProgram> &program);
  llvm::Error run(const std::shared_ptr<LoadedProgram> &program, const LaunchArgs &args);
  llvm::Error announce(Announcement &mine, const Prepared &prepared, const LaunchShape &shape);
  llvm::Error resolve(Prepared &prepared);
  llvm::Error execute(const Prepared &prepared, const LaunchShape &shape);
  void reachPeers();
  void trace(const LaunchShape &shape, const LaunchArgs &args) const;
  llvm::Error runAllocation(int64_t bytes, Milliseconds timeout, SymmetricBuffer &buffer);
  llvm::Error runSplit(int64_t color, int64_t key, Milliseconds timeout,
                       std::unique_ptr<Member> &child);
  llvm::Error offerBlock(const std::vector<int64_t> &members, std::atomic<uint64_t> &place);
  llvm::Error awaitDecision(Milliseconds timeout);
  std::vector<int64_t> survivors(bool &complete) const;
  std::unique_ptr<Member> adopt(int64_t offerer, uint64_t address);

  static int32_t waitInKernel(KernelArgs *args, ChannelEnd *end, uint64_t value);
  static int32_t readInKernel(KernelArgs *args, int64_t rank, const void *address, void *to,
                              int64_t bytes);

  Group group;
  bool direct;
  std::atomic<bool> busy{false};
  ChannelSet channels;
  RankMemory memory;
  std::unordered_map<const LoadedProgram *, Prepared> programs;
  std::vector<Block> symmetric; ///< what allocate() gave out
  /// By parity of the operation: this rank's buffers as others see them.
  std::array<Block, 2> shared;
  std::vector<void *> pointers;
  /// Every rank's buffers as this process sees them, and where each rank's begin.
  std::vector<void *> peerPointers;
  std::vector<void *const *> peerTable;

  // Of the launch under way.
  uint64_t launches = 0;
  const Plan *plan = nullptr;
};

} // namespace ccl
