//===- Builder.h - Writes an L1 algorithm the way one says it ---------------===//
//
//   AlgorithmBuilder a(module, "ring", request);
//   Buffer x = a.inout("x", n);
//   a.steps(1, n, [&](Expr s) {
//     a.ranks(n, [&](Expr r) { a.reduce(x(r, (r - s) % n), x((r + 1) % n, (r - s) % n)); });
//   });
//
// Loop variables are affine expressions, so that indices are written as arithmetic.
// A loop without iterations is not written at all: one rank needs no special case.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/generators/Generators.h"

namespace ccl {

using Expr = mlir::AffineExpr;

/// `wanted`, with a number added if the module has a symbol of that name.
std::string freeName(mlir::ModuleOp module, llvm::StringRef wanted);

/// Where every rank's input goes in a permute; empty for another collective.
llvm::SmallVector<int64_t> permuteTargets(const GeneratorRequest &request);

/// The rank `v` places after the root, for v in [0, ranks).
inline Expr after(int64_t root, Expr v, int64_t ranks) {
  return root == 0 ? v : (v + root) % ranks;
}

/// One side of a move: a buffer and the indices of rank and chunk.
struct Spot {
  mlir::Value buffer;
  llvm::SmallVector<Expr, 4> indices;
};

/// A distributed buffer; calling it with indices names a place.
class Buffer {
public:
  explicit Buffer(mlir::Value value) : value(value) {}

  template <typename... Index>
  Spot operator()(Index... index) const {
    return {value, {toExpr(index)...}};
  }
  mlir::Value getValue() const { return value; }

private:
  Expr toExpr(Expr e) const { return e; }
  Expr toExpr(int64_t c) const { return mlir::getAffineConstantExpr(c, value.getContext()); }
  mlir::Value value;
};

class AlgorithmBuilder {
public:
  /// Starts an algorithm at the end of `module`. Its contract is the request's; its
  /// rank grid is `grid`, or the row of all ranks.
  AlgorithmBuilder(mlir::ModuleOp module, llvm::StringRef name, const GeneratorRequest &request,
                   llvm::ArrayRef<int64_t> grid = {}, TopologyOp topology = nullptr);

  AlgorithmOp getAlgorithm() const { return algorithm; }

  using Shape = llvm::ArrayRef<int64_t>;
  Buffer in(llvm::StringRef name, Shape chunks) { return buffer(BufferRole::In, name, chunks); }
  Buffer out(llvm::StringRef name, Shape chunks) { return buffer(BufferRole::Out, name, chunks); }
  Buffer inout(llvm::StringRef name, Shape chunks) {
    return buffer(BufferRole::InOut, name, chunks);
  }
  Buffer scratch(llvm::StringRef name, Shape chunks) {
    return buffer(BufferRole::Scratch, name, chunks);
  }

  /// `affine.for` over [from, to): one after the other.
  void steps(int64_t from, int64_t to, llvm::function_ref<void(Expr)> body);
  /// `affine.parallel` over [from, to): at the same time.
  void ranks(int64_t from, int64_t to, llvm::function_ref<void(Expr)> body);
  void ranks(int64_t to, llvm::function_ref<void(Expr)> body) { ranks(0, to, body); }

  /// How the moves that follow are lowered, and which agent of either rank does its part.
  void as(Via how, int64_t agent) { via = how, agents = agent; }

  void copy(const Spot &from, const Spot &into, int64_t count = 1);
  void reduce(const Spot &from, const Spot &into, int64_t count = 1);
  /// Copies that are no affine function of the rank: one step, as a table.
  struct Row {
    int64_t fromRank, fromChunk, intoRank, intoChunk;
  };
  void copyTable(Buffer from, Buffer into, llvm::ArrayRef<Row> rows);
  /// Runs `callee` along a rank axis of the topology, in every group of ranks.
  void applyAlong(AlgorithmOp callee, llvm::StringRef axis, Buffer x);

  /// Runs a collective, which says along which axes.
  void applyStage(mlir::FlatSymbolRefAttr collective, Buffer x);

private:
  void apply(mlir::FlatSymbolRefAttr callee, mlir::StringAttr axis, Buffer x);
  Buffer buffer(BufferRole role, llvm::StringRef name, Shape chunks);
  void body(mlir::Operation *loop, mlir::Value variable, llvm::function_ref<void(Expr)> fill);
  /// The map of `spot` over those loop variables that it uses, and these.
  mlir::AffineMap place(const Spot &spot, llvm::SmallVectorImpl<mlir::Value> &operands) const;
  template <typename MoveOp>
  void move(const Spot &from, const Spot &into, int64_t count);

  mlir::OpBuilder builder;
  mlir::Location loc;
  AlgorithmOp algorithm;
  llvm::SmallVector<int64_t> grid;
  llvm::SmallVector<mlir::Value> variables; ///< of the open loops, outermost first
  std::optional<Via> via;
  int64_t agents = 0;
};

} // namespace ccl
