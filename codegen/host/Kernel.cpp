//===- Kernel.cpp -----------------------------------------------------------===//
#include "codegen/host/Kernel.h"

#include "codegen/host/Abi.h"
#include "codegen/host/Affine.h"
#include "codegen/host/Channels.h"
#include "codegen/host/Helpers.h"

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
  llvm::Value *chunk = nullptr; ///< linear chunk; null: the base is a slot, chunk 0
  llvm::Value *row = nullptr;   ///< in a shard row (in, out): its index in KernelArgs::shards,
                                ///< lies by slices. Null: by strides
  llvm::Value *peer = nullptr;  ///< whose memory it is, if not this rank's
  bool mayBeRemote = false;     ///< the base may have KernelArgs::remoteBit
};

class KernelEmitter {
public:
  KernelEmitter(ProgramOp program, const KernelPlan &kernel, const BufferNumbers &buffers,
                const Plan &plan, Patterns &patterns, llvm::Module &module)
      : program(program), kernel(kernel), buffers(buffers), plan(plan), patterns(patterns),
        module(module), helpers(module, plan, patterns), builder(module.getContext()),
        i64(builder.getInt64Ty()), pointer(builder.getPtrTy()) {}

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
  void waitFor(llvm::Value *end, llvm::Value *ready, llvm::Value *value);
  void publish(llvm::Value *end) { builder.CreateCall(helpers.publish(), {end}); }
  void emitPattern(ArrayRef<Address> places, unsigned sources, int64_t count);
  void emitChunks(ArrayRef<Address> places, unsigned sources, llvm::Value *j,
                  llvm::Value *elements);
  void emitCall(ArrayRef<Address> places, unsigned sources, ArrayRef<llvm::Value *> arguments);
  llvm::Value *emitSlice(const Address &place, llvm::Value *chunk);
  void failIf(llvm::Value *code, BasicBlock *go);
  void storeProgress();
  // Memory
  llvm::Value *field(llvm::Value *base, size_t offset, llvm::Type *type) {
    return loadField(builder, base, offset, type);
  }
  llvm::Value *elementAddress(const Address &place, llvm::Value *elements) {
    llvm::Type *element = builder.getIntNTy(unsigned(sizeOf(plan.type) * 8));
    // A remote address is no pointer of this process.
    return builder.CreateGEP(element, place.base, elements, "",
                             place.mayBeRemote ? llvm::GEPNoWrapFlags::none()
                                               : llvm::GEPNoWrapFlags::inBounds());
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
  Helpers helpers;
  llvm::IRBuilder<> builder;
  llvm::Type *i64, *pointer;

  Function *function = nullptr;
  PHINode *failureCode = nullptr; ///< in the block that every failed wait goes to
  llvm::Value *args = nullptr, *me = nullptr, *ranks = nullptr, *count = nullptr,
              *microBatches = nullptr, *stride = nullptr, *channels = nullptr, *peers = nullptr,
              *shards = nullptr, *microBatch = nullptr;
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
  me = field(args, offsetof(KernelArgs, me), i64);
  ranks = field(args, offsetof(KernelArgs, ranks), i64);
  count = field(args, offsetof(KernelArgs, count), i64);
  microBatches = field(args, offsetof(KernelArgs, microBatches), i64);
  stride = field(args, offsetof(KernelArgs, stride), i64);
  channels = field(args, offsetof(KernelArgs, channels), pointer);
  peers = field(args, offsetof(KernelArgs, peers), pointer);
  if (helpers.mayBeUneven())
    shards = field(args, offsetof(KernelArgs, shards), pointer);
  if (Value index = program.getMe())
    values[index] = me;

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
  llvm::Value *first = field(args, offsetof(KernelArgs, firstBatch), i64);
  llvm::Value *end = field(args, offsetof(KernelArgs, endBatch), i64);
  return emitLoop(first, end, 1, [&](llvm::Value *index) {
    microBatch = index;
    storeAtomic(builder, index, fieldAddress(builder, args, offsetof(KernelArgs, microBatch)),
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
            op.emitOpError("is a second agent: code has one, more are executed from tables");
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
  return loadAtomic(builder, pointer, fieldAddress(builder, table, offset),
                    llvm::AtomicOrdering::Monotonic);
}

FailureOr<Address> KernelEmitter::emitAddress(TransferOp op, const PlaceRef &place) {
  auto indices = emitMap(op, place.map, place.operands);
  if (failed(indices))
    return failure();
  BufferOp buffer = place.getBuffer();
  llvm::Value *chunk = builder.getInt64(0);
  for (auto [index, extent] : llvm::zip_equal(*indices, *buffer.getChunkShape()))
    chunk = builder.CreateAdd(builder.CreateMul(chunk, builder.getInt64(extent)), index);
  Address address{emitBufferBase(place), chunk};
  if (PeerOp peer = place.getPeer()) {
    const BufferPlan &facts = plan.buffers[size_t(buffers.lookup(buffer))];
    address.peer = values.lookup(peer);
    address.mayBeRemote = facts.peersRead && !facts.peersWrite;
  }
  if (buffer.getRole() != BufferRole::Scratch) {
    llvm::Value *owner = address.peer ? address.peer : me;
    address.row = builder.CreateAdd(builder.CreateShl(owner, 1),
                                    builder.getInt64(buffer.getRole() != BufferRole::In));
  }
  return address;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void KernelEmitter::storeProgress() {
  storeAtomic(builder, builder.getInt64(instruction++),
              fieldAddress(builder, args, offsetof(KernelArgs, instruction)),
              llvm::AtomicOrdering::Monotonic);
}

/// Leaves the kernel with `code` if that is not 0.
void KernelEmitter::failIf(llvm::Value *code, BasicBlock *go) {
  failureCode->addIncoming(code, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateICmpEQ(code, builder.getInt32(0)), go,
                       failureCode->getParent(),
                       llvm::MDBuilder(module.getContext()).createLikelyBranchWeights());
  builder.SetInsertPoint(go);
}

/// Goes on if `ready`, else through the runtime, which polls, yields and may give up.
void KernelEmitter::waitFor(llvm::Value *end, llvm::Value *ready, llvm::Value *value) {
  BasicBlock *slow = newBlock("wait"), *go = newBlock("go");
  llvm::MDNode *likely = llvm::MDBuilder(module.getContext()).createLikelyBranchWeights();
  builder.CreateCondBr(ready, go, slow, likely);
  builder.SetInsertPoint(slow);
  auto *type = llvm::FunctionType::get(builder.getInt32Ty(), {pointer, pointer, i64}, false);
  llvm::Value *wait = field(args, offsetof(KernelArgs, wait), pointer);
  failIf(builder.CreateCall(type, wait, {args, end, value}), go);
}

/// Waits until the slot that comes next is filled (`from`) or free (`to`).
void KernelEmitter::acquire(llvm::Value *end, bool to) {
  llvm::Value *next = field(end, offsetof(ChannelEnd, next), i64);
  llvm::Value *counter = field(end, offsetof(ChannelEnd, arrive), pointer);
  llvm::Value *arrived = loadAtomic(builder, i64, counter, llvm::AtomicOrdering::Acquire);
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

LogicalResult KernelEmitter::emitSignal(SignalOp op) {
  storeProgress();
  publish(values.lookup(op.getChannel()));
  return success();
}

LogicalResult KernelEmitter::emitWait(WaitOp op) {
  storeProgress();
  llvm::Value *end = values.lookup(op.getChannel());
  acquire(end, /*to=*/false);
  Helpers::nextOperation(builder, end);
  return success();
}

LogicalResult KernelEmitter::emitTransfer(TransferOp op) {
  SmallVector<PlaceRef> places = getFromPlaces(op);
  unsigned sources = unsigned(places.size());
  llvm::append_range(places, getToPlaces(op));

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
    if (place.isChannel()) {
      addresses.push_back({builder.CreateCall(helpers.slot(), {values.lookup(place.base)})});
      continue;
    }
    FailureOr<Address> address = emitAddress(op, place);
    if (failed(address))
      return failure();
    addresses.push_back(*address);
  }
  emitPattern(addresses, sources, op.getCount());
  for (llvm::Value *end : ends)
    publish(end);
  return success();
}

/// Start and length of a chunk in a shard row.
llvm::Value *KernelEmitter::emitSlice(const Address &place, llvm::Value *chunk) {
  SmallVector<llvm::Value *> arguments{chunk, count, microBatch, microBatches};
  if (helpers.mayBeUneven())
    arguments.append({shards, place.row});
  return builder.CreateCall(helpers.slice(), arguments);
}

/// Calls the pattern for the chunks `j` further on. `elements` is the length if no place
/// tells; this rank's places come first, since in an uneven launch peers' may be longer.
void KernelEmitter::emitChunks(ArrayRef<Address> places, unsigned sources, llvm::Value *j,
                               llvm::Value *elements) {
  SmallVector<llvm::Value *> arguments;
  llvm::Value *length = nullptr;
  bool isOurs = false;
  for (const Address &place : places) {
    llvm::Value *chunk = place.chunk ? builder.CreateAdd(place.chunk, j) : j;
    if (!place.row) {
      arguments.push_back(elementAddress(place, builder.CreateMul(chunk, stride)));
      continue;
    }
    llvm::Value *slice = emitSlice(place, chunk);
    arguments.push_back(elementAddress(place, builder.CreateExtractValue(slice, 0)));
    if (!length || (!isOurs && !place.peer)) {
      length = builder.CreateExtractValue(slice, 1);
      isOurs = !place.peer;
    }
  }
  arguments.push_back(length ? length : elements);
  emitCall(places, sources, arguments);
}

/// Calls the pattern; if a source turns out to be another process' memory, through a read.
void KernelEmitter::emitCall(ArrayRef<Address> places, unsigned sources,
                             ArrayRef<llvm::Value *> arguments) {
  unsigned destinations = unsigned(places.size()) - sources;
  Function *pattern = patterns.get(sources, destinations);
  llvm::Value *any = nullptr;
  for (unsigned s = 0; s < sources; ++s)
    if (places[s].mayBeRemote) {
      llvm::Value *remote = isRemote(builder, arguments[s]);
      any = any ? builder.CreateOr(any, remote) : remote;
    }
  if (!any) {
    builder.CreateCall(pattern, arguments);
    return;
  }
  BasicBlock *fetch = newBlock("fetch"), *mapped = newBlock("mapped"), *done = newBlock("done");
  builder.CreateCondBr(any, fetch, mapped);
  builder.SetInsertPoint(fetch);
  SmallVector<llvm::Value *> fetched{args};
  for (const Address &source : places.take_front(sources))
    fetched.push_back(source.peer ? source.peer : me);
  llvm::append_range(fetched, arguments);
  failIf(builder.CreateCall(helpers.fetch(sources, destinations), fetched), done);
  builder.SetInsertPoint(mapped);
  builder.CreateCall(pattern, arguments);
  builder.CreateBr(done);
  builder.SetInsertPoint(done);
}

void KernelEmitter::emitPattern(ArrayRef<Address> places, unsigned sources, int64_t chunks) {
  llvm::Value *zero = builder.getInt64(0);
  if (llvm::none_of(places, [](const Address &place) { return place.row; }))
    // Strided places hold adjacent chunks back to back.
    return emitChunks(places, sources, zero, builder.CreateMul(stride, builder.getInt64(chunks)));
  if (chunks == 1)
    return emitChunks(places, sources, zero, nullptr);
  (void)emitLoop(zero, builder.getInt64(chunks), 1, [&](llvm::Value *j) {
    emitChunks(places, sources, j, nullptr);
    return success();
  });
}

LogicalResult emitKernel(ProgramOp program, const KernelPlan &kernel, const BufferNumbers &buffers,
                         const Plan &plan, Patterns &patterns, llvm::Module &module) {
  return KernelEmitter(program, kernel, buffers, plan, patterns, module).run();
}

} // namespace ccl::host
