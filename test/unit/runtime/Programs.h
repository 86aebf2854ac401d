//===- Programs.h - Programs for tests of the runtime, written by hand ------===//
//
// What generated code would do, in C++: kernels that follow the ABI of Plan.h.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"

#include <atomic>

namespace ccl::test {

/// A program whose kernels are functions of this executable.
class HandWritten final : public LoadedProgram {
public:
  HandWritten(Plan plan, Kernel function) : LoadedProgram(std::move(plan)), function(function) {}
  Kernel kernel(int64_t rank) const override { return kernelIndex(rank) < 0 ? nullptr : function; }

private:
  Kernel function;
};

/// int32 sum. Through slots; the fused ring needs 2 of them.
Plan ringAllReducePlan(int64_t ranks, int32_t slots = 2);
std::shared_ptr<LoadedProgram> ringAllReduce(int64_t ranks, int32_t slots = 2);
std::shared_ptr<LoadedProgram> ringAllReduce(Plan plan);

/// int32. Reads the inputs of peers directly, with signals before and after.
Plan directAllGatherPlan(int64_t ranks);
std::shared_ptr<LoadedProgram> directAllGather(int64_t ranks);

/// int32. Every rank sends to the root; others use `out` as the place to send from,
/// so the runtime has to give them one.
Plan starGatherPlan(int64_t ranks, int64_t root);
std::shared_ptr<LoadedProgram> starGather(int64_t ranks, int64_t root);

/// Rank 0 waits for a signal of rank 1 that never comes.
std::shared_ptr<LoadedProgram> stuck(int64_t ranks);

/// Two ranks that signal each other once a micro-batch, a millisecond later each time.
std::shared_ptr<LoadedProgram> inTurns();
/// Two ranks that wait for each other.
std::shared_ptr<LoadedProgram> inACircle();

/// A barrier without any channel; counts how often a kernel ran.
std::shared_ptr<LoadedProgram> countingBarrier(int64_t ranks);
extern std::atomic<int64_t> barrierRuns;

/// All members of a communicator of threads.
class Team {
public:
  explicit Team(std::vector<std::unique_ptr<Member>> members) : members(std::move(members)) {}
  Member &operator[](int64_t rank) { return *members[size_t(rank)]; }
  int64_t ranks() const { return int64_t(members.size()); }

private:
  std::vector<std::unique_ptr<Member>> members;
};
inline Team makeTeam(int64_t ranks, MemberOptions options = {}) {
  return Team(llvm::cantFail(Member::createThreads(ranks, options)));
}

/// What the last ring kernel got.
struct Seen {
  std::atomic<int64_t> count{0}, microBatches{0}, stride{0};
};
extern Seen ringSaw;

} // namespace ccl::test
