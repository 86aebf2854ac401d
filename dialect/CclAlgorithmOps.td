//===- CclAlgorithmOps.td - L1: who moves what -----------------------------===//
#ifndef CCL_ALGORITHM_OPS_TD
#define CCL_ALGORITHM_OPS_TD

include "dialect/CclDialect.td"

def Ccl_AlgorithmOp : Ccl_Op<"algorithm", [
    FunctionOpInterface, IsolatedFromAbove, NoTerminator, SingleBlock, AffineScope,
    OpAsmOpInterface, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a choreography: which chunk moves where, and what is reduced";
  let description = [{
    One global program for all ranks, with sequential semantics. Size parameters are
    optional; `ccl-specialize` binds them before anything is checked.

    ```mlir
    ccl.algorithm @ring(%n: index) implements #ccl.contract<all_reduce, sum> {
      %x = ccl.buffer inout ranks(%n) chunks(%n)
      affine.for %s = 1 to %n {
        affine.parallel (%r) = (0) to (symbol(%n)) {
          ccl.reduce %x[%r, (%r - %s + 1) mod symbol(%n)]
                into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)]
        }
      }
      affine.for %s = 1 to %n {
        affine.parallel (%r) = (0) to (symbol(%n)) {
          ccl.copy %x[%r, (%r - %s + 2) mod symbol(%n)]
              into %x[(%r + 1) mod symbol(%n), (%r - %s + 2) mod symbol(%n)]
        }
      }
    }
    ```

    `on @topology` gives the rank axes their names, for `ccl.apply ... along`.

    `lowered`: there are no moves, the programs of this algorithm in the module are all
    there is. They are proved and run as they stand. Programs of other systems come so.

    ```mlir
    ccl.algorithm @swap implements #ccl.contract<permute, to = [1, 0]> lowered {
      %in = ccl.buffer in ranks(2) chunks(1)
      %out = ccl.buffer out ranks(2) chunks(1)
    }
    ccl.program @swap.p(%me) of @swap ranks(0 to 2) {
      %in = ccl.buffer in chunks(1)
      %out = ccl.buffer out chunks(1)
      %next = ccl.channel to 1 - %me slots 1
      %prev = ccl.channel from 1 - %me slots 1
      ccl.block 0 {
        ccl.transfer from %in[0] to %next
      }
      ccl.block 1 {
        ccl.transfer from %prev to %out[0]
      }
    }
    ```

    - C1: size parameters have type `index`; there are no results.
    - C2: the body holds `ccl.buffer` at the top, then moves, applies, pipelines,
      schedules, affine loops and `arith.constant`.
    - C3: all buffers have the same rank grid.
    - C4: there is at most one of each of `in`, `out`, `inout`, and `inout` excludes
      the other two.
    - C5: `on` names a `ccl.topology`.
    - C6: `lowered` goes with buffers and nothing else, and with programs of which every
      rank has one.
    - C7: `ccl.micro_batches`, the number that a launch takes by default, is an i64 from 1 on.
    - C8: `ccl.slots`, the least that data channels get, is an i64 from 1 to 1024.
    - C9: `ccl.multicast`, for switches that copy and add up, has no value.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       Ccl_Contract:$contract, OptionalAttr<FlatSymbolRefAttr>:$topology,
                       OptionalAttr<StrArrayAttr>:$arg_names,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs, UnitAttr:$lowered);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    mlir::ArrayRef<mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    mlir::ArrayRef<mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    mlir::Region *getCallableRegion() { return &getBody(); }
    void getAsmBlockArgumentNames(mlir::Region &region, mlir::OpAsmSetValueNameFn setName);
    mlir::Block &getBlock() { return getBody().front(); }
    /// Name of size parameter `i`, without `%`.
    llvm::StringRef getParameterName(unsigned i);
  }];
}

def Ccl_BufferOp : Ccl_Op<"buffer", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a buffer that every rank owns a part of";
  let description = [{
    In an algorithm the buffer is a distributed array: a rank grid, then a chunk grid,
    one index per axis. In a program it is this rank's part: a chunk grid. Grids are
    linearized row-major.

    ```mlir
    %x = ccl.buffer inout ranks(%n) chunks(%n)
    %t = ccl.buffer scratch ranks(2, 4) chunks(8)
    ```

    `inout` is written for one buffer: in place it is both `in` and `out`; out of place
    first reads are taken from `in`.

    - C1: stands at the top of an algorithm (with a rank grid) or a program (without).
    - C2: constant extents are at least 1; a chunk grid has at least one axis.
  }];
  let arguments = (ins Ccl_RoleAttr:$role, OptionalAttr<AffineMapAttr>:$ranks,
                       AffineMapAttr:$chunks, Variadic<Index>:$rankOperands,
                       Variadic<Index>:$chunkOperands, OptionalAttr<StrAttr>:$name);
  let results = (outs Ccl_Buffer:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
  let extraClassDeclaration = [{
    /// Extents once they are constant; nothing while a size parameter is unbound.
    std::optional<llvm::SmallVector<int64_t>> getRankShape();
    std::optional<llvm::SmallVector<int64_t>> getChunkShape();
    unsigned getNumRankAxes() { return getRanks() ? getRanks()->getNumResults() : 0; }
    unsigned getNumChunkAxes() { return getChunks().getNumResults(); }
  }];
}

class Ccl_MoveOp<string mnemonic> : Ccl_Op<mnemonic, [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let arguments = (ins
    Ccl_Buffer:$src, AffineMapAttr:$srcMap, Variadic<Index>:$srcOperands,
    Ccl_Buffer:$dst, AffineMapAttr:$dstMap, Variadic<Index>:$dstOperands,
    DefaultValuedAttr<I64Attr, "1">:$count,
    OptionalAttr<Ccl_ViaAttr>:$via, DefaultValuedAttr<I64Attr, "0">:$tag,
    OptionalAttr<DenseI64ArrayAttr>:$agents);
  let assemblyFormat = [{
    $src `` custom<Place>($srcMap, $srcOperands)
    `into` $dst `` custom<Place>($dstMap, $dstOperands)
    (`x` custom<Integer>($count)^)? (`via` custom<ViaName>($via)^)?
    (`agents` `` custom<Agents>($agents)^)? (`tag` custom<Integer>($tag)^)? attr-dict
  }];
  let builders = [OpBuilder<(ins "mlir::Value":$src, "mlir::AffineMap":$srcMap,
      "mlir::ValueRange":$srcOperands, "mlir::Value":$dst, "mlir::AffineMap":$dstMap,
      "mlir::ValueRange":$dstOperands, "int64_t":$count), [{
    build($_builder, $_state, src, srcMap, srcOperands, dst, dstMap, dstOperands, uint64_t(count),
          ViaAttr(), /*tag=*/0, mlir::DenseI64ArrayAttr());
  }]>];
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
}

def Ccl_CopyOp : Ccl_MoveOp<"copy"> {
  let summary = "overwrite a chunk with another rank's (or one's own)";
  let description = [{
    Indices are affine in loop variables and size parameters: the rank grid's first,
    then the chunk grid's. `x k` moves k chunks that are adjacent in the linear order.
    `tag`, and `via` where it is missing, are set by `ccl-assign-channels`.

    `via put`: the source writes the destination's memory. That nobody needs what is there is the
    author's claim, which is proved of the programs. `agents(a to b)`: agent a of the source and
    agent b of the destination do their halves; agents of a rank work at the same time, each in
    the algorithm's order. What is put may be waited for by several, `agents(a to b, c)`. Without,
    all is done by agent 0.

    ```mlir
    ccl.copy %x[%r, 0] into %y[(%r + 1) mod 4, 0]
    ccl.copy %x[%r, 0] into %t[%r, 4] x 2
    ccl.copy %x[%r, 0] into %y[(%r + 1) mod 4, 0] via put agents(1 to 2)
    ```

    - C1: one index per rank axis and chunk axis of the buffer.
    - C2: constant indices are inside the grid.
    - C3: the count is at least 1.
    - C4: it stands in an algorithm; operands are affine dimensions or symbols.
    - C5: the destination is not an `in` buffer.
    - C7: agents are numbers from 0 to 1023; there are two, and more only with `put`; those of
      the destination differ.
    - C8: only copies go by `put`.
  }];
}

def Ccl_ReduceOp : Ccl_MoveOp<"reduce"> {
  let summary = "combine a chunk into another rank's (or one's own)";
  let description = [{
    The destination becomes the combination of destination and source. Two reduces of
    one parallel step into the same place commute. Constraints are those of `ccl.copy`,
    and

    - C6: the contract names a reduction.
  }];
}

def Ccl_ApplyOp : Ccl_Op<"apply", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "run another algorithm in every group of ranks";
  let description = [{
    The map takes (callee rank indices, callee chunk indices, group indices) to (rank
    indices, chunk indices) of the bound buffer. Buffers bind one by one to the callee's
    `in`, `out` and `inout` buffers in program order; the callee's scratch becomes
    scratch of the caller.

    ```mlir
    // a ring inside each of two nodes of four
    ccl.apply @ring(4) on %x by affine_map<(r, c, node) -> (node, r, c)> groups(2)
    ```

    `along "axis"` is sugar for chunk grids with one dimension per rank axis:
    reduce_scatter and all_gather range over all coordinates that are not yet scattered,
    all_reduce over the rank's own coordinate of those that are.

    ```mlir
    ccl.apply @rs(4) along "gpu" on %x
    ccl.apply @ar(2) along "node" on %x
    ccl.apply @ag(4) along "gpu" on %x
    ```

    The callee may be a collective (L0): a stage, in the groups of ranks that it is about, by the
    algorithm that it names in the end. The buffer has a chunk axis for each axis of the topology,
    of its size, and may have one more, for pieces. An axis is *scattered* as with `along`, or held
    *by the root's coordinate*: before a broadcast along it, after a reduce.

    ```mlir
    ccl.apply @inside on %x
    ```

    - C1: the callee is an algorithm of this module with moves, or a collective on the algorithm's
      topology, and the call graph has no cycle.
    - C2: as many sizes as the callee has parameters, as many buffers as it has
      non-scratch buffers.
    - C3: one map per buffer whose inputs are the callee's rank axes, chunk axes and the
      groups, and whose results are the buffer's rank and chunk axes; or `along` with the
      name of a rank axis; none with a collective, and one buffer.
    - C4: stands at the top of an algorithm or in `ccl.pipeline`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, AffineMapAttr:$sizes,
                       Variadic<Index>:$sizeOperands, OptionalAttr<StrAttr>:$along,
                       Variadic<Ccl_Buffer>:$buffers, OptionalAttr<AffineMapArrayAttr>:$maps,
                       AffineMapAttr:$groups, Variadic<Index>:$groupOperands);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def Ccl_PipelineOp : Ccl_Op<"pipeline", [NoTerminator, NoRegionArguments,
    RecursiveMemoryEffects, HasParent<"::ccl::AlgorithmOp">]> {
  let summary = "stages that different micro-batches pass at the same time";
  let description = [{
    The stages run in order for each micro-batch; while one micro-batch is in stage k,
    the next may be in stage k - 1. The micro-batch count is a launch-time value;
    `ccl.micro_batches` on the algorithm is what a launch takes that asks for none.

    ```mlir
    ccl.pipeline {
      ccl.apply @rs(4) along "gpu" on %x
    }, {
      ccl.apply @ar(2) along "node" on %x
    }
    ```

    - C1: at least two stages.
  }];
  let regions = (region VariadicRegion<SizedRegion<1>>:$stages);
  let assemblyFormat = "attr-dict-with-keyword $stages";
  let hasVerifier = 1;
}

def Ccl_ScheduleOp : Ccl_Op<"schedule", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "moves as a table";
  let description = [{
    For irregular results of solvers. A row has nine numbers: step, kind (0 copy,
    1 reduce), source rank, buffer, chunk, destination rank, buffer, chunk, count.
    Ranks and chunks are linear, a buffer is the position in the operand list. Rows of
    one step are parallel, steps ascend. `agents` has two or more numbers for every row: the
    source's and the destination's, as of `ccl.copy`; -1 behind these stands for none.

    ```mlir
    ccl.schedule %x, %y dense<[[0, 0,  0, 0, 0,  1, 1, 0,  1]]> : tensor<1x9xi64>
    ```

    - C1: the table is a tensor of N x 9 i64, dense or a dense resource; that of agents N x 2
      or wider.
    - C2: stands in an algorithm.
    - C3: agents are as of `ccl.copy` (C7); only rows that copy go by `put`.
    - C4: ranks and chunks are inside the buffers, where their sizes are constant.
  }];
  let arguments = (ins Variadic<Ccl_Buffer>:$buffers, ElementsAttr:$table,
                       OptionalAttr<Ccl_ViaAttr>:$via, DefaultValuedAttr<I64Attr, "0">:$tag,
                       OptionalAttr<ElementsAttr>:$agents);
  let assemblyFormat = [{
    $buffers $table (`via` custom<ViaName>($via)^)? (`agents` $agents^)?
    (`tag` custom<Integer>($tag)^)? attr-dict
  }];
  let builders = [OpBuilder<(ins "mlir::ValueRange":$buffers, "mlir::ElementsAttr":$table), [{
    build($_builder, $_state, buffers, table, ViaAttr(), /*tag=*/0, mlir::ElementsAttr());
  }]>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The table, row by row. Empty if the resource is missing.
    llvm::ArrayRef<int64_t> getRows();
    size_t getNumRows() { return getRows().size() / rowSize; }
    /// Where the rows were written: so many rows, a location; the last one for all that are left.
    /// The op's own, unless that is fused of others, with (rows, index) as metadata.
    llvm::SmallVector<std::pair<int64_t, mlir::Location>> getRowLocations();
    /// The source's and the destination's agents of a row.
    llvm::SmallVector<int64_t, 4> getAgentsOf(size_t row);
    static constexpr int64_t rowSize = 9;
    /// A table of so many columns, its numbers row by row: of moves, or of agents.
    static mlir::ElementsAttr makeTable(mlir::MLIRContext *context,
                                        llvm::ArrayRef<int64_t> numbers,
                                        int64_t columns = rowSize);
  }];
}

#endif // CCL_ALGORITHM_OPS_TD
