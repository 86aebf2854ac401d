//===- Projector.h - The program of one class of ranks -----------------------===//
//
// Works symbolically in %me and the loop variables. Where that fails it reports why
// (Control), and ccl-project-to-ranks splits the class or starts again with single
// ranks; loops whose body depends on the step in a way that has no closed form unroll
// themselves.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/lowering/RankSolver.h"

#include "llvm/Support/MathExtras.h"

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

/// Which agents of two ranks work together in an algorithm. Each such pair has channels of its own,
/// so that both ends agree on the order of what passes; and others for what is put, since these
/// have no slots.
class AgentPairs {
public:
  /// Each number stands for so many channels: of data, and of signals when it is there and when
  /// it has been read.
  static constexpr int64_t channelsOfMove = 3;
  explicit AgentPairs(AlgorithmOp algorithm);
  /// Whether there are other agents than 0.
  bool any() const { return others; }
  /// One number for a move's tag, its source's agent and one of the destination's.
  int64_t tag(const MoveRef &move, int64_t dstAgent) const {
    return move.tag + numbers.find(keyOf(move, dstAgent))->second * int64_t(tags);
  }
  int64_t tag(const MoveRef &move) const { return tag(move, move.dstAgents.front()); }
  /// All numbers that `tag` gives are below.
  uint64_t end() const { return llvm::SaturatingMultiply<uint64_t>(numbers.size(), tags); }

private:
  using Key = std::tuple<int64_t, int64_t, bool>;
  static Key keyOf(const MoveRef &move, int64_t dstAgent) {
    return {move.srcAgent, dstAgent, move.via == Via::Put};
  }
  void add(const MoveRef &move);

  std::map<Key, int64_t> numbers;
  uint64_t tags = 1; ///< of moves, from 0
  bool others = false;
};

class Projector {
public:
  Projector(AlgorithmOp algorithm, const AgentPairs &pairs, llvm::ArrayRef<int64_t> ranks,
            int64_t slots, Protocol protocol, int64_t maxOps)
      : algorithm(algorithm), pairs(pairs), context(algorithm.getContext()), ranks(ranks),
        slots(slots), protocol(protocol), maxOps(maxOps) {}

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
    bool isStaged() const { return move.via != Via::Direct && move.via != Via::Put; }
    bool isDirect() const { return move.via == Via::Direct; }
    bool isPut() const { return move.via == Via::Put; }
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
  Control unroll(mlir::affine::AffineForOp loop, int64_t lower, int64_t upper, mlir::OpBuilder &b);
  Control emitStep(mlir::Operation &op, mlir::OpBuilder &b);
  Control emitSchedule(ScheduleOp op, mlir::OpBuilder &b);
  Control gather(mlir::Operation &op, llvm::ArrayRef<StepVariable> outer,
                 std::vector<StepMove> &moves);
  Control solveHalf(const StepMove &move, Role role, std::vector<Half> &halves, bool &enumerate);
  Control decide(const Half &half, llvm::ArrayRef<Guard> guards, bool &exists, bool &enumerate);
  Control enumerateHalves(llvm::ArrayRef<StepMove> moves, std::vector<Half> &halves);
  Control emitHalves(llvm::ArrayRef<Half> halves, bool inOrder, mlir::OpBuilder &b,
                     mlir::Location loc);
  static bool canAlternate(llvm::ArrayRef<const Half *> sends,
                           llvm::ArrayRef<const Half *> receives);
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
  void emitPut(const Half &half, mlir::OpBuilder &b, const Substitution &loops);
  void emitArrival(const Half &half, mlir::OpBuilder &b, const Substitution &loops);
  void emitRead(const Half &half, mlir::OpBuilder &b, const Substitution &loops);
  void emitSignal(const Half &half, bool ready, mlir::OpBuilder &b, const Substitution &loops);
  void emitWait(const Half &half, bool ready, mlir::OpBuilder &b, const Substitution &loops);
  template <typename Op>
  void emitCounter(const Half &half, Direction direction, bool ready, bool guards,
                   mlir::OpBuilder &b, const Substitution &loops);
  int64_t burst(const Half &half);
  /// The agent that executes a half.
  int64_t agentOf(const Half &half) const {
    return half.role == Role::Receive ? half.move->move.dstAgents.front()
                                      : half.move->move.srcAgent;
  }
  /// Notes on `op` which agent it is for.
  void assign(mlir::Operation *op, const Half &half) { assign(op, agentOf(half)); }
  void assign(mlir::Operation *op, int64_t agent);

  AlgorithmOp algorithm;
  const AgentPairs &pairs;
  mlir::MLIRContext *context;
  llvm::ArrayRef<int64_t> ranks;
  int64_t slots;
  Protocol protocol; ///< of channels with slots
  int64_t maxOps, emitted = 0, arrivals = 0;
  int64_t step = 0; ///< of the algorithm, if its loops are unrolled

  IndexSpace space;
  llvm::SmallVector<unsigned> stepDims; ///< of the variables of a step, in turn
  size_t usedDims = 0;
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
