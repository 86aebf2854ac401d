//===- Collective.cpp - L0 ops ----------------------------------------------===//

#include "dialect/Assembly.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace ccl;

#define GET_OP_CLASSES
#include "dialect/CclCollectiveOps.cpp.inc"

namespace ccl {

//===----------------------------------------------------------------------===//
// ccl.topology
//===----------------------------------------------------------------------===//

ParseResult TopologyOp::parse(OpAsmParser &p, OperationState &state) {
  Builder &b = p.getBuilder();
  StringAttr name;
  SmallVector<StringRef> axes;
  SmallVector<int64_t> sizes;
  auto axis = [&]() -> ParseResult {
    return failure(p.parseKeyword(&axes.emplace_back()) || p.parseEqual() ||
                   p.parseInteger(sizes.emplace_back()));
  };
  if (p.parseSymbolName(name, "sym_name", state.attributes) || p.parseKeyword("ranks") ||
      p.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, axis))
    return failure();
  state.addAttribute("axes", b.getStrArrayAttr(axes));
  state.addAttribute("sizes", b.getDenseI64ArrayAttr(sizes));
  if (succeeded(p.parseOptionalKeyword("reconfigurable"))) {
    FloatAttr delay;
    if (p.parseLParen() || parseNumber(p, delay) || p.parseRParen())
      return failure();
    state.addAttribute("reconfigurable", delay);
  }
  return failure(p.parseOptionalAttrDictWithKeyword(state.attributes) ||
                 parseBody(p, *state.addRegion()));
}

void TopologyOp::print(OpAsmPrinter &p) {
  p << ' ';
  p.printSymbolName(getSymName());
  p << " ranks(";
  llvm::interleaveComma(llvm::zip_equal(getAxes().getAsValueRange<StringAttr>(), getSizes()), p,
                        [&](auto pair) { p << std::get<0>(pair) << " = " << std::get<1>(pair); });
  p << ')';
  if (auto delay = getReconfigurableAttr()) {
    p << " reconfigurable(";
    printNumber(p, *this, delay);
    p << ')';
  }
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                     {"sym_name", "axes", "sizes", "reconfigurable"});
  p << ' ';
  printBody(p, *this, getBody());
}

LogicalResult TopologyOp::verifyRegions() {
  llvm::StringSet<> names;
  int64_t ranks = 1;
  if (getAxes().size() != getSizes().size())
    return emitOpError() << "has " << getAxes().size() << " axes and " << getSizes().size()
                         << " sizes";
  for (auto [axis, size] : llvm::zip_equal(getAxes().getAsValueRange<StringAttr>(), getSizes())) {
    if (!names.insert(axis).second) // topology_c1
      return emitOpError() << "axis '" << axis << "' is named twice";
    if (size < 1)
      return emitOpError() << "axis '" << axis << "' has size " << size << ", needs at least 1";
    if (llvm::MulOverflow(ranks, size, ranks) || ranks > (int64_t(1) << 24))
      return emitOpError() << "has too many ranks (limit 16777216)";
  }
  llvm::StringSet<> switches, resources;
  for (Operation &op : getBody().front()) {
    if (!isa<SwitchOp, LinkOp, ResourceOp>(op)) // topology_c2
      return op.emitOpError("is not allowed in a topology: use ccl.switch, ccl.link and "
                            "ccl.resource");
    if (auto resource = dyn_cast<ResourceOp>(op))
      if (!resources.insert(resource.getName()).second) // topology_c3
        return resource.emitOpError() << "the name \"" << resource.getName() << "\" is taken";
    if (auto sw = dyn_cast<SwitchOp>(op))
      if (!switches.insert(sw.getName()).second) // topology_c3
        return sw.emitOpError() << "the name \"" << sw.getName() << "\" is taken";
  }
  for (auto link : getBody().getOps<LinkOp>()) {
    for (Attribute end : {link.getSrc(), link.getDst()}) {
      auto rank = dyn_cast<IntegerAttr>(end);
      if (rank && (rank.getInt() < 0 || rank.getInt() >= ranks)) // topology_c3
        return link.emitOpError() << "rank " << rank.getInt() << " is outside [0, " << ranks << ")";
      if (!rank && !switches.contains(cast<StringAttr>(end).getValue()))
        return link.emitOpError() << "there is no switch " << end;
    }
    if (link.getSrc() == link.getDst())
      return link.emitOpError("joins a node with itself");
  }
  return success();
}

LogicalResult LinkOp::verify() {
  if (!(getBandwidth().convertToDouble() > 0)) // link_c1
    return emitOpError("needs a positive bandwidth (GB/s)");
  if (!(getLatency().convertToDouble() >= 0))
    return emitOpError("needs a latency (us) that is not negative");
  return success();
}

LogicalResult SwitchOp::verify() {
  if (!model::parseSwitchKind(getKind())) // switch_c1
    return emitOpError() << "is of kind \"" << getKind()
                         << "\"; there are \"switch\", \"nic\", \"pcie\" and \"cpu\"";
  return success();
}

LogicalResult ResourceOp::verify() {
  if (!(getBandwidth().convertToDouble() > 0)) // resource_c1
    return emitOpError("needs a positive bandwidth (GB/s); without the op, its links take turns");
  return success();
}

model::Topology getModelTopology(TopologyOp op) {
  model::Topology t;
  t.name = op.getSymName().str();
  for (auto [axis, size] :
       llvm::zip_equal(op.getAxes().getAsValueRange<StringAttr>(), op.getSizes()))
    t.axes.push_back({axis.str(), size});
  llvm::StringMap<int32_t> switches, resources;
  for (auto sw : op.getBody().getOps<SwitchOp>()) {
    switches[sw.getName()] = int32_t(t.nodes());
    t.switches.push_back({sw.getName().str(), sw.getMulticast(), sw.getReduce(),
                          *model::parseSwitchKind(sw.getKind())});
  }
  if (auto delay = op.getReconfigurable())
    t.reconfigurable = delay->convertToDouble();
  for (auto resource : op.getBody().getOps<ResourceOp>()) {
    resources[resource.getName()] = int32_t(t.resources.size());
    t.resources.push_back({resource.getName().str(), resource.getBandwidth().convertToDouble()});
  }
  auto node = [&](Attribute end) {
    if (auto rank = dyn_cast<IntegerAttr>(end))
      return int32_t(rank.getInt());
    return switches.lookup(cast<StringAttr>(end).getValue());
  };
  for (auto link : op.getBody().getOps<LinkOp>()) {
    model::Link l{node(link.getSrc()),
                  node(link.getDst()),
                  link.getBandwidth().convertToDouble(),
                  link.getLatency().convertToDouble(),
                  {}};
    if (auto shares = link.getShares())
      for (StringRef name : shares->getAsValueRange<StringAttr>()) {
        auto [it, isNew] = resources.try_emplace(name, int32_t(t.resources.size()));
        if (isNew)
          t.resources.push_back({name.str()});
        l.resources.push_back(it->second);
      }
    t.links.push_back(std::move(l));
  }
  return t;
}

TopologyOp createTopology(OpBuilder &builder, Location loc, const model::Topology &topology) {
  SmallVector<StringRef> axes;
  SmallVector<int64_t> sizes;
  for (const model::Axis &axis : topology.axes) {
    axes.push_back(axis.name);
    sizes.push_back(axis.size);
  }
  FloatAttr delay;
  if (topology.reconfigurable)
    delay = builder.getF64FloatAttr(*topology.reconfigurable);
  auto op = builder.create<TopologyOp>(loc, builder.getStringAttr(topology.name),
                                       builder.getStrArrayAttr(axes),
                                       builder.getDenseI64ArrayAttr(sizes), delay);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&op.getBody());
  for (const model::Switch &s : topology.switches)
    builder.create<SwitchOp>(loc, builder.getStringAttr(s.name), s.multicast, s.reduce,
                             builder.getStringAttr(model::name(s.kind)));
  for (const model::Resource &resource : topology.resources)
    if (resource.bandwidth > 0)
      builder.create<ResourceOp>(loc, builder.getStringAttr(resource.name),
                                 builder.getF64FloatAttr(resource.bandwidth));
  auto node = [&](int32_t number) -> Attribute {
    if (number < topology.ranks())
      return builder.getI64IntegerAttr(number);
    return builder.getStringAttr(topology.nodeName(number));
  };
  for (const model::Link &link : topology.links) {
    SmallVector<StringRef> shares;
    for (int32_t resource : link.resources)
      shares.push_back(topology.resources[size_t(resource)].name);
    builder.create<LinkOp>(loc, node(link.src), node(link.dst),
                           builder.getF64FloatAttr(link.bandwidth),
                           builder.getF64FloatAttr(link.latency),
                           shares.empty() ? ArrayAttr() : builder.getStrArrayAttr(shares));
  }
  return op;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

static LogicalResult verifyImplements(CollectiveOpInterface op, FlatSymbolRefAttr name,
                                      SymbolTableCollection &symbols) {
  auto algorithm = symbols.lookupNearestSymbolFrom<AlgorithmOp>(op, name);
  if (!algorithm) // collective_c2
    return op->emitOpError() << "there is no algorithm " << name;
  if (algorithm.getContract() == op.getContract())
    return success();
  InFlightDiagnostic d = op->emitOpError()
                         << "algorithm " << name << " implements " << algorithm.getContract()
                         << ", not " << op.getContract();
  d.attachNote(algorithm.getLoc()) << "the algorithm is here";
  return d;
}

/// collective_c2
static LogicalResult verifyChoices(CollectiveOpInterface op, SymbolTableCollection &symbols) {
  int64_t least = 0;
  for (auto [i, attr] : llvm::enumerate(op.getChoicesAttr())) {
    auto choice = dyn_cast<DictionaryAttr>(attr);
    auto name = choice ? choice.getAs<FlatSymbolRefAttr>("algorithm") : FlatSymbolRefAttr();
    if (!name)
      return op->emitOpError() << "choice " << i << " names no algorithm";
    if (failed(verifyImplements(op, name, symbols)))
      return failure();
    auto batches = choice.getAs<IntegerAttr>("micro_batches");
    if (choice.contains("micro_batches") &&
        !(batches && batches.getType().isInteger(64) && batches.getInt() >= 1))
      return op->emitOpError() << "choice " << i << ": micro_batches is an i64 from 1 on";
    const bool isLast = i + 1 == op.getChoicesAttr().size();
    auto upTo = choice.getAs<IntegerAttr>("up_to");
    if (isLast ? choice.contains("up_to") : !(upTo && upTo.getInt() > least))
      return op->emitOpError() << "choice " << i
                               << ": all but the last one have up_to, bytes that ascend";
    if (!isLast)
      least = upTo.getInt();
  }
  return success();
}

/// collective_c3
static LogicalResult verifyGroups(CollectiveOpInterface op, TopologyOp topology) {
  int64_t groups = 1;
  for (auto [axis, size] :
       llvm::zip_equal(topology.getAxes().getAsValueRange<StringAttr>(), topology.getSizes()))
    if (op.getAxesAttr() &&
        !llvm::is_contained(op.getAxesAttr().getAsValueRange<StringAttr>(), axis))
      groups *= size;
  int64_t before = -1;
  for (int64_t group : op.getGroupsAttr().asArrayRef()) {
    if (group <= before || group >= groups)
      return op->emitOpError() << "group " << group << ": groups ascend, and are 0 to "
                               << groups - 1;
    before = group;
  }
  return success();
}

static LogicalResult verifyCollective(CollectiveOpInterface op, SymbolTableCollection &symbols) {
  auto topology = symbols.lookupNearestSymbolFrom<TopologyOp>(op, op.getTopologyAttr());
  if (!topology) // collective_c1
    return op->emitOpError() << "there is no topology " << op.getTopologyAttr();
  llvm::StringSet<> axes;
  if (ArrayAttr list = op.getAxesAttr())
    for (StringRef axis : list.getAsValueRange<StringAttr>()) {
      if (!llvm::is_contained(topology.getAxes().getAsValueRange<StringAttr>(), axis))
        return op->emitOpError() << "topology " << op.getTopologyAttr() << " has no axis '" << axis
                                 << "'";
      if (!axes.insert(axis).second)
        return op->emitOpError() << "axis '" << axis << "' is named twice";
    }
  if (op.getGroupsAttr() && failed(verifyGroups(op, topology)))
    return failure();
  if (op.getChoicesAttr() && failed(verifyChoices(op, symbols)))
    return failure();
  return op.getAlgorithmAttr() ? verifyImplements(op, op.getAlgorithmAttr(), symbols) : success();
}

#define CCL_COLLECTIVE(OP)                                                                         \
  LogicalResult OP::verifySymbolUses(SymbolTableCollection &symbols) {                             \
    return verifyCollective(cast<CollectiveOpInterface>(getOperation()), symbols);                 \
  }
CCL_COLLECTIVE(AllReduceOp)
CCL_COLLECTIVE(AllGatherOp)
CCL_COLLECTIVE(ReduceScatterOp)
CCL_COLLECTIVE(BroadcastOp)
CCL_COLLECTIVE(ReduceToOp)
CCL_COLLECTIVE(GatherOp)
CCL_COLLECTIVE(ScatterOp)
CCL_COLLECTIVE(AllToAllOp)
CCL_COLLECTIVE(AllToAllVOp)
CCL_COLLECTIVE(PermuteOp)
CCL_COLLECTIVE(BarrierOp)
#undef CCL_COLLECTIVE

} // namespace ccl
