//===- Ccl.h - The ccl dialect: the one header to include ------------------===//
#pragma once

#include "dialect/model/Contract.h"
#include "dialect/model/Topology.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"

#include "dialect/CclDialect.h.inc"
#include "dialect/CclEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/CclAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/CclInterfaces.h.inc"
#include "dialect/CclTypes.h.inc"
#define GET_OP_CLASSES
#include "dialect/CclCollectiveOps.h.inc"
#define GET_OP_CLASSES
#include "dialect/CclAlgorithmOps.h.inc"
#define GET_OP_CLASSES
#include "dialect/CclProgramOps.h.inc"

namespace ccl {

/// An operand of a transfer, or one side of a move: a buffer (or a peer's) with an
/// index map over `operands` (dims first, then symbols), or a channel without one.
struct PlaceRef {
  mlir::Value base;
  mlir::AffineMap map;
  llvm::SmallVector<mlir::Value> operands;

  bool isChannel() const { return mlir::isa<ChannelType>(base.getType()); }
  /// The `ccl.buffer` behind the base, through `ccl.peer`; null for a channel.
  BufferOp getBuffer() const;
  /// The `ccl.peer` that the base is, or null.
  PeerOp getPeer() const { return base.getDefiningOp<PeerOp>(); }
};

llvm::SmallVector<PlaceRef> getFromPlaces(TransferOp op);
llvm::SmallVector<PlaceRef> getToPlaces(TransferOp op);
/// Builds a transfer from operand lists.
TransferOp createTransfer(mlir::OpBuilder &builder, mlir::Location loc, bool reduce,
                          llvm::ArrayRef<PlaceRef> from, llvm::ArrayRef<PlaceRef> to,
                          int64_t count);

/// The place that a signal offers to readers, whose readers a wait waits for, or that a wait finds
/// written by a peer (`of`).
struct GuardedPlace {
  PlaceRef place;
  int64_t count = 1;
  bool arrives = false; ///< a peer has written it
};
/// On waits whose place a peer has written when they are over: a number, the same on all that wait
/// for one write.
constexpr llvm::StringLiteral arrivalAttr = "ccl.arrives";
/// The largest number of an agent of an algorithm's move.
constexpr int64_t maxAgent = 1023;
/// On instructions of projected programs: the number of the agent that is to execute them.
constexpr llvm::StringLiteral agentAttr = "ccl.agent";
/// Beside it: the number of the algorithm's step, the same on all ranks.
constexpr llvm::StringLiteral stepAttr = "ccl.step";
/// Nothing if `op` is no signal or wait, or names no place.
std::optional<GuardedPlace> getGuardedPlace(mlir::Operation *op);

/// Both sides of a `ccl.copy` or `ccl.reduce`, without a template at every use.
struct MoveRef {
  mlir::Operation *op = nullptr;
  bool reduce = false;
  PlaceRef src, dst;
  int64_t count = 1;
  int64_t tag = 0;
  std::optional<Via> via;
  int64_t srcAgent = 0;                          ///< which agent of the source does its half
  llvm::SmallVector<int64_t, 2> dstAgents = {0}; ///< of the destination; what is put, several may
};
/// Nothing if `op` is neither `ccl.copy` nor `ccl.reduce`.
std::optional<MoveRef> getMove(mlir::Operation *op);

/// The contract of a specialized algorithm, with its rank and chunk counts.
/// Emits an error on `algorithm` and fails if a size parameter is unbound or the
/// buffers do not fit the collective.
mlir::FailureOr<model::Contract> getModelContract(AlgorithmOp algorithm);

/// The programs of `algorithm` in its module, in order.
llvm::SmallVector<ProgramOp> getPrograms(AlgorithmOp algorithm);
/// Whether input and output are one buffer.
bool hasInOut(AlgorithmOp algorithm);

/// The plain form of a topology.
model::Topology getModelTopology(TopologyOp topology);
/// The op that says the same, at the builder's place. Its name has to be free there.
TopologyOp createTopology(mlir::OpBuilder &builder, mlir::Location loc,
                          const model::Topology &topology);

inline model::Collective toModel(CollectiveKind k) { return model::Collective(uint32_t(k)); }
inline model::Reduction toModel(ReductionKind k) { return model::Reduction(uint32_t(k)); }
inline model::Role toModel(BufferRole r) { return model::Role(uint32_t(r)); }

/// On algorithms: how many micro-batches a launch takes that asks for none.
constexpr llvm::StringLiteral microBatchesAttr = "ccl.micro_batches";
/// Of an algorithm: its data channels have at least so many slots.
constexpr llvm::StringLiteral slotsAttr = "ccl.slots";
constexpr int64_t maxSlots = 1024;
/// Of an algorithm: what a rank puts into several peers is one transfer, for switches that copy,
/// and a sum may read all ranks, for switches that add up.
constexpr llvm::StringLiteral multicastAttr = "ccl.multicast";
/// Of an algorithm whose pipelines are flattened: how many stages they had, at most.
constexpr llvm::StringLiteral stagesAttr = "ccl.stages";
/// That number; 0: the launch decides.
int64_t getMicroBatches(AlgorithmOp algorithm);
/// The number behind `slotsAttr`; 0: none.
int64_t getSlots(AlgorithmOp algorithm);
/// At least so many from now on.
void raiseSlots(AlgorithmOp algorithm, int64_t slots);
/// On expanded pipelines: the first agent of each stage, and the number of all.
constexpr llvm::StringLiteral stageAgentsAttr = "ccl.stage_agents";

/// The names of what some `ccl.apply` of the module runs: its callees, and what implements those
/// that are collectives.
llvm::StringSet<> appliedSymbols(mlir::ModuleOp module);

/// Registers the dialect and the upstream dialects that its programs use.
void registerDialects(mlir::DialectRegistry &registry);

} // namespace ccl
