//===- Dialect.cpp - Dialect, types and attributes --------------------------===//

#include "dialect/Assembly.h"
#include "dialect/NormalForms.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dialect/CclDialect.cpp.inc"
#include "dialect/CclEnums.cpp.inc"
#include "dialect/CclInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/CclAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/CclTypes.cpp.inc"

namespace ccl {

static_assert(uint32_t(CollectiveKind::Custom) == uint32_t(model::Collective::Custom));
static_assert(uint32_t(ReductionKind::Bxor) == uint32_t(model::Reduction::Bxor));
static_assert(uint32_t(BufferRole::Scratch) == uint32_t(model::Role::Scratch));

void CclDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/CclAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/CclTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/CclCollectiveOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/CclAlgorithmOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/CclProgramOps.cpp.inc"
      >();
  addInterfaces<NormalForms>();
}

Operation *CclDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                           Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

void registerDialects(DialectRegistry &registry) {
  registry.insert<CclDialect, affine::AffineDialect, arith::ArithDialect>();
}

//===----------------------------------------------------------------------===//
// #ccl.contract
//===----------------------------------------------------------------------===//

static ParseResult parseIntegers(AsmParser &p, SmallVectorImpl<int64_t> &values) {
  return p.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                   [&] { return p.parseInteger(values.emplace_back()); });
}

Attribute ContractAttr::parse(AsmParser &p, Type) {
  CollectiveKind kind;
  ReductionKind reduction = ReductionKind::None;
  int64_t root = 0, in = 0, out = 0;
  SmallVector<int64_t> targets, rows;
  SMLoc loc = p.getCurrentLocation();
  if (p.parseLess() || parseWord(p, kind, symbolizeCollectiveKind, getMaxEnumValForCollectiveKind(),
                                 stringifyCollectiveKind))
    return {};
  while (succeeded(p.parseOptionalComma())) {
    if (succeeded(p.parseOptionalKeyword("root"))) {
      if (p.parseEqual() || p.parseInteger(root))
        return {};
    } else if (succeeded(p.parseOptionalKeyword("in"))) {
      if (p.parseEqual() || p.parseInteger(in))
        return {};
    } else if (succeeded(p.parseOptionalKeyword("out"))) {
      if (p.parseEqual() || p.parseInteger(out))
        return {};
    } else if (succeeded(p.parseOptionalKeyword("to"))) {
      if (p.parseEqual() || parseIntegers(p, targets))
        return {};
    } else if (succeeded(p.parseOptionalKeyword("rows"))) {
      if (p.parseEqual() || parseIntegers(p, rows))
        return {};
    } else if (parseWord(p, reduction, symbolizeReductionKind, getMaxEnumValForReductionKind(),
                         stringifyReductionKind)) {
      return {};
    }
  }
  if (p.parseGreater())
    return {};
  return getChecked([&] { return p.emitError(loc); }, p.getContext(), kind, reduction, root,
                    targets, rows, in, out);
}

void ContractAttr::print(AsmPrinter &p) const {
  auto list = [&](StringRef name, ArrayRef<int64_t> values) {
    p << ", " << name << " = [";
    llvm::interleaveComma(values, p);
    p << ']';
  };
  p << '<' << stringifyCollectiveKind(getKind());
  if (getReduction() != ReductionKind::None)
    p << ", " << stringifyReductionKind(getReduction());
  if (getRoot())
    p << ", root = " << getRoot();
  if (getInChunks())
    p << ", in = " << getInChunks();
  if (getOutChunks())
    p << ", out = " << getOutChunks();
  if (!getTargets().empty())
    list("to", getTargets());
  if (!getRows().empty())
    list("rows", getRows());
  p << '>';
}

LogicalResult ContractAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   CollectiveKind kind, ReductionKind reduction, int64_t root,
                                   ArrayRef<int64_t> targets, ArrayRef<int64_t> rows, int64_t in,
                                   int64_t out) {
  auto name = stringifyCollectiveKind(kind);
  bool custom = kind == CollectiveKind::Custom;
  bool hasReduction = reduction != ReductionKind::None;
  if (!custom && hasReduction != model::reduces(toModel(kind))) // contract_c1
    return emitError() << name
                       << (hasReduction ? " does not reduce: drop the reduction"
                                        : " needs a reduction, for example 'sum'");
  bool rooted = kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce ||
                kind == CollectiveKind::Gather || kind == CollectiveKind::Scatter;
  if (root && !rooted) // contract_c2
    return emitError() << name << " has no root";
  if (root < 0)
    return emitError() << "root " << root << " is negative";
  if ((kind == CollectiveKind::Permute) == targets.empty()) // contract_c3
    return emitError() << (targets.empty() ? "permute needs 'to = [...]'"
                                           : "'to' is for permute only");
  if (!custom && (!rows.empty() || in || out))
    return emitError() << "'rows', 'in' and 'out' are for custom only";
  if (rows.size() % 4)
    return emitError() << "rows have four numbers each, got " << rows.size();
  if (!rows.empty() && (in <= 0 || out <= 0))
    return emitError() << "rows need the chunks of 'in' and 'out'";
  SmallVector<int64_t> sorted(targets);
  llvm::sort(sorted);
  for (auto [i, t] : llvm::enumerate(sorted))
    if (t != int64_t(i))
      return emitError() << "'to' is no permutation of 0 to " << targets.size() - 1;
  return success();
}

} // namespace ccl
