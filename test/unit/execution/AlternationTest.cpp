//===- AlternationTest.cpp - Compiled programs take turns on a communicator -===//
//
// Programs of all kinds, types and sizes run back to back, with no barrier of ours in
// between: what one launch leaves in channels, counters and scratch must not be seen by
// the next.
//===----------------------------------------------------------------------===//
#include "codegen/Compile.h"
#include "frontend/cli/Workload.h"
#include "passes/synthesis/generators/Generators.h"
#include "runtime/Member.h"
#include "test/unit/Context.h"

#include "doctest/doctest.h"

#include <random>

using namespace ccl;

namespace {

struct Case {
  model::Collective collective;
  const char *algorithm;
  model::Reduction reduction;
  ElementType type;
  const char *via;
};

const Case cases[] = {
    {model::Collective::AllReduce, "ring", model::Reduction::Sum, ElementType::F32, "staged"},
    {model::Collective::AllReduce, "ring", model::Reduction::Max, ElementType::I32, "direct"},
    {model::Collective::AllReduce, "two_shot", model::Reduction::Max, ElementType::F32, "direct"},
    {model::Collective::AllReduce, "one_shot", model::Reduction::Sum, ElementType::F64, "direct"},
    {model::Collective::AllReduce, "recursive_doubling", model::Reduction::Sum, ElementType::I32,
     "auto"},
    {model::Collective::AllReduce, "binomial", model::Reduction::Sum, ElementType::F32, "auto"},
    {model::Collective::AllGather, "ring", model::Reduction::None, ElementType::F64, "auto"},
    {model::Collective::ReduceScatter, "ring", model::Reduction::Sum, ElementType::I32, "auto"},
    {model::Collective::ReduceScatter, "ring", model::Reduction::Sum, ElementType::F32, "staged"},
    {model::Collective::AllToAll, "pairwise", model::Reduction::None, ElementType::F64, "auto"},
    {model::Collective::Broadcast, "binomial", model::Reduction::None, ElementType::F32, "auto"},
    {model::Collective::Scatter, "one_shot", model::Reduction::None, ElementType::F32, "auto"},
};

struct Compiled {
  std::shared_ptr<LoadedProgram> program;
  std::unique_ptr<cli::Workload> workload;
  ElementType type;
};

Compiled compileCase(const Case &c, int64_t ranks) {
  const Generator *generator = findGenerator(c.collective, c.algorithm);
  REQUIRE(generator);
  GeneratorRequest request;
  request.collective = c.collective;
  request.reduction = c.reduction;
  request.ranks = ranks;
  REQUIRE(generator->refuses(request).empty());
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&test::context())));
  generator->generate(*module, request);
  CompileOptions options;
  options.type = c.type;
  options.lowering.via = c.via;
  options.sanitizer = CCL_SANITIZE;
  CompileStats stats;
  auto plan = compile(*module, options, stats);
  REQUIRE(mlir::succeeded(plan));
  auto workload = std::make_unique<cli::Workload>(plan->contract, c.type);
  auto program = LoadedProgram::load(std::move(*plan));
  REQUIRE(bool(program));
  return {*program, std::move(workload), c.type};
}

struct Turn {
  size_t program;
  int64_t count;
  bool inPlace;
};

/// Fills, launches and judges one turn of one rank; returns the number of wrong elements.
llvm::Expected<int64_t> takeTurn(Member &member, const Compiled &c, const Turn &turn,
                                 uint64_t round) {
  const cli::Workload &w = *c.workload;
  int64_t bytes = w.elementBytes(), count = turn.count;
  int64_t inElements = w.inElements(member.rank(), count);
  int64_t outElements = w.outElements(member.rank(), count);
  int64_t larger = std::max(inElements, outElements);
  std::vector<char> memory(size_t((inElements + outElements + 1) * bytes + larger * bytes));
  char *in = memory.data(), *out = in + inElements * bytes;
  if (turn.inPlace) {
    in = memory.data() + w.inOffset(member.rank(), count) * bytes;
    out = memory.data() + w.outOffset(member.rank(), count) * bytes;
  }
  w.fill(member.rank(), round, 0, inElements, in);
  LaunchArgs args;
  args.in = in;
  args.out = out;
  args.count = count;
  if (llvm::Error error = member.launch(c.program, args))
    return std::move(error);
  return w.countWrong(member.rank(), round, count, out);
}

} // namespace

TEST_CASE("programs of all kinds and sizes alternate on one communicator") {
  for (int64_t ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    std::vector<Compiled> programs;
    for (const Case &c : cases)
      programs.push_back(compileCase(c, ranks));
    MemberOptions options;
    options.slotBytes = 4 << 10; // large counts take several micro-batches
    auto communicator = Member::createThreads(ranks, options);
    REQUIRE(bool(communicator));

    const unsigned seed = 11 * unsigned(ranks);
    CAPTURE(seed);
    std::mt19937 random(seed);
    const int64_t counts[] = {0, 1, 2, 17, 1000, 4097, 30000};
    std::vector<Turn> turns;
    for (int i = 0; i < 400; ++i) {
      size_t program = random() % programs.size();
      // What aliases only on some ranks is launched out of place here.
      bool mayAlias = cases[program].collective != model::Collective::Scatter &&
                      cases[program].collective != model::Collective::AllToAll;
      turns.push_back({program, counts[random() % std::size(counts)], mayAlias && random() % 2});
    }
    std::vector<int64_t> wrong(static_cast<size_t>(ranks));
    llvm::Error error = onEveryRank(ranks, [&](int64_t rank) -> llvm::Error {
      for (size_t i = 0; i < turns.size(); ++i) {
        auto result = takeTurn(*(*communicator)[rank], programs[turns[i].program], turns[i], i);
        if (!result)
          return result.takeError();
        wrong[size_t(rank)] += *result;
      }
      return llvm::Error::success();
    });
    std::string message = llvm::toString(std::move(error));
    CHECK(message == "");
    for (int64_t rank = 0; rank < ranks; ++rank) {
      CAPTURE(rank);
      CHECK(wrong[size_t(rank)] == 0);
    }
  }
}

TEST_CASE("symmetric buffers are reachable by peers and work as operands") {
  const int64_t ranks = 3, count = 1000;
  Compiled c = compileCase(cases[2], ranks);
  auto communicator = Member::createThreads(ranks);
  REQUIRE(bool(communicator));
  std::vector<int64_t> wrong(static_cast<size_t>(ranks));
  llvm::Error error = onEveryRank(ranks, [&](int64_t rank) -> llvm::Error {
    for (uint64_t round = 0; round < 5; ++round) {
      auto in = (*communicator)[rank]->allocate(count * sizeOf(c.type));
      if (!in)
        return in.takeError();
      auto out = (*communicator)[rank]->allocate(count * sizeOf(c.type));
      if (!out)
        return out.takeError();
      wrong[size_t(rank)] += in->peers[size_t(rank)] != in->local;
      c.workload->fill(rank, round, 0, count, in->local);
      LaunchArgs args;
      args.in = in->local;
      args.out = out->local;
      args.count = count;
      if (llvm::Error e = (*communicator)[rank]->launch(c.program, args))
        return e;
      wrong[size_t(rank)] += c.workload->countWrong(rank, round, count, out->local);
      // A direct program has entered on every rank by now: peers' inputs are there.
      int64_t next = (rank + 1) % ranks;
      wrong[size_t(rank)] += c.workload->countChanged(next, round, count, in->peers[size_t(next)]);
    }
    return llvm::Error::success();
  });
  CHECK(llvm::toString(std::move(error)) == "");
  for (int64_t w : wrong)
    CHECK(w == 0);
}
