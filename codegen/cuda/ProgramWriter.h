//===- ProgramWriter.h - A rank program, op by op -------------------------------===//
//
// Kernel.cpp has the structure of a program, Operands.cpp what its instructions name: most of that
// becomes rows of tables (device/places.cuh), so that no code is compiled for it.
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/cuda/IndexForm.h"
#include "codegen/cuda/Kernel.h"

#include "codegen/host/Agents.h"

namespace ccl::cuda {

class ProgramWriter {
public:
  ProgramWriter(ProgramOp program, const KernelPlan &kernel,
                llvm::ArrayRef<std::string> bufferNames, const Multicasts &multicasts,
                const AtOnce &atOnce, bool withProxies, llvm::raw_ostream &os)
      : program(program), kernel(kernel), bufferNames(bufferNames), multicasts(multicasts),
        atOnce(atOnce), withProxies(withProxies), buffers(numberBuffers(program)), os(os) {}

  mlir::LogicalResult write(llvm::StringRef name);

private:
  // Structure
  mlir::LogicalResult writeAgents();
  bool isAgent(mlir::Operation *op) const {
    return llvm::isa<BlockOp>(op) || (withProxies && llvm::isa<ProxyOp>(op));
  }
  mlir::LogicalResult writeBlock(mlir::Block &block);
  mlir::LogicalResult writeOp(mlir::Operation *op);
  mlir::LogicalResult writeFor(mlir::affine::AffineForOp loop);
  mlir::FailureOr<bool> writeForOfSignals(mlir::affine::AffineForOp loop);
  mlir::LogicalResult writeForAtOnce(mlir::affine::AffineForOp loop, TransferOp transfer);
  mlir::LogicalResult writeTransfer(TransferOp op);
  /// This one and those of its kind that follow it.
  mlir::LogicalResult writeSignals(mlir::Operation *first);
  llvm::raw_ostream &line() { return os.indent(indent); }

  // Names of things
  /// Verifies the map, and knows its operands.
  mlir::FailureOr<llvm::SmallVector<IndexOperand>>
  operandsOf(mlir::Operation *op, mlir::AffineMap map, mlir::ValueRange operands);
  mlir::FailureOr<std::string> printBound(mlir::affine::AffineForOp loop, bool upper);
  /// Numbers those channels of a block that slots of transfers name.
  mlir::LogicalResult nameChannels(mlir::Block &block);
  /// Writes tables of channels, as few as there can be: use(begin, end, table, arguments).
  mlir::LogicalResult
  writeChannels(llvm::ArrayRef<ChannelOp> channels,
                llvm::function_ref<void(size_t, size_t, llvm::StringRef, llvm::StringRef)> use);
  /// "family, peer", as a form has it, or without one as code.
  mlir::FailureOr<std::optional<std::string>> printChannel(ChannelOp channel, IndexForm *form);
  /// `all`: of all ranks, not of its own only.
  mlir::FailureOr<std::optional<std::string>> printOperand(TransferOp op, const PlaceRef &place,
                                                           bool all, IndexForm *form);
  /// Those of both sides, or nothing if a table cannot have them.
  mlir::FailureOr<std::optional<std::string>> printOperands(TransferOp op, IndexForm *form);

  ProgramOp program;
  const KernelPlan &kernel;
  llvm::ArrayRef<std::string> bufferNames;
  const Multicasts &multicasts;
  const AtOnce &atOnce;
  const bool withProxies;
  const host::BufferNumbers buffers;
  llvm::raw_ostream &os;
  unsigned indent = 2;
  int loops = 0, channels = 0, tables = 0;
  int64_t instruction = 0;
  /// Of loops' indices, and of channels.
  llvm::DenseMap<mlir::Value, std::string> names;
  /// What has been written along with what stands before it.
  llvm::SmallPtrSet<mlir::Operation *, 16> written;
};

} // namespace ccl::cuda
