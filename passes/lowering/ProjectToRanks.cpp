//===- ProjectToRanks.cpp - From the choreography to rank programs -----------===//
//
// One Projector writes the program of one class of ranks. It works symbolically in
// %me and the loop variables. Where that fails it reports why (Control), and the
// driver at the bottom splits the class or starts again with single ranks; loops whose
// body depends on the step in a way that has no closed form unroll themselves.
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/lowering/RankSolver.h"
#include "passes/lowering/Trace.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLPROJECTTORANKS
#include "passes/Passes.h.inc"

namespace {

enum class Control {
  Done,
  Unroll,     ///< the enclosing step loop must be unrolled
  Split,      ///< ranks differ: Projector::splitOff does something else
  Singletons, ///< no closed form: project every rank of the class alone
  Failed,     ///< a diagnostic was emitted
};

/// Tags of the channels that one move may need.
int64_t dataTag(int64_t tag) { return 3 * tag; }
int64_t readyTag(int64_t tag) { return 3 * tag + 1; }
int64_t doneTag(int64_t tag) { return 3 * tag + 2; }

using Substitution = DenseMap<AffineExpr, AffineExpr>;

class Projector {
public:
  Projector(AlgorithmOp algorithm, ArrayRef<int64_t> ranks, int64_t slots, int64_t maxOps)
      : algorithm(algorithm), context(algorithm.getContext()), ranks(ranks), slots(slots),
        maxOps(maxOps) {}

  Control run(StringRef name);
  ProgramOp program;
  SmallVector<int64_t> splitOff;

private:
  struct BufferInfo {
    Value value;    ///< in the program
    int64_t number; ///< in program order
    SmallVector<int64_t> rankShape, chunkShape;
  };
  /// A move of the current step, its indices over `space`.
  struct StepMove {
    MoveRef move;
    SmallVector<StepVariable> variables;
    SmallVector<AffineExpr> srcRank, srcChunk, dstRank, dstChunk;
    const BufferInfo *src, *dst;
    bool isDirect() const { return move.via == Via::Direct; }
  };
  enum class Role { Send, Receive, Local };
  /// What this rank does for one move: solved variables, loops over the free ones.
  struct Half {
    const StepMove *move;
    Role role;
    Substitution solved;
    SmallVector<StepVariable> free;
  };

  void createProgram(StringRef name);
  Control emitBlock(Block &block, OpBuilder &b);
  Control emitLoop(affine::AffineForOp loop, OpBuilder &b);
  Control emitStep(Operation &op, OpBuilder &b);
  Control emitSchedule(ScheduleOp op, OpBuilder &b);
  Control gather(Operation &op, ArrayRef<StepVariable> outer, std::vector<StepMove> &moves);
  Control solveHalf(const StepMove &move, Role role, std::vector<Half> &halves,
                    bool &enumerate);
  Control decide(const Half &half, ArrayRef<Guard> guards, bool &exists, bool &enumerate);
  Control enumerateHalves(ArrayRef<StepMove> moves, std::vector<Half> &halves);
  Control emitHalves(ArrayRef<Half> halves, bool inOrder, OpBuilder &b, Location loc);
  Control checkSize(Location loc);

  /// Constant value of all results combined, if they are constant.
  std::optional<int64_t> constantBound(AffineMap map, ValueRange operands, bool lower);

  // Emission of single ops, inside loops over the half's free variables.
  using Emit = function_ref<void(OpBuilder &, const Substitution &)>;
  void nest(ArrayRef<StepVariable> free, OpBuilder &b, Location loc, Emit emit);
  AffineExpr apply(AffineExpr e, const Half &half, const Substitution &loops);
  PlaceRef place(Value base, ArrayRef<AffineExpr> chunk, const Half &half,
                 const Substitution &loops);
  PlaceRef channelPlace(Value channel) { return {channel, AffineMap::get(context), {}}; }
  AffineExpr peerOf(const Half &half, const Substitution &loops);
  Value channel(Direction direction, AffineExpr peer, int64_t tag, int64_t channelSlots,
                OpBuilder &b, Location loc);
  Value peerBuffer(Value buffer, AffineExpr peer, OpBuilder &b, Location loc);
  void emitLocal(const Half &half, OpBuilder &b, const Substitution &loops);
  void emitSend(const Half &half, OpBuilder &b, const Substitution &loops);
  void emitReceive(const Half &half, OpBuilder &b, const Substitution &loops);
  void emitRead(const Half &half, OpBuilder &b, const Substitution &loops);
  void emitSignal(const Half &half, bool ready, OpBuilder &b, const Substitution &loops);
  void emitWait(const Half &half, bool ready, OpBuilder &b, const Substitution &loops);
  int64_t burst(const Half &half);

  AlgorithmOp algorithm;
  MLIRContext *context;
  ArrayRef<int64_t> ranks;
  int64_t slots, maxOps, emitted = 0;

  IndexSpace space;
  SmallVector<Interval> ranges;          ///< by dimension of `space`
  DenseMap<Value, AffineExpr> env;       ///< step variables of the algorithm
  SmallVector<AffineExpr> me;            ///< this rank's coordinates
  std::optional<unsigned> meDim;         ///< of %me, if there are several ranks
  DenseMap<Value, BufferInfo> buffers;
  SmallVector<int64_t> rankShape;
  BlockOp block;
  std::map<std::tuple<int, std::string, int64_t, int64_t>, Value> hoisted;

  void setRange(unsigned dim, Interval range) {
    if (ranges.size() <= dim)
      ranges.resize(dim + 1, {1, 0});
    ranges[dim] = range;
  }
  AffineExpr dimOf(Value v) { return getAffineDimExpr(space.dim(v), context); }
  AffineExpr constant(int64_t v) { return getAffineConstantExpr(v, context); }
};

//===----------------------------------------------------------------------===//
// The program's frame
//===----------------------------------------------------------------------===//

void Projector::createProgram(StringRef name) {
  OpBuilder b(context);
  Operation *after = algorithm;
  while (after->getNextNode() && isa<ProgramOp>(after->getNextNode()))
    after = after->getNextNode();
  b.setInsertionPointAfter(after);
  Location loc = algorithm.getLoc();
  bool shared = ranks.size() > 1;
  SmallVector<Type> inputs(shared ? 1 : 0, b.getIndexType());
  SmallVector<int64_t> intervals;
  for (int64_t r : ranks) {
    if (intervals.empty() || intervals.back() != r)
      intervals.append({r, r + 1});
    else
      ++intervals.back();
  }
  program = b.create<ProgramOp>(
      loc, b.getStringAttr(name), TypeAttr::get(b.getFunctionType(inputs, {})),
      FlatSymbolRefAttr::get(algorithm.getSymNameAttr()), b.getDenseI64ArrayAttr(intervals),
      StringAttr(), ArrayAttr(), ArrayAttr());
  program->setAttr(projectedProgram, b.getUnitAttr());
  Block *body = new Block;
  program.getBody().push_back(body);
  b.setInsertionPointToEnd(body);
  AffineExpr rank = constant(ranks.front());
  if (shared) {
    Value arg = body->addArgument(b.getIndexType(), loc);
    meDim = space.dim(arg);
    setRange(*meDim, {ranks.front(), ranks.back()});
    rank = dimOf(arg);
  }
  for (auto op : algorithm.getBody().getOps<BufferOp>()) {
    BufferInfo &info = buffers[op.getResult()];
    info.number = int64_t(buffers.size()) - 1;
    info.rankShape = *op.getRankShape();
    info.chunkShape = *op.getChunkShape();
    rankShape = info.rankShape;
    SmallVector<AffineExpr> extents;
    for (int64_t extent : info.chunkShape)
      extents.push_back(constant(extent));
    info.value = b.create<BufferOp>(op.getLoc(), BufferType::get(context), op.getRole(),
                                    AffineMapAttr(),
                                    AffineMap::get(0, 0, extents, context),
                                    ValueRange(), ValueRange(), op.getNameAttr());
  }
  int64_t stride = product(rankShape);
  for (auto [axis, extent] : llvm::enumerate(rankShape)) {
    stride /= extent;
    AffineExpr c = rank.floorDiv(stride);
    me.push_back(normalizeIndex(axis == 0 ? c : c % extent));
  }
  block = b.create<BlockOp>(loc, 0);
  block.getBody().emplaceBlock();
}

Control Projector::run(StringRef name) {
  createProgram(name);
  OpBuilder b = OpBuilder::atBlockEnd(&block.getBody().front());
  return emitBlock(algorithm.getBlock(), b);
}

Control Projector::checkSize(Location loc) {
  if (emitted <= maxOps)
    return Control::Done;
  emitError(loc) << "the program of rank " << ranks.front() << " exceeds " << maxOps
                 << " operations: its rank indices have no closed form over these loops";
  return Control::Failed;
}

//===----------------------------------------------------------------------===//
// Loops over steps
//===----------------------------------------------------------------------===//

Control Projector::emitBlock(Block &body, OpBuilder &b) {
  for (Operation &op : body) {
    Control c = Control::Done;
    if (auto loop = dyn_cast<affine::AffineForOp>(op))
      c = emitLoop(loop, b);
    else if (isa<affine::AffineParallelOp, CopyOp, ReduceOp>(op))
      c = emitStep(op, b);
    else if (auto schedule = dyn_cast<ScheduleOp>(op))
      c = emitSchedule(schedule, b);
    else if (auto apply = dyn_cast<affine::AffineApplyOp>(op))
      env[apply.getResult()] =
          space.rebase(apply.getAffineMap(), apply.getMapOperands(), &env).front();
    else if (isa<ApplyOp, PipelineOp>(op)) {
      op.emitOpError("must be expanded first (ccl-expand-apply)");
      c = Control::Failed;
    }
    if (c != Control::Done)
      return c;
  }
  return Control::Done;
}

std::optional<int64_t> Projector::constantBound(AffineMap map, ValueRange operands,
                                                bool lower) {
  std::optional<int64_t> bound;
  for (AffineExpr e : space.rebase(map, operands, &env)) {
    auto known = dyn_cast<AffineConstantExpr>(e);
    if (!known)
      return std::nullopt;
    int64_t v = known.getValue();
    bound = !bound ? v : lower ? std::max(*bound, v) : std::min(*bound, v);
  }
  return bound;
}

Control Projector::emitLoop(affine::AffineForOp loop, OpBuilder &b) {
  Value iv = loop.getInductionVar();
  AffineMap lowerMap = loop.getLowerBoundMap(), upperMap = loop.getUpperBoundMap();
  auto lower = constantBound(lowerMap, loop.getLowerBoundOperands(), true);
  auto upper = constantBound(upperMap, loop.getUpperBoundOperands(), false);
  int64_t step = loop.getStepAsInt();
  if (lower && upper) {
    if (*lower >= *upper)
      return Control::Done;
    if (*lower + step >= *upper) {
      env[iv] = constant(*lower);
      return emitBlock(*loop.getBody(), b);
    }
  }
  // A bound that depends on an outer loop stays an affine map.
  SmallVector<AffineExpr> lowerExprs = space.rebase(lowerMap, loop.getLowerBoundOperands(), &env);
  SmallVector<AffineExpr> upperExprs = space.rebase(upperMap, loop.getUpperBoundOperands(), &env);
  SmallVector<Value> lowerOperands, upperOperands;
  AffineMap newLower = makeMap(lowerExprs, space.values(), lowerOperands, context);
  AffineMap newUpper = makeMap(upperExprs, space.values(), upperOperands, context);
  auto created = b.create<affine::AffineForOp>(loop.getLoc(), lowerOperands, newLower,
                                               upperOperands, newUpper, step);
  ++emitted;
  unsigned dim = space.dim(created.getInductionVar());
  env[iv] = getAffineDimExpr(dim, context);
  Interval range{1, 0};
  auto low = boundsOf(lowerExprs.front(), ranges), high = boundsOf(upperExprs.front(), ranges);
  if (low && high)
    range = {low->first, high->second - 1};
  setRange(dim, range);
  OpBuilder inner = OpBuilder::atBlockTerminator(created.getBody());
  Control c = emitBlock(*loop.getBody(), inner);
  if (c == Control::Done) {
    if (created.getBody()->without_terminator().empty())
      created.erase();
    return checkSize(loop.getLoc());
  }
  created.erase();
  if (c != Control::Unroll || !lower || !upper)
    return c;
  for (int64_t i = *lower; i < *upper; i += step) {
    env[iv] = constant(i);
    c = emitBlock(*loop.getBody(), b);
    if (c == Control::Done)
      c = checkSize(loop.getLoc());
    if (c != Control::Done)
      return c;
  }
  return Control::Done;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Control Projector::gather(Operation &op, ArrayRef<StepVariable> outer,
                          std::vector<StepMove> &moves) {
  SmallVector<StepVariable> variables(outer.begin(), outer.end());
  bool empty = false;
  auto variable = [&](Value iv, std::optional<int64_t> low, std::optional<int64_t> high,
                      int64_t step) {
    if (!low || !high)
      return false;
    int64_t extent = (*high - *low + step - 1) / step;
    empty |= extent <= 0;
    unsigned dim = space.dim(iv);
    env.erase(iv);
    setRange(dim, {*low, *low + (extent - 1) * step});
    variables.push_back({dim, *low, extent, step});
    return true;
  };
  Block *body = nullptr;
  if (auto parallel = dyn_cast<affine::AffineParallelOp>(op)) {
    for (auto [i, iv] : llvm::enumerate(parallel.getIVs()))
      if (!variable(iv,
                    constantBound(parallel.getLowerBoundMap(i),
                                  parallel.getLowerBoundsOperands(), true),
                    constantBound(parallel.getUpperBoundMap(i),
                                  parallel.getUpperBoundsOperands(), false),
                    parallel.getSteps()[i]))
        return Control::Unroll;
    body = parallel.getBody();
  } else if (auto loop = dyn_cast<affine::AffineForOp>(op)) {
    if (!variable(loop.getInductionVar(),
                  constantBound(loop.getLowerBoundMap(), loop.getLowerBoundOperands(), true),
                  constantBound(loop.getUpperBoundMap(), loop.getUpperBoundOperands(), false),
                  loop.getStepAsInt()))
      return Control::Unroll;
    body = loop.getBody();
  } else if (auto apply = dyn_cast<affine::AffineApplyOp>(op)) {
    env[apply.getResult()] =
        space.rebase(apply.getAffineMap(), apply.getMapOperands(), &env).front();
    return Control::Done;
  }
  if (empty)
    return Control::Done;
  if (body) {
    for (Operation &inner : *body)
      if (Control c = gather(inner, variables, moves); c != Control::Done)
        return c;
    return Control::Done;
  }
  auto move = getMove(&op);
  if (!move)
    return Control::Done; // yield, constant
  StepMove m;
  m.move = *move;
  m.variables = variables;
  m.src = &buffers.find(move->src.base)->second;
  m.dst = &buffers.find(move->dst.base)->second;
  auto split = [&](const PlaceRef &p, SmallVector<AffineExpr> &rank,
                   SmallVector<AffineExpr> &chunk) {
    SmallVector<AffineExpr> all = space.rebase(p.map, p.operands, &env);
    rank.assign(all.begin(), all.begin() + rankShape.size());
    chunk.assign(all.begin() + rankShape.size(), all.end());
  };
  split(move->src, m.srcRank, m.srcChunk);
  split(move->dst, m.dstRank, m.dstChunk);
  moves.push_back(std::move(m));
  return Control::Done;
}

/// Whether the guards hold: for all ranks of the class (exists), for none, or for some
/// (Split). `enumerate` is set if it depends on free variables.
Control Projector::decide(const Half &half, ArrayRef<Guard> guards, bool &exists,
                          bool &enumerate) {
  exists = true;
  SmallVector<int64_t> inputs(space.values().size());
  for (const Guard &guard : guards) {
    if (auto bounds = boundsOf(guard.expr, ranges)) {
      if (bounds->first >= guard.low && bounds->second < guard.high)
        continue;
      if (bounds->second < guard.low || bounds->first >= guard.high) {
        exists = false;
        return Control::Done;
      }
    }
    SmallVector<const StepVariable *> free;
    bool other = false;
    guard.expr.walk([&](AffineExpr e) {
      auto d = dyn_cast<AffineDimExpr>(e);
      if (!d || (meDim && d.getPosition() == *meDim))
        return;
      auto it = llvm::find_if(half.free, [&](auto &v) { return v.dim == d.getPosition(); });
      if (it == half.free.end())
        other = true;
      else if (!llvm::is_contained(free, &*it))
        free.push_back(&*it);
    });
    if (other)
      return Control::Unroll;
    if (!free.empty()) {
      enumerate = true;
      return Control::Done;
    }
    SmallVector<int64_t> yes, no;
    for (int64_t r : ranks) {
      if (meDim)
        inputs[*meDim] = r;
      int64_t v = evaluateIndex(guard.expr, inputs, inputs.size());
      (v >= guard.low && v < guard.high ? yes : no).push_back(r);
    }
    if (no.empty())
      continue;
    exists = false;
    if (yes.empty())
      return Control::Done;
    splitOff = yes;
    return Control::Split;
  }
  return Control::Done;
}

Control Projector::solveHalf(const StepMove &move, Role role, std::vector<Half> &halves,
                             bool &enumerate) {
  auto solution =
      solveForRank(role == Role::Receive ? move.dstRank : move.srcRank, me, move.variables);
  if (!solution) {
    enumerate = true;
    return Control::Done;
  }
  Half half{&move, role, Substitution(), {}};
  for (auto [variable, value] : llvm::zip_equal(move.variables, solution->values)) {
    if (value)
      half.solved[getAffineDimExpr(variable.dim, context)] = value;
    else
      half.free.push_back(variable);
  }
  bool exists;
  Control c = decide(half, solution->guards, exists, enumerate);
  if (c == Control::Done && exists)
    halves.push_back(std::move(half));
  return c;
}

/// The fallback: every instance is tried, in the algorithm's order.
Control Projector::enumerateHalves(ArrayRef<StepMove> moves, std::vector<Half> &halves) {
  if (ranks.size() > 1)
    return Control::Singletons;
  SmallVector<int64_t> inputs(space.values().size());
  for (const StepMove &m : moves) {
    uint64_t total = 1;
    SmallVector<AffineExpr> all(m.srcRank);
    all.append(m.dstRank);
    all.append(m.srcChunk);
    all.append(m.dstChunk);
    for (const StepVariable &v : m.variables)
      total *= v.extent;
    if (total > (uint64_t(1) << 24)) {
      m.move.op->emitOpError() << "has " << total
                               << " instances in one step whose ranks have no closed form";
      return Control::Failed;
    }
    bool symbolic = false;
    for (AffineExpr e : all)
      e.walk([&](AffineExpr x) {
        auto d = dyn_cast<AffineDimExpr>(x);
        symbolic |= d && llvm::none_of(m.variables,
                                       [&](auto &v) { return v.dim == d.getPosition(); });
      });
    if (symbolic)
      return Control::Unroll;
    auto rankOf = [&](ArrayRef<AffineExpr> exprs) {
      SmallVector<int64_t> coordinates;
      for (AffineExpr e : exprs)
        coordinates.push_back(evaluateIndex(e, inputs, inputs.size()));
      return linearize(coordinates, rankShape);
    };
    for (uint64_t i = 0; i < total; ++i) {
      uint64_t rest = i;
      Half half{&m, Role::Local, Substitution(), {}};
      for (const StepVariable &v : llvm::reverse(m.variables)) {
        inputs[v.dim] = v.lower + v.step * int64_t(rest % v.extent);
        rest /= v.extent;
      }
      int64_t src = rankOf(m.srcRank), dst = rankOf(m.dstRank);
      if (src != ranks.front() && dst != ranks.front())
        continue;
      for (const StepVariable &v : m.variables)
        half.solved[getAffineDimExpr(v.dim, context)] = constant(inputs[v.dim]);
      if (src != dst)
        half.role = src == ranks.front() ? Role::Send : Role::Receive;
      halves.push_back(std::move(half));
      if (int64_t(halves.size()) > maxOps) {
        emitted = maxOps + 1;
        return checkSize(m.move.op->getLoc());
      }
    }
  }
  return Control::Done;
}

Control Projector::emitStep(Operation &op, OpBuilder &b) {
  std::vector<StepMove> moves;
  if (Control c = gather(op, {}, moves); c != Control::Done)
    return c;
  std::vector<Half> halves;
  bool enumerate = false;
  for (const StepMove &m : moves) {
    Control c;
    if (m.srcRank == m.dstRank) {
      c = solveHalf(m, Role::Local, halves, enumerate);
    } else {
      c = solveHalf(m, Role::Send, halves, enumerate);
      if (c == Control::Done)
        c = solveHalf(m, Role::Receive, halves, enumerate);
    }
    if (c != Control::Done)
      return c;
  }
  if (!enumerate) {
    Control c = emitHalves(halves, /*inOrder=*/false, b, op.getLoc());
    if (c != Control::Singletons)
      return c;
  }
  halves.clear();
  if (Control c = enumerateHalves(moves, halves); c != Control::Done)
    return c;
  return emitHalves(halves, /*inOrder=*/true, b, op.getLoc());
}

Control Projector::emitSchedule(ScheduleOp op, OpBuilder &b) {
  if (ranks.size() > 1)
    return Control::Singletons;
  ArrayRef<int64_t> rows = op.getRows();
  std::vector<StepMove> moves;
  std::vector<Half> halves;
  auto coordinates = [&](int64_t linear, ArrayRef<int64_t> shape) {
    SmallVector<AffineExpr> list(shape.size());
    for (size_t i = shape.size(); i-- > 0; linear /= shape[i])
      list[i] = constant(linear % shape[i]);
    return list;
  };
  auto flush = [&]() -> Control {
    for (const StepMove &m : moves) {
      bool sends = m.srcRank == me;
      bool receives = m.dstRank == me;
      Role role = sends && receives ? Role::Local : sends ? Role::Send : Role::Receive;
      halves.push_back(Half{&m, role, Substitution(), {}});
    }
    Control c = emitHalves(halves, /*inOrder=*/true, b, op.getLoc());
    moves.clear();
    halves.clear();
    return c;
  };
  for (size_t i = 0; i < rows.size(); i += ScheduleOp::rowSize) {
    ArrayRef<int64_t> row = rows.slice(i, ScheduleOp::rowSize);
    if (i && row[0] != rows[i - ScheduleOp::rowSize])
      if (Control c = flush(); c != Control::Done)
        return c;
    if (row[2] != ranks.front() && row[5] != ranks.front())
      continue;
    StepMove m;
    m.move.op = op;
    m.move.reduce = row[1];
    m.move.count = row[8];
    m.move.via = op.getVia();
    m.move.tag = op.getTag();
    m.src = &buffers.find(op.getBuffers()[row[3]])->second;
    m.dst = &buffers.find(op.getBuffers()[row[6]])->second;
    m.srcRank = coordinates(row[2], rankShape);
    m.srcChunk = coordinates(row[4], m.src->chunkShape);
    m.dstRank = coordinates(row[5], rankShape);
    m.dstChunk = coordinates(row[7], m.dst->chunkShape);
    moves.push_back(std::move(m));
    if (Control c = checkSize(op.getLoc()); c != Control::Done)
      return c;
  }
  return flush();
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

/// How many sends of this half may meet in one channel.
int64_t Projector::burst(const Half &half) {
  AffineExpr peer = peerOf(half, Substitution());
  int64_t modulus = stripModulus(peer);
  LinearForm form = LinearForm::of(peer);
  int64_t sends = 1;
  for (const StepVariable &v : half.free) {
    int64_t factor = 0;
    for (auto &[atom, k] : form.terms)
      if (atom == getAffineDimExpr(v.dim, context))
        factor = std::abs(k) * v.step;
    bool distinct = factor && (!modulus || factor * v.extent <= modulus);
    if (!distinct)
      sends *= v.extent;
  }
  return sends;
}

Control Projector::emitHalves(ArrayRef<Half> halves, bool inOrder, OpBuilder &b, Location loc) {
  SmallVector<const Half *> sends, receives, locals, reads, offers;
  int64_t sendBurst = 0;
  for (const Half &half : halves) {
    if (half.role == Role::Local)
      locals.push_back(&half);
    else if (half.move->isDirect())
      (half.role == Role::Send ? offers : reads).push_back(&half);
    else
      (half.role == Role::Send ? sends : receives).push_back(&half);
    if (half.role == Role::Send && !half.move->isDirect())
      sendBurst += burst(half);
  }
  emitted += halves.size();
  auto each = [&](ArrayRef<const Half *> list, auto emit) {
    for (const Half *half : list)
      nest(half->free, b, loc,
           [&](OpBuilder &in, const Substitution &loops) { emit(*half, in, loops); });
  };
  // Direct: offer all places first, then read, then wait for the readers.
  each(offers, [&](const Half &h, OpBuilder &in, auto &l) { emitSignal(h, true, in, l); });

  bool sendsFirst = sendBurst <= slots || sends.empty() || receives.empty();
  if (sendsFirst) {
    each(sends, [&](const Half &h, OpBuilder &in, auto &l) { emitSend(h, in, l); });
    each(locals, [&](const Half &h, OpBuilder &in, auto &l) { emitLocal(h, in, l); });
    each(receives, [&](const Half &h, OpBuilder &in, auto &l) { emitReceive(h, in, l); });
  } else if (inOrder) {
    for (const Half &half : halves) {
      if (half.role == Role::Local)
        emitLocal(half, b, Substitution());
      else if (!half.move->isDirect() && half.role == Role::Send)
        emitSend(half, b, Substitution());
      else if (!half.move->isDirect())
        emitReceive(half, b, Substitution());
    }
  } else {
    // More sends than slots: alternate the two halves of each move.
    auto same = [](const Half *a, const Half *c) {
      return a->move == c->move && a->free.size() == c->free.size() &&
             llvm::all_of(llvm::zip_equal(a->free, c->free), [](auto pair) {
               auto &[x, y] = pair;
               return x.lower == y.lower && x.extent == y.extent && x.step == y.step;
             });
    };
    if (sends.size() != receives.size())
      return Control::Singletons;
    for (auto [s, r] : llvm::zip_equal(sends, receives))
      if (!same(s, r))
        return Control::Singletons;
    each(locals, [&](const Half &h, OpBuilder &in, auto &l) { emitLocal(h, in, l); });
    for (auto [s, r] : llvm::zip_equal(sends, receives))
      nest(s->free, b, loc, [&, s = s, r = r](OpBuilder &in, const Substitution &loops) {
        emitSend(*s, in, loops);
        // The receiving half's free variables run in the same loops.
        Substitution mine;
        for (auto [x, y] : llvm::zip_equal(s->free, r->free))
          mine[getAffineDimExpr(y.dim, context)] =
              loops.lookup(getAffineDimExpr(x.dim, context));
        emitReceive(*r, in, mine);
      });
  }

  each(reads, [&](const Half &h, OpBuilder &in, auto &l) {
    emitWait(h, true, in, l);
    emitRead(h, in, l);
    emitSignal(h, false, in, l);
  });
  each(offers, [&](const Half &h, OpBuilder &in, auto &l) { emitWait(h, false, in, l); });
  return checkSize(loc);
}

void Projector::nest(ArrayRef<StepVariable> free, OpBuilder &b, Location loc, Emit emit) {
  Substitution loops;
  int64_t total = 1;
  for (const StepVariable &v : free)
    total *= v.extent;
  // Few chunks are written out, so that fusion can look through. Fused, b sends in a row
  // take b + 1 slots.
  if (total < slots) {
    for (int64_t i = 0; i < total; ++i) {
      int64_t rest = i;
      for (const StepVariable &v : llvm::reverse(free)) {
        loops[getAffineDimExpr(v.dim, context)] = constant(v.lower + v.step * (rest % v.extent));
        rest /= v.extent;
      }
      emit(b, loops);
    }
    return;
  }
  OpBuilder inner = b;
  for (const StepVariable &v : free) {
    auto loop = inner.create<affine::AffineForOp>(loc, v.lower, v.lower + v.extent * v.step,
                                                  v.step);
    ++emitted;
    inner = OpBuilder::atBlockTerminator(loop.getBody());
    unsigned dim = space.dim(loop.getInductionVar());
    setRange(dim, {v.lower, v.lower + (v.extent - 1) * v.step});
    loops[getAffineDimExpr(v.dim, context)] = getAffineDimExpr(dim, context);
  }
  emit(inner, loops);
}

AffineExpr Projector::apply(AffineExpr e, const Half &half, const Substitution &loops) {
  return normalizeIndex(e.replace(half.solved).replace(loops));
}

PlaceRef Projector::place(Value base, ArrayRef<AffineExpr> chunk, const Half &half,
                          const Substitution &loops) {
  SmallVector<AffineExpr> exprs;
  for (AffineExpr e : chunk)
    exprs.push_back(apply(e, half, loops));
  PlaceRef p{base, {}, {}};
  p.map = makeMap(exprs, space.values(), p.operands, context);
  return p;
}

AffineExpr Projector::peerOf(const Half &half, const Substitution &loops) {
  SmallVector<AffineExpr> exprs;
  for (AffineExpr e : half.role == Role::Receive ? half.move->srcRank : half.move->dstRank)
    exprs.push_back(apply(e, half, loops));
  return linearize(exprs, rankShape);
}

/// Channels and peers whose rank depends on %me only stand once at the top.
Value Projector::channel(Direction direction, AffineExpr peer, int64_t tag,
                         int64_t channelSlots, OpBuilder &b, Location loc) {
  SmallVector<Value> operands;
  AffineMap map = makeMap(peer, space.values(), operands, context);
  auto create = [&](OpBuilder &at) -> Value {
    return at.create<ChannelOp>(loc, ChannelType::get(context), direction,
                                map, operands, tag, channelSlots,
                                Protocol::Simple);
  };
  if (!llvm::all_of(operands, [&](Value v) { return v == program.getMe(); }))
    return create(b);
  std::string text;
  llvm::raw_string_ostream(text) << map;
  Value &known = hoisted[{int(direction), text, tag, channelSlots}];
  if (!known) {
    OpBuilder top(block);
    known = create(top);
  }
  return known;
}

Value Projector::peerBuffer(Value buffer, AffineExpr peer, OpBuilder &b, Location loc) {
  SmallVector<Value> operands;
  AffineMap map = makeMap(peer, space.values(), operands, context);
  auto create = [&](OpBuilder &at) -> Value {
    return at.create<PeerOp>(loc, BufferType::get(context), buffer, map,
                             operands);
  };
  if (!llvm::all_of(operands, [&](Value v) { return v == program.getMe(); }))
    return create(b);
  std::string text;
  llvm::raw_string_ostream(text) << map << buffer;
  Value &known = hoisted[{2, text, 0, 0}];
  if (!known) {
    OpBuilder top(block);
    known = create(top);
  }
  return known;
}

void Projector::emitLocal(const Half &half, OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  SmallVector<PlaceRef> from{place(half.move->src->value, half.move->srcChunk, half, loops)};
  PlaceRef to = place(half.move->dst->value, half.move->dstChunk, half, loops);
  if (m.reduce)
    from.push_back(to);
  createTransfer(b, m.op->getLoc(), m.reduce, from, to, m.count);
}

void Projector::emitSend(const Half &half, OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  Location loc = m.op->getLoc();
  Value to = channel(Direction::To, peerOf(half, loops), dataTag(m.tag), slots, b, loc);
  createTransfer(b, loc, false, place(half.move->src->value, half.move->srcChunk, half, loops),
                 channelPlace(to), m.count);
}

void Projector::emitReceive(const Half &half, OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  Location loc = m.op->getLoc();
  Value from = channel(Direction::From, peerOf(half, loops), dataTag(m.tag), slots, b, loc);
  SmallVector<PlaceRef> sources{channelPlace(from)};
  PlaceRef to = place(half.move->dst->value, half.move->dstChunk, half, loops);
  if (m.reduce)
    sources.push_back(to);
  createTransfer(b, loc, m.reduce, sources, to, m.count);
}

void Projector::emitRead(const Half &half, OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  Location loc = m.op->getLoc();
  Value theirs = peerBuffer(half.move->src->value, peerOf(half, loops), b, loc);
  SmallVector<PlaceRef> sources{place(theirs, half.move->srcChunk, half, loops)};
  PlaceRef to = place(half.move->dst->value, half.move->dstChunk, half, loops);
  if (m.reduce)
    sources.push_back(to);
  createTransfer(b, loc, m.reduce, sources, to, m.count);
}

void Projector::emitSignal(const Half &half, bool ready, OpBuilder &b,
                           const Substitution &loops) {
  const MoveRef &m = half.move->move;
  int64_t tag = ready ? readyTag(m.tag) : doneTag(m.tag);
  auto op = b.create<SignalOp>(m.op->getLoc(), channel(Direction::To, peerOf(half, loops), tag,
                                                       0, b, m.op->getLoc()));
  if (ready) // for ccl-prune-sync: what the signal offers
    op->setAttr(guardedBuffer, b.getI64IntegerAttr(half.move->src->number));
}

void Projector::emitWait(const Half &half, bool ready, OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  int64_t tag = ready ? readyTag(m.tag) : doneTag(m.tag);
  auto op = b.create<WaitOp>(m.op->getLoc(), channel(Direction::From, peerOf(half, loops), tag,
                                                     0, b, m.op->getLoc()));
  if (!ready) // what the readers are done with
    op->setAttr(guardedBuffer, b.getI64IntegerAttr(half.move->src->number));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

struct ProjectToRanks : impl::CclProjectToRanksBase<ProjectToRanks> {
  using CclProjectToRanksBase::CclProjectToRanksBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto algorithm : llvm::to_vector(module.getOps<AlgorithmOp>()))
      if (failed(project(algorithm)))
        return signalPassFailure();
  }

  LogicalResult project(AlgorithmOp algorithm) {
    ModuleOp module = getOperation();
    // Programs that were written by hand, or by an earlier run, are kept.
    for (auto existing : module.getOps<ProgramOp>())
      if (existing.getAlgorithm() == algorithm.getSymName())
        return success();
    auto contract = getModelContract(algorithm);
    if (failed(contract))
      return failure();
    if (rank >= contract->ranks)
      return algorithm.emitOpError() << "rank " << int64_t(rank) << " is outside [0, "
                                     << contract->ranks << ")";
    std::vector<SmallVector<int64_t>> work(1);
    if (rank >= 0)
      work[0].push_back(rank);
    else
      work[0] = llvm::to_vector(llvm::seq<int64_t>(0, contract->ranks));
    SmallVector<ProgramOp> programs;
    while (!work.empty()) {
      SmallVector<int64_t> ranks = std::move(work.back());
      work.pop_back();
      Projector projector(algorithm, ranks, slots, maxOps);
      std::string name = (algorithm.getSymName() + ".r" + Twine(ranks.front())).str();
      Control control = projector.run(name);
      if (control == Control::Done) {
        programs.push_back(projector.program);
        continue;
      }
      projector.program.erase();
      if (control == Control::Failed)
        return failure();
      if (control == Control::Unroll)
        return algorithm.emitOpError("has a loop whose bounds or ranks are not affine in a way "
                                     "that can be projected; bounds must be constant once size "
                                     "parameters are bound");
      SmallVector<int64_t> rest;
      if (control == Control::Singletons) {
        for (int64_t r : llvm::reverse(ranks))
          work.push_back({r});
        continue;
      }
      for (int64_t r : ranks)
        if (!llvm::is_contained(projector.splitOff, r))
          rest.push_back(r);
      work.push_back(rest);
      work.push_back(projector.splitOff);
    }
    if (rank < 0 && programs.size() == 1)
      programs.front().setSymName((algorithm.getSymName() + ".p").str());
    else if (rank < 0)
      sortByFirstRank(algorithm, programs);
    return success();
  }

  void sortByFirstRank(AlgorithmOp algorithm, SmallVector<ProgramOp> &programs) {
    llvm::sort(programs,
               [](ProgramOp a, ProgramOp b) { return a.getRanks()[0] < b.getRanks()[0]; });
    Operation *last = algorithm;
    for (auto [i, p] : llvm::enumerate(programs)) {
      p->moveAfter(last);
      last = p;
      p.setSymName((algorithm.getSymName() + ".p" + Twine(i)).str());
    }
  }
};

} // namespace
} // namespace ccl
