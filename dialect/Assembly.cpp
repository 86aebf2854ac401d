//===- Assembly.cpp ---------------------------------------------------------===//

#include "dialect/Assembly.h"

#include <cstdlib>

using namespace mlir;

namespace ccl {

ParseResult parsePlace(OpAsmParser &p, AffineMapAttr &map, SmallVectorImpl<Unresolved> &operands) {
  NamedAttrList ignored; // the parser also wants to store the map as an attribute
  return p.parseAffineMapOfSSAIds(operands, map, "map", ignored, OpAsmParser::Delimiter::Square);
}

void printPlace(OpAsmPrinter &p, Operation *, AffineMapAttr map, OperandRange operands) {
  p << '[';
  p.printAffineMapOfSSAIds(map, operands);
  p << ']';
}

ParseResult parseExpr(OpAsmParser &p, AffineMapAttr &map, SmallVectorImpl<Unresolved> &operands) {
  SmallVector<Unresolved> dims, symbols;
  AffineExpr expr;
  if (p.parseAffineExprOfSSAIds(dims, symbols, expr))
    return failure();
  map = AffineMapAttr::get(AffineMap::get(dims.size(), symbols.size(), expr));
  operands.append(dims);
  operands.append(symbols);
  return success();
}

void printExpr(OpAsmPrinter &p, Operation *, AffineMapAttr map, OperandRange operands) {
  AffineMap m = map.getValue();
  p.printAffineExprOfSSAIds(m.getResult(0), operands.take_front(m.getNumDims()),
                            operands.drop_front(m.getNumDims()));
}

ParseResult parsePlaces(OpAsmParser &p, SmallVectorImpl<Unresolved> &bases,
                        SmallVectorImpl<Type> &types, SmallVectorImpl<Unresolved> &operands,
                        ArrayAttr &maps) {
  MLIRContext *context = p.getContext();
  SmallVector<Attribute> list;
  auto one = [&]() -> ParseResult {
    if (p.parseOperand(bases.emplace_back()))
      return failure();
    AffineMapAttr map = AffineMapAttr::get(AffineMap::get(context));
    Type type = ChannelType::get(context);
    if (succeeded(p.parseOptionalLSquare())) {
      NamedAttrList ignored;
      SmallVector<Unresolved> mine; // the parser replaces the list that it is given
      if (p.parseAffineMapOfSSAIds(mine, map, "map", ignored, OpAsmParser::Delimiter::None) ||
          p.parseRSquare())
        return failure();
      operands.append(mine);
      type = BufferType::get(context);
    }
    types.push_back(type);
    list.push_back(map);
    return success();
  };
  if (p.parseCommaSeparatedList(one))
    return failure();
  maps = ArrayAttr::get(context, list);
  return success();
}

void printPlaces(OpAsmPrinter &p, Operation *, OperandRange bases, TypeRange, OperandRange operands,
                 ArrayAttr maps) {
  llvm::interleaveComma(llvm::zip_equal(bases, maps), p, [&](auto pair) {
    auto [base, attr] = pair;
    auto map = cast<AffineMapAttr>(attr);
    p << base;
    if (isa<ChannelType>(base.getType()))
      return;
    unsigned inputs = map.getValue().getNumInputs();
    p << '[';
    p.printAffineMapOfSSAIds(map, operands.take_front(inputs));
    p << ']';
    operands = operands.drop_front(inputs);
  });
}

ParseResult parseInteger(OpAsmParser &p, IntegerAttr &value) {
  int64_t number;
  if (p.parseInteger(number))
    return failure();
  value = p.getBuilder().getI64IntegerAttr(number);
  return success();
}

void printInteger(OpAsmPrinter &p, Operation *, IntegerAttr value) { p << value.getInt(); }

ParseResult parseNumber(OpAsmParser &p, FloatAttr &value) {
  int64_t whole;
  double number;
  OptionalParseResult integer = p.parseOptionalInteger(whole);
  if (integer.has_value()) {
    if (failed(*integer))
      return failure();
    number = double(whole);
  } else if (p.parseFloat(number)) {
    return failure();
  }
  value = p.getBuilder().getF64FloatAttr(number);
  return success();
}

void printNumber(OpAsmPrinter &p, Operation *, FloatAttr value) {
  double number = value.getValueAsDouble();
  char text[40];
  // The shortest form that reads back as the same number; an exponent would not
  // lex without a point.
  for (int digits : {6, 9, 17}) {
    snprintf(text, sizeof text, "%.*g", digits, number);
    if (std::strtod(text, nullptr) == number)
      break;
  }
  StringRef s(text);
  size_t e = s.find('e');
  if (s.contains('.') || e == StringRef::npos)
    p << s << (s.contains('.') ? "" : ".0");
  else
    p << s.take_front(e) << ".0" << s.drop_front(e);
}

ParseResult parseNode(OpAsmParser &p, Attribute &value) {
  std::string name;
  if (succeeded(p.parseOptionalString(&name))) {
    value = p.getBuilder().getStringAttr(name);
    return success();
  }
  int64_t rank;
  SMLoc loc = p.getCurrentLocation();
  OptionalParseResult integer = p.parseOptionalInteger(rank);
  if (!integer.has_value())
    return p.emitError(loc, "expected a rank number or the name of a switch in quotes");
  value = p.getBuilder().getI64IntegerAttr(rank);
  return *integer;
}

void printNode(OpAsmPrinter &p, Operation *, Attribute value) {
  if (auto rank = dyn_cast<IntegerAttr>(value))
    p << rank.getInt();
  else
    p << value;
}

ParseResult parseAxes(OpAsmParser &p, ArrayAttr &axes) {
  SmallVector<StringRef> names;
  if (p.parseCommaSeparatedList([&] { return p.parseKeyword(&names.emplace_back()); }))
    return failure();
  axes = p.getBuilder().getStrArrayAttr(names);
  return success();
}

void printAxes(OpAsmPrinter &p, Operation *, ArrayAttr axes) {
  llvm::interleaveComma(axes.getAsValueRange<StringAttr>(), p);
}

ParseResult parseAgents(OpAsmParser &p, DenseI64ArrayAttr &agents) {
  SmallVector<int64_t> list(1);
  if (p.parseLParen() || p.parseInteger(list[0]) || p.parseKeyword("to") ||
      p.parseCommaSeparatedList([&] { return p.parseInteger(list.emplace_back()); }) ||
      p.parseRParen())
    return failure();
  agents = p.getBuilder().getDenseI64ArrayAttr(list);
  return success();
}

void printAgents(OpAsmPrinter &p, Operation *, DenseI64ArrayAttr agents) {
  p << "(" << agents[0] << " to ";
  llvm::interleaveComma(agents.asArrayRef().drop_front(), p);
  p << ")";
}

ParseResult parseBody(OpAsmParser &p, Region &region) {
  if (p.parseRegion(region))
    return failure();
  if (region.empty())
    region.emplaceBlock();
  return success();
}

void printBody(OpAsmPrinter &p, Operation *, Region &region) {
  p.printRegion(region, /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/false);
}

template <typename Enum, typename EnumAttr>
static ParseResult parseWordAttr(OpAsmParser &p, EnumAttr &attr,
                                 std::optional<Enum> (*symbolize)(StringRef), uint32_t max,
                                 StringRef (*stringify)(Enum)) {
  Enum value;
  if (parseWord(static_cast<AsmParser &>(p), value, symbolize, max, stringify))
    return failure();
  attr = EnumAttr::get(p.getContext(), value);
  return success();
}

ParseResult parseReductionName(OpAsmParser &p, ReductionKindAttr &attr) {
  return parseWordAttr<ReductionKind>(p, attr, symbolizeReductionKind,
                                      getMaxEnumValForReductionKind(), stringifyReductionKind);
}
void printReductionName(OpAsmPrinter &p, Operation *, ReductionKindAttr attr) {
  p << stringifyReductionKind(attr.getValue());
}
ParseResult parseViaName(OpAsmParser &p, ViaAttr &attr) {
  return parseWordAttr<Via>(p, attr, symbolizeVia, getMaxEnumValForVia(), stringifyVia);
}
void printViaName(OpAsmPrinter &p, Operation *, ViaAttr attr) {
  p << stringifyVia(attr.getValue());
}
ParseResult parseDirectionName(OpAsmParser &p, DirectionAttr &attr) {
  return parseWordAttr<Direction>(p, attr, symbolizeDirection, getMaxEnumValForDirection(),
                                  stringifyDirection);
}
void printDirectionName(OpAsmPrinter &p, Operation *, DirectionAttr attr) {
  p << stringifyDirection(attr.getValue());
}
ParseResult parseProtocolName(OpAsmParser &p, ProtocolAttr &attr) {
  return parseWordAttr<Protocol>(p, attr, symbolizeProtocol, getMaxEnumValForProtocol(),
                                 stringifyProtocol);
}
void printProtocolName(OpAsmPrinter &p, Operation *, ProtocolAttr attr) {
  p << stringifyProtocol(attr.getValue());
}

} // namespace ccl
