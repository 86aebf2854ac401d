//===- Kernel.h - One rank program as a function of CUDA C++ -------------------===//
#pragma once

#include "codegen/Programs.h"
#include "codegen/cuda/Multicast.h"
#include "dialect/Indexing.h"

#include "llvm/Support/raw_ostream.h"

#include <map>
#include <optional>

namespace ccl::cuda {

/// Protocols of channels by (tag, slots): both ends of a channel have one.
using Protocols = std::map<std::pair<int64_t, int64_t>, Protocol>;

/// An operand of a transfer, for the code that moves it: none if it is no channel.
using Wire = std::optional<Protocol>;
/// Whether data tell by themselves that they are there.
bool isFlagged(Wire wire);
/// The device's Kind of a transfer: "0", "flagged | wholeSlots".
std::string kindOf(llvm::ArrayRef<Wire> from, llvm::ArrayRef<Wire> to);
/// Those of one side of a transfer.
llvm::SmallVector<Wire> wiresOf(llvm::ArrayRef<PlaceRef> places);

/// By transfers that go through the switch.
using Multicasts = llvm::DenseMap<mlir::Operation *, MulticastSides>;

/// By loops whose iterations may be done at once: the transfer that is all that they do.
using AtOnce = llvm::DenseMap<mlir::Operation *, TransferOp>;

/// Writes `static __device__ void NAME(Block &b)`: what one rank of `program` does in a
/// micro-batch; that of its proxies only if they are blocks, too (`withProxies`). Emits a
/// diagnostic on the op that has no code.
mlir::LogicalResult writeProgram(ProgramOp program, const KernelPlan &kernel,
                                 llvm::ArrayRef<std::string> bufferNames,
                                 const Multicasts &multicasts, const AtOnce &atOnce,
                                 bool withProxies, llvm::StringRef name, llvm::raw_ostream &os);

} // namespace ccl::cuda
