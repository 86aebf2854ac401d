// Random algorithms whose moves are shared out to agents at random, and some of which are put.
#include "dialect/Expand.h"
#include "passes/Pipelines.h"
#include "test/random/Algorithms.h"
#include "test/random/RoundTrip.h"
#include "test/random/Runs.h"
#include "test/random/Seeds.h"
#include "test/unit/Context.h"
#include "test/unit/Examples.h"

#include "mlir/Parser/Parser.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <set>

using namespace ccl;
using namespace ccl::random;

namespace {

using Module = mlir::OwningOpRef<mlir::ModuleOp>;

Module parse(const std::string &source) {
  return mlir::parseSourceString<mlir::ModuleOp>(source, mlir::ParserConfig(&test::context()));
}

enum class Puts {
  None,
  First,   ///< into places where nothing was and nobody needs anything
  Anywhere ///< also where others may still read
};

/// The copies whose every instance is the first to touch the places where it goes; of `inout`
/// buffers none, since their input may be copied before all.
std::set<mlir::Operation *> firstCopies(AlgorithmOp algorithm) {
  LocationTable locations;
  auto moves = expand(algorithm, locations);
  std::map<mlir::Location, mlir::Operation *, decltype([](mlir::Location a, mlir::Location b) {
             return a.getAsOpaquePointer() < b.getAsOpaquePointer();
           })>
      ops;
  std::set<mlir::Operation *> first;
  algorithm.getBody().walk([&](CopyOp op) {
    ops.emplace(op.getLoc(), op);
    first.insert(op);
  });
  std::set<std::array<int64_t, 3>> touched;
  for (const model::Move &move : moves->moves) {
    auto op = ops.find(locations[size_t(move.loc)]);
    const bool isInOut = moves->buffers[size_t(move.dst.buffer)].role == model::Role::InOut;
    for (int32_t i = 0; i < move.count; ++i) {
      touched.insert({move.src.rank, move.src.buffer, move.src.chunk + i});
      const bool isNew =
          touched.insert({move.dst.rank, move.dst.buffer, move.dst.chunk + i}).second;
      if (op != ops.end() && (!isNew || isInOut))
        first.erase(op->second);
    }
  }
  return first;
}

void giveAgents(AlgorithmOp algorithm, Dice &dice, Puts puts) {
  const std::set<mlir::Operation *> first = firstCopies(algorithm);
  const int64_t agents = 1 + dice.below(4);
  mlir::OpBuilder builder(algorithm.getContext());
  algorithm.getBody().walk([&](mlir::Operation *op) {
    if (!getMove(op))
      return;
    std::vector<int64_t> receivers;
    for (int64_t agent = 0; agent < agents; ++agent)
      receivers.push_back(agent);
    dice.shuffle(receivers);
    Via via = dice.chance(50) ? Via::Staged : Via::Direct;
    size_t count = 1;
    if (mlir::isa<CopyOp>(op) && puts != Puts::None && dice.chance(70) &&
        (puts == Puts::Anywhere || first.contains(op))) {
      via = Via::Put;
      count += size_t(dice.below(agents));
    }
    std::vector<int64_t> list = {dice.below(agents)};
    list.insert(list.end(), receivers.begin(), receivers.begin() + ptrdiff_t(count));
    op->setAttr("agents", builder.getDenseI64ArrayAttr(list));
    op->setAttr("via", ViaAttr::get(builder.getContext(), via));
  });
}

/// What holds of `source` with agents, and its text.
struct Case {
  Module module, lowered;
  Proved proved;
  std::string text;
};

Case makeCase(const std::string &source, Dice &dice, Puts puts) {
  Case result;
  result.module = parse(source);
  AlgorithmOp algorithm = *findAlgorithm(*result.module);
  giveAgents(algorithm, dice, puts);
  llvm::raw_string_ostream(result.text) << *result.module;
  result.lowered = Module(result.module->clone());
  if (mlir::failed(lower(*result.lowered, "auto")))
    result.proved.error = "not lowered";
  else
    result.proved = prove(*result.lowered);
  llvm::raw_string_ostream(result.text) << *result.lowered;
  return result;
}

/// The same moves by one agent, none of them put.
Proved proveWithoutAgents(mlir::ModuleOp module) {
  Module plain(module.clone());
  plain->walk([](mlir::Operation *op) { op->removeAttr("agents"); });
  Proved result;
  if (mlir::failed(lower(*plain, "auto")))
    result.error = "not lowered";
  else
    result = prove(*plain);
  return result;
}

void checkRun(mlir::ModuleOp module, uint64_t seed) {
  const ElementType types[] = {ElementType::F32, ElementType::I32, ElementType::BF16};
  RunReport report = run(module, types[seed % std::size(types)], "auto");
  REQUIRE(report.error == "");
  CHECK(report.launches > 0);
  CHECK(report.wrong == 0);
}

size_t numBlocks(mlir::ModuleOp module) {
  size_t most = 0;
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    auto blocks = program.getBody().getOps<BlockOp>();
    most = std::max(most, size_t(std::distance(blocks.begin(), blocks.end())));
  }
  return most;
}

/// Agents change neither what is proved nor the result. How many agents there are.
size_t checkShared(const std::string &source, Dice &dice, uint64_t seed) {
  Case with = makeCase(source, dice, Puts::None);
  CAPTURE(with.text);
  Proved without = proveWithoutAgents(*with.module);
  REQUIRE(without.error == "");
  REQUIRE(with.proved.error == "");
  CHECK(with.proved.disjoint == without.disjoint);
  CHECK(with.proved.inPlace == without.inPlace);
  checkRun(*with.module, seed);
  return numBlocks(*with.lowered);
}

} // namespace

TEST_CASE("shared out to agents random algorithms keep proof and result") {
  size_t most = 0;
  for (uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Dice dice(seed, 100);
    most = std::max(most, checkShared(text(randomAlgorithm(seed)), dice, seed));
  }
  CHECK(most > 2);
}

TEST_CASE("shared out to agents examples keep proof and result") {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  size_t most = 0;
  for (const auto &entry : std::filesystem::directory_iterator(root / "examples")) {
    if (entry.path().extension() != ".mlir")
      continue;
    CAPTURE(entry.path().filename().string());
    Module module = parse(test::example(entry.path().filename().string()));
    REQUIRE(bool(module));
    LoweringOptions options;
    AlgorithmOp main = *findAlgorithm(*module);
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      options.sizes[main.getParameterName(i).str()] = 4;
    REQUIRE(mlir::succeeded(runPipeline(*module, buildAlgorithmPipeline, options)));
    std::string source;
    llvm::raw_string_ostream(source) << *module;
    for (uint64_t seed : seeds(3)) {
      CAPTURE(seed);
      Dice dice(seed, 400);
      most = std::max(most, checkShared(source, dice, seed));
    }
  }
  CHECK(most > 2);
}

TEST_CASE("plans say what random agents do and put") {
  for (uint64_t seed : seeds(30)) {
    CAPTURE(seed);
    Dice dice(seed, 500);
    Case with = makeCase(text(randomAlgorithm(seed)), dice, Puts::First);
    CAPTURE(with.text);
    REQUIRE(with.proved.error == "");
    RoundTrip trip = writeAndRead(*with.lowered, interchange::Format::MscclppJson, std::nullopt);
    REQUIRE(trip.error == "");
    REQUIRE(!trip.refused);
    Proved after = prove(*trip.module);
    REQUIRE(after.error == "");
    CHECK((after.disjoint || !with.proved.disjoint));
    checkRun(*trip.module, seed);
  }
}

TEST_CASE("random algorithms may put what nobody waits to be free") {
  int puts = 0;
  for (uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Dice dice(seed, 200);
    Case with = makeCase(text(randomAlgorithm(seed)), dice, Puts::First);
    CAPTURE(with.text);
    REQUIRE(with.proved.error == "");
    with.module->walk([&](CopyOp op) { puts += op.getVia() == Via::Put; });
    checkRun(*with.module, seed);
  }
  CHECK(puts > 60);
}

TEST_CASE("random puts are refused or right") {
  int refused = 0, ran = 0;
  for (uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Dice dice(seed, 300);
    Case with = makeCase(text(randomAlgorithm(seed)), dice, Puts::Anywhere);
    CAPTURE(with.text);
    if (with.proved.error != "") {
      ++refused;
      continue;
    }
    ++ran;
    checkRun(*with.module, seed);
  }
  CHECK(refused > 0);
  CHECK(ran > 0);
}
