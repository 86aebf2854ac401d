//===- SplitLoops.cpp -------------------------------------------------------===//
#include "codegen/cuda/SplitLoops.h"

#include "codegen/Count.h"
#include "passes/checks/CheckProofs.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ccl::cuda {

/// What an op of a loop's body does, in the order in which that may come.
enum class Part { Nothing, Wait, Move, Signal };

/// Nothing for an op that keeps its loop whole.
static std::optional<Part> partOf(Operation *op) {
  if (isa<ChannelOp, PeerOp, affine::AffineYieldOp>(op))
    return Part::Nothing;
  if (isa<WaitOp>(op))
    return Part::Wait;
  if (isa<SignalOp>(op))
    return Part::Signal;
  auto transfer = dyn_cast<TransferOp>(op);
  if (!transfer)
    return std::nullopt;
  auto isChannel = [](const PlaceRef &place) { return place.isChannel(); };
  if (llvm::any_of(getFromPlaces(transfer), isChannel) ||
      llvm::any_of(getToPlaces(transfer), isChannel))
    return std::nullopt;
  return Part::Move;
}

/// The parts that a loop has, if it can be split: at least two, one of them moves.
static SmallVector<Part> partsOf(affine::AffineForOp loop) {
  SmallVector<Part> parts;
  for (Operation &op : *loop.getBody()) {
    const std::optional<Part> part = partOf(&op);
    if (!part || (*part != Part::Nothing && !parts.empty() && *part < parts.back()))
      return {};
    if (*part != Part::Nothing && (parts.empty() || parts.back() != *part))
      parts.push_back(*part);
  }
  if (parts.size() < 2 || !llvm::is_contained(parts, Part::Move) || loop.getNumIterOperands() > 0)
    return {};
  return parts;
}

static void keepPart(affine::AffineForOp loop, Part part) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*loop.getBody()))) {
    const Part its = partOf(&op).value_or(Part::Nothing);
    if ((its != part && its != Part::Nothing) || (isa<ChannelOp, PeerOp>(op) && op.use_empty()))
      op.erase();
  }
}

/// Whether some loop was split.
static bool split(ProgramOp program) {
  SmallVector<affine::AffineForOp> loops;
  program.walk([&](affine::AffineForOp loop) {
    if (!partsOf(loop).empty())
      loops.push_back(loop);
  });
  for (affine::AffineForOp loop : loops) {
    OpBuilder builder(loop);
    for (Part part : partsOf(loop))
      keepPart(cast<affine::AffineForOp>(builder.clone(*loop)), part);
    loop.erase();
  }
  return !loops.empty();
}

static bool isProved(AlgorithmOp algorithm, const Plan &plan) {
  ScopedDiagnosticHandler quiet(algorithm.getContext(), [](Diagnostic &) { return success(); });
  ProgramProof proof(algorithm);
  auto forms = algorithm.getLowered() ? proof.checkLowered()
                                      : proof.checkForms(plan.disjointProved, plan.inPlaceProved);
  if (failed(forms) || !*forms)
    return false;
  return algorithm.getLowered()
             ? (*forms)->disjoint || (*forms)->inPlace
             : (*forms)->disjoint == plan.disjointProved && (*forms)->inPlace == plan.inPlaceProved;
}

void splitLoops(AlgorithmOp algorithm, const Plan &plan) {
  // Of more a proof takes long.
  if (countInstructions(algorithm, manyToProve) >= manyToProve)
    return;
  SmallVector<std::pair<ProgramOp, OwningOpRef<ProgramOp>>> before;
  for (ProgramOp program : getPrograms(algorithm)) {
    OwningOpRef<ProgramOp> copy(program.clone());
    if (split(program))
      before.emplace_back(program, std::move(copy));
  }
  if (before.empty() || isProved(algorithm, plan))
    return;
  for (auto &[program, copy] : before)
    program.getBody().takeBody(copy->getBody());
}

} // namespace ccl::cuda
