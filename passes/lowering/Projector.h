//===- Projector.h - The program of one class of ranks -----------------------===//
//
// Works symbolically in %me and the loop variables. Where that fails it reports why
// (Control), and ccl-project-to-ranks splits the class or starts again with single
// ranks; loops whose body depends on the step in a way that has no closed form unroll
// themselves.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/lowering/RankSolver.h"

#include <map>
#include <string>

namespace ccl {

enum class Control {
  Done,
  Unroll,     ///< the enclosing step loop must be unrolled
  Split,      ///< ranks differ: Projector::splitOff does something else
  Singletons, ///< no closed form: project every rank of the class alone
  Failed,     ///< a diagnostic was emitted
};

using Substitution = llvm::DenseMap<mlir::AffineExpr, mlir::AffineExpr>;

class Projector {
public:
  Projector(AlgorithmOp algorithm, llvm::ArrayRef<int64_t> ranks, int64_t slots, int64_t maxOps)
      : algorithm(algorithm), context(algorithm.getContext()), ranks(ranks), slots(slots),
        maxOps(maxOps) {}

  /// Writes `program` behind the algorithm. Unless the answer is Done it is unfinished
  /// and to be erased.
  Control run(llvm::StringRef name);
  ProgramOp program;
  llvm::SmallVector<int64_t> splitOff; ///< after Split: the ranks that differ

private:
  struct BufferInfo {
    mlir::Value value; ///< in the program
    llvm::SmallVector<int64_t> rankShape, chunkShape;
  };
  /// A move of the current step, its indices over `space`.
  struct StepMove {
    MoveRef move;
    llvm::SmallVector<StepVariable> variables;
    llvm::SmallVector<mlir::AffineExpr> srcRank, srcChunk, dstRank, dstChunk;
    const BufferInfo *src, *dst;
    bool isDirect() const { return move.via == Via::Direct; }
  };
  enum class Role { Send, Receive, Local };
  /// What this rank does for one move: solved variables, loops over the free ones.
  struct Half {
    const StepMove *move;
    Role role;
    Substitution solved;
    llvm::SmallVector<StepVariable> free;
  };

  void createProgram(llvm::StringRef name);
  Control emitBlock(mlir::Block &block, mlir::OpBuilder &b);
  Control emitLoop(mlir::affine::AffineForOp loop, mlir::OpBuilder &b);
  Control emitStep(mlir::Operation &op, mlir::OpBuilder &b);
  Control emitSchedule(ScheduleOp op, mlir::OpBuilder &b);
  Control gather(mlir::Operation &op, llvm::ArrayRef<StepVariable> outer,
                 std::vector<StepMove> &moves);
  Control solveHalf(const StepMove &move, Role role, std::vector<Half> &halves, bool &enumerate);
  Control decide(const Half &half, llvm::ArrayRef<Guard> guards, bool &exists, bool &enumerate);
  Control enumerateHalves(llvm::ArrayRef<StepMove> moves, std::vector<Half> &halves);
  Control emitHalves(llvm::ArrayRef<Half> halves, bool inOrder, mlir::OpBuilder &b,
                     mlir::Location loc);
  Control checkSize(mlir::Location loc);

  /// Constant value of all results combined, if they are constant.
  std::optional<int64_t> constantBound(mlir::AffineMap map, mlir::ValueRange operands, bool lower);

  // Emission of single ops, inside loops over the half's free variables.
  using Emit = llvm::function_ref<void(mlir::OpBuilder &, const Substitution &)>;
  void nest(llvm::ArrayRef<StepVariable> free, mlir::OpBuilder &b, mlir::Location loc, Emit emit);
  mlir::AffineExpr apply(mlir::AffineExpr e, const Half &half, const Substitution &loops);
  PlaceRef place(mlir::Value base, llvm::ArrayRef<mlir::AffineExpr> chunk, const Half &half,
                 const Substitution &loops);
  PlaceRef channelPlace(mlir::Value channel) {
    return {channel, mlir::AffineMap::get(context), {}};
  }
  mlir::AffineExpr peerOf(const Half &half, const Substitution &loops);
  mlir::Value channel(Direction direction, mlir::AffineExpr peer, int64_t tag, int64_t channelSlots,
                      mlir::OpBuilder &b, mlir::Location loc);
  mlir::Value peerBuffer(mlir::Value buffer, mlir::AffineExpr peer, mlir::OpBuilder &b,
                         mlir::Location loc);
  void emitLocal(const Half &half, mlir::OpBuilder &b, const Substitution &loops);
  void emitSend(const Half &half, mlir::OpBuilder &b, const Substitution &loops);
  void emitReceive(const Half &half, mlir::OpBuilder &b, const Substitution &loops);
  void emitRead(const Half &half, mlir::OpBuilder &b, const Substitution &loops);
  void emitSignal(const Half &half, bool ready, mlir::OpBuilder &b, const Substitution &loops);
  void emitWait(const Half &half, bool ready, mlir::OpBuilder &b, const Substitution &loops);
  template <typename Op>
  void emitCounter(const Half &half, Direction direction, bool ready, bool guards,
                   mlir::OpBuilder &b, const Substitution &loops);
  int64_t burst(const Half &half);

  AlgorithmOp algorithm;
  mlir::MLIRContext *context;
  llvm::ArrayRef<int64_t> ranks;
  int64_t slots, maxOps, emitted = 0;

  IndexSpace space;
  llvm::SmallVector<Interval> ranges;                ///< by dimension of `space`
  llvm::DenseMap<mlir::Value, mlir::AffineExpr> env; ///< step variables of the algorithm
  llvm::SmallVector<mlir::AffineExpr> me;            ///< this rank's coordinates
  std::optional<unsigned> meDim;                     ///< of %me, if there are several ranks
  llvm::DenseMap<mlir::Value, BufferInfo> buffers;
  llvm::SmallVector<int64_t> rankShape;
  BlockOp block;
  std::map<std::tuple<int, std::string, int64_t, int64_t>, mlir::Value> hoisted;

  void setRange(unsigned dim, Interval range) {
    if (ranges.size() <= dim)
      ranges.resize(dim + 1, {1, 0});
    ranges[dim] = range;
  }
  mlir::AffineExpr dimOf(mlir::Value v) { return getAffineDimExpr(space.dim(v), context); }
  mlir::AffineExpr constant(int64_t v) { return getAffineConstantExpr(v, context); }
};

} // namespace ccl
