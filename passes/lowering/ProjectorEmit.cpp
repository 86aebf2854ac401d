//===- ProjectorEmit.cpp - Writes the halves of moves ------------------------===//

#include "passes/lowering/Projector.h"
#include "passes/lowering/Trace.h"

using namespace mlir;

namespace ccl {

/// Tags of the channels that one move may need. What was put is told of where data would go.
static int64_t dataTag(int64_t tag) { return AgentPairs::channelsOfMove * tag; }
static int64_t readyTag(int64_t tag) { return dataTag(tag) + 1; }
static int64_t doneTag(int64_t tag) { return dataTag(tag) + 2; }

AgentPairs::AgentPairs(AlgorithmOp algorithm) {
  algorithm.getBody().walk([&](Operation *op) {
    if (auto move = getMove(op))
      add(*move);
    auto schedule = dyn_cast<ScheduleOp>(op);
    if (!schedule)
      return;
    MoveRef row;
    row.via = schedule.getVia();
    row.tag = schedule.getTag();
    for (size_t i = 0; i < schedule.getNumRows(); ++i) {
      SmallVector<int64_t, 4> agents = schedule.getAgentsOf(i);
      row.srcAgent = agents.front();
      row.dstAgents.assign(agents.begin() + 1, agents.end());
      add(row);
    }
  });
}

void AgentPairs::add(const MoveRef &move) {
  tags = std::max(tags, uint64_t(move.tag) + 1);
  others |= move.srcAgent != 0;
  for (int64_t agent : move.dstAgents) {
    others |= agent != 0;
    numbers.try_emplace(keyOf(move, agent), int64_t(numbers.size()));
  }
}

void Projector::assign(Operation *op, int64_t agent) {
  if (!pairs.any())
    return;
  auto number = [&](int64_t value) {
    return IntegerAttr::get(IntegerType::get(context, 64), value);
  };
  op->setAttr(agentAttr, number(agent));
  op->setAttr(stepAttr, number(step));
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

/// Whether both halves of each move run in the same loops.
bool Projector::canAlternate(ArrayRef<const Half *> sends, ArrayRef<const Half *> receives) {
  auto same = [](const StepVariable &x, const StepVariable &y) {
    return x.lower == y.lower && x.extent == y.extent && x.step == y.step;
  };
  return std::equal(sends.begin(), sends.end(), receives.begin(), receives.end(),
                    [&](const Half *send, const Half *receive) {
                      return send->move == receive->move &&
                             std::equal(send->free.begin(), send->free.end(), receive->free.begin(),
                                        receive->free.end(), same);
                    });
}

Control Projector::emitHalves(ArrayRef<Half> halves, bool inOrder, OpBuilder &b, Location loc) {
  SmallVector<const Half *> sends, receives, locals, reads, offers, puts, arrivals;
  int64_t sendBurst = 0;
  for (const Half &half : halves) {
    if (half.role == Role::Local)
      locals.push_back(&half);
    else if (half.move->isDirect())
      (half.role == Role::Send ? offers : reads).push_back(&half);
    else if (half.move->isPut())
      (half.role == Role::Send ? puts : arrivals).push_back(&half);
    else
      (half.role == Role::Send ? sends : receives).push_back(&half);
    if (half.role == Role::Send && half.move->isStaged())
      sendBurst += burst(half);
  }
  const bool sendsFirst = sendBurst <= slots || sends.empty() || receives.empty();
  if (!sendsFirst && !inOrder && !canAlternate(sends, receives))
    return Control::Singletons; // before anything is written
  emitted += halves.size();
  auto each = [&](ArrayRef<const Half *> list, auto emit) {
    for (const Half *half : list)
      nest(half->free, b, loc,
           [&](OpBuilder &in, const Substitution &loops) { emit(*half, in, loops); });
  };
  // What is put waits for nothing.
  each(puts, [&](const Half &h, OpBuilder &in, auto &l) { emitPut(h, in, l); });
  // Direct: offer all places first, then read, then wait for the readers.
  each(offers, [&](const Half &h, OpBuilder &in, auto &l) { emitSignal(h, true, in, l); });

  if (sendsFirst) {
    each(sends, [&](const Half &h, OpBuilder &in, auto &l) { emitSend(h, in, l); });
    each(locals, [&](const Half &h, OpBuilder &in, auto &l) { emitLocal(h, in, l); });
    each(receives, [&](const Half &h, OpBuilder &in, auto &l) { emitReceive(h, in, l); });
  } else if (inOrder) {
    for (const Half &half : halves) {
      if (half.role == Role::Local)
        emitLocal(half, b, Substitution());
      else if (half.move->isStaged() && half.role == Role::Send)
        emitSend(half, b, Substitution());
      else if (half.move->isStaged())
        emitReceive(half, b, Substitution());
    }
  } else {
    // More sends than slots: alternate the two halves of each move.
    each(locals, [&](const Half &h, OpBuilder &in, auto &l) { emitLocal(h, in, l); });
    for (auto [s, r] : llvm::zip_equal(sends, receives))
      nest(s->free, b, loc, [&, s = s, r = r](OpBuilder &in, const Substitution &loops) {
        emitSend(*s, in, loops);
        // The receiving half's free variables run in the same loops.
        Substitution mine;
        for (auto [x, y] : llvm::zip_equal(s->free, r->free))
          mine[getAffineDimExpr(y.dim, context)] = loops.lookup(getAffineDimExpr(x.dim, context));
        emitReceive(*r, in, mine);
      });
  }

  each(arrivals, [&](const Half &h, OpBuilder &in, auto &l) { emitArrival(h, in, l); });
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
  // take b + 1 slots. Agents get their instructions one by one.
  if (total < slots || pairs.any()) {
    emitted += total;
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
    auto loop =
        inner.create<affine::AffineForOp>(loc, v.lower, v.lower + v.extent * v.step, v.step);
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
Value Projector::channel(Direction direction, AffineExpr peer, int64_t tag, int64_t channelSlots,
                         OpBuilder &b, Location loc) {
  SmallVector<Value> operands;
  AffineMap map = makeMap(peer, space.values(), operands, context);
  auto create = [&](OpBuilder &at) -> Value {
    return at.create<ChannelOp>(loc, ChannelType::get(context), direction, map, operands, tag,
                                channelSlots, channelSlots > 0 ? protocol : Protocol::Simple);
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
    return at.create<PeerOp>(loc, BufferType::get(context), buffer, map, operands);
  };
  if (!llvm::all_of(operands, [&](Value v) { return v == program.getMe(); }))
    return create(b);
  std::string text;
  llvm::raw_string_ostream(text) << map;
  // Not the buffer's text: to number one value all of the module is verified and walked.
  const auto which = reinterpret_cast<intptr_t>(buffer.getAsOpaquePointer());
  Value &known = hoisted[{2, text, int64_t(which), 0}];
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
  assign(createTransfer(b, m.op->getLoc(), m.reduce, from, to, m.count), half);
}

void Projector::emitSend(const Half &half, OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  Location loc = m.op->getLoc();
  Value to = channel(Direction::To, peerOf(half, loops), dataTag(pairs.tag(m)), slots, b, loc);
  PlaceRef from = place(half.move->src->value, half.move->srcChunk, half, loops);
  assign(createTransfer(b, loc, false, from, channelPlace(to), m.count), half);
}

void Projector::emitPut(const Half &half, OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  Location loc = m.op->getLoc();
  AffineExpr peer = peerOf(half, loops);
  Value theirs = peerBuffer(half.move->dst->value, peer, b, loc);
  assign(createTransfer(b, loc, false,
                        place(half.move->src->value, half.move->srcChunk, half, loops),
                        place(theirs, half.move->dstChunk, half, loops), m.count),
         half);
  for (int64_t agent : m.dstAgents) {
    Value told = channel(Direction::To, peer, dataTag(pairs.tag(m, agent)), 0, b, loc);
    assign(b.create<SignalOp>(loc, told), half);
  }
}

void Projector::emitArrival(const Half &half, OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  Location loc = m.op->getLoc();
  PlaceRef to = place(half.move->dst->value, half.move->dstChunk, half, loops);
  for (int64_t agent : m.dstAgents) {
    Value told =
        channel(Direction::From, peerOf(half, loops), dataTag(pairs.tag(m, agent)), 0, b, loc);
    auto wait = b.create<WaitOp>(loc, told, to.base, AffineMapAttr::get(to.map), to.operands,
                                 b.getI64IntegerAttr(m.count));
    wait->setAttr(arrivalAttr, b.getI64IntegerAttr(arrivals));
    assign(wait, agent);
  }
  ++arrivals;
}

void Projector::emitReceive(const Half &half, OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  Location loc = m.op->getLoc();
  Value from = channel(Direction::From, peerOf(half, loops), dataTag(pairs.tag(m)), slots, b, loc);
  SmallVector<PlaceRef> sources{channelPlace(from)};
  PlaceRef to = place(half.move->dst->value, half.move->dstChunk, half, loops);
  if (m.reduce)
    sources.push_back(to);
  assign(createTransfer(b, loc, m.reduce, sources, to, m.count), half);
}

void Projector::emitRead(const Half &half, OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  Location loc = m.op->getLoc();
  Value theirs = peerBuffer(half.move->src->value, peerOf(half, loops), b, loc);
  SmallVector<PlaceRef> sources{place(theirs, half.move->srcChunk, half, loops)};
  PlaceRef to = place(half.move->dst->value, half.move->dstChunk, half, loops);
  if (m.reduce)
    sources.push_back(to);
  assign(createTransfer(b, loc, m.reduce, sources, to, m.count), half);
}

void Projector::emitSignal(const Half &half, bool ready, OpBuilder &b, const Substitution &loops) {
  emitCounter<SignalOp>(half, Direction::To, ready, /*guards=*/ready, b, loops);
}

void Projector::emitWait(const Half &half, bool ready, OpBuilder &b, const Substitution &loops) {
  emitCounter<WaitOp>(half, Direction::From, ready, /*guards=*/!ready, b, loops);
}

/// The source's ends name the place, for ccl-prune-sync: what it offers, and what the
/// readers are done with.
template <typename Op>
void Projector::emitCounter(const Half &half, Direction direction, bool ready, bool guards,
                            OpBuilder &b, const Substitution &loops) {
  const MoveRef &m = half.move->move;
  Location loc = m.op->getLoc();
  int64_t tag = ready ? readyTag(pairs.tag(m)) : doneTag(pairs.tag(m));
  Value end = channel(direction, peerOf(half, loops), tag, 0, b, loc);
  if (!guards) {
    assign(b.create<Op>(loc, end), half);
    return;
  }
  PlaceRef p = place(half.move->src->value, half.move->srcChunk, half, loops);
  assign(b.create<Op>(loc, end, p.base, AffineMapAttr::get(p.map), p.operands,
                      b.getI64IntegerAttr(m.count)),
         half);
}

} // namespace ccl
