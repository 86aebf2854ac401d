//===- Elements.cpp ---------------------------------------------------------===//
#include "codegen/host/Elements.h"

#include "codegen/Programs.h"

using namespace llvm;

namespace ccl::host {

using model::Reduction;

static bool isSigned(ElementType type) {
  return type == ElementType::I8 || type == ElementType::I32 || type == ElementType::I64;
}

Elements::Elements(LLVMContext &context, ElementType type, Reduction reduction, Processor processor)
    : context(context), type(type), reduction(reduction), processor(processor) {
  if (type == ElementType::F16)
    small = {5, 10, true};
  if (type == ElementType::F8E5M2)
    small = {5, 2, true};
  if (type == ElementType::F8E4M3)
    small = {4, 3, false};
}

std::string Elements::whyNotReducible() const {
  return ccl::whyNotReducible("the host backend has", type, reduction);
}

Type *Elements::memoryType() const {
  if (type == ElementType::F32)
    return Type::getFloatTy(context);
  if (type == ElementType::F64)
    return Type::getDoubleTy(context);
  return IntegerType::get(context, unsigned(sizeOf(type) * 8));
}

unsigned Elements::lanes(bool divided) const {
  switch (type) {
  case ElementType::F16:
  case ElementType::BF16:
  case ElementType::F8E4M3:
  case ElementType::F8E5M2: return processor.vectorBits / 32;
  case ElementType::I8:
  case ElementType::U8: return divided ? processor.vectorBits / 32 : 0;
  case ElementType::I32:
  case ElementType::U32: return divided ? processor.vectorBits / 64 : 0;
  default: return 0;
  }
}

//===----------------------------------------------------------------------===//
// 16- and 8-bit floats
//===----------------------------------------------------------------------===//

// LLVM's own `bfloat` is of no use here: the instruction that it becomes on AVX-512 BF16
// takes subnormal numbers for zero.

Value *Elements::fromMemory(IRBuilderBase &builder, Value *value) const {
  if (type == ElementType::BF16)
    return builder.CreateBitCast(
        builder.CreateShl(builder.CreateZExt(value, builder.getInt32Ty()), builder.getInt32(16)),
        builder.getFloatTy());
  if (!small)
    return value;
  return processor.convertsHalf ? widenThroughHalf(builder, value) : widen(builder, value);
}

/// Every f8 is half of a smaller exponent range: E5M2 is its upper byte, E4M3 lies 2^8
/// lower there.
Value *Elements::widenThroughHalf(IRBuilderBase &builder, Value *code) const {
  Type *half = builder.getHalfTy(), *single = builder.getFloatTy();
  auto asFloat = [&](Value *bits) {
    return builder.CreateFPExt(builder.CreateBitCast(bits, half), single);
  };
  if (type == ElementType::F16)
    return asFloat(code);
  if (type == ElementType::F8E5M2)
    return asFloat(builder.CreateShl(builder.CreateZExt(code, builder.getInt16Ty()), 8));
  Value *sign =
      builder.CreateShl(builder.CreateZExt(builder.CreateAnd(code, 0x80), builder.getInt16Ty()), 8);
  Value *magnitude = builder.CreateAnd(code, 0x7f);
  Value *bits = builder.CreateShl(builder.CreateZExt(magnitude, builder.getInt16Ty()), 7);
  Value *value =
      builder.CreateFMul(asFloat(builder.CreateOr(bits, sign)), ConstantFP::get(single, 256.0));
  Value *isNan = builder.CreateICmpEQ(magnitude, builder.getInt8(0x7f));
  return builder.CreateSelect(isNan, ConstantFP::getNaN(single), value);
}

/// The code's bits at the place of f32's with a larger exponent. What is subnormal gets
/// the smallest normal exponent, of which the implicit one is then subtracted; so no f32
/// here is subnormal, which costs some processors a hundred cycles.
Value *Elements::widen(IRBuilderBase &builder, Value *code) const {
  Type *i32 = builder.getInt32Ty(), *single = builder.getFloatTy();
  code = builder.CreateZExt(code, i32);
  Value *sign = builder.CreateShl(builder.CreateAnd(code, small->sign()), 31 - small->width());
  Value *magnitude = builder.CreateAnd(code, small->sign() - 1);
  Value *shifted = builder.CreateShl(magnitude, 23 - small->mantissaBits);
  Value *normal = builder.CreateAdd(shifted, builder.getInt32(small->rebias()));
  Value *smallest = builder.getInt32(small->rebias() + (1u << 23));
  Value *subnormal =
      builder.CreateFSub(builder.CreateBitCast(builder.CreateAdd(shifted, smallest), single),
                         builder.CreateBitCast(smallest, single));
  Value *isSubnormal =
      builder.CreateICmpULT(magnitude, builder.getInt32(1u << small->mantissaBits));
  Value *bits = builder.CreateSelect(isSubnormal, builder.CreateBitCast(subnormal, i32), normal);
  if (small->hasInfinity)
    bits =
        builder.CreateSelect(builder.CreateICmpUGE(magnitude, builder.getInt32(small->infinity())),
                             builder.CreateOr(shifted, 0x7f800000), bits);
  else
    bits =
        builder.CreateSelect(builder.CreateICmpEQ(magnitude, builder.getInt32(small->sign() - 1)),
                             builder.getInt32(0x7fc00000), bits);
  return builder.CreateBitCast(builder.CreateOr(bits, sign), single);
}

Value *Elements::toMemory(IRBuilderBase &builder, Value *value) const {
  if (type == ElementType::BF16) {
    // Adding a bit less than half a unit carries exactly if it is to be rounded up; from the
    // largest number into infinity. A NaN might carry into zero.
    Value *bits = builder.CreateBitCast(value, builder.getInt32Ty());
    Value *upper = builder.CreateLShr(bits, 16);
    Value *rounding = builder.CreateAdd(builder.CreateAnd(upper, 1), builder.getInt32(0x7fff));
    Value *rounded = builder.CreateLShr(builder.CreateAdd(bits, rounding), 16);
    Value *quiet = builder.CreateOr(upper, 0x40);
    Value *code = builder.CreateSelect(builder.CreateFCmpUNO(value, value), quiet, rounded);
    return builder.CreateTrunc(code, builder.getInt16Ty());
  }
  if (type == ElementType::F16 && processor.convertsHalf)
    return builder.CreateBitCast(builder.CreateFPTrunc(value, builder.getHalfTy()),
                                 builder.getInt16Ty());
  return small ? narrow(builder, value) : value;
}

/// Rounds like bf16 above. To make a subnormal number it is added to a power of two whose
/// unit in the last place is the smallest subnormal number; then that is its lower bits.
Value *Elements::narrow(IRBuilderBase &builder, Value *value) const {
  Type *i32 = builder.getInt32Ty(), *single = builder.getFloatTy();
  const unsigned dropped = 23 - small->mantissaBits;
  Value *bits = builder.CreateBitCast(value, i32);
  Value *sign = builder.CreateAnd(builder.CreateLShr(bits, 31 - small->width()), small->sign());
  Value *magnitude = builder.CreateAnd(bits, 0x7fffffff);

  Value *odd = builder.CreateAnd(builder.CreateLShr(magnitude, dropped), 1);
  Value *rounding = builder.getInt32((1u << (dropped - 1)) - 1 - small->rebias());
  Value *normal =
      builder.CreateLShr(builder.CreateAdd(builder.CreateAdd(magnitude, rounding), odd), dropped);
  Value *power = builder.getInt32(small->rebias() + ((dropped + 1) << 23));
  Value *sum = builder.CreateFAdd(builder.CreateBitCast(magnitude, single),
                                  builder.CreateBitCast(power, single));
  Value *subnormal = builder.CreateSub(builder.CreateBitCast(sum, i32), power);
  Value *isSubnormal =
      builder.CreateICmpULT(magnitude, builder.getInt32(small->rebias() + (1u << 23)));
  Value *code = builder.CreateSelect(isSubnormal, subnormal, normal);

  // What is too large is infinity, or NaN where there is none; there NaN is too large.
  uint32_t largest = small->hasInfinity ? small->infinity() : small->sign() - 1;
  code = builder.CreateBinaryIntrinsic(Intrinsic::umin, code, builder.getInt32(largest));
  if (small->hasInfinity)
    code =
        builder.CreateSelect(builder.CreateICmpUGT(magnitude, builder.getInt32(0x7f800000)),
                             builder.getInt32(largest | (1u << (small->mantissaBits - 1))), code);
  return builder.CreateTrunc(builder.CreateOr(code, sign), memoryType());
}

//===----------------------------------------------------------------------===//
// Combination
//===----------------------------------------------------------------------===//

/// The smaller (or larger) of two floats; NaN if either is. One compare-select alone
/// is `minps`, which yields b when a is NaN: the second select puts a's NaN back.
/// LLVM's `minimum` would also order -0 before +0, which costs x86 several more
/// instructions and no user of MPI or NCCL relies on.
static Value *selectFloat(IRBuilderBase &builder, CmpInst::Predicate predicate, Value *a,
                          Value *b) {
  Value *better = builder.CreateSelect(builder.CreateFCmp(predicate, a, b), a, b);
  return builder.CreateSelect(builder.CreateFCmpUNO(a, a), a, better);
}

Value *Elements::combine(IRBuilderBase &builder, Value *a, Value *b) const {
  bool real = !isInteger(type), isS = isSigned(type);
  switch (reduction) {
  case Reduction::Sum:
  case Reduction::Avg: return real ? builder.CreateFAdd(a, b) : builder.CreateAdd(a, b);
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
  case Reduction::None: break; // refused by whyNotReducible
  }
  llvm_unreachable("reduction without code");
}

//===----------------------------------------------------------------------===//
// Average
//===----------------------------------------------------------------------===//

// No processor divides vectors of integers. A float whose mantissa is longer than the
// element divides them exactly enough: a quotient that is no integer differs from one by
// more than a rounding.

Value *Elements::divisor(IRBuilderBase &builder, Value *ranks) const {
  switch (type) {
  case ElementType::I64:
  case ElementType::U64: return ranks;
  case ElementType::I32:
  case ElementType::U32:
  case ElementType::F64: return builder.CreateSIToFP(ranks, builder.getDoubleTy());
  default: return builder.CreateSIToFP(ranks, builder.getFloatTy());
  }
}

Value *Elements::divideInteger(IRBuilderBase &builder, Value *value, Value *divisor) const {
  if (!divisor->getType()->isFloatingPointTy())
    return isSigned(type) ? builder.CreateSDiv(value, divisor) : builder.CreateUDiv(value, divisor);
  // Through i32: there is no conversion between vectors of floats and of bytes.
  Type *i32 = builder.getInt32Ty(), *real = divisor->getType();
  if (isSigned(type)) {
    value = builder.CreateSIToFP(builder.CreateSExt(value, i32), real);
    value = builder.CreateFPToSI(builder.CreateFDiv(value, divisor), i32);
  } else {
    value = builder.CreateUIToFP(builder.CreateZExt(value, i32), real);
    value = builder.CreateFPToUI(builder.CreateFDiv(value, divisor), i32);
  }
  return builder.CreateTrunc(value, memoryType());
}

Value *Elements::divide(IRBuilderBase &builder, Value *value, Value *divisor) const {
  return isInteger(type) ? divideInteger(builder, value, divisor)
                         : builder.CreateFDiv(value, divisor);
}

} // namespace ccl::host
