//===- Helpers.cpp ----------------------------------------------------------===//
#include "codegen/host/Helpers.h"

#include "codegen/host/Abi.h"

#include "llvm/IR/MDBuilder.h"

#include <fmt/format.h>

using namespace llvm;

namespace ccl::host {

Function *Helpers::create(StringRef name, Type *result, ArrayRef<Type *> parameters,
                          function_ref<void(IRBuilderBase &, Function *)> emit) {
  if (Function *known = module.getFunction(name))
    return known;
  Function *function = Function::Create(FunctionType::get(result, parameters, false),
                                        Function::InternalLinkage, name, module);
  function->addFnAttr(Attribute::NoInline);
  function->addFnAttr(Attribute::NoUnwind);
  IRBuilder<> builder(BasicBlock::Create(module.getContext(), "entry", function));
  emit(builder, function);
  return function;
}

static BasicBlock *newBlock(IRBuilderBase &builder, const char *name) {
  return BasicBlock::Create(builder.getContext(), name, builder.GetInsertBlock()->getParent());
}

/// A value that depends on where control comes from.
static PHINode *join(IRBuilderBase &builder, Value *a, BasicBlock *fromA, Value *b,
                     BasicBlock *fromB) {
  PHINode *phi = builder.CreatePHI(a->getType(), 2);
  phi->addIncoming(a, fromA);
  phi->addIncoming(b, fromB);
  return phi;
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

Value *Helpers::nextOperation(IRBuilderBase &builder, Value *end) {
  Value *next = loadField(builder, end, offsetof(ChannelEnd, next), builder.getInt64Ty());
  next = builder.CreateAdd(next, builder.getInt64(1));
  builder.CreateAlignedStore(next, fieldAddress(builder, end, offsetof(ChannelEnd, next)),
                             Align(8));
  return next;
}

Function *Helpers::publish() {
  LLVMContext &context = module.getContext();
  Type *pointer = PointerType::get(context, 0);
  return create("publish", Type::getVoidTy(context), {pointer},
                [&](IRBuilderBase &builder, Function *self) {
                  Value *end = self->getArg(0), *next = nextOperation(builder, end);
                  Value *depart = loadField(builder, end, offsetof(ChannelEnd, depart), pointer);
                  storeAtomic(builder, next, depart, AtomicOrdering::Release);
                  builder.CreateRetVoid();
                });
}

Function *Helpers::slot() {
  Type *pointer = PointerType::get(module.getContext(), 0);
  return create("slot", pointer, {pointer}, [&](IRBuilderBase &builder, Function *self) {
    Value *end = self->getArg(0);
    auto number = [&](size_t offset) {
      return loadField(builder, end, offset, builder.getInt64Ty());
    };
    Value *index = builder.CreateURem(number(offsetof(ChannelEnd, next)),
                                      number(offsetof(ChannelEnd, numSlots)));
    Value *offset = builder.CreateMul(index, number(offsetof(ChannelEnd, slotBytes)));
    Value *slots = loadField(builder, end, offsetof(ChannelEnd, slots), pointer);
    builder.CreateRet(builder.CreateInBoundsGEP(builder.getInt8Ty(), slots, offset));
  });
}

//===----------------------------------------------------------------------===//
// Places in shard rows
//===----------------------------------------------------------------------===//

/// Start and length of a shard.
std::pair<Value *, Value *> Helpers::emitShard(IRBuilderBase &builder, Function *slice,
                                               Value *shard) {
  Value *count = slice->getArg(1);
  Value *evenStart = builder.CreateMul(shard, count);
  if (!mayBeUneven())
    return {evenStart, count};
  Value *shards = slice->getArg(4), *row = slice->getArg(5);
  Type *i64 = builder.getInt64Ty(), *pointer = builder.getPtrTy();
  BasicBlock *entry = builder.GetInsertBlock(), *table = newBlock(builder, "table"),
             *cut = newBlock(builder, "shard");
  builder.CreateCondBr(builder.CreateIsNull(shards), cut, table,
                       MDBuilder(module.getContext()).createLikelyBranchWeights());
  builder.SetInsertPoint(table);
  Value *ranges =
      builder.CreateAlignedLoad(pointer, builder.CreateInBoundsGEP(pointer, shards, row), Align(8));
  Value *range = builder.CreateInBoundsGEP(
      builder.getInt8Ty(), ranges, builder.CreateMul(shard, builder.getInt64(sizeof(ShardRange))));
  Value *start = loadField(builder, range, offsetof(ShardRange, start), i64);
  Value *length = loadField(builder, range, offsetof(ShardRange, length), i64);
  builder.CreateBr(cut);
  builder.SetInsertPoint(cut);
  PHINode *joinedStart = join(builder, evenStart, entry, start, table);
  return {joinedStart, join(builder, count, entry, length, table)};
}

void Helpers::emitSlice(IRBuilderBase &builder, Function *function) {
  Value *k = function->getArg(0), *i = function->getArg(2), *m = function->getArg(3);
  // Nothing here is negative.
  Value *chunks = builder.getInt64(plan.contract.chunks), *one = builder.getInt64(1);
  auto part = [&](Value *index, Value *whole, Value *parts) {
    return builder.CreateUDiv(builder.CreateMul(index, whole), parts);
  };
  auto [shardStart, shardLength] = emitShard(builder, function, builder.CreateUDiv(k, chunks));
  Value *c = builder.CreateURem(k, chunks);
  Value *low = part(c, shardLength, chunks);
  Value *high = part(builder.CreateAdd(c, one), shardLength, chunks);
  Value *start = builder.CreateAdd(shardStart, low);
  Value *length = builder.CreateSub(high, low);
  BasicBlock *whole = builder.GetInsertBlock(), *cut = newBlock(builder, "cut"),
             *done = newBlock(builder, "done");
  builder.CreateCondBr(builder.CreateICmpEQ(m, one), done, cut); // spares two divisions

  builder.SetInsertPoint(cut);
  Value *first = part(i, length, m);
  Value *last = part(builder.CreateAdd(i, one), length, m);
  Value *cutStart = builder.CreateAdd(start, first);
  Value *cutLength = builder.CreateSub(last, first);
  builder.CreateBr(done);

  builder.SetInsertPoint(done);
  PHINode *finalStart = join(builder, start, whole, cutStart, cut);
  Value *results[] = {finalStart, join(builder, length, whole, cutLength, cut)};
  builder.CreateAggregateRet(results, 2);
}

Function *Helpers::slice() {
  Type *i64 = Type::getInt64Ty(module.getContext());
  SmallVector<Type *> parameters(4, i64);
  if (mayBeUneven())
    parameters.append({PointerType::get(module.getContext(), 0), i64});
  Function *function =
      create("slice", StructType::get(i64, i64), parameters,
             [&](IRBuilderBase &builder, Function *self) { emitSlice(builder, self); });
  function->addFnAttr(Attribute::WillReturn); // so that equal calls become one
  if (mayBeUneven())
    function->setOnlyReadsMemory();
  else
    function->setDoesNotAccessMemory();
  return function;
}

//===----------------------------------------------------------------------===//
// Memory of other processes
//===----------------------------------------------------------------------===//

Value *Helpers::emitRead(IRBuilderBase &builder, Value *args, Value *rank, Value *address,
                         Value *to, Value *elements) {
  Type *i64 = builder.getInt64Ty(), *pointer = builder.getPtrTy();
  auto *type =
      FunctionType::get(builder.getInt32Ty(), {pointer, i64, pointer, pointer, i64}, false);
  Value *bits = builder.CreateAnd(builder.CreatePtrToInt(address, i64), ~KernelArgs::remoteBit);
  Value *read = loadField(builder, args, offsetof(KernelArgs, read), pointer);
  Value *bytes = builder.CreateMul(elements, builder.getInt64(sizeOf(plan.type)));
  return builder.CreateCall(type, read,
                            {args, rank, builder.CreateIntToPtr(bits, pointer), to, bytes});
}

/// A copy to one place needs no memory in between.
void Helpers::emitFetchCopy(IRBuilderBase &builder, Function *function) {
  Value *n = function->getArg(4);
  BasicBlock *some = newBlock(builder, "some"), *none = newBlock(builder, "none");
  builder.CreateCondBr(builder.CreateICmpSGT(n, builder.getInt64(0)), some, none);
  builder.SetInsertPoint(some);
  builder.CreateRet(emitRead(builder, function->getArg(0), function->getArg(1), function->getArg(2),
                             function->getArg(3), n));
  builder.SetInsertPoint(none);
  builder.CreateRet(builder.getInt32(0));
}

/// Piece by piece: reads what is remote into KernelArgs::bounce, each source into a part of
/// its own, and combines.
void Helpers::emitFetchPieces(IRBuilderBase &builder, Function *function, unsigned sources,
                              unsigned destinations) {
  Type *i64 = builder.getInt64Ty(), *bytes = builder.getInt8Ty();
  Value *args = function->getArg(0), *n = function->getArg(1 + 2 * sources + destinations);
  Value *size = builder.getInt64(sizeOf(plan.type)), *zero = builder.getInt64(0);
  Value *bounce = loadField(builder, args, offsetof(KernelArgs, bounce), builder.getPtrTy());
  Value *room = loadField(builder, args, offsetof(KernelArgs, bounceBytes), i64);
  room = builder.CreateBinaryIntrinsic(Intrinsic::smin,
                                       builder.CreateUDiv(room, builder.getInt64(sources)),
                                       builder.getInt64(KernelArgs::bouncePiece));
  room = builder.CreateAnd(room, ~uint64_t(63)); // whole elements, and whole cache lines
  Value *most = builder.CreateUDiv(room, size);
  BasicBlock *entry = builder.GetInsertBlock(), *loop = newBlock(builder, "piece"),
             *done = newBlock(builder, "done"), *failed = newBlock(builder, "failed");
  IRBuilder<> failedBuilder(failed);
  PHINode *code = failedBuilder.CreatePHI(builder.getInt32Ty(), sources, "code");
  failedBuilder.CreateRet(code);
  builder.CreateCondBr(builder.CreateICmpSGT(n, zero), loop, done);

  builder.SetInsertPoint(loop);
  PHINode *first = builder.CreatePHI(i64, 2, "first");
  first->addIncoming(zero, entry);
  Value *length = builder.CreateBinaryIntrinsic(Intrinsic::smin, builder.CreateSub(n, first), most);
  Value *offset = builder.CreateMul(first, size);
  SmallVector<Value *> arguments;
  for (unsigned s = 0; s < sources; ++s) {
    // No inbounds: a remote address is no pointer of this process.
    Value *source = builder.CreateGEP(bytes, function->getArg(1 + sources + s), offset);
    Value *part = builder.CreateGEP(bytes, bounce, builder.CreateMul(room, builder.getInt64(s)));
    BasicBlock *before = builder.GetInsertBlock(), *read = newBlock(builder, "read"),
               *next = newBlock(builder, "next");
    builder.CreateCondBr(isRemote(builder, source), read, next);
    builder.SetInsertPoint(read);
    Value *result = emitRead(builder, args, function->getArg(1 + s), source, part, length);
    code->addIncoming(result, read);
    builder.CreateCondBr(builder.CreateICmpEQ(result, builder.getInt32(0)), next, failed);
    builder.SetInsertPoint(next);
    arguments.push_back(join(builder, source, before, part, read));
  }
  for (unsigned d = 0; d < destinations; ++d)
    arguments.push_back(
        builder.CreateInBoundsGEP(bytes, function->getArg(1 + 2 * sources + d), offset));
  arguments.push_back(length);
  builder.CreateCall(patterns.get(sources, destinations), arguments);
  Value *following = builder.CreateAdd(first, length);
  first->addIncoming(following, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateICmpSLT(following, n), loop, done);

  builder.SetInsertPoint(done);
  builder.CreateRet(builder.getInt32(0));
}

Function *Helpers::fetch(unsigned sources, unsigned destinations) {
  LLVMContext &context = module.getContext();
  Type *i64 = Type::getInt64Ty(context), *pointer = PointerType::get(context, 0);
  SmallVector<Type *> parameters{pointer};
  parameters.append(sources, i64);
  parameters.append(sources + destinations, pointer);
  parameters.push_back(i64);
  return create(fmt::format("fetch_{}_{}", sources, destinations), Type::getInt32Ty(context),
                parameters, [&](IRBuilderBase &builder, Function *self) {
                  if (sources == 1 && destinations == 1)
                    emitFetchCopy(builder, self);
                  else
                    emitFetchPieces(builder, self, sources, destinations);
                });
}

} // namespace ccl::host
