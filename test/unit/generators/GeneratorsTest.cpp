// Every generator on many rank counts: proved, and as many steps and bytes as it states.

#include "passes/synthesis/generators/Generators.h"
#include "dialect/Expand.h"
#include "dialect/model/Check.h"
#include "passes/Pipelines.h"

#include "mlir/IR/Verifier.h"

#include "test/unit/Context.h"

#include <doctest/doctest.h>

#include <bit>
#include <functional>
#include <map>
#include <random>

using namespace ccl;
using model::Collective;
using test::context;

namespace {

struct Generated {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  AlgorithmOp algorithm;
  model::Moves moves;
  model::Contract contract;
};

int64_t countOps(mlir::ModuleOp module) {
  int64_t ops = 0;
  module.walk([&](mlir::Operation *) { ++ops; });
  return ops;
}

mlir::OwningOpRef<mlir::ModuleOp>
generate(const Generator &generator, const GeneratorRequest &request, std::string &algorithm) {
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context()));
  algorithm = generator.generate(*module, request).getSymName().str();
  return module;
}

/// Generates, expands what is applied, and interprets the loops.
Generated make(const Generator &generator, const GeneratorRequest &request) {
  std::string name;
  Generated g{generate(generator, request, name), nullptr, {}, {}};
  REQUIRE(mlir::succeeded(mlir::verify(*g.module)));
  mlir::PassManager passes(&context());
  buildAlgorithmPipeline(passes, LoweringOptions());
  REQUIRE(mlir::succeeded(passes.run(*g.module)));
  g.algorithm = g.module->lookupSymbol<AlgorithmOp>(name);
  REQUIRE(g.algorithm);
  LocationTable locations;
  auto moves = expand(g.algorithm, locations);
  auto contract = getModelContract(g.algorithm);
  REQUIRE(mlir::succeeded(moves));
  REQUIRE(mlir::succeeded(contract));
  g.moves = std::move(*moves);
  g.contract = std::move(*contract);
  return g;
}

struct Cost {
  int64_t steps = 0;
  double bytes = 0; ///< in shards
};

/// What `Generator::steps` and `Generator::bytes` promise to say.
Cost measure(const Generated &g) {
  std::map<std::tuple<int32_t, int32_t, int64_t>, int64_t> depth;
  std::vector<int64_t> sent(g.moves.ranks), received(g.moves.ranks);
  Cost cost;
  for (const model::Move &move : g.moves.moves) {
    bool crosses = move.src.rank != move.dst.rank;
    if (crosses) {
      sent[move.src.rank] += move.count;
      received[move.dst.rank] += move.count;
    }
    for (int32_t i = 0; i < move.count; ++i) {
      int64_t arrival =
          depth[{move.src.rank, move.src.buffer, move.src.chunk + i}] + int64_t(crosses);
      int64_t &at = depth[{move.dst.rank, move.dst.buffer, move.dst.chunk + i}];
      at = move.kind == model::MoveKind::Reduce ? std::max(at, arrival) : arrival;
      cost.steps = std::max(cost.steps, at);
    }
  }
  for (int64_t r = 0; r < g.moves.ranks; ++r)
    cost.bytes =
        std::max(cost.bytes, double(std::max(sent[r], received[r])) / double(g.contract.chunks));
  return cost;
}

int64_t floorLog(int64_t n) { return std::bit_width(uint64_t(n)) - 1; }
int64_t ceilLog(int64_t n) { return n == 1 ? 0 : floorLog(n - 1) + 1; }
bool isPower(int64_t n) { return std::has_single_bit(uint64_t(n)); }
/// Steps of two rings on the most square grid.
int64_t gridSteps(int64_t n) {
  int64_t a = 1;
  for (int64_t d = 2; d * d <= n; ++d)
    a = n % d == 0 ? d : a;
  return 2 * (a - 1) + 2 * (n / a - 1);
}

/// The formulas of the table, as text and as functions.
const std::map<std::string, std::function<double(int64_t)>> formulas = {
    {"0", [](int64_t) { return 0; }},
    {"1", [](int64_t) { return 1; }},
    {"2", [](int64_t) { return 2; }},
    {"1 + (n > 2)", [](int64_t n) { return 1 + (n > 2); }},
    {"n - 1", [](int64_t n) { return n - 1; }},
    {"2 (n - 1)", [](int64_t n) { return 2 * (n - 1); }},
    {"log2 n", [](int64_t n) { return floorLog(n); }},
    {"ceil(log2 n)", [](int64_t n) { return ceilLog(n); }},
    {"2 ceil(log2 n)", [](int64_t n) { return 2 * ceilLog(n); }},
    {"floor(log2 n) + 2 (n is no power of two)",
     [](int64_t n) { return floorLog(n) + 2 * !isPower(n); }},
    {"2 (a - 1) + 2 (b - 1) on a grid of a b ranks", gridSteps},
    {"B", [](int64_t) { return 1; }},
    {"(n - 1) B", [](int64_t n) { return n - 1; }},
    {"2 (n - 1) / n B", [](int64_t n) { return 2.0 * double(n - 1) / double(n); }},
    {"ceil(log2 n) B", [](int64_t n) { return ceilLog(n); }},
    {"(floor(log2 n) + (n is no power of two)) B",
     [](int64_t n) { return floorLog(n) + !isPower(n); }},
};

void forEachRequest(const std::function<void(const Generator &, const GeneratorRequest &)> &f) {
  for (const Generator &generator : generators())
    for (Collective collective : generator.collectives)
      for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16})
        for (int64_t root = 0; root < (hasRoot(collective) ? std::min<int64_t>(n, 3) : 1); ++root) {
          GeneratorRequest request{collective, model::Reduction::Sum, n, root, {}};
          INFO(generator.name.str(), " ", model::name(collective), " on ", n, " ranks, root ",
               root);
          if (generator.refuses(request).empty())
            f(generator, request);
        }
}

} // namespace

TEST_CASE("what is generated is proved") {
  forEachRequest([](const Generator &generator, const GeneratorRequest &request) {
    Generated g = make(generator, request);
    model::AlgorithmReport report = model::check(g.moves, g.contract);
    CHECK((report.ok() ? "" : report.faults.front().message) == "");
    // Where a rank overwrites or adds into what others have still to read.
    bool spoils = request.ranks > 1 &&
                  (generator.name == "pairwise" || request.collective == Collective::Permute ||
                   (generator.name == "one_shot" && request.collective == Collective::AllReduce));
    CHECK(report.inPlace == !spoils);
    CHECK_FALSE(report.divisible);
    CHECK(report.unevenSafe == model::hasUnevenForm(request.collective));
  });
}

TEST_CASE("every collective has a generator for every number of ranks from 1 to 64") {
  for (uint32_t c = 0; c < uint32_t(Collective::Custom); ++c)
    for (int64_t n = 1; n <= 64; ++n) {
      GeneratorRequest request{Collective(c), model::Reduction::Sum, n, 0, {}};
      request.root = hasRoot(request.collective) ? n / 3 : 0;
      INFO(model::name(request.collective), " on ", n, " ranks");
      const Generator *generator = findGenerator(request.collective, "");
      REQUIRE(generator);
      CHECK(generator->refuses(request) == "");
      Generated g = make(*generator, request);
      CHECK(g.contract.collective == request.collective);
      CHECK(g.contract.ranks == n);
      CHECK(model::check(g.moves, g.contract).ok());
    }
}

TEST_CASE("trees that start at any rank") {
  for (Collective collective : {Collective::Gather, Collective::Scatter})
    for (int64_t n = 1; n <= 17; ++n)
      for (int64_t root = 0; root < n; ++root) {
        INFO(model::name(collective), " on ", n, " ranks, root ", root);
        GeneratorRequest request{collective, model::Reduction::None, n, root, {}};
        Generated g = make(*findGenerator(collective, "binomial"), request);
        model::AlgorithmReport report = model::check(g.moves, g.contract);
        CHECK((report.ok() ? "" : report.faults.front().message) == "");
        CHECK(report.unevenSafe);
        CHECK(measure(g).bytes == n - 1);
        CHECK(measure(g).steps <= ceilLog(n));
      }
}

TEST_CASE("permutations that are and are not rotations") {
  std::mt19937 random(7);
  const Generator *generator = findGenerator(Collective::Permute, "");
  for (int64_t n = 1; n <= 9; ++n)
    for (int round = 0; round < 10; ++round) {
      GeneratorRequest request{Collective::Permute, model::Reduction::None, n, 0, {}};
      for (int64_t p = 0; p < n; ++p)
        request.targets.push_back((p + round) % n);
      if (round > 5)
        std::shuffle(request.targets.begin(), request.targets.end(), random);
      CHECK(generator->refuses(request) == "");
      Generated g = make(*generator, request);
      CHECK(llvm::ArrayRef(g.contract.targets) == llvm::ArrayRef(request.targets));
      CHECK(model::check(g.moves, g.contract).ok());
    }
}

TEST_CASE("steps and bytes are what the table says") {
  forEachRequest([](const Generator &generator, const GeneratorRequest &request) {
    if (request.ranks == 1)
      return;
    Cost cost = measure(make(generator, request));
    double steps = formulas.at(generator.steps.str())(request.ranks);
    if (isPower(request.ranks))
      CHECK(double(cost.steps) == steps);
    else
      CHECK(double(cost.steps) <= steps);
    CHECK(cost.bytes == doctest::Approx(formulas.at(generator.bytes.str())(request.ranks)));
  });
}

TEST_CASE("one rank talks to nobody") {
  forEachRequest([](const Generator &generator, const GeneratorRequest &request) {
    if (request.ranks == 1)
      CHECK(measure(make(generator, request)).bytes == 0);
  });
}

TEST_CASE("thousands of ranks are a few ops") {
  for (const Generator &generator : generators()) {
    GeneratorRequest request{generator.collectives.front(), model::Reduction::Sum, 4096, 0, {}};
    if (!generator.refuses(request).empty())
      continue;
    std::string name;
    CHECK(countOps(*generate(generator, request, name)) < 100);
  }
}

TEST_CASE("names are found, defaults exist, and names can be taken already") {
  CHECK(findGenerator(Collective::AllReduce, "")->name == "ring");
  CHECK(findGenerator(Collective::AllToAll, "ring") == nullptr);
  CHECK(findGenerator(Collective::Custom, "") == nullptr);

  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context()));
  GeneratorRequest request{Collective::AllReduce, model::Reduction::Max, 4, 0, {}};
  const Generator *hierarchical = findGenerator(Collective::AllReduce, "hierarchical");
  AlgorithmOp first = hierarchical->generate(*module, request);
  AlgorithmOp second = hierarchical->generate(*module, request);
  CHECK(first.getSymName() != second.getSymName());
  CHECK(mlir::succeeded(mlir::verify(*module)));
}

TEST_CASE("what cannot be met is refused with a reason") {
  auto reason = [](Collective collective, llvm::StringRef name, GeneratorRequest request) {
    request.collective = collective;
    return findGenerator(collective, name)->refuses(request);
  };
  GeneratorRequest six{Collective::AllGather, model::Reduction::None, 6, 0, {}};
  CHECK(reason(Collective::AllGather, "recursive_doubling", six) == "needs a power of two");
  GeneratorRequest seven{Collective::AllReduce, model::Reduction::Sum, 7, 0, {}};
  CHECK(reason(Collective::AllReduce, "hierarchical", seven) == "needs a composite rank count");
  seven.grid = {1, 7};
  CHECK(reason(Collective::AllReduce, "hierarchical", seven) == "");
  seven.grid = {2, 4};
  CHECK(reason(Collective::AllReduce, "hierarchical", seven) ==
        "needs a grid of two axes with 7 ranks");
  GeneratorRequest four{Collective::Broadcast, model::Reduction::None, 4, 4, {}};
  CHECK(reason(Collective::Broadcast, "binomial", four) == "needs a root in [0, 4), not 4");
  GeneratorRequest three{Collective::Permute, model::Reduction::None, 3, 0, {}, {1, 0}};
  CHECK(reason(Collective::Permute, "", three) == "needs one target for each of 3 ranks, not 2");
  three.targets = {1, 3, 0};
  CHECK(reason(Collective::Permute, "", three) == "needs targets in [0, 3), not 3");
  three.targets = {1, 2, 1};
  CHECK(reason(Collective::Permute, "", three) ==
        "needs one sender for each rank, and rank 1 has two");
  four.ranks = 0;
  CHECK(reason(Collective::Broadcast, "ring", four) == "needs at least one rank");
}
