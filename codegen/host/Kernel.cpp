//===- Kernel.cpp -----------------------------------------------------------===//
#include "codegen/host/Kernel.h"

#include "codegen/host/Affine.h"
#include "codegen/host/Channels.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/MDBuilder.h"

using namespace mlir;
using llvm::BasicBlock;
using llvm::Function;
using llvm::PHINode;

namespace ccl::host {

namespace {

/// Where an operand of a transfer lies.
struct Address {
  llvm::Value *base;
  llvm::Value *chunk; ///< linear chunk; null: the base is a slot, chunk 0
  bool row;           ///< in a shard row (in, out): by slices, else by strides
};

class KernelEmitter {
public:
  KernelEmitter(ProgramOp program, const KernelPlan &kernel, const BufferNumbers &buffers,
                const Plan &plan, Patterns &patterns, llvm::Module &module)
      : program(program), kernel(kernel), buffers(buffers), plan(plan), patterns(patterns),
        module(module), builder(module.getContext()), i64(builder.getInt64Ty()),
        pointer(builder.getPtrTy()) {}

  LogicalResult run();

private:
  // Structure
  LogicalResult emitMicroBatches();
  LogicalResult emitBlock(Block &block);
  LogicalResult emitOp(Operation *op);
  LogicalResult emitFor(affine::AffineForOp loop);
  LogicalResult emitLoop(llvm::Value *lower, llvm::Value *upper, int64_t step,
                         llvm::function_ref<LogicalResult(llvm::Value *)> body);
  // Names of things
  LogicalResult emitChannel(ChannelOp op);
  FailureOr<SmallVector<llvm::Value *>> emitMap(Operation *op, AffineMap map, ValueRange operands);
  FailureOr<Address> emitAddress(TransferOp op, const PlaceRef &place);
  llvm::Value *emitBufferBase(PlaceRef place);
  // Instructions
  LogicalResult emitTransfer(TransferOp op);
  LogicalResult emitSignal(SignalOp op);
  LogicalResult emitWait(WaitOp op);
  void acquire(llvm::Value *end, bool to);
  void publish(llvm::Value *end);
  llvm::Value *nextOperation(llvm::Value *end);
  void waitFor(llvm::Value *end, llvm::Value *ready, llvm::Value *value);
  Address slotOf(llvm::Value *end);
  void emitPattern(ArrayRef<Address> places, unsigned sources, int64_t count);
  void emitPatternCall(ArrayRef<Address> places, unsigned sources, llvm::Value *j,
                       llvm::Value *elements);
  void storeProgress();
  Function *sliceFunction();
  Function *helper(llvm::StringRef name, llvm::Type *result, ArrayRef<llvm::Type *> parameters,
                   llvm::function_ref<void(Function *)> emit);
  // Memory
  llvm::Value *fieldAddress(llvm::Value *base, size_t offset) {
    return builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), base, offset);
  }
  llvm::Value *field(llvm::Value *base, size_t offset, llvm::Type *type) {
    return builder.CreateAlignedLoad(type, fieldAddress(base, offset), llvm::Align(8));
  }
  void storeAtomic(llvm::Value *value, llvm::Value *address, llvm::AtomicOrdering ordering) {
    builder.CreateAlignedStore(value, address, llvm::Align(8))->setAtomic(ordering);
  }
  llvm::Value *loadAtomic(llvm::Type *type, llvm::Value *address, llvm::AtomicOrdering ordering) {
    llvm::LoadInst *load = builder.CreateAlignedLoad(type, address, llvm::Align(8));
    load->setAtomic(ordering);
    return load;
  }
  llvm::Value *elementAddress(llvm::Value *base, llvm::Value *elements) {
    llvm::Type *element = builder.getIntNTy(unsigned(sizeOf(plan.type) * 8));
    return builder.CreateInBoundsGEP(element, base, elements);
  }
  BasicBlock *newBlock(const char *name) {
    return BasicBlock::Create(module.getContext(), name, function);
  }

  ProgramOp program;
  const KernelPlan &kernel;
  const BufferNumbers &buffers;
  const Plan &plan;
  Patterns &patterns;
  llvm::Module &module;
  llvm::IRBuilder<> builder;
  llvm::Type *i64, *pointer;

  Function *function = nullptr;
  PHINode *failureCode = nullptr; ///< in the block that every failed wait goes to
  llvm::Value *args = nullptr, *ranks = nullptr, *count = nullptr, *microBatches = nullptr,
              *stride = nullptr, *channels = nullptr, *peers = nullptr, *microBatch = nullptr;
  /// Indices, channel ends, peers' ranks and base addresses by the value they belong to.
  llvm::DenseMap<Value, llvm::Value *> values;
  int64_t instruction = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::run() {
  function = Function::Create(llvm::FunctionType::get(builder.getInt32Ty(), {pointer}, false),
                              Function::ExternalLinkage, kernel.symbol, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  args = function->getArg(0);
  builder.SetInsertPoint(newBlock("entry"));
  ranks = field(args, offsetof(KernelArgs, ranks), i64);
  count = field(args, offsetof(KernelArgs, count), i64);
  microBatches = field(args, offsetof(KernelArgs, microBatches), i64);
  stride = field(args, offsetof(KernelArgs, stride), i64);
  channels = field(args, offsetof(KernelArgs, channels), pointer);
  peers = field(args, offsetof(KernelArgs, peers), pointer);
  if (Value me = program.getMe())
    values[me] = field(args, offsetof(KernelArgs, me), i64);

  BasicBlock *failed = newBlock("failed");
  llvm::IRBuilder<> failedBuilder(failed);
  failureCode = failedBuilder.CreatePHI(builder.getInt32Ty(), 4, "code");
  failedBuilder.CreateRet(failureCode);

  if (mlir::failed(emitMicroBatches()))
    return failure();
  builder.CreateRet(builder.getInt32(0));
  if (failureCode->getNumIncomingValues() == 0) // nothing waits
    failed->eraseFromParent();
  else
    failed->moveAfter(&function->back());
  return success();
}

LogicalResult KernelEmitter::emitMicroBatches() {
  llvm::Value *table = field(args, offsetof(KernelArgs, buffers), pointer);
  for (auto buffer : program.getBlock().getOps<BufferOp>())
    values[buffer] = field(table, size_t(buffers.lookup(buffer)) * sizeof(void *), pointer);
  return emitLoop(builder.getInt64(0), microBatches, 1, [&](llvm::Value *index) {
    microBatch = index;
    storeAtomic(index, fieldAddress(args, offsetof(KernelArgs, microBatch)),
                llvm::AtomicOrdering::Monotonic);
    return emitBlock(program.getBlock());
  });
}

LogicalResult KernelEmitter::emitBlock(Block &block) {
  Operation *agent = nullptr;
  for (Operation &op : block) {
    if (isa<BlockOp, ProxyOp>(op)) {
      if (agent) {
        InFlightDiagnostic error =
            op.emitOpError("is a second agent: the host backend runs one lane per rank, so "
                           "agents must be merged before code generation");
        error.attachNote(agent->getLoc()) << "the first agent is here";
        return error;
      }
      agent = &op;
    }
    if (failed(emitOp(&op)))
      return failure();
  }
  return success();
}

LogicalResult KernelEmitter::emitOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<BufferOp>([](auto) { return success(); })
      .Case<BlockOp, ProxyOp>([&](auto agent) { return emitBlock(agent.getBody().front()); })
      .Case<ChannelOp>([&](ChannelOp channel) { return emitChannel(channel); })
      .Case<TransferOp>([&](TransferOp transfer) { return emitTransfer(transfer); })
      .Case<SignalOp>([&](SignalOp signal) { return emitSignal(signal); })
      .Case<WaitOp>([&](WaitOp wait) { return emitWait(wait); })
      .Case<affine::AffineForOp>([&](affine::AffineForOp loop) { return emitFor(loop); })
      .Case<affine::AffineYieldOp>([](auto) { return success(); })
      .Case<PeerOp>([&](PeerOp peer) -> LogicalResult {
        auto rank = emitMap(op, peer.getPeer(), peer.getPeerOperands());
        if (failed(rank))
          return failure();
        values[peer] = rank->front();
        return success();
      })
      .Case<arith::ConstantOp>([&](arith::ConstantOp constant) -> LogicalResult {
        auto number = dyn_cast<IntegerAttr>(constant.getValue());
        if (!number)
          return constant.emitOpError("has no code on the host: only integer constants have");
        values[constant] = builder.getInt64(number.getInt());
        return success();
      })
      .Default([](Operation *other) -> LogicalResult {
        return other->emitOpError("has no code on the host: a rank program holds channels, "
                                  "transfers, signals, waits and affine.for loops");
      });
}

LogicalResult KernelEmitter::emitFor(affine::AffineForOp loop) {
  if (loop.getNumIterOperands() > 0)
    return loop.emitOpError("carries values between iterations, which has no code on the host");
  auto lower = emitMap(loop, loop.getLowerBoundMap(), loop.getLowerBoundOperands());
  auto upper = emitMap(loop, loop.getUpperBoundMap(), loop.getUpperBoundOperands());
  if (failed(lower) || failed(upper))
    return failure();
  llvm::Value *from = lower->front(), *to = upper->front();
  for (llvm::Value *bound : ArrayRef(*lower).drop_front())
    from = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, from, bound);
  for (llvm::Value *bound : ArrayRef(*upper).drop_front())
    to = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, to, bound);
  return emitLoop(from, to, loop.getStepAsInt(), [&](llvm::Value *index) {
    values[loop.getInductionVar()] = index;
    return emitBlock(*loop.getBody());
  });
}

LogicalResult KernelEmitter::emitLoop(llvm::Value *lower, llvm::Value *upper, int64_t step,
                                      llvm::function_ref<LogicalResult(llvm::Value *)> body) {
  BasicBlock *before = builder.GetInsertBlock(), *loop = newBlock("loop"),
             *after = newBlock("after");
  builder.CreateCondBr(builder.CreateICmpSLT(lower, upper), loop, after);
  builder.SetInsertPoint(loop);
  PHINode *index = builder.CreatePHI(i64, 2);
  index->addIncoming(lower, before);
  if (failed(body(index)))
    return failure();
  llvm::Value *next = builder.CreateAdd(index, builder.getInt64(step));
  index->addIncoming(next, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateICmpSLT(next, upper), loop, after);
  builder.SetInsertPoint(after);
  return success();
}

//===----------------------------------------------------------------------===//
// Names of things
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<llvm::Value *>> KernelEmitter::emitMap(Operation *op, AffineMap map,
                                                             ValueRange operands) {
  if (std::string why = whyNotAffine(map); !why.empty())
    return op->emitOpError() << why;
  SmallVector<llvm::Value *> numbers, results;
  for (Value operand : operands) {
    numbers.push_back(values.lookup(operand));
    if (!numbers.back())
      return op->emitOpError("depends on an index that has no code on the host");
  }
  for (AffineExpr expr : map.getResults())
    results.push_back(emitAffine(builder, expr, map.getNumDims(), numbers));
  return results;
}

LogicalResult KernelEmitter::emitChannel(ChannelOp op) {
  if (op.use_empty())
    return success();
  auto peer = emitMap(op, op.getPeer(), op.getPeerOperands());
  if (failed(peer))
    return failure();
  llvm::Value *family = builder.CreateMul(ranks, builder.getInt64(familyOf(kernel, op)));
  llvm::Value *slot =
      builder.CreateInBoundsGEP(pointer, channels, builder.CreateAdd(family, peer->front()));
  values[op] = builder.CreateAlignedLoad(pointer, slot, llvm::Align(8));
  return success();
}

/// This rank's memory, or the peer's as of now: it is valid after a wait only.
llvm::Value *KernelEmitter::emitBufferBase(PlaceRef place) {
  PeerOp peer = place.getPeer();
  if (!peer)
    return values.lookup(place.base);
  llvm::Value *slot = builder.CreateInBoundsGEP(pointer, peers, values.lookup(peer));
  llvm::Value *table = builder.CreateAlignedLoad(pointer, slot, llvm::Align(8));
  size_t offset = size_t(buffers.lookup(place.getBuffer())) * sizeof(void *);
  return loadAtomic(pointer, fieldAddress(table, offset), llvm::AtomicOrdering::Monotonic);
}

FailureOr<Address> KernelEmitter::emitAddress(TransferOp op, const PlaceRef &place) {
  auto indices = emitMap(op, place.map, place.operands);
  if (failed(indices))
    return failure();
  BufferOp buffer = place.getBuffer();
  llvm::Value *chunk = builder.getInt64(0);
  for (auto [index, extent] : llvm::zip_equal(*indices, *buffer.getChunkShape()))
    chunk = builder.CreateAdd(builder.CreateMul(chunk, builder.getInt64(extent)), index);
  return Address{emitBufferBase(place), chunk, buffer.getRole() != BufferRole::Scratch};
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// An internal function of the module; `emit` writes its body the first time.
Function *KernelEmitter::helper(llvm::StringRef name, llvm::Type *result,
                                ArrayRef<llvm::Type *> parameters,
                                llvm::function_ref<void(Function *)> emit) {
  if (Function *known = module.getFunction(name))
    return known;
  llvm::IRBuilder<>::InsertPointGuard guard(builder);
  Function *function = Function::Create(llvm::FunctionType::get(result, parameters, false),
                                        Function::InternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "entry", function));
  emit(function);
  return function;
}

void KernelEmitter::storeProgress() {
  storeAtomic(builder.getInt64(instruction++),
              fieldAddress(args, offsetof(KernelArgs, instruction)),
              llvm::AtomicOrdering::Monotonic);
}

/// Goes on if `ready`, else through the runtime, which polls, yields and may give up.
void KernelEmitter::waitFor(llvm::Value *end, llvm::Value *ready, llvm::Value *value) {
  BasicBlock *slow = newBlock("wait"), *go = newBlock("go");
  llvm::MDNode *likely = llvm::MDBuilder(module.getContext()).createLikelyBranchWeights();
  builder.CreateCondBr(ready, go, slow, likely);
  builder.SetInsertPoint(slow);
  auto *type = llvm::FunctionType::get(builder.getInt32Ty(), {pointer, pointer, i64}, false);
  llvm::Value *wait = field(args, offsetof(KernelArgs, wait), pointer);
  llvm::Value *code = builder.CreateCall(type, wait, {args, end, value});
  failureCode->addIncoming(code, slow);
  builder.CreateCondBr(builder.CreateICmpEQ(code, builder.getInt32(0)), go,
                       failureCode->getParent(), likely);
  builder.SetInsertPoint(go);
}

/// Waits until the slot that comes next is filled (`from`) or free (`to`).
void KernelEmitter::acquire(llvm::Value *end, bool to) {
  llvm::Value *next = field(end, offsetof(ChannelEnd, next), i64);
  llvm::Value *counter = field(end, offsetof(ChannelEnd, arrive), pointer);
  llvm::Value *arrived = loadAtomic(i64, counter, llvm::AtomicOrdering::Acquire);
  llvm::Value *needed = builder.CreateAdd(next, builder.getInt64(1));
  llvm::Value *value = needed;
  if (to) {
    // While next < numSlots no slot has been used twice and the sum is large enough,
    // so the difference, which would wrap, is never passed on.
    llvm::Value *slots = field(end, offsetof(ChannelEnd, numSlots), i64);
    arrived = builder.CreateAdd(arrived, slots);
    value = builder.CreateSub(needed, slots);
  }
  waitFor(end, builder.CreateICmpUGE(arrived, needed), value);
}

/// `void publish(end)`: *depart = ++next. What takes part in every transfer is a function
/// of its own: inlined, it makes up most of the time that LLVM needs.
void KernelEmitter::publish(llvm::Value *end) {
  Function *function = helper("publish", builder.getVoidTy(), {pointer}, [&](Function *self) {
    llvm::Value *next = nextOperation(self->getArg(0));
    storeAtomic(next, field(self->getArg(0), offsetof(ChannelEnd, depart), pointer),
                llvm::AtomicOrdering::Release);
    builder.CreateRetVoid();
  });
  builder.CreateCall(function, {end});
}

/// ++next
llvm::Value *KernelEmitter::nextOperation(llvm::Value *end) {
  llvm::Value *next = field(end, offsetof(ChannelEnd, next), i64);
  next = builder.CreateAdd(next, builder.getInt64(1));
  builder.CreateAlignedStore(next, fieldAddress(end, offsetof(ChannelEnd, next)), llvm::Align(8));
  return next;
}

LogicalResult KernelEmitter::emitSignal(SignalOp op) {
  storeProgress();
  publish(values.lookup(op.getChannel()));
  return success();
}

LogicalResult KernelEmitter::emitWait(WaitOp op) {
  storeProgress();
  llvm::Value *end = values.lookup(op.getChannel());
  acquire(end, /*to=*/false);
  nextOperation(end);
  return success();
}

/// `ptr slot(end)`: the slot of the operation that comes next.
Address KernelEmitter::slotOf(llvm::Value *end) {
  Function *function = helper("slot", pointer, {pointer}, [&](Function *self) {
    llvm::Value *end = self->getArg(0);
    llvm::Value *number = builder.CreateURem(field(end, offsetof(ChannelEnd, next), i64),
                                             field(end, offsetof(ChannelEnd, numSlots), i64));
    llvm::Value *offset =
        builder.CreateMul(number, field(end, offsetof(ChannelEnd, slotBytes), i64));
    llvm::Value *slots = field(end, offsetof(ChannelEnd, slots), pointer);
    builder.CreateRet(builder.CreateInBoundsGEP(builder.getInt8Ty(), slots, offset));
  });
  return {builder.CreateCall(function, {end}), nullptr, false};
}

LogicalResult KernelEmitter::emitTransfer(TransferOp op) {
  SmallVector<PlaceRef> places = getFromPlaces(op);
  unsigned sources = unsigned(places.size());
  llvm::append_range(places, getToPlaces(op));
  if (sources > 1)
    if (std::string why = patterns.whyNotReducible(); !why.empty())
      return op.emitOpError() << "cannot be generated: " << why;

  storeProgress();
  // Sources first: the order in which the checker executes a transfer.
  SmallVector<llvm::Value *> ends;
  for (auto [index, place] : llvm::enumerate(places))
    if (place.isChannel()) {
      ends.push_back(values.lookup(place.base));
      acquire(ends.back(), /*to=*/index >= sources);
    }
  SmallVector<Address> addresses;
  for (const PlaceRef &place : places) {
    FailureOr<Address> address = place.isChannel()
                                     ? FailureOr<Address>(slotOf(values.lookup(place.base)))
                                     : emitAddress(op, place);
    if (failed(address))
      return failure();
    addresses.push_back(*address);
  }
  emitPattern(addresses, sources, op.getCount());
  for (llvm::Value *end : ends)
    publish(end);
  return success();
}

/// Where slice `i` of `m` of chunk `k` begins in a shard row, and its length:
/// `{i64, i64} slice(k, count, i, m)`. The chunks per shard are those of the module.
Function *KernelEmitter::sliceFunction() {
  llvm::Type *pair = llvm::StructType::get(i64, i64);
  Function *slice = helper("slice", pair, {i64, i64, i64, i64}, [&](Function *self) {
    llvm::Value *k = self->getArg(0), *n = self->getArg(1), *i = self->getArg(2),
                *m = self->getArg(3);
    // Nothing below is negative.
    llvm::Value *chunks = builder.getInt64(plan.contract.chunks), *one = builder.getInt64(1);
    auto times = [&](llvm::Value *a, llvm::Value *b) { return builder.CreateMul(a, b); };
    auto over = [&](llvm::Value *a, llvm::Value *b) { return builder.CreateUDiv(a, b); };
    llvm::Value *c = builder.CreateURem(k, chunks);
    llvm::Value *low = over(times(c, n), chunks);
    llvm::Value *high = over(times(builder.CreateAdd(c, one), n), chunks);
    llvm::Value *start = builder.CreateAdd(times(over(k, chunks), n), low);
    llvm::Value *length = builder.CreateSub(high, low);
    BasicBlock *entry = builder.GetInsertBlock();
    BasicBlock *cut = BasicBlock::Create(module.getContext(), "cut", self);
    BasicBlock *done = BasicBlock::Create(module.getContext(), "done", self);
    builder.CreateCondBr(builder.CreateICmpEQ(m, one), done, cut); // spares two divisions

    builder.SetInsertPoint(cut);
    llvm::Value *first = over(times(i, length), m);
    llvm::Value *last = over(times(builder.CreateAdd(i, one), length), m);
    llvm::Value *cutStart = builder.CreateAdd(start, first);
    llvm::Value *cutLength = builder.CreateSub(last, first);
    builder.CreateBr(done);

    builder.SetInsertPoint(done);
    auto join = [&](llvm::Value *whole, llvm::Value *part) {
      PHINode *phi = builder.CreatePHI(i64, 2);
      phi->addIncoming(whole, entry);
      phi->addIncoming(part, cut);
      return phi;
    };
    llvm::Value *results[] = {join(start, cutStart), join(length, cutLength)};
    builder.CreateAggregateRet(results, 2);
  });
  slice->addFnAttr(llvm::Attribute::WillReturn); // so that equal calls become one
  slice->setDoesNotAccessMemory();
  return slice;
}

/// Calls the pattern for the chunks `j` further on. `elements` is the length if the
/// places do not tell.
void KernelEmitter::emitPatternCall(ArrayRef<Address> places, unsigned sources, llvm::Value *j,
                                    llvm::Value *elements) {
  SmallVector<llvm::Value *> arguments;
  llvm::Value *length = nullptr;
  for (const Address &place : places) {
    llvm::Value *chunk = place.chunk ? builder.CreateAdd(place.chunk, j) : j;
    if (!place.row) {
      arguments.push_back(elementAddress(place.base, builder.CreateMul(chunk, stride)));
      continue;
    }
    llvm::Value *slice =
        builder.CreateCall(sliceFunction(), {chunk, count, microBatch, microBatches});
    arguments.push_back(elementAddress(place.base, builder.CreateExtractValue(slice, 0)));
    if (!length)
      length = builder.CreateExtractValue(slice, 1);
  }
  arguments.push_back(length ? length : elements);
  builder.CreateCall(patterns.get(sources, unsigned(places.size()) - sources), arguments);
}

void KernelEmitter::emitPattern(ArrayRef<Address> places, unsigned sources, int64_t chunks) {
  llvm::Value *zero = builder.getInt64(0);
  if (llvm::none_of(places, [](const Address &place) { return place.row; }))
    // Strided places hold adjacent chunks back to back.
    return emitPatternCall(places, sources, zero,
                           builder.CreateMul(stride, builder.getInt64(chunks)));
  if (chunks == 1)
    return emitPatternCall(places, sources, zero, nullptr);
  (void)emitLoop(zero, builder.getInt64(chunks), 1, [&](llvm::Value *j) {
    emitPatternCall(places, sources, j, nullptr);
    return success();
  });
}

LogicalResult emitKernel(ProgramOp program, const KernelPlan &kernel, const BufferNumbers &buffers,
                         const Plan &plan, Patterns &patterns, llvm::Module &module) {
  return KernelEmitter(program, kernel, buffers, plan, patterns, module).run();
}

} // namespace ccl::host
