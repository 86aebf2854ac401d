// The text of a random algorithm means its moves: loops and all, by way of the parser, the
// verifiers and dialect/Expand.
#include "test/random/Algorithms.h"
#include "test/random/Seeds.h"
#include "test/unit/Context.h"

#include "dialect/Expand.h"

#include "mlir/Parser/Parser.h"

#include <doctest/doctest.h>

using namespace ccl;
using namespace ccl::random;

namespace {

/// Steps in the order of the text.
std::vector<int32_t> steps(const std::vector<model::Move> &moves) {
  std::vector<int32_t> numbers;
  for (const model::Move &move : moves) {
    bool same = &move != moves.data() && (&move)[-1].step == move.step;
    numbers.push_back(numbers.empty() ? 0 : numbers.back() + !same);
  }
  return numbers;
}

} // namespace

TEST_CASE("the text of a random algorithm says its moves") {
  int loops = 0, parallel = 0;
  const auto all = seeds(150);
  for (uint64_t seed : all) {
    CAPTURE(seed);
    Algorithm algorithm = randomAlgorithm(seed);
    std::string source = text(algorithm);
    CAPTURE(source);
    loops += source.find("affine.for") != source.npos;
    parallel += source.find("affine.parallel") != source.npos;
    auto module =
        mlir::parseSourceString<mlir::ModuleOp>(source, mlir::ParserConfig(&test::context()));
    REQUIRE(bool(module));
    LocationTable locations;
    auto op = *module->getOps<AlgorithmOp>().begin();
    auto moves = expand(op, locations);
    REQUIRE(mlir::succeeded(moves));
    auto contract = getModelContract(op);
    REQUIRE(mlir::succeeded(contract));
    CHECK(contract->str() == algorithm.contract.str());
    CHECK(contract->chunks == algorithm.contract.chunks);
    REQUIRE(moves->moves.size() == algorithm.moves.moves.size());
    CHECK(steps(moves->moves) == steps(algorithm.moves.moves));
    for (size_t i = 0; i < moves->moves.size(); ++i) {
      const model::Move &a = moves->moves[i], &b = algorithm.moves.moves[i];
      CAPTURE(i);
      REQUIRE(a.src == b.src);
      REQUIRE(a.dst == b.dst);
      REQUIRE(a.kind == b.kind);
      REQUIRE(a.count == b.count);
    }
  }
  if (all.size() >= 100) {
    CHECK(loops > 5);
    CHECK(parallel > 20);
  }
}
