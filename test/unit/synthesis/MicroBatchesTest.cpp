#include "passes/synthesis/MicroBatches.h"

#include "passes/synthesis/Stages.h"
#include "test/unit/Context.h"

#include "mlir/Parser/Parser.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace ccl;

namespace {

/// Rings on one buffer, in each group.
const char *rings = R"(
ccl.algorithm @scatter(%n: index) implements #ccl.contract<reduce_scatter, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n { affine.parallel (%r) = (0) to (symbol(%n)) {
    ccl.reduce %x[%r, (%r - %s) mod symbol(%n)] into %x[(%r + 1) mod symbol(%n), (%r - %s) mod symbol(%n)] } }
}
ccl.algorithm @gather(%n: index) implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n { affine.parallel (%r) = (0) to (symbol(%n)) {
    ccl.copy %x[%r, (%r - %s + 1) mod symbol(%n)] into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)] } }
}
ccl.algorithm @sum(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n { affine.parallel (%r) = (0) to (symbol(%n)) {
    ccl.reduce %x[%r, (%r - %s + 1) mod symbol(%n)] into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)] } }
  affine.for %s = 1 to %n { affine.parallel (%r) = (0) to (symbol(%n)) {
    ccl.copy %x[%r, (%r - %s + 2) mod symbol(%n)] into %x[(%r + 1) mod symbol(%n), (%r - %s + 2) mod symbol(%n)] } }
}
)";

const char *scatters = R"(
ccl.reduce_scatter @inside sum on @t axes(gpu) algorithm = @scatter
ccl.reduce_scatter @across sum on @t axes(node) algorithm = @scatter
ccl.algorithm @stages implements #ccl.contract<reduce_scatter, sum> on @t {{
  %x = ccl.buffer inout ranks({0}, {1}) chunks({0}, {1})
  ccl.pipeline {{
    ccl.apply @inside on %x
  }}, {{
    ccl.apply @across on %x
  }}
}}
)";

const char *sums = R"(
ccl.reduce_scatter @down sum on @t axes(gpu) algorithm = @scatter
ccl.all_reduce @across sum on @t axes(node) algorithm = @sum
ccl.all_gather @up on @t axes(gpu) algorithm = @gather
ccl.algorithm @stages implements #ccl.contract<all_reduce, sum> on @t {{
  %x = ccl.buffer inout ranks({0}, {1}) chunks(1, {1}, {0})
  ccl.pipeline {{
    ccl.apply @down on %x
  }}, {{
    ccl.apply @across on %x
  }}, {{
    ccl.apply @up on %x
  }}
}}
)";

/// Nodes of ranks, each joined with the next one of its node, and of its place in the next node.
model::Topology torus(int32_t nodes, int32_t gpus, double inside, double across) {
  model::Topology t;
  t.name = "t";
  t.axes = {{"node", nodes}, {"gpu", gpus}};
  for (int32_t n = 0; n < nodes; ++n)
    for (int32_t g = 0; g < gpus; ++g) {
      t.links.push_back({n * gpus + g, n * gpus + (g + 1) % gpus, inside, 1, {}});
      t.links.push_back({n * gpus + g, (n + 1) % nodes * gpus + g, across, 2, {}});
    }
  return t;
}

/// All ranks at one switch: whatever they send leaves by one link.
model::Topology star(int32_t nodes, int32_t gpus) {
  model::Topology t;
  t.name = "t";
  t.axes = {{"node", nodes}, {"gpu", gpus}};
  t.switches.push_back({"all"});
  for (int32_t rank = 0; rank < nodes * gpus; ++rank) {
    t.links.push_back({rank, nodes * gpus, 40, 1, {}});
    t.links.push_back({nodes * gpus, rank, 40, 1, {}});
  }
  return t;
}

struct Case {
  std::string name;
  model::Topology topology;
  const char *stages;
  int64_t bytes;
  bool gains;
  double overheadUs = 0;
};

std::vector<Case> cases() {
  return {
      // 3/4 and 3/16 of the data over 80 and 20 GB/s
      {"equal stages", torus(4, 4, 80, 20), scatters, 1 << 22, true},
      {"unequal stages", torus(4, 4, 80, 5), scatters, 1 << 22, true},
      {"unequal the other way", torus(4, 4, 10, 40), scatters, 1 << 22, true},
      {"odd counts", torus(3, 5, 50, 10), scatters, 1 << 22, true},
      {"shared ports", star(3, 4), scatters, 1 << 24, false},
      {"shared by the first and the last", torus(2, 4, 60, 20), sums, 1 << 22, true},
      {"all three share", star(2, 3), sums, 1 << 24, false},
      {"messages cost", torus(4, 4, 80, 20), scatters, 1 << 20, false, 1.5},
  };
}

/// A case as the passes see it.
struct Opened {
  Case given;
  PlanRequest request;
  std::optional<MicroBatches> batches;
};

std::unique_ptr<Opened> open(Case given) {
  auto opened = std::make_unique<Opened>();
  opened->given = std::move(given);
  const Case &mine = opened->given;
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(
      rings +
          fmt::format(fmt::runtime(mine.stages), mine.topology.axes[0].size,
                      mine.topology.axes[1].size) +
          "ccl.topology @t ranks(node = " + std::to_string(mine.topology.axes[0].size) +
          ", gpu = " + std::to_string(mine.topology.axes[1].size) + ") {\n}\n",
      &test::context());
  REQUIRE(module);
  auto algorithm = module->lookupSymbol<AlgorithmOp>("stages");
  opened->request =
      makeRequest(algorithm.getContract(), mine.topology.ranks(), mine.bytes, model::cclModel());
  opened->request.model.overheadUs = mine.overheadUs;
  std::string why;
  std::optional<MicroBatches> made =
      MicroBatches::make(extract(algorithm), mine.topology, opened->request, why);
  REQUIRE_MESSAGE(made.has_value(), why);
  opened->batches.emplace(std::move(*made));
  return opened;
}

} // namespace

TEST_CASE("pipelines take as long as the formula says") {
  for (Case &given : cases()) {
    CAPTURE(given.name);
    const std::unique_ptr<Opened> opened = open(given);
    for (int64_t m : {1, 2, 3, 4, 6, 8, 12, 24}) {
      CAPTURE(m);
      const double formula = opened->batches->formula(m).us(m), us = opened->batches->simulate(m);
      CAPTURE(formula);
      CAPTURE(us);
      CHECK(us == doctest::Approx(formula).epsilon(0.02));
    }
  }
}

TEST_CASE("the number of micro-batches is about the best of all") {
  constexpr int64_t most = 32;
  for (Case &given : cases()) {
    CAPTURE(given.name);
    const std::unique_ptr<Opened> opened = open(given);
    double best = std::numeric_limits<double>::infinity();
    const int64_t allowed = opened->batches->mostSlices(most);
    for (int64_t m = 1; m <= allowed; ++m)
      best = std::min(best, opened->batches->simulate(m));
    const MicroBatches::Choice choice = opened->batches->choose(most);
    CAPTURE(choice.batches);
    CHECK(choice.batches <= allowed);
    CHECK(choice.us <= best * 1.05);
    CHECK(choice.us == opened->batches->simulate(choice.batches));
    if (given.gains)
      CHECK(choice.us < opened->batches->simulate(1));
  }
}
