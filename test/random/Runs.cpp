//===- Runs.cpp ---------------------------------------------------------------------===//
#include "test/random/Runs.h"

#include "codegen/Compile.h"
#include "frontend/cli/Workload.h"
#include "runtime/Member.h"

#include <fmt/format.h>

#include <atomic>

namespace ccl::random {
namespace {

struct Launch {
  int64_t count;
  bool inPlace;
};

/// Fills, launches and judges one turn of one rank; returns the number of wrong elements.
llvm::Expected<int64_t> takeTurn(Member &member, const std::shared_ptr<LoadedProgram> &program,
                                 const cli::Workload &w, const Launch &launch, uint64_t round) {
  const int64_t bytes = w.elementBytes(), count = launch.count, rank = member.rank();
  const int64_t inElements = w.inElements(rank, count), outElements = w.outElements(rank, count);
  // A contract of its own has rows of any width, the larger one beside the other.
  std::vector<char> memory(size_t((inElements + outElements + 1) * bytes));
  char *in = memory.data(), *out = in + inElements * bytes;
  if (launch.inPlace) {
    in = memory.data() + w.inOffset(rank, count) * bytes;
    out = memory.data() + w.outOffset(rank, count) * bytes;
  }
  w.fill(rank, round, 0, inElements, in);
  LaunchArgs args;
  args.in = in;
  args.out = out;
  args.count = count;
  if (llvm::Error error = member.launch(program, args))
    return std::move(error);
  return w.countWrong(rank, round, count, out);
}

} // namespace

RunReport run(mlir::ModuleOp module, ElementType type, llvm::StringRef via) {
  RunReport report;
  CompileOptions options;
  options.type = type;
  options.lowering.via = via.str();
  options.lowering.slots = 2;
  CompileStats stats;
  mlir::FailureOr<Plan> plan = compile(module, options, stats);
  if (mlir::failed(plan) || !stats.unproved.empty()) {
    report.error = mlir::failed(plan) ? "not compiled" : "not proved: " + stats.unproved;
    return report;
  }
  cli::Workload workload(plan->contract, type);
  std::vector<Launch> launches;
  for (int64_t count : {int64_t(4097), 3 * plan->contract.chunks, int64_t(1)})
    for (bool inPlace : {false, true})
      if (inPlace ? plan->inPlaceProved : plan->disjointProved)
        launches.push_back({count, inPlace});
  auto program = LoadedProgram::load(std::move(*plan));
  if (!program) {
    report.error = llvm::toString(program.takeError());
    return report;
  }
  const int64_t ranks = (*program)->plan().ranks();
  MemberOptions member;
  member.slotBytes = 2048; // the largest count takes some micro-batches
  auto members = Member::createThreads(ranks, member);
  if (!members) {
    report.error = llvm::toString(members.takeError());
    return report;
  }
  std::atomic<int64_t> wrong = 0;
  llvm::Error error = onEveryRank(ranks, [&](int64_t rank) -> llvm::Error {
    for (size_t i = 0; i < launches.size(); ++i) {
      auto result = takeTurn(*(*members)[size_t(rank)], *program, workload, launches[i], i);
      if (!result)
        return result.takeError();
      wrong += *result;
    }
    return llvm::Error::success();
  });
  report.error = llvm::toString(std::move(error));
  report.launches = int64_t(launches.size());
  report.wrong = wrong;
  return report;
}

} // namespace ccl::random
