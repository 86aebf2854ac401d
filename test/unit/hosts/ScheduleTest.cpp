//===- ScheduleTest.cpp - Schedules of many hosts against closed forms ------------===//
#include "runtime/rdma/Schedule.h"
#include "codegen/Compile.h"
#include "codegen/host/EmitHost.h"
#include "passes/synthesis/generators/Generators.h"
#include "runtime/Launch.h"
#include "test/unit/Context.h"

#include "doctest/doctest.h"

using namespace ccl;

namespace {

struct Scheduled {
  Plan plan;
  rdma::ScheduleOptions options;
  rdma::ScheduleTotals of(int64_t rank) const { return rdma::totalsOf(plan, rank, options); }
};

/// Of `hosts` hosts with `gpus` ranks and NICs each.
Scheduled schedule(model::Collective collective, const char *algorithm, int64_t hosts, int64_t gpus,
                   int64_t count, int64_t slotBytes) {
  GeneratorRequest request;
  request.collective = collective;
  if (model::reduces(collective))
    request.reduction = model::Reduction::Sum;
  request.ranks = hosts * gpus;
  if (std::string_view(algorithm) == "hierarchical")
    request.grid = {hosts, gpus};
  const Generator *generator = findGenerator(collective, algorithm);
  REQUIRE(generator);
  REQUIRE(generator->refuses(request).empty());
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&test::context())));
  generator->generate(*module, request);
  LoweringOptions lowering;
  lowering.hosts = std::to_string(gpus);
  REQUIRE(mlir::succeeded(runPipeline(*module, buildLoweringPipeline, lowering)));
  AlgorithmOp lowered = *findAlgorithm(*module);
  const model::Contract contract = *getModelContract(lowered);
  Scheduled result;
  HostOptions host;
  host.reduction = contract.reduction;
  host.wires = true;
  REQUIRE(mlir::succeeded(planHost(lowered, contract, host, result.plan)));
  REQUIRE(result.plan.hasWires);
  result.plan.hosts = *parseHosts(lowering.hosts, request.ranks);
  const RankFacts facts = *findFacts(result.plan, 0);
  const Cut cut = *chooseCut(result.plan, facts, count, slotBytes, 0);
  result.options.cut = {count, cut.microBatches, cut.stride, nullptr};
  result.options.nics = int(gpus);
  result.options.limits.stripes = int(gpus);
  return result;
}

} // namespace

TEST_CASE("a hierarchical all-reduce of 64 hosts: a ring on each rail") {
  const int64_t hosts = 64, gpus = 8, count = int64_t(1) << 20;
  const Scheduled all =
      schedule(model::Collective::AllReduce, "hierarchical", hosts, gpus, count, 128 << 10);
  CHECK(all.options.cut.microBatches == 1);
  const int64_t messages = 2 * (hosts - 1), bytes = messages * (4 * count / gpus / hosts);
  for (int64_t rank = 0; rank < hosts * gpus; ++rank) {
    CAPTURE(rank);
    const rdma::ScheduleTotals totals = all.of(rank);
    CHECK(totals.messages == messages);
    CHECK(totals.requests == messages);
    // Each waits for what comes from the host before.
    CHECK(totals.completions == messages);
    CHECK(totals.bytes == bytes);
    for (int64_t nic = 0; nic < gpus; ++nic)
      CHECK(totals.nicBytes[size_t(nic)] == (nic == rank % gpus ? bytes : 0));
  }
}

TEST_CASE("lengths that do not divide are exact in every micro-batch") {
  const int64_t hosts = 5, gpus = 3, ranks = hosts * gpus, count = 1'000'003;
  const Scheduled all =
      schedule(model::Collective::AllReduce, "hierarchical", hosts, gpus, count, 4 << 10);
  CHECK(all.options.cut.microBatches > 10);
  // Of each rail: all chunks of it but one, twice; each goes once from every host in each phase
  // but that of its owner.
  int64_t total = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const rdma::ScheduleTotals totals = all.of(rank);
    CHECK(totals.messages == 2 * (hosts - 1) * all.options.cut.microBatches);
    total += totals.bytes;
  }
  CHECK(total == 2 * (hosts - 1) * count * 4);
}

TEST_CASE("a pairwise all-to-all sends a shard to every rank of another host, in one list each") {
  const int64_t hosts = 8, gpus = 4, ranks = hosts * gpus, count = 1000;
  const Scheduled all =
      schedule(model::Collective::AllToAll, "pairwise", hosts, gpus, count, 128 << 10);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const rdma::ScheduleTotals totals = all.of(rank);
    CHECK(totals.messages == ranks - gpus);
    CHECK(totals.bytes == (ranks - gpus) * count * 4);
    CHECK(totals.nicBytes[size_t(rank % gpus)] == totals.bytes);
  }
}

TEST_CASE("a message over all NICs of a host is cut alike") {
  // Slots of 4 MiB, so that one message is long enough for stripes of 256 KiB.
  const int64_t hosts = 2, gpus = 2, count = int64_t(1) << 20;
  const Scheduled all =
      schedule(model::Collective::AllReduce, "hierarchical", hosts, gpus, count, 4 << 20);
  const rdma::ScheduleTotals totals = all.of(1);
  CHECK(totals.messages == 2 * (hosts - 1));
  CHECK(totals.requests == 4 * totals.messages); // half a MiB for each NIC, in two
  CHECK(totals.nicBytes[0] == totals.nicBytes[1]);
  CHECK(totals.bytes == 2 * (hosts - 1) * 4 * count / gpus / hosts);
}

TEST_CASE("one request in so many is signaled, counted over all micro-batches") {
  const int64_t batches = 100, pieces = 3;
  Scheduled all =
      schedule(model::Collective::AllToAll, "pairwise", 2, 1, batches * (12 << 10) / 4, 12 << 10);
  REQUIRE(all.options.cut.microBatches == batches);
  all.options.limits.mostBytes = 4 << 10;
  const rdma::ScheduleTotals totals = all.of(0);
  const int64_t requests = batches * pieces;
  CHECK(totals.messages == batches);
  CHECK(totals.requests == requests);
  // The last one of every list, and every 64th that is none.
  CHECK(totals.completions == batches + requests / 64 - requests / (64 * pieces));
}
