//===- CclDialect.td - Dialect, types, attributes, interfaces -------------===//
#ifndef CCL_DIALECT_TD
#define CCL_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Ccl_Dialect : Dialect {
  let name = "ccl";
  let cppNamespace = "::ccl";
  let summary = "Collective communication as chunk moves, from choreography to rank programs";
  let description = [{
    One dialect, three levels:

    - **L0, what**: topologies and collectives (`ccl.topology`, `ccl.all_reduce`, ...).
    - **L1, who moves what**: `ccl.algorithm` is a choreography over distributed
      buffers. Loops are `affine.for` (steps) and `affine.parallel` (ranks); moves are
      `ccl.copy` and `ccl.reduce`. Sequential semantics: the real order is only what
      the data dependences ask for.
    - **L2, one program per rank**: `ccl.program` holds agents (`ccl.block`,
      `ccl.proxy`) that execute `ccl.transfer`, `ccl.signal` and `ccl.wait`.

    `docs/semantics.md` numbers every rule; verifiers and tests cite the numbers.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = ["mlir::affine::AffineDialect", "mlir::arith::ArithDialect"];
}

class Ccl_Op<string mnemonic, list<Trait> traits = []> : Op<Ccl_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Enumerations. The first three have the values of dialect/model/Contract.h.
//===----------------------------------------------------------------------===//

class Ccl_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::ccl";
}

def Ccl_Collective : Ccl_Enum<"CollectiveKind", "a collective operation", [
  I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
  I32EnumAttrCase<"AllGather", 1, "all_gather">,
  I32EnumAttrCase<"ReduceScatter", 2, "reduce_scatter">,
  I32EnumAttrCase<"Broadcast", 3, "broadcast">,
  I32EnumAttrCase<"Reduce", 4, "reduce">,
  I32EnumAttrCase<"Gather", 5, "gather">,
  I32EnumAttrCase<"Scatter", 6, "scatter">,
  I32EnumAttrCase<"AllToAll", 7, "all_to_all">,
  I32EnumAttrCase<"AllToAllV", 8, "all_to_allv">,
  I32EnumAttrCase<"Permute", 9, "permute">,
  I32EnumAttrCase<"Barrier", 10, "barrier">,
  I32EnumAttrCase<"Custom", 11, "custom">]>;

def Ccl_Reduction : Ccl_Enum<"ReductionKind", "how contributions are combined", [
  I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Sum", 1, "sum">,
  I32EnumAttrCase<"Prod", 2, "prod">, I32EnumAttrCase<"Min", 3, "min">,
  I32EnumAttrCase<"Max", 4, "max">, I32EnumAttrCase<"Avg", 5, "avg">,
  I32EnumAttrCase<"Band", 6, "band">, I32EnumAttrCase<"Bor", 7, "bor">,
  I32EnumAttrCase<"Bxor", 8, "bxor">]>;

def Ccl_Role : Ccl_Enum<"BufferRole", "what a buffer is for", [
  I32EnumAttrCase<"In", 0, "in">, I32EnumAttrCase<"Out", 1, "out">,
  I32EnumAttrCase<"InOut", 2, "inout">, I32EnumAttrCase<"Scratch", 3, "scratch">]>;

def Ccl_Via : Ccl_Enum<"Via", "how a move between ranks is lowered", [
  I32EnumAttrCase<"Staged", 0, "staged">, I32EnumAttrCase<"Direct", 1, "direct">,
  I32EnumAttrCase<"Put", 2, "put">]>;

def Ccl_Direction : Ccl_Enum<"Direction", "which end of a channel", [
  I32EnumAttrCase<"To", 0, "to">, I32EnumAttrCase<"From", 1, "from">]>;

def Ccl_Protocol : Ccl_Enum<"Protocol", "wire protocol of a channel", [
  I32EnumAttrCase<"Simple", 0, "simple">, I32EnumAttrCase<"LL", 1, "ll">,
  I32EnumAttrCase<"LL128", 2, "ll128">, I32EnumAttrCase<"Lamport", 3, "lamport">]>;

def Ccl_ReductionAttr : EnumAttr<Ccl_Dialect, Ccl_Reduction, "reduction">;
def Ccl_RoleAttr : EnumAttr<Ccl_Dialect, Ccl_Role, "role">;
def Ccl_ViaAttr : EnumAttr<Ccl_Dialect, Ccl_Via, "via">;
def Ccl_DirectionAttr : EnumAttr<Ccl_Dialect, Ccl_Direction, "direction">;
def Ccl_ProtocolAttr : EnumAttr<Ccl_Dialect, Ccl_Protocol, "protocol">;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Ccl_Buffer : TypeDef<Ccl_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a distributed buffer (L1), or one rank's part of it (L2)";
  let description = [{
    Opaque: the shape stands on `ccl.buffer`, the element type comes at launch.
  }];
}

def Ccl_Channel : TypeDef<Ccl_Dialect, "Channel"> {
  let mnemonic = "channel";
  let summary = "one end of a FIFO between two ranks";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def Ccl_Contract : AttrDef<Ccl_Dialect, "Contract"> {
  let mnemonic = "contract";
  let summary = "what an algorithm promises";
  let description = [{
    Names the collective whose pre- and post-condition the algorithm must meet:

    ```
    #ccl.contract<all_reduce, sum>
    #ccl.contract<broadcast, root = 2>
    #ccl.contract<permute, to = [1, 2, 3, 0]>
    #ccl.contract<custom>                                  // nothing promised
    #ccl.contract<custom, sum, in = 1, out = 1, rows = [0, 0, 0, 0,  0, 0, 1, 0]>
    ```

    A row of a custom contract is (out rank, out chunk, in rank, in chunk); rows of
    one out place add up. Without rows only safety is proved (verdict `unchecked`).

    - C1: a collective that reduces names a reduction; one that does not has none.
    - C2: `root` only for broadcast, reduce, gather and scatter.
    - C3: `to` exactly for permute, `rows` only for custom, four numbers a row.
  }];
  let parameters = (ins
    "::ccl::CollectiveKind":$kind,
    DefaultValuedParameter<"::ccl::ReductionKind", "::ccl::ReductionKind::None">:$reduction,
    DefaultValuedParameter<"int64_t", "0">:$root,
    OptionalArrayRefParameter<"int64_t">:$targets,
    OptionalArrayRefParameter<"int64_t">:$rows,
    DefaultValuedParameter<"int64_t", "0">:$inChunks,
    DefaultValuedParameter<"int64_t", "0">:$outChunks);
  let builders = [
    AttrBuilder<(ins "::ccl::CollectiveKind":$kind,
                     CArg<"::ccl::ReductionKind", "::ccl::ReductionKind::None">:$reduction,
                     CArg<"int64_t", "0">:$root), [{
      return $_get($_ctxt, kind, reduction, root, llvm::ArrayRef<int64_t>(),
                   llvm::ArrayRef<int64_t>(), 0, 0);
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

def Ccl_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::ccl";
  let description = "An L0 op that states a collective: gives its contract.";
  let methods = [
    InterfaceMethod<"The contract that an algorithm for this op must meet.",
                    "::ccl::ContractAttr", "getContract", (ins)>,
    InterfaceMethod<"The topology.", "::mlir::FlatSymbolRefAttr", "getTopologyAttr", (ins)>,
    InterfaceMethod<"Some of its axes, or null: all.", "::mlir::ArrayAttr", "getAxesAttr", (ins)>,
    InterfaceMethod<"Groups of ranks by number, or null: all.", "::mlir::DenseI64ArrayAttr",
                    "getGroupsAttr", (ins)>,
    InterfaceMethod<"Sets the groups.", "void", "setGroupsAttr",
                    (ins "::mlir::DenseI64ArrayAttr":$groups)>,
    InterfaceMethod<"What implements it, or null.", "::mlir::FlatSymbolRefAttr",
                    "getAlgorithmAttr", (ins)>,
    InterfaceMethod<"Sets what implements it.", "void", "setAlgorithmAttr",
                    (ins "::mlir::FlatSymbolRefAttr":$algorithm)>,
    InterfaceMethod<"What implements it by size, or null.", "::mlir::ArrayAttr",
                    "getChoicesAttr", (ins)>,
    InterfaceMethod<"Sets what implements it by size.", "void", "setChoicesAttr",
                    (ins "::mlir::ArrayAttr":$choices)>];
}

#endif // CCL_DIALECT_TD
