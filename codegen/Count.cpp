//===- Count.cpp ------------------------------------------------------------===//
#include "codegen/Count.h"

#include "codegen/host/Affine.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using ccl::host::dependsOn;
using ccl::host::Environment;

namespace ccl {

namespace {

class Counter {
public:
  explicit Counter(uint64_t limit) : limit(limit) {}

  uint64_t count(Block &block, Environment &environment) {
    uint64_t total = 0;
    for (Operation &op : block) {
      total = std::min(limit, llvm::SaturatingAdd(total, count(op, environment)));
      if (total == limit)
        break;
    }
    return total;
  }

private:
  uint64_t count(Operation &op, Environment &environment) {
    if (isa<CopyOp, ReduceOp, TransferOp, SignalOp, WaitOp>(op))
      return 1;
    if (auto schedule = dyn_cast<ScheduleOp>(op))
      return schedule.getNumRows();
    if (auto loop = dyn_cast<affine::AffineForOp>(op)) {
      auto [lower, upper] = environment.bounds(loop);
      return repeat(loop, loop.getInductionVar(), lower, upper, loop.getStepAsInt(), environment,
                    [&] { return count(*loop.getBody(), environment); });
    }
    if (auto loop = dyn_cast<affine::AffineParallelOp>(op))
      return countDimension(loop, 0, environment);
    if (isa<BlockOp, ProxyOp>(op))
      return count(op.getRegion(0).front(), environment);
    return 0;
  }

  uint64_t countDimension(affine::AffineParallelOp loop, unsigned dimension,
                          Environment &environment) {
    if (dimension == loop.getNumDims())
      return count(*loop.getBody(), environment);
    SmallVector<int64_t> lower =
        environment.evaluate(loop.getLowerBoundMap(dimension), loop.getLowerBoundsOperands());
    SmallVector<int64_t> upper =
        environment.evaluate(loop.getUpperBoundMap(dimension), loop.getUpperBoundsOperands());
    return repeat(loop, loop.getIVs()[dimension], *llvm::max_element(lower),
                  *llvm::min_element(upper), loop.getSteps()[dimension], environment,
                  [&] { return countDimension(loop, dimension + 1, environment); });
  }

  /// The sum of body() over a loop; one call if no inner loop depends on the variable.
  uint64_t repeat(Operation *loop, Value variable, int64_t lower, int64_t upper, int64_t step,
                  Environment &environment, function_ref<uint64_t()> body) {
    if (lower >= upper)
      return 0;
    WalkResult varies = loop->walk([&](Operation *inner) {
      bool bounds = inner != loop && isa<affine::AffineForOp, affine::AffineParallelOp>(inner);
      return bounds && dependsOn(inner->getOperands(), variable) ? WalkResult::interrupt()
                                                                 : WalkResult::advance();
    });
    environment.set(variable, lower);
    uint64_t trips = uint64_t(upper - lower - 1) / uint64_t(step) + 1;
    if (!varies.wasInterrupted())
      return std::min(limit, llvm::SaturatingMultiply(trips, body()));
    uint64_t total = 0;
    for (int64_t i = lower; i < upper && total < limit; i += step) {
      environment.set(variable, i);
      total = std::min(limit, llvm::SaturatingAdd(total, body()));
    }
    return total;
  }

  uint64_t limit;
};

} // namespace

uint64_t countMoves(AlgorithmOp algorithm, uint64_t limit) {
  Environment environment;
  return Counter(limit).count(algorithm.getBlock(), environment);
}

/// Whether ranks may run through the loops of a program differently.
static bool loopsVary(ProgramOp program) {
  const Value me = program.getMe();
  return me && program.getBody()
                   .walk([&](affine::AffineForOp loop) {
                     return dependsOn(loop.getOperands(), me) ? WalkResult::interrupt()
                                                              : WalkResult::advance();
                   })
                   .wasInterrupted();
}

uint64_t countInstructions(AlgorithmOp algorithm, uint64_t limit) {
  uint64_t total = 0;
  for (ProgramOp program : getPrograms(algorithm)) {
    SmallVector<int64_t> ranks = program.getRankList();
    const uint64_t alike = loopsVary(program) ? 1 : ranks.size();
    for (size_t i = 0; i < ranks.size() && total < limit; i += alike) {
      Environment environment;
      if (Value me = program.getMe())
        environment.set(me, ranks[i]);
      const uint64_t one = Counter(limit).count(program.getBlock(), environment);
      total = llvm::SaturatingAdd(total, llvm::SaturatingMultiply(one, alike));
    }
  }
  return std::min(total, limit);
}

uint64_t countOps(Operation *root) {
  uint64_t ops = 0;
  root->walk([&](Operation *) { ++ops; });
  return ops;
}

} // namespace ccl
