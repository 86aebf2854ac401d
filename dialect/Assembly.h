//===- Assembly.h - What the files of the ops share -------------------------===//
//
// Private to dialect/*.cpp. Custom assembly directives: each pair parseX/printX backs `custom<X>`
// in ODS.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/Ccl.h"

namespace ccl {
using Unresolved = mlir::OpAsmParser::UnresolvedOperand;
using Effects =
    llvm::SmallVectorImpl<mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>>;

// [i, j]
mlir::ParseResult parsePlace(mlir::OpAsmParser &p, mlir::AffineMapAttr &map,
                             llvm::SmallVectorImpl<Unresolved> &operands);
void printPlace(mlir::OpAsmPrinter &p, mlir::Operation *, mlir::AffineMapAttr map,
                mlir::OperandRange operands);
// (%me + 1) mod 4
mlir::ParseResult parseExpr(mlir::OpAsmParser &p, mlir::AffineMapAttr &map,
                            llvm::SmallVectorImpl<Unresolved> &operands);
void printExpr(mlir::OpAsmPrinter &p, mlir::Operation *, mlir::AffineMapAttr map,
               mlir::OperandRange operands);
// %x[i], %ch
mlir::ParseResult parsePlaces(mlir::OpAsmParser &p, llvm::SmallVectorImpl<Unresolved> &bases,
                              llvm::SmallVectorImpl<mlir::Type> &types,
                              llvm::SmallVectorImpl<Unresolved> &operands, mlir::ArrayAttr &maps);
void printPlaces(mlir::OpAsmPrinter &p, mlir::Operation *, mlir::OperandRange bases,
                 mlir::TypeRange types, mlir::OperandRange operands, mlir::ArrayAttr maps);
// 4
mlir::ParseResult parseInteger(mlir::OpAsmParser &p, mlir::IntegerAttr &value);
void printInteger(mlir::OpAsmPrinter &p, mlir::Operation *, mlir::IntegerAttr value);
// 25 or 0.7
mlir::ParseResult parseNumber(mlir::OpAsmParser &p, mlir::FloatAttr &value);
void printNumber(mlir::OpAsmPrinter &p, mlir::Operation *, mlir::FloatAttr value);
// 3 or "sw0"
mlir::ParseResult parseNode(mlir::OpAsmParser &p, mlir::Attribute &value);
void printNode(mlir::OpAsmPrinter &p, mlir::Operation *, mlir::Attribute value);
// node, gpu
mlir::ParseResult parseAxes(mlir::OpAsmParser &p, mlir::ArrayAttr &axes);
void printAxes(mlir::OpAsmPrinter &p, mlir::Operation *, mlir::ArrayAttr axes);
// (2 to 0, 1)
mlir::ParseResult parseAgents(mlir::OpAsmParser &p, mlir::DenseI64ArrayAttr &agents);
void printAgents(mlir::OpAsmPrinter &p, mlir::Operation *, mlir::DenseI64ArrayAttr agents);
// { ... } that may be empty
mlir::ParseResult parseBody(mlir::OpAsmParser &p, mlir::Region &region);
void printBody(mlir::OpAsmPrinter &p, mlir::Operation *, mlir::Region &region);
// enumerators as bare words
mlir::ParseResult parseReductionName(mlir::OpAsmParser &p, ReductionKindAttr &attr);
void printReductionName(mlir::OpAsmPrinter &p, mlir::Operation *, ReductionKindAttr attr);
mlir::ParseResult parseViaName(mlir::OpAsmParser &p, ViaAttr &attr);
void printViaName(mlir::OpAsmPrinter &p, mlir::Operation *, ViaAttr attr);
mlir::ParseResult parseDirectionName(mlir::OpAsmParser &p, DirectionAttr &attr);
void printDirectionName(mlir::OpAsmPrinter &p, mlir::Operation *, DirectionAttr attr);
mlir::ParseResult parseProtocolName(mlir::OpAsmParser &p, ProtocolAttr &attr);
void printProtocolName(mlir::OpAsmPrinter &p, mlir::Operation *, ProtocolAttr attr);

/// A loop of an algorithm or a program: positive steps, no values carried.
mlir::LogicalResult verifyLoop(mlir::Operation *op);

/// Parses one of an enumeration's words; the error lists them all.
template <typename Enum>
mlir::ParseResult parseWord(mlir::AsmParser &p, Enum &value,
                            std::optional<Enum> (*symbolize)(llvm::StringRef), uint32_t max,
                            llvm::StringRef (*stringify)(Enum)) {
  llvm::StringRef word;
  llvm::SMLoc loc = p.getCurrentLocation();
  if (mlir::failed(p.parseOptionalKeyword(&word)))
    word = "";
  if (auto known = symbolize(word)) {
    value = *known;
    return mlir::success();
  }
  auto diagnostic = p.emitError(loc, "expected one of ");
  for (uint32_t i = 0; i <= max; ++i)
    diagnostic << (i ? ", " : "") << stringify(Enum(i));
  return diagnostic;
}

} // namespace ccl
