//===- Builder.cpp ----------------------------------------------------------===//
#include "passes/synthesis/generators/Builder.h"

#include "llvm/ADT/Twine.h"

using namespace mlir;

namespace ccl {

std::string freeName(ModuleOp module, StringRef wanted) {
  std::string name = wanted.str();
  for (unsigned i = 1; module.lookupSymbol(name); ++i)
    name = (wanted + "_" + Twine(i)).str();
  return name;
}

SmallVector<int64_t> permuteTargets(const GeneratorRequest &request) {
  SmallVector<int64_t> targets = request.targets;
  if (request.collective == model::Collective::Permute && targets.empty())
    for (int64_t p = 0; p < request.ranks; ++p)
      targets.push_back((p + 1) % request.ranks);
  return targets;
}

static AffineMapAttr constantMap(MLIRContext *context, ArrayRef<int64_t> values) {
  SmallVector<AffineExpr> exprs;
  for (int64_t value : values)
    exprs.push_back(getAffineConstantExpr(value, context));
  return AffineMapAttr::get(AffineMap::get(0, 0, exprs, context));
}

AlgorithmBuilder::AlgorithmBuilder(ModuleOp module, StringRef name, const GeneratorRequest &request,
                                   ArrayRef<int64_t> grid, TopologyOp topology)
    : builder(module.getBodyRegion()),
      loc(NameLoc::get(StringAttr::get(module.getContext(), name))),
      grid(grid.begin(), grid.end()) {
  if (grid.empty())
    this->grid = {request.ranks};
  builder.setInsertionPointToEnd(module.getBody());
  auto reduction = model::reduces(request.collective) ? ReductionKind(uint32_t(request.reduction))
                                                      : ReductionKind::None;
  SmallVector<int64_t> targets = permuteTargets(request);
  auto contract = ContractAttr::get(
      builder.getContext(), CollectiveKind(uint32_t(request.collective)), reduction, request.root,
      targets, ArrayRef<int64_t>(), /*in_chunks=*/0, /*out_chunks=*/0);
  algorithm = builder.create<AlgorithmOp>(
      loc, freeName(module, name), builder.getFunctionType({}, {}), contract,
      topology ? FlatSymbolRefAttr::get(topology.getSymNameAttr()) : FlatSymbolRefAttr(),
      /*arg_names=*/ArrayAttr(), /*sym_visibility=*/StringAttr(), /*arg_attrs=*/ArrayAttr(),
      /*res_attrs=*/ArrayAttr());
  builder.setInsertionPointToStart(&algorithm.getBody().emplaceBlock());
}

Buffer AlgorithmBuilder::buffer(BufferRole role, StringRef name, Shape chunks) {
  auto op = builder.create<BufferOp>(
      loc, BufferType::get(builder.getContext()), BufferRoleAttr::get(builder.getContext(), role),
      constantMap(builder.getContext(), grid), constantMap(builder.getContext(), chunks),
      ValueRange(), ValueRange(), builder.getStringAttr(name));
  return Buffer(op.getResult());
}

void AlgorithmBuilder::body(Operation *loop, Value variable, function_ref<void(Expr)> fill) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&loop->getRegion(0).front());
  variables.push_back(variable);
  fill(builder.getAffineDimExpr(variables.size() - 1));
  variables.pop_back();
}

void AlgorithmBuilder::steps(int64_t from, int64_t to, function_ref<void(Expr)> fill) {
  if (from >= to)
    return;
  auto loop = builder.create<affine::AffineForOp>(loc, from, to);
  body(loop, loop.getInductionVar(), fill);
}

void AlgorithmBuilder::ranks(int64_t from, int64_t to, function_ref<void(Expr)> fill) {
  if (from >= to)
    return;
  auto lower = AffineMap::getConstantMap(from, builder.getContext());
  auto upper = AffineMap::getConstantMap(to, builder.getContext());
  auto loop = builder.create<affine::AffineParallelOp>(
      loc, TypeRange(), ArrayRef<arith::AtomicRMWKind>(), ArrayRef(lower), ValueRange(),
      ArrayRef(upper), ValueRange(), ArrayRef<int64_t>(1));
  body(loop, loop.getIVs().front(), fill);
}

AffineMap AlgorithmBuilder::place(const Spot &spot, SmallVectorImpl<Value> &operands) const {
  MLIRContext *context = loc.getContext();
  SmallVector<AffineExpr> compact(variables.size());
  for (auto [i, variable] : llvm::enumerate(variables)) {
    bool used =
        llvm::any_of(spot.indices, [i = unsigned(i)](Expr e) { return e.isFunctionOfDim(i); });
    compact[i] = getAffineDimExpr(operands.size(), context);
    if (used)
      operands.push_back(variable);
  }
  SmallVector<AffineExpr> indices;
  for (Expr e : spot.indices)
    indices.push_back(e.replaceDims(compact));
  return AffineMap::get(operands.size(), 0, indices, context);
}

template <typename MoveOp>
void AlgorithmBuilder::move(const Spot &from, const Spot &into, int64_t count) {
  SmallVector<Value> fromOperands, intoOperands;
  AffineMap fromMap = place(from, fromOperands), intoMap = place(into, intoOperands);
  auto move = builder.create<MoveOp>(loc, from.buffer, fromMap, fromOperands, into.buffer, intoMap,
                                     intoOperands, count);
  if (!via)
    return;
  move.setVia(*via);
  move.setAgents(ArrayRef<int64_t>{agents, agents});
}

void AlgorithmBuilder::copy(const Spot &from, const Spot &into, int64_t count) {
  move<CopyOp>(from, into, count);
}

void AlgorithmBuilder::reduce(const Spot &from, const Spot &into, int64_t count) {
  move<ReduceOp>(from, into, count);
}

void AlgorithmBuilder::copyTable(Buffer from, Buffer into, ArrayRef<Row> rows) {
  SmallVector<int64_t> table;
  for (const Row &row : rows)
    table.append({/*step=*/0, /*copy=*/0, row.fromRank, /*buffer=*/0, row.fromChunk, row.intoRank,
                  /*buffer=*/1, row.intoChunk, /*count=*/1});
  builder.create<ScheduleOp>(loc, ValueRange{from.getValue(), into.getValue()},
                             ScheduleOp::makeTable(builder.getContext(), table));
}

void AlgorithmBuilder::apply(FlatSymbolRefAttr callee, StringAttr axis, Buffer x) {
  AffineMapAttr none = constantMap(builder.getContext(), {});
  builder.create<ApplyOp>(loc, callee, none, ValueRange(), axis, ValueRange(x.getValue()),
                          ArrayAttr(), none, ValueRange());
}

void AlgorithmBuilder::applyAlong(AlgorithmOp callee, StringRef axis, Buffer x) {
  apply(FlatSymbolRefAttr::get(callee.getSymNameAttr()), builder.getStringAttr(axis), x);
}

void AlgorithmBuilder::applyStage(FlatSymbolRefAttr collective, Buffer x) {
  apply(collective, StringAttr(), x);
}

} // namespace ccl
