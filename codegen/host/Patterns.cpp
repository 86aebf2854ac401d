//===- Patterns.cpp ---------------------------------------------------------===//
#include "codegen/host/Patterns.h"

#include <fmt/format.h>

using namespace llvm;

namespace ccl::host {

/// libc's memcpy knows the best vectors and when to bypass the cache.
void Patterns::emitMemcpy(Function *function) {
  IRBuilder<> builder(BasicBlock::Create(module.getContext(), "entry", function));
  Value *src = function->getArg(0), *dst = function->getArg(1), *n = function->getArg(2);
  BasicBlock *copy = BasicBlock::Create(module.getContext(), "copy", function);
  BasicBlock *done = BasicBlock::Create(module.getContext(), "done", function);
  builder.CreateCondBr(builder.CreateICmpEQ(src, dst), done, copy);
  builder.SetInsertPoint(copy);
  Align align(sizeOf(type));
  builder.CreateMemCpy(dst, align, src, align,
                       builder.CreateMul(n, builder.getInt64(sizeOf(type))));
  builder.CreateBr(done);
  builder.SetInsertPoint(done);
  builder.CreateRetVoid();
}

void Patterns::emitLoop(IRBuilderBase &builder, ArrayRef<Value *> sources,
                        ArrayRef<Value *> destinations, Value *n, unsigned lanes, Body body) {
  LLVMContext &context = module.getContext();
  BasicBlock *entry = builder.GetInsertBlock();
  BasicBlock *loop = BasicBlock::Create(context, "loop", entry->getParent());
  BasicBlock *done = BasicBlock::Create(context, "done", entry->getParent());
  builder.CreateCondBr(builder.CreateICmpSLE(n, builder.getInt64(0)), done, loop);

  // Exactly equal pointers only carry dependences within one iteration. Saying so
  // replaces pairwise run-time overlap checks, of which n-ary patterns need O(n^2).
  MDNode *group = MDNode::getDistinct(context, {});
  builder.SetInsertPoint(loop);
  PHINode *i = builder.CreatePHI(builder.getInt64Ty(), 2, "i");
  Type *element = elements.memoryType();
  Align align(sizeOf(type));
  SmallVector<Value *> loaded;
  for (Value *source : sources) {
    LoadInst *load =
        builder.CreateAlignedLoad(element, builder.CreateInBoundsGEP(element, source, i), align);
    load->setMetadata(LLVMContext::MD_access_group, group);
    loaded.push_back(load);
  }
  Value *value = body(builder, loaded);
  for (Value *destination : destinations) {
    StoreInst *store = builder.CreateAlignedStore(
        value, builder.CreateInBoundsGEP(element, destination, i), align);
    store->setMetadata(LLVMContext::MD_access_group, group);
  }
  Value *next = builder.CreateNUWAdd(i, builder.getInt64(1));
  BranchInst *back = builder.CreateCondBr(builder.CreateICmpSLT(next, n), loop, done);
  i->addIncoming(builder.getInt64(0), entry);
  i->addIncoming(next, loop);

  SmallVector<Metadata *> facts{nullptr};
  facts.push_back(
      MDNode::get(context, {MDString::get(context, "llvm.loop.parallel_accesses"), group}));
  // LLVM goes by what lies in memory and then splits the wider vectors of what is computed.
  if (lanes)
    facts.push_back(MDNode::get(context, {MDString::get(context, "llvm.loop.vectorize.width"),
                                          ConstantAsMetadata::get(builder.getInt32(lanes))}));
  MDNode *id = MDNode::getDistinct(context, facts);
  id->replaceOperandWith(0, id);
  back->setMetadata(LLVMContext::MD_loop, id);

  builder.SetInsertPoint(done);
  builder.CreateRetVoid();
}

Function *Patterns::create(StringRef name, ArrayRef<Type *> parameters,
                           Function::LinkageTypes linkage) {
  Type *nothing = Type::getVoidTy(module.getContext());
  auto *function =
      Function::Create(FunctionType::get(nothing, parameters, false), linkage, name, module);
  function->addFnAttr(Attribute::NoInline);
  function->addFnAttr(Attribute::NoUnwind);
  return function;
}

/// A destination that is the source stays as it is: others may be reading it, and a proof counts
/// on that. Another one takes its place; if there is none, nothing is copied.
static void leaveSourceAlone(IRBuilderBase &builder, Value *source,
                             MutableArrayRef<Value *> destinations, Value *&n) {
  Value *other = source;
  for (Value *destination : destinations)
    other = builder.CreateSelect(builder.CreateICmpEQ(destination, source), other, destination);
  for (Value *&destination : destinations)
    destination =
        builder.CreateSelect(builder.CreateICmpEQ(destination, source), other, destination);
  n = builder.CreateSelect(builder.CreateICmpEQ(other, source), builder.getInt64(0), n);
}

Function *Patterns::get(unsigned sources, unsigned destinations) {
  std::string name =
      fmt::format("{}_{}_{}", sources > 1 ? "reduce" : "copy", sources, destinations);
  if (Function *known = module.getFunction(name))
    return known;
  LLVMContext &context = module.getContext();
  SmallVector<Type *> parameters(sources + destinations, PointerType::get(context, 0));
  parameters.push_back(Type::getInt64Ty(context));
  Function *function = create(name, parameters, Function::InternalLinkage);
  if (sources == 1 && destinations == 1) {
    emitMemcpy(function);
    return function;
  }
  SmallVector<Value *> pointers;
  for (unsigned p = 0; p < sources + destinations; ++p)
    pointers.push_back(function->getArg(p));
  auto combineAll = [&](IRBuilderBase &builder, ArrayRef<Value *> loaded) -> Value * {
    if (loaded.size() == 1)
      return loaded.front();
    Value *value = elements.fromMemory(builder, loaded.front());
    for (Value *other : loaded.drop_front())
      value = elements.combine(builder, value, elements.fromMemory(builder, other));
    return elements.toMemory(builder, value);
  };
  IRBuilder<> builder(BasicBlock::Create(context, "entry", function));
  Value *n = function->getArg(sources + destinations);
  MutableArrayRef<Value *> to = MutableArrayRef<Value *>(pointers).drop_front(sources);
  if (sources == 1)
    leaveSourceAlone(builder, pointers.front(), to, n);
  emitLoop(builder, ArrayRef(pointers).take_front(sources), to, n,
           sources > 1 ? elements.lanes(false) : 0, combineAll);
  return function;
}

Function *Patterns::emitFinish(StringRef name) {
  LLVMContext &context = module.getContext();
  Type *pointer = PointerType::get(context, 0), *i64 = Type::getInt64Ty(context);
  Function *function = create(name, {pointer, pointer, i64, i64}, Function::ExternalLinkage);
  IRBuilder<> builder(BasicBlock::Create(context, "entry", function));
  Value *divisor = elements.divisor(builder, function->getArg(3));
  auto divide = [&](IRBuilderBase &builder, ArrayRef<Value *> loaded) {
    Value *value = elements.fromMemory(builder, loaded.front());
    return elements.toMemory(builder, elements.divide(builder, value, divisor));
  };
  emitLoop(builder, {function->getArg(1)}, {function->getArg(0)}, function->getArg(2),
           elements.lanes(true), divide);
  return function;
}

} // namespace ccl::host
