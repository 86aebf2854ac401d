#include "passes/synthesis/Plan.h"

#include "dialect/model/Topology.h"
#include "frontend/topology/Read.h"
#include "test/unit/Context.h"

#include <doctest/doctest.h>

using namespace ccl;
using model::Collective;

namespace {

model::Topology named(const char *name) {
  topology::ReadResult result = topology::readTopology(name, {});
  REQUIRE(result.topology.has_value());
  return *result.topology;
}

/// Links of 1 GB/s and 10 us around a ring, both ways.
model::Topology slowRing(int32_t ranks) {
  model::Topology ring;
  ring.name = "slow";
  ring.axes = {{"x", ranks}};
  for (int32_t rank = 0; rank < ranks; ++rank)
    for (int32_t peer : {(rank + 1) % ranks, (rank + ranks - 1) % ranks})
      ring.links.push_back({rank, peer, 1, 10, {}});
  return ring;
}

PlanRequest request(const model::Topology &topology, Collective collective,
                    std::vector<int64_t> bytes) {
  PlanRequest request;
  request.generator.collective = collective;
  request.generator.reduction =
      model::reduces(collective) ? model::Reduction::Sum : model::Reduction::None;
  request.generator.ranks = topology.ranks();
  request.bytes = std::move(bytes);
  request.limits.pieces = 8;
  return request;
}

PlanReport planned(const model::Topology &topology, const PlanRequest &wanted) {
  REQUIRE(wanted.check(topology) == "");
  PlanReport report = plan(test::context(), topology, wanted);
  REQUIRE(report.error == "");
  REQUIRE(report.sizes.size() == wanted.bytes.size());
  return report;
}

std::string text(const PlanReport &report, const SizePlan &size) {
  std::string printed;
  llvm::raw_string_ostream os(printed);
  mlir::ModuleOp module = *report.algorithms[size.algorithm].module;
  module.print(os);
  return printed;
}

} // namespace

TEST_CASE("no plan is faster than the bound, and all are proved") {
  for (const char *name : {"ring:5", "torus:2x4", "cube:3", "mesh:2x3", "star:4", "dgx1"})
    for (Collective collective : plannedCollectives()) {
      CAPTURE(name);
      CAPTURE(model::name(collective));
      const model::Topology topology = named(name);
      const PlanReport report = planned(topology, request(topology, collective, {1000, 64 << 20}));
      for (const SizePlan &size : report.sizes) {
        CHECK(size.us >= size.boundUs * (1 - 1e-9));
        CHECK(size.ratio() > 0.5); // eight pieces, whatever the height
        const PlannedAlgorithm &algorithm = report.algorithms[size.algorithm];
        CHECK(algorithm.fluidRatio <= 1 + 1e-9);
        CHECK(algorithm.pieces <= 8);
        // Nothing is faster than its trees.
        CHECK(size.us * algorithm.fluidRatio * report.bound.algbw * 1e3 >=
              double(size.bytes) * (1 - 1e-9));
      }
    }
}

TEST_CASE("what is traded: higher trees are better ones") {
  const model::Topology topology = named("dgx1");
  const PlanReport report = planned(topology, request(topology, Collective::AllGather, {1 << 20}));
  REQUIRE(report.trades.size() > 1);
  for (size_t i = 1; i < report.trades.size(); ++i) {
    CHECK(report.trades[i].height > report.trades[i - 1].height);
    CHECK(report.trades[i].fluidRatio > report.trades[i - 1].fluidRatio);
  }
}

TEST_CASE("all_reduce in pairs, where ranks have unequal links") {
  for (const char *name : {"mesh:4x4", "mesh:6x6", "mesh:3x5"}) {
    CAPTURE(name);
    const model::Topology topology = named(name);
    PlanRequest wanted = request(topology, Collective::AllReduce, {1 << 20});
    wanted.limits.pieces = 1;
    const PlanReport report = planned(topology, wanted);
    CHECK(report.trades.back().fluidRatio > 0.98);
    const PlannedAlgorithm &algorithm = report.algorithms.front();
    CHECK(algorithm.name.find("all_reduce_pairs") == 0);
    CHECK(algorithm.moves == 2 * uint64_t(algorithm.chunks) * uint64_t(topology.ranks() - 1));
  }
}

TEST_CASE("small sizes go in one piece, large ones in many") {
  const model::Topology topology = slowRing(6);
  for (Collective collective : {Collective::AllGather, Collective::AllReduce}) {
    CAPTURE(model::name(collective));
    const PlanReport report = planned(topology, request(topology, collective, {64, 256 << 20}));
    const SizePlan &small = report.sizes[0], &large = report.sizes[1];
    CHECK(report.algorithms[small.algorithm].pieces == 1);
    CHECK(small.us >= small.boundUs);
    CHECK(report.algorithms[large.algorithm].pieces * report.algorithms[large.algorithm].batches >
          1);
    CHECK(large.ratio() > 0.9);
  }
}

TEST_CASE("two plans of one request are equal") {
  const model::Topology topology = named("mesh:3x3");
  for (Collective collective : {Collective::AllGather, Collective::Reduce}) {
    const PlanRequest wanted = request(topology, collective, {4096, 8 << 20});
    const PlanReport first = planned(topology, wanted), second = planned(topology, wanted);
    for (size_t i = 0; i < first.sizes.size(); ++i) {
      CHECK(first.sizes[i].us == second.sizes[i].us);
      CHECK(text(first, first.sizes[i]) == text(second, second.sizes[i]));
    }
  }
}

TEST_CASE("limits are kept") {
  const model::Topology topology = named("dgx1");
  PlanRequest wanted = request(topology, Collective::AllReduce, {64 << 20});
  wanted.limits = {.chunks = 2, .height = 4, .agents = 1, .pieces = 3};
  const PlanReport report = planned(topology, wanted);
  const PlannedAlgorithm &algorithm = report.algorithms.front();
  CHECK(algorithm.chunks <= 2);
  CHECK(algorithm.height <= 4);
  CHECK(algorithm.agents == 1);
  CHECK(algorithm.pieces <= 3);
  for (const PlanTrade &trade : report.trades) {
    CHECK(trade.chunks <= 2);
    CHECK(trade.height <= 4);
  }
  wanted.limits.height = 2;
  CHECK(plan(test::context(), topology, wanted).error.find("at most 2 messages") !=
        std::string::npos);
}

TEST_CASE("out of time, or cancelled: the first plan, for all sizes") {
  const model::Topology topology = named("torus:4x4");
  PlanRequest wanted = request(topology, Collective::AllGather, {1 << 10, 1 << 20});
  PlanRequest cancelled = wanted;
  wanted.deadline = std::chrono::steady_clock::now();
  cancelled.isCancelled = [] { return true; };
  for (const PlanRequest &stopped : {wanted, cancelled}) {
    const PlanReport late = planned(topology, stopped);
    CHECK(late.stopped);
    CHECK(late.algorithms.size() == 1);
    CHECK(late.sizes[0].bytes < late.sizes[1].bytes);
  }
}

TEST_CASE("requests that make no sense") {
  const model::Topology topology = named("ring:4");
  auto wrong = [&](auto change) {
    PlanRequest wanted = request(topology, Collective::Broadcast, {1024});
    change(wanted);
    return wanted.check(topology);
  };
  CHECK(wrong([](PlanRequest &) {}) == "");
  CHECK(wrong([](PlanRequest &r) { r.generator.root = 4; }) == "root 4: ranks are 0 to 3");
  CHECK(wrong([](PlanRequest &r) { r.generator.ranks = 5; }) ==
        "5 ranks are asked for, the topology has 4");
  CHECK(wrong([](PlanRequest &r) { r.bytes = {8, 0}; }) == "sizes have to be positive");
  CHECK(wrong([](PlanRequest &r) { r.generator.collective = Collective::AllToAll; }) ==
        "there are no plans for all_to_all");
  model::Topology one;
  one.axes = {{"x", 1}};
  CHECK(request(one, Collective::AllGather, {8}).check(one) == "one rank has nothing to send");
}

TEST_CASE("what goes up says how many slots it has, and does with them") {
  for (Collective collective : {Collective::ReduceScatter, Collective::AllReduce}) {
    CAPTURE(model::name(collective));
    const model::Topology topology = named("torus:3x3");
    const PlanReport report = planned(topology, request(topology, collective, {64 << 20}));
    const PlannedAlgorithm &algorithm = report.algorithms[report.sizes.front().algorithm];
    CHECK(algorithm.slots >= 2); // as many as launches give anyway
    CHECK(algorithm.slots <= PlanRequest().slots);
    CHECK(algorithm.minSlots <= algorithm.slots);
    CHECK(text(report, report.sizes.front()).find("ccl.slots = ") != std::string::npos);
  }
  const model::Topology topology = named("torus:3x3");
  const PlanReport report = planned(topology, request(topology, Collective::AllGather, {64 << 20}));
  CHECK(report.algorithms.front().slots == 0);
  CHECK(text(report, report.sizes.front()).find("ccl.slots") == std::string::npos);
}

TEST_CASE("schedules rank, so that few programs are made") {
  const model::Topology topology = named("dgx1");
  PlanRequest wanted = request(topology, Collective::AllGather, {64 << 20});
  wanted.limits.pieces = 0, wanted.limits.batches = 1;
  const PlanReport report = planned(topology, wanted);
  CHECK(report.simulated <= 3);
  CHECK(report.sizes.front().ratio() > 0.985);
}

TEST_CASE("two NDv2 boxes with TACCL's costs, a megabyte a rank") {
  // A message costs its latency on each link, so that pieces are not free; one NIC a box sends 105
  // us a megabyte to the other's. TACCL's own schedule reaches 88.9 % of the same bound.
  model::Topology boxes;
  boxes.name = "ndv2";
  boxes.axes = {{"node", 2}, {"gpu", 8}};
  for (const char *nic : {"out0", "in0", "out1", "in1"})
    boxes.switches.push_back({.name = nic});
  constexpr double single = 1000 / 46.0, twice = 1000 / 23.0, nic = 1000 / 105.0, fast = 1e6;
  constexpr std::pair<int32_t, int32_t> singles[] = {{0, 1}, {0, 2}, {1, 3}, {2, 6},
                                                     {3, 7}, {4, 5}, {4, 6}, {5, 7}};
  constexpr std::pair<int32_t, int32_t> doubles[] = {{0, 3}, {0, 4}, {1, 2}, {1, 5},
                                                     {2, 3}, {4, 7}, {5, 6}, {6, 7}};
  for (int32_t box = 0; box < 2; ++box) {
    auto join = [&](auto pairs, double bandwidth) {
      for (auto [a, b] : pairs) {
        boxes.links.push_back({8 * box + a, 8 * box + b, bandwidth, 0.7, {}});
        boxes.links.push_back({8 * box + b, 8 * box + a, bandwidth, 0.7, {}});
      }
    };
    join(llvm::ArrayRef(singles), single);
    join(llvm::ArrayRef(doubles), twice);
    const int32_t out = 16 + 2 * box, in = 17 + 2 * box;
    for (int32_t gpu = 0; gpu < 8; ++gpu) {
      boxes.links.push_back({8 * box + gpu, out, fast, 0, {}});
      boxes.links.push_back({in, 8 * box + gpu, fast, 0, {}});
    }
    boxes.links.push_back({out, 19 - 2 * box, nic, 2.6, {}});
  }
  PlanRequest wanted = request(boxes, Collective::AllGather, {16'000'000});
  wanted.model = model::tacclModel();
  const PlanReport report = planned(boxes, wanted);
  CHECK(report.sizes.front().boundUs == doctest::Approx(840).epsilon(0.01));
  CHECK(report.sizes.front().ratio() > 0.9);
}

TEST_CASE("nothing is cut into more parts than it has elements, or than launches make") {
  const model::Topology topology = slowRing(6);
  for (int64_t bytes : {1, 100, 20'000}) {
    CAPTURE(bytes);
    PlanRequest wanted = request(topology, Collective::AllReduce, {bytes});
    wanted.limits.pieces = 0;
    const PlanReport report = planned(topology, wanted);
    const PlannedAlgorithm &algorithm = report.algorithms.front();
    CHECK(algorithm.pieces <= std::max<int64_t>(bytes / 4, 1));
    CHECK(algorithm.batches <= std::max<int64_t>(bytes / 65536, 1));
  }
}
