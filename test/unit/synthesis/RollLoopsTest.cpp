#include "passes/lowering/RollLoops.h"
#include "dialect/Expand.h"
#include "passes/Pipelines.h"
#include "passes/synthesis/generators/Builder.h"
#include "test/unit/Context.h"

#include "mlir/IR/Verifier.h"

#include <doctest/doctest.h>

using namespace ccl;
using namespace mlir;

namespace {

model::Moves movesOf(AlgorithmOp algorithm) {
  LocationTable locations;
  FailureOr<model::Moves> moves = expand(algorithm, locations);
  REQUIRE(succeeded(moves));
  return *moves;
}

/// One after the other, without a loop.
AlgorithmOp unrolled(ModuleOp module, const GeneratorRequest &request, const model::Moves &moves) {
  AlgorithmBuilder a(module, "unrolled", request);
  std::vector<Buffer> buffers;
  for (const model::Buffer &b : moves.buffers)
    buffers.push_back(b.role == model::Role::In      ? a.in(b.name, {b.chunks})
                      : b.role == model::Role::Out   ? a.out(b.name, {b.chunks})
                      : b.role == model::Role::InOut ? a.inout(b.name, {b.chunks})
                                                     : a.scratch(b.name, {b.chunks}));
  auto spot = [&](const model::Place &p) {
    return buffers[size_t(p.buffer)](int64_t(p.rank), p.chunk);
  };
  for (const model::Move &m : moves.moves)
    m.kind == model::MoveKind::Reduce ? a.reduce(spot(m.src), spot(m.dst), m.count)
                                      : a.copy(spot(m.src), spot(m.dst), m.count);
  return a.getAlgorithm();
}

size_t operations(AlgorithmOp algorithm) {
  size_t n = 0;
  algorithm.walk([&](Operation *op) { n += isa<CopyOp, ReduceOp>(op); });
  return n;
}

} // namespace

TEST_CASE("rolled loops make the same moves in the same order") {
  size_t before = 0, after = 0;
  for (const Generator &generator : generators())
    for (model::Collective collective : generator.collectives)
      for (int64_t ranks : {2, 6, 8}) {
        GeneratorRequest request;
        request.collective = collective;
        request.ranks = ranks;
        request.root = model::hasRoot(collective) ? 1 : 0;
        request.reduction =
            model::reduces(collective) ? model::Reduction::Sum : model::Reduction::None;
        if (generator.name == "hierarchical")
          request.grid = {2, ranks / 2};
        if (!generator.refuses(request).empty())
          continue;
        CAPTURE(generator.name);
        CAPTURE(model::name(collective));
        CAPTURE(ranks);
        OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&test::context()));
        const std::string name = generator.generate(*module, request).getSymName().str();
        REQUIRE(succeeded(runPipeline(*module, buildAlgorithmPipeline, LoweringOptions())));
        const model::Moves wanted = movesOf(module->lookupSymbol<AlgorithmOp>(name));
        AlgorithmOp algorithm = unrolled(*module, request, wanted);
        before += operations(algorithm);
        rollLoops(algorithm.getBody().front());
        REQUIRE(succeeded(mlir::verify(*module)));
        after += operations(algorithm);
        const model::Moves found = movesOf(algorithm);
        REQUIRE(found.moves.size() == wanted.moves.size());
        for (size_t i = 0; i < wanted.moves.size(); ++i) {
          CAPTURE(i);
          const model::Move &a = wanted.moves[i], &b = found.moves[i];
          CHECK(a.kind == b.kind);
          CHECK(a.src == b.src);
          CHECK(a.dst == b.dst);
          CHECK(a.count == b.count);
        }
      }
  CHECK(after < before / 2);
}
