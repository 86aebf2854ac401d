//===- Apply.cpp - algorithms in algorithms, and their stages ----------------===//

#include "dialect/Assembly.h"
#include "dialect/Indexing.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace ccl {

//===----------------------------------------------------------------------===//
// ccl.apply
//===----------------------------------------------------------------------===//

ParseResult ApplyOp::parse(OpAsmParser &p, OperationState &state) {
  Builder &b = p.getBuilder();
  FlatSymbolRefAttr callee;
  AffineMapAttr sizes, groups;
  SmallVector<Unresolved> sizeOperands, buffers, groupOperands;
  SmallVector<Attribute> maps;
  if (p.parseAttribute(callee, "callee", state.attributes) ||
      p.parseAffineMapOfSSAIds(sizeOperands, sizes, "sizes", state.attributes,
                               OpAsmParser::Delimiter::OptionalParen))
    return failure();
  if (succeeded(p.parseOptionalKeyword("along"))) {
    StringAttr axis;
    if (p.parseAttribute(axis, "along", state.attributes))
      return failure();
  }
  auto binding = [&]() -> ParseResult {
    if (p.parseOperand(buffers.emplace_back()))
      return failure();
    if (failed(p.parseOptionalKeyword("by")))
      return success();
    AffineMapAttr map;
    if (p.parseAttribute(map))
      return failure();
    maps.push_back(map);
    return success();
  };
  if (p.parseKeyword("on") || p.parseCommaSeparatedList(binding))
    return failure();
  groups = AffineMapAttr::get(AffineMap::get(p.getContext()));
  if (succeeded(p.parseOptionalKeyword("groups"))) {
    NamedAttrList ignored;
    if (p.parseAffineMapOfSSAIds(groupOperands, groups, "groups", ignored,
                                 OpAsmParser::Delimiter::Paren))
      return failure();
  }
  state.addAttribute("groups", groups);
  if (!maps.empty())
    state.addAttribute("maps", b.getArrayAttr(maps));
  state.addAttribute("operandSegmentSizes",
                     b.getDenseI32ArrayAttr({int32_t(sizeOperands.size()), int32_t(buffers.size()),
                                             int32_t(groupOperands.size())}));
  return failure(p.parseOptionalAttrDict(state.attributes) ||
                 p.resolveOperands(sizeOperands, b.getIndexType(), state.operands) ||
                 p.resolveOperands(buffers, BufferType::get(p.getContext()), state.operands) ||
                 p.resolveOperands(groupOperands, b.getIndexType(), state.operands));
}

void ApplyOp::print(OpAsmPrinter &p) {
  p << ' ' << getCalleeAttr();
  if (getSizes().getNumResults()) {
    p << '(';
    p.printAffineMapOfSSAIds(getSizesAttr(), getSizeOperands());
    p << ')';
  }
  if (getAlong())
    p << " along " << getAlongAttr();
  p << " on ";
  for (auto [i, buffer] : llvm::enumerate(getBuffers())) {
    p << (i ? ", " : "") << buffer;
    if (getMaps() && i < getMaps()->size())
      p << " by " << (*getMaps())[i];
  }
  if (getGroups().getNumResults()) {
    p << " groups(";
    p.printAffineMapOfSSAIds(getGroupsAttr(), getGroupOperands());
    p << ')';
  }
  p.printOptionalAttrDict((*this)->getAttrs(),
                          {"callee", "sizes", "along", "maps", "groups", "operandSegmentSizes"});
}

LogicalResult ApplyOp::verify() {
  Operation *parent = (*this)->getParentOp();
  if (!isa<AlgorithmOp, PipelineOp>(parent)) // apply_c4
    return emitOpError("stands at the top of an algorithm or in ccl.pipeline");
  if (failed(verifyIndexOperands(*this, getSizes(), getSizeOperands())) ||
      failed(verifyIndexOperands(*this, getGroups(), getGroupOperands())))
    return failure();
  for (Value buffer : getBuffers())
    if (!buffer.getDefiningOp<BufferOp>())
      return emitOpError("applies to ccl.buffer values only");
  if (getAlong() && (getMaps() || getGroups().getNumResults())) // apply_c3
    return emitOpError("takes either 'along' or maps and groups");
  return success();
}

/// The algorithm that is applied: the one named, or the one that implements the collective named.
static AlgorithmOp findApplied(ApplyOp apply, SymbolTableCollection &symbols) {
  Operation *named = symbols.lookupNearestSymbolFrom(apply, apply.getCalleeAttr());
  if (auto stage = dyn_cast_or_null<CollectiveOpInterface>(named))
    return stage.getAlgorithmAttr()
               ? symbols.lookupNearestSymbolFrom<AlgorithmOp>(stage, stage.getAlgorithmAttr())
               : AlgorithmOp();
  return dyn_cast_or_null<AlgorithmOp>(named);
}

/// A cycle of applies would expand for ever.
static LogicalResult verifyNoCycle(AlgorithmOp self, ApplyOp apply,
                                   SymbolTableCollection &symbols) {
  SmallVector<AlgorithmOp> stack;
  if (AlgorithmOp callee = findApplied(apply, symbols))
    stack.push_back(callee);
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!stack.empty()) {
    AlgorithmOp next = stack.pop_back_val();
    if (next == self)
      return apply.emitOpError() << "algorithm @" << self.getSymName() << " applies itself";
    if (!seen.insert(next).second)
      continue;
    next.getBody().walk([&](ApplyOp inner) {
      if (AlgorithmOp a = findApplied(inner, symbols))
        stack.push_back(a);
    });
  }
  return success();
}

/// `ccl.apply` of a collective.
static LogicalResult verifyStage(ApplyOp apply, CollectiveOpInterface stage) {
  auto self = apply->getParentOfType<AlgorithmOp>();
  if (self.getTopologyAttr() != stage.getTopologyAttr()) // apply_c1
    return apply.emitOpError() << apply.getCalleeAttr() << " is a collective on "
                               << stage.getTopologyAttr() << ", so the algorithm has to be 'on "
                               << stage.getTopologyAttr() << "'";
  if (apply.getSizes().getNumResults()) // apply_c2
    return apply.emitOpError() << apply.getCalleeAttr() << " is a collective: it has no sizes";
  if (apply.getBuffers().size() != 1 || apply.getMaps() || apply.getAlong() ||
      apply.getGroups().getNumResults()) // apply_c3
    return apply.emitOpError() << apply.getCalleeAttr()
                               << " is a collective, which says itself along which axes: it takes "
                                  "one buffer and no map, 'along' or groups";
  return success();
}

LogicalResult ApplyOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *named = symbols.lookupNearestSymbolFrom(*this, getCalleeAttr());
  if (auto stage = dyn_cast_or_null<CollectiveOpInterface>(named)) {
    if (failed(verifyStage(*this, stage)))
      return failure();
    return verifyNoCycle((*this)->getParentOfType<AlgorithmOp>(), *this, symbols);
  }
  auto callee = dyn_cast_or_null<AlgorithmOp>(named);
  if (!callee) // apply_c1
    return emitOpError() << "there is no algorithm " << getCalleeAttr();
  if (!getAlong() && (!getMaps() || getMaps()->size() != getBuffers().size()))
    return emitOpError("needs 'by' and a map for every buffer, or 'along' and an axis");
  if (callee.getLowered()) // apply_c1
    return emitOpError() << getCalleeAttr() << " is lowered: it has no moves to apply";
  if (callee.getNumArguments() != getSizes().getNumResults()) // apply_c2
    return emitOpError() << getCalleeAttr() << " has " << callee.getNumArguments()
                         << " size parameters, got " << getSizes().getNumResults();
  SmallVector<BufferOp> bound;
  for (auto buffer : callee.getBody().getOps<BufferOp>())
    if (buffer.getRole() != BufferRole::Scratch)
      bound.push_back(buffer);
  if (bound.size() != getBuffers().size())
    return emitOpError() << getCalleeAttr() << " has " << bound.size() << " buffers to bind, got "
                         << getBuffers().size();
  auto self = (*this)->getParentOfType<AlgorithmOp>();
  if (auto axis = getAlong()) { // apply_c3
    auto topology = self.getTopologyAttr()
                        ? symbols.lookupNearestSymbolFrom<TopologyOp>(self, self.getTopologyAttr())
                        : TopologyOp();
    if (!topology)
      return emitOpError("'along' needs an algorithm with 'on @topology'");
    if (!llvm::is_contained(topology.getAxes().getAsValueRange<StringAttr>(), *axis))
      return emitOpError() << "topology @" << topology.getSymName() << " has no axis \"" << *axis
                           << "\"";
  } else {
    for (auto [attr, buffer, target] :
         llvm::zip_equal(getMaps()->getAsRange<AffineMapAttr>(), bound, getBuffers())) {
      AffineMap map = attr.getValue();
      unsigned inputs =
          buffer.getNumRankAxes() + buffer.getNumChunkAxes() + getGroups().getNumResults();
      auto mine = target.getDefiningOp<BufferOp>();
      unsigned results = mine.getNumRankAxes() + mine.getNumChunkAxes();
      if (map.getNumInputs() != inputs || map.getNumResults() != results)
        return emitOpError() << "the map takes " << inputs << " indices (" << getCalleeAttr()
                             << "'s ranks and chunks, then the groups) to " << results
                             << "; this one takes " << map.getNumInputs() << " to "
                             << map.getNumResults();
    }
  }
  return verifyNoCycle(self, *this, symbols);
}

void ApplyOp::getEffects(Effects &effects) {
  for (OpOperand &buffer : getBuffersMutable()) {
    effects.emplace_back(MemoryEffects::Read::get(), &buffer);
    effects.emplace_back(MemoryEffects::Write::get(), &buffer);
  }
}

LogicalResult ApplyOp::canonicalize(ApplyOp op, PatternRewriter &rewriter) {
  AffineMap sizes = op.getSizes(), groups = op.getGroups();
  SmallVector<Value> sizeOperands(op.getSizeOperands()), groupOperands(op.getGroupOperands());
  bool changed = simplifyIndex(sizes, sizeOperands);
  changed |= simplifyIndex(groups, groupOperands);
  if (!changed)
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    op.setSizes(sizes);
    op.setGroups(groups);
    op.getSizeOperandsMutable().assign(sizeOperands);
    op.getGroupOperandsMutable().assign(groupOperands);
  });
  return success();
}

llvm::StringSet<> appliedSymbols(ModuleOp module) {
  llvm::StringSet<> names;
  module.walk([&](ApplyOp apply) {
    names.insert(apply.getCallee());
    auto stage = dyn_cast_or_null<CollectiveOpInterface>(module.lookupSymbol(apply.getCallee()));
    if (stage && stage.getAlgorithmAttr())
      names.insert(stage.getAlgorithmAttr().getValue());
  });
  return names;
}

//===----------------------------------------------------------------------===//
// ccl.pipeline
//===----------------------------------------------------------------------===//

LogicalResult PipelineOp::verify() {
  if (getStages().size() < 2) // pipeline_c1
    return emitOpError("needs at least two stages");
  return success();
}

} // namespace ccl
