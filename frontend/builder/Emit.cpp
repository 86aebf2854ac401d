//===- Emit.cpp ---------------------------------------------------------------===//
#include "frontend/builder/Emit.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <algorithm>

namespace ccl {
inline namespace jit {
namespace {

// The public enumerators are numbered as those of the dialect; `none` comes before `sum`.
static_assert(uint32_t(Collective::custom) == uint32_t(CollectiveKind::Custom) &&
              uint32_t(Collective::allToAllV) == uint32_t(CollectiveKind::AllToAllV) &&
              uint32_t(Op::sum) + 1 == uint32_t(ReductionKind::Sum) &&
              uint32_t(Op::bxor) + 1 == uint32_t(ReductionKind::Bxor));

class Emitter {
public:
  Emitter(const Algorithm::Impl &notes, mlir::ModuleOp module)
      : notes(notes), module(module), builder(module.getBodyRegion()) {
    builder.setInsertionPointToEnd(module.getBody());
    for (const Algorithm::Impl::Line &line : notes.lines)
      locations.push_back(mlir::FileLineColLoc::get(module.getContext(), notes.files[line.file],
                                                    line.line, line.column));
  }

  mlir::FailureOr<AlgorithmOp> run(size_t mostMoveOps) {
    if (mlir::failed(refuse()))
      return mlir::failure();
    ContractAttr contract = contractAttr();
    if (!contract)
      return mlir::failure();
    auto algorithm = builder.create<AlgorithmOp>(
        locations[notes.line], notes.name, builder.getFunctionType({}, {}), contract,
        mlir::FlatSymbolRefAttr(), mlir::ArrayAttr(), mlir::StringAttr(), mlir::ArrayAttr(),
        mlir::ArrayAttr());
    builder.setInsertionPointToStart(&algorithm.getBody().emplaceBlock());
    for (const Algorithm::Impl::BufferInfo &info : notes.buffers)
      emitBuffer(info);
    if (notes.moves.size() <= mostMoveOps)
      emitOps();
    else if (mlir::failed(emitTable()))
      return mlir::failure();
    return algorithm;
  }

private:
  /// Reports what was wrong at once.
  mlir::LogicalResult refuse() {
    mlir::Location here = locations[notes.line];
    for (const Algorithm::Impl::Problem &problem : notes.problems)
      mlir::emitError(locations[problem.line]) << problem.message;
    if (!notes.problems.empty())
      return mlir::failure();
    if (notes.depth)
      return mlir::emitError(here) << "'" << notes.name << "' has a step that was not ended";
    if (notes.unmatchedEnd)
      return mlir::emitError(here) << "'" << notes.name << "' ends a step that was not begun";
    if (notes.name.empty())
      return mlir::emitError(here) << "an algorithm needs a name";
    if (notes.ranks < 1)
      return mlir::emitError(here)
             << "'" << notes.name << "' has " << notes.ranks << " ranks, needs at least 1";
    return mlir::success();
  }

  ContractAttr contractAttr() {
    const Contract &contract = notes.contract;
    llvm::SmallVector<int64_t> targets(contract.targets.begin(), contract.targets.end()), rows;
    for (const Contract::Row &row : contract.rows)
      rows.append({row.outRank, row.outChunk, row.inRank, row.inChunk});
    auto kind = CollectiveKind(uint32_t(contract.collective));
    auto reduction = contract.op ? ReductionKind(uint32_t(*contract.op) + 1) : ReductionKind::None;
    auto complain = [&] { return mlir::emitError(locations[notes.line]); };
    return ContractAttr::getChecked(llvm::function_ref<mlir::InFlightDiagnostic()>(complain),
                                    builder.getContext(), kind, reduction, int64_t(contract.root),
                                    llvm::ArrayRef<int64_t>(targets), llvm::ArrayRef<int64_t>(rows),
                                    chunksOf(model::Role::In), chunksOf(model::Role::Out));
  }

  /// Of the input or output; rows speak of them. Other contracts know their own.
  int64_t chunksOf(model::Role role) const {
    if (!notes.contract.rows.empty())
      for (const Algorithm::Impl::BufferInfo &info : notes.buffers)
        if (info.role == role || info.role == model::Role::InOut)
          return info.chunks;
    return 0;
  }

  mlir::AffineMap constants(llvm::ArrayRef<int64_t> values) {
    llvm::SmallVector<mlir::AffineExpr> list;
    for (int64_t value : values)
      list.push_back(builder.getAffineConstantExpr(value));
    return mlir::AffineMap::get(0, 0, list, builder.getContext());
  }

  void emitBuffer(const Algorithm::Impl::BufferInfo &info) {
    auto op = builder.create<BufferOp>(
        locations[info.line], BufferType::get(builder.getContext()),
        BufferRoleAttr::get(builder.getContext(), BufferRole(uint32_t(info.role))),
        mlir::AffineMapAttr::get(constants({notes.ranks})),
        mlir::AffineMapAttr::get(constants({info.chunks})), mlir::ValueRange(), mlir::ValueRange(),
        builder.getStringAttr(info.name));
    buffers.push_back(op.getResult());
  }

  //===--------------------------------------------------------------------===//
  // An op for each move
  //===--------------------------------------------------------------------===//

  void emitMove(const Algorithm::Impl::Move &move) {
    auto create = [&](auto *op) {
      builder.create<std::remove_pointer_t<decltype(op)>>(
          locations[move.line], buffers[move.from.buffer],
          constants({move.from.rank, move.from.chunk}), mlir::ValueRange(),
          buffers[move.into.buffer], constants({move.into.rank, move.into.chunk}),
          mlir::ValueRange(), int64_t(move.count));
    };
    if (move.reduce)
      create(static_cast<ReduceOp *>(nullptr));
    else
      create(static_cast<CopyOp *>(nullptr));
  }

  void emitOps() {
    for (size_t i = 0; i < notes.moves.size();) {
      size_t end = i;
      while (end < notes.moves.size() && notes.moves[end].step == notes.moves[i].step)
        ++end;
      mlir::OpBuilder::InsertionGuard guard(builder);
      if (end - i > 1) { // one iteration: nothing but "at the same time"
        auto zero = mlir::AffineMap::getConstantMap(0, builder.getContext());
        auto one = mlir::AffineMap::getConstantMap(1, builder.getContext());
        auto step = builder.create<mlir::affine::AffineParallelOp>(
            locations[notes.moves[i].line], mlir::TypeRange(),
            llvm::ArrayRef<mlir::arith::AtomicRMWKind>(), llvm::ArrayRef(zero), mlir::ValueRange(),
            llvm::ArrayRef(one), mlir::ValueRange(), llvm::ArrayRef<int64_t>(1));
        builder.setInsertionPointToStart(step.getBody());
      }
      for (; i < end; ++i)
        emitMove(notes.moves[i]);
    }
  }

  //===--------------------------------------------------------------------===//
  // A table of all
  //===--------------------------------------------------------------------===//

  /// The lines of the rows, as dialect/Expand reads them: fused, with (rows, line) as runs.
  mlir::Location tableLocation() {
    llvm::SmallVector<mlir::Location> used;
    llvm::SmallVector<int64_t> runs, index(locations.size(), -1);
    for (const Algorithm::Impl::Move &move : notes.moves) {
      int64_t &number = index[move.line];
      if (number < 0) {
        number = int64_t(used.size());
        used.push_back(locations[move.line]);
      }
      if (runs.empty() || runs.back() != number)
        runs.append({0, number});
      ++runs[runs.size() - 2];
    }
    return mlir::FusedLoc::get(used, builder.getDenseI64ArrayAttr(runs), builder.getContext());
  }

  mlir::LogicalResult emitTable() {
    // In the builder's words.
    for (const Algorithm::Impl::Move &move : notes.moves)
      if (move.count < 1 || move.count > INT32_MAX)
        return mlir::emitError(locations[move.line])
               << "moves " << move.count << " chunks, needs 1 to " << INT32_MAX;
    std::vector<int64_t> rows;
    rows.reserve(notes.moves.size() * ScheduleOp::rowSize);
    int64_t step = 0, last = notes.moves.front().step;
    for (const Algorithm::Impl::Move &move : notes.moves) {
      step += move.step != last;
      last = move.step;
      rows.insert(rows.end(),
                  {step, move.reduce, move.from.rank, int64_t(move.from.buffer), move.from.chunk,
                   move.into.rank, int64_t(move.into.buffer), move.into.chunk, move.count});
    }
    builder.create<ScheduleOp>(tableLocation(), buffers,
                               ScheduleOp::makeTable(builder.getContext(), rows));
    return mlir::success();
  }

  const Algorithm::Impl &notes;
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  std::vector<mlir::Location> locations; ///< by number of line
  llvm::SmallVector<mlir::Value> buffers;
};

} // namespace

mlir::FailureOr<AlgorithmOp> emit(const Algorithm &algorithm, mlir::ModuleOp module,
                                  size_t mostMoveOps) {
  const Algorithm::Impl *notes = algorithm.implementation();
  if (!notes || notes->outOfMemory)
    return mlir::emitError(module.getLoc())
           << (notes ? "there was no memory for all moves of the algorithm"
                     : "the algorithm was moved to another object, or there was no memory for it");
  return Emitter(*notes, module).run(mostMoveOps);
}

} // namespace jit
} // namespace ccl
