//===- Patterns.cpp ---------------------------------------------------------===//
#include "codegen/host/Patterns.h"

#include "llvm/IR/MDBuilder.h"

#include <fmt/format.h>

using namespace llvm;

namespace ccl::host {

static bool isFloat(ElementType type) {
  return type == ElementType::F32 || type == ElementType::F64;
}

static bool isSigned(ElementType type) {
  return type == ElementType::I8 || type == ElementType::I32 || type == ElementType::I64;
}

static bool isInteger(ElementType type) {
  return isSigned(type) || type == ElementType::U8 || type == ElementType::U32 ||
         type == ElementType::U64;
}

std::string Patterns::whyNotReducible() const {
  using model::Reduction;
  if (reduction == Reduction::None)
    return "no reduction is given: the contract names none";
  bool arithmetic = reduction == Reduction::Sum || reduction == Reduction::Prod ||
                    reduction == Reduction::Min || reduction == Reduction::Max;
  bool bitwise =
      reduction == Reduction::Band || reduction == Reduction::Bor || reduction == Reduction::Bxor;
  if ((arithmetic && (isInteger(type) || isFloat(type))) || (bitwise && isInteger(type)))
    return "";
  return fmt::format("the host backend has no '{}' of '{}' elements", model::name(reduction),
                     name(type));
}

Type *Patterns::elementType() {
  LLVMContext &context = module.getContext();
  if (type == ElementType::F32)
    return Type::getFloatTy(context);
  if (type == ElementType::F64)
    return Type::getDoubleTy(context);
  return IntegerType::get(context, unsigned(sizeOf(type) * 8));
}

/// The smaller (or larger) of two floats; NaN if either is. One compare-select alone
/// is `minps`, which yields b when a is NaN: the second select puts a's NaN back.
/// LLVM's `minimum` would also order -0 before +0, which costs x86 several more
/// instructions and no user of MPI or NCCL relies on.
static Value *selectFloat(IRBuilderBase &builder, CmpInst::Predicate predicate, Value *a,
                          Value *b) {
  Value *better = builder.CreateSelect(builder.CreateFCmp(predicate, a, b), a, b);
  return builder.CreateSelect(builder.CreateFCmpUNO(a, a), a, better);
}

Value *Patterns::combine(IRBuilderBase &builder, Value *a, Value *b) {
  using model::Reduction;
  bool real = isFloat(type), isS = isSigned(type);
  switch (reduction) {
  case Reduction::Sum: return real ? builder.CreateFAdd(a, b) : builder.CreateAdd(a, b);
  case Reduction::Prod: return real ? builder.CreateFMul(a, b) : builder.CreateMul(a, b);
  case Reduction::Min:
    return real ? selectFloat(builder, CmpInst::FCMP_OLT, a, b)
                : builder.CreateBinaryIntrinsic(isS ? Intrinsic::smin : Intrinsic::umin, a, b);
  case Reduction::Max:
    return real ? selectFloat(builder, CmpInst::FCMP_OGT, a, b)
                : builder.CreateBinaryIntrinsic(isS ? Intrinsic::smax : Intrinsic::umax, a, b);
  case Reduction::Band: return builder.CreateAnd(a, b);
  case Reduction::Bor: return builder.CreateOr(a, b);
  case Reduction::Bxor: return builder.CreateXor(a, b);
  default: // refused by whyNotReducible
    llvm_unreachable("reduction without code");
  }
}

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

void Patterns::emitLoop(Function *function, unsigned sources) {
  LLVMContext &context = module.getContext();
  BasicBlock *entry = BasicBlock::Create(context, "entry", function);
  BasicBlock *loop = BasicBlock::Create(context, "loop", function);
  BasicBlock *done = BasicBlock::Create(context, "done", function);
  unsigned numPointers = unsigned(function->arg_size()) - 1;
  Value *n = function->getArg(numPointers);

  IRBuilder<> builder(entry);
  builder.CreateCondBr(builder.CreateICmpSLE(n, builder.getInt64(0)), done, loop);

  // Exactly equal pointers only carry dependences within one iteration. Saying so
  // replaces pairwise run-time overlap checks, of which n-ary patterns need O(n^2).
  MDNode *group = MDNode::getDistinct(context, {});
  builder.SetInsertPoint(loop);
  PHINode *i = builder.CreatePHI(builder.getInt64Ty(), 2, "i");
  Type *element = elementType();
  Align align(sizeOf(type));
  Value *value = nullptr;
  for (unsigned s = 0; s < sources; ++s) {
    Value *address = builder.CreateInBoundsGEP(element, function->getArg(s), i);
    LoadInst *load = builder.CreateAlignedLoad(element, address, align);
    load->setMetadata(LLVMContext::MD_access_group, group);
    value = value ? combine(builder, value, load) : load;
  }
  for (unsigned d = sources; d < numPointers; ++d) {
    Value *address = builder.CreateInBoundsGEP(element, function->getArg(d), i);
    StoreInst *store = builder.CreateAlignedStore(value, address, align);
    store->setMetadata(LLVMContext::MD_access_group, group);
  }
  Value *next = builder.CreateNUWAdd(i, builder.getInt64(1));
  BranchInst *back = builder.CreateCondBr(builder.CreateICmpSLT(next, n), loop, done);
  i->addIncoming(builder.getInt64(0), entry);
  i->addIncoming(next, loop);

  MDNode *parallel =
      MDNode::get(context, {MDString::get(context, "llvm.loop.parallel_accesses"), group});
  MDNode *id = MDNode::getDistinct(context, {nullptr, parallel});
  id->replaceOperandWith(0, id);
  back->setMetadata(LLVMContext::MD_loop, id);

  builder.SetInsertPoint(done);
  builder.CreateRetVoid();
}

Function *Patterns::get(unsigned sources, unsigned destinations) {
  std::string name =
      fmt::format("{}_{}_{}", sources > 1 ? "reduce" : "copy", sources, destinations);
  if (Function *known = module.getFunction(name))
    return known;
  LLVMContext &context = module.getContext();
  SmallVector<Type *> parameters(sources + destinations, PointerType::get(context, 0));
  parameters.push_back(Type::getInt64Ty(context));
  auto *function = Function::Create(FunctionType::get(Type::getVoidTy(context), parameters, false),
                                    Function::InternalLinkage, name, module);
  function->addFnAttr(Attribute::NoInline);
  function->addFnAttr(Attribute::NoUnwind);
  if (sources == 1 && destinations == 1)
    emitMemcpy(function);
  else
    emitLoop(function, sources);
  return function;
}

} // namespace ccl::host
