//===- ProgramsTest.cpp - Compiled programs on several hosts -----------------===//
//
// Programs of all kinds, one after the other, on ranks that partly share a host: every element
// of every result is compared with a plain reference.
//===----------------------------------------------------------------------===//
#include "codegen/Compile.h"
#include "frontend/cli/Workload.h"
#include "passes/synthesis/generators/Generators.h"
#include "test/unit/Context.h"
#include "test/unit/hosts/Hosts.h"

#include "doctest/doctest.h"

#include <random>

using namespace ccl;
using test::HostTeam;

namespace {

struct Case {
  model::Collective collective;
  const char *algorithm;
  model::Reduction reduction;
  ElementType type;
};

const Case cases[] = {
    {model::Collective::AllReduce, "ring", model::Reduction::Sum, ElementType::F32},
    {model::Collective::AllReduce, "two_shot", model::Reduction::Max, ElementType::I32},
    {model::Collective::AllReduce, "one_shot", model::Reduction::Sum, ElementType::F64},
    {model::Collective::AllReduce, "binomial", model::Reduction::Sum, ElementType::BF16},
    {model::Collective::AllGather, "ring", model::Reduction::None, ElementType::I8},
    {model::Collective::ReduceScatter, "ring", model::Reduction::Sum, ElementType::I32},
    {model::Collective::AllToAll, "pairwise", model::Reduction::None, ElementType::F64},
    {model::Collective::Broadcast, "binomial", model::Reduction::None, ElementType::F32},
    {model::Collective::Scatter, "one_shot", model::Reduction::None, ElementType::U8},
    {model::Collective::Gather, "one_shot", model::Reduction::None, ElementType::F32},
    {model::Collective::Reduce, "binomial", model::Reduction::Sum, ElementType::F32},
};

struct Compiled {
  std::shared_ptr<LoadedProgram> program;
  std::unique_ptr<cli::Workload> workload;
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
  options.lowering.via = "staged";
  options.wires = true;
  options.sanitizer = CCL_SANITIZE;
  CompileStats stats;
  auto plan = compile(*module, options, stats);
  REQUIRE(mlir::succeeded(plan));
  auto workload = std::make_unique<cli::Workload>(plan->contract, c.type);
  auto program = LoadedProgram::load(std::move(*plan));
  REQUIRE(bool(program));
  return {*program, std::move(workload)};
}

/// Fills, launches and judges; fails with the number of wrong elements.
llvm::Error takeTurn(Member &member, const Compiled &c, int64_t count, uint64_t round) {
  const cli::Workload &w = *c.workload;
  const int64_t bytes = w.elementBytes();
  const int64_t inElements = w.inElements(member.rank(), count);
  const int64_t outElements = w.outElements(member.rank(), count);
  std::vector<char> memory(size_t((inElements + outElements + 1) * bytes));
  char *in = memory.data(), *out = in + inElements * bytes;
  w.fill(member.rank(), round, 0, inElements, in);
  LaunchArgs args;
  args.in = in;
  args.out = out;
  args.count = count;
  if (llvm::Error error = member.launch(c.program, args))
    return error;
  if (const int64_t wrong = w.countWrong(member.rank(), round, count, out))
    return makeFailure(Failure::Machine, "rank {}: {} of {} wrong, count {}, round {}",
                       member.rank(), wrong, c.program->plan().program, count, round);
  return llvm::Error::success();
}

void alternate(const std::vector<std::string> &hosts, uint64_t seed, int turns) {
  MemberOptions options;
  options.slotBytes = 4 << 10; // large counts take several micro-batches
  rdma::Fabric::Options fabric;
  fabric.seed = seed;
  HostTeam team(hosts, options, fabric);
  std::vector<Compiled> programs;
  for (const Case &c : cases)
    programs.push_back(compileCase(c, team.ranks()));
  const std::string error = team.run([&](int64_t, Member &member) -> llvm::Error {
    std::mt19937_64 random(seed);
    const int64_t counts[] = {0, 1, 2, 17, 1000, 4097, 30000};
    for (int i = 0; i < turns; ++i) {
      const Compiled &program = programs[random() % programs.size()];
      if (llvm::Error e =
              takeTurn(member, program, counts[random() % std::size(counts)], uint64_t(i)))
        return e;
    }
    return llvm::Error::success();
  });
  CAPTURE(seed);
  CHECK(error == "");
}

} // namespace

TEST_CASE("programs of all kinds and sizes alternate on ranks of several hosts") {
  alternate({"a", "b"}, 0, 60);
  alternate({"a", "a", "b", "b"}, 1, 60);
  alternate({"a", "b", "a", "b"}, 2, 60);
  alternate({"a", "b", "c"}, 3, 60);
  alternate({"a", "a", "b"}, 4, 60);
}
