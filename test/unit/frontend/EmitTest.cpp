#include "frontend/builder/Emit.h"

#include "dialect/Expand.h"
#include "test/unit/Context.h"

#include "mlir/IR/Verifier.h"

#include <doctest/doctest.h>

#include <random>

using namespace ccl;

namespace {

struct Emitted {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  model::Moves moves;
  LocationTable locations;
};

Emitted emitAs(const Algorithm &algorithm, size_t mostMoveOps) {
  Emitted result{mlir::ModuleOp::create(mlir::UnknownLoc::get(&test::context())), {}, {}};
  mlir::FailureOr<AlgorithmOp> op = emit(algorithm, *result.module, mostMoveOps);
  REQUIRE(mlir::succeeded(op));
  REQUIRE(mlir::succeeded(mlir::verify(*result.module)));
  mlir::FailureOr<model::Moves> moves = expand(*op, result.locations);
  REQUIRE(mlir::succeeded(moves));
  result.moves = std::move(*moves);
  return result;
}

/// Moves of all kinds, in steps and outside, written by changing lines.
Algorithm scribble(unsigned seed) {
  std::mt19937 random(seed);
  auto below = [&](int limit) { return int(random() % unsigned(limit)); };
  Algorithm a("scribble", Contract::custom({}, Op::sum), 5, {"s.py", 1});
  Buffer in = a.in(7, "", {"s.py", 2}), out = a.out(9, "", {"s.py", 3});
  Buffer t = a.scratch(4, "", {"s.py", 4});
  for (int i = 0; i < 60; ++i) {
    bool step = below(2) == 0;
    if (step)
      a.beginStep();
    for (int k = below(4); k >= 0; --k) {
      Place from = below(2) ? in(below(5), below(6)) : t(below(5), below(3));
      Place into = below(2) ? out(below(5), below(8)) : t(below(5), below(3));
      Where where("s.py", uint32_t(10 + below(6)), uint32_t(below(3)));
      if (below(2))
        a.copy(from, into, 1 + below(2), where);
      else
        a.reduce(from, into, 1 + below(2), where);
    }
    if (step)
      a.endStep();
  }
  return a;
}

} // namespace

TEST_CASE("emit: ops and table are the same moves, of the same lines") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Algorithm a = scribble(seed);
    Emitted ops = emitAs(a, maxMoveOps), table = emitAs(a, 0);
    REQUIRE(ops.moves.moves.size() == a.moves());
    REQUIRE(table.moves.moves.size() == a.moves());
    for (size_t i = 0; i < a.moves(); ++i) {
      const model::Move &x = ops.moves.moves[i], &y = table.moves.moves[i];
      CHECK(x.kind == y.kind);
      CHECK(x.count == y.count);
      CHECK(x.src == y.src);
      CHECK(x.dst == y.dst);
      CHECK(ops.locations[size_t(x.loc)] == table.locations[size_t(y.loc)]);
      // Numbers of steps may differ, where they begin may not.
      if (i)
        CHECK((x.step == ops.moves.moves[i - 1].step) == (y.step == table.moves.moves[i - 1].step));
    }
  }
}

TEST_CASE("emit: counts that no table holds") {
  std::string said;
  mlir::ScopedDiagnosticHandler handler(&test::context(), [&](mlir::Diagnostic &diagnostic) {
    said = diagnostic.str();
    return mlir::success();
  });
  for (int64_t count : {int64_t(0), int64_t(-7), int64_t(1) << 31}) {
    Algorithm a("a", Contract::broadcast(), 2);
    Buffer x = a.inout(1);
    a.copy(x(0, 0), x(1, 0), count);
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(&test::context()));
    CHECK(mlir::failed(emit(a, *module, 0)));
    CHECK(said == "moves " + std::to_string(count) + " chunks, needs 1 to 2147483647");
  }
}
