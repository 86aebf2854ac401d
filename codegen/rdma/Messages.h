//===- Messages.h - What rank programs send through channels --------------------===//
#pragma once

#include "dialect/Ccl.h"
#include "runtime/plan/Plan.h"

namespace ccl::rdma {

/// Messages of all ranks of a plan; more are not listed.
constexpr uint64_t mostMessages = uint64_t(1) << 22;

/// Fills kernel.wires, for `ranks` of `program`, from what is known of it in `plan` (channels,
/// buffers). Sets plan.hasWires to false and frees what is there if there are too many. Emits a
/// diagnostic on programs that cannot be expanded.
mlir::LogicalResult planMessages(ProgramOp program, KernelPlan &kernel, Plan &plan,
                                 uint64_t &numMessages);

/// Fails, with a diagnostic at the op, if a program of `algorithm` (that of `rank`, or all)
/// accesses memory of a rank of another host directly.
mlir::LogicalResult refuseFarAccess(AlgorithmOp algorithm, llvm::ArrayRef<int32_t> hosts,
                                    int64_t rank);

} // namespace ccl::rdma
