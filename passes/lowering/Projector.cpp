//===- Projector.cpp - Which moves touch a rank, and in which loops ----------===//

#include "passes/lowering/Projector.h"
#include "passes/lowering/Trace.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ccl {

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
    info.rankShape = *op.getRankShape();
    info.chunkShape = *op.getChunkShape();
    rankShape = info.rankShape;
    SmallVector<AffineExpr> extents;
    for (int64_t extent : info.chunkShape)
      extents.push_back(constant(extent));
    info.value = b.create<BufferOp>(op.getLoc(), BufferType::get(context), op.getRole(),
                                    AffineMapAttr(), AffineMap::get(0, 0, extents, context),
                                    ValueRange(), ValueRange(), op.getNameAttr());
  }
  me = delinearize(rank, rankShape);
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
    else if (isa<ApplyOp, PipelineOp>(op)) {
      op.emitOpError("must be expanded first (ccl-expand-apply)");
      c = Control::Failed;
    }
    if (c != Control::Done)
      return c;
  }
  return Control::Done;
}

std::optional<int64_t> Projector::constantBound(AffineMap map, ValueRange operands, bool lower) {
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
    if (pairs.any())
      return unroll(loop, *lower, *upper, b);
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
  return unroll(loop, *lower, *upper, b);
}

Control Projector::unroll(affine::AffineForOp loop, int64_t lower, int64_t upper, OpBuilder &b) {
  for (int64_t i = lower; i < upper; i += loop.getStepAsInt()) {
    env[loop.getInductionVar()] = constant(i);
    Control c = emitBlock(*loop.getBody(), b);
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
    // Steps have dimensions in common, or a long algorithm would have very many.
    if (usedDims == stepDims.size())
      stepDims.push_back(space.dim(iv));
    unsigned dim = stepDims[usedDims++];
    env[iv] = getAffineDimExpr(dim, context);
    setRange(dim, {*low, *low + (extent - 1) * step});
    variables.push_back({dim, *low, extent, step});
    return true;
  };
  Block *body = nullptr;
  if (auto parallel = dyn_cast<affine::AffineParallelOp>(op)) {
    for (auto [i, iv] : llvm::enumerate(parallel.getIVs()))
      if (!variable(
              iv,
              constantBound(parallel.getLowerBoundMap(i), parallel.getLowerBoundsOperands(), true),
              constantBound(parallel.getUpperBoundMap(i), parallel.getUpperBoundsOperands(), false),
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
Control Projector::decide(const Half &half, ArrayRef<Guard> guards, bool &exists, bool &enumerate) {
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
        symbolic |=
            d && llvm::none_of(m.variables, [&](auto &v) { return v.dim == d.getPosition(); });
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
  ++step;
  usedDims = 0;
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
    return llvm::map_to_vector(delinearize(linear, shape),
                               [&](int64_t c) -> AffineExpr { return constant(c); });
  };
  auto flush = [&]() -> Control {
    ++step;
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
    SmallVector<int64_t, 4> agents = op.getAgentsOf(i / ScheduleOp::rowSize);
    m.move.srcAgent = agents.front();
    m.move.dstAgents.assign(agents.begin() + 1, agents.end());
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

} // namespace ccl
