//===- Abi.h - Fields of the structs of Plan.h in LLVM IR -------------------===//
#pragma once

#include "llvm/IR/IRBuilder.h"

namespace ccl::host {

inline llvm::Value *fieldAddress(llvm::IRBuilderBase &builder, llvm::Value *base, size_t offset) {
  return builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), base, offset);
}
/// Every field that code reads is 8 bytes long.
inline llvm::Value *loadField(llvm::IRBuilderBase &builder, llvm::Value *base, size_t offset,
                              llvm::Type *type) {
  return builder.CreateAlignedLoad(type, fieldAddress(builder, base, offset), llvm::Align(8));
}
inline void storeAtomic(llvm::IRBuilderBase &builder, llvm::Value *value, llvm::Value *address,
                        llvm::AtomicOrdering ordering) {
  builder.CreateAlignedStore(value, address, llvm::Align(8))->setAtomic(ordering);
}
inline llvm::Value *loadAtomic(llvm::IRBuilderBase &builder, llvm::Type *type, llvm::Value *address,
                               llvm::AtomicOrdering ordering) {
  llvm::LoadInst *load = builder.CreateAlignedLoad(type, address, llvm::Align(8));
  load->setAtomic(ordering);
  return load;
}
/// Whether a pointer is an address of another process (KernelArgs::remoteBit): i1.
inline llvm::Value *isRemote(llvm::IRBuilderBase &builder, llvm::Value *address) {
  llvm::Type *i64 = builder.getInt64Ty();
  return builder.CreateICmpSLT(builder.CreatePtrToInt(address, i64), builder.getInt64(0));
}

} // namespace ccl::host
