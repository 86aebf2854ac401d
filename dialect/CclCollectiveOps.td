//===- CclCollectiveOps.td - L0: what --------------------------------------===//
#ifndef CCL_COLLECTIVE_OPS_TD
#define CCL_COLLECTIVE_OPS_TD

include "dialect/CclDialect.td"

def Ccl_TopologyOp : Ccl_Op<"topology", [Symbol, NoTerminator, SingleBlock, IsolatedFromAbove]> {
  let summary = "ranks, switches and the links between them";
  let description = [{
    Ranks are the row-major product of the named axes. Links are directed.

    ```mlir
    ccl.topology @quad ranks(node = 2, gpu = 2) {
      ccl.switch "sw0" multicast
      ccl.link 0 to "sw0" bandwidth 25.0 latency 0.7 shares ["nic0"]
      ccl.link "sw0" to 1 bandwidth 25.0
    }
    ```

    `reconfigurable(d)`: the fabric can change its links, which takes d microseconds.

    - C1: axes have distinct names and sizes of at least 1.
    - C2: the body holds only `ccl.switch`, `ccl.link` and `ccl.resource`.
    - C3: names of switches and of resources are distinct; a link joins existing, different nodes.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes,
                       OptionalAttr<F64Attr>:$reconfigurable);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

def Ccl_SwitchOp : Ccl_Op<"switch", [HasParent<"::ccl::TopologyOp">]> {
  let summary = "a switch of a topology";
  let description = [{
    It may copy (`multicast`) and combine (`reduce`) what passes through it. `kind` tells what
    it stands for: "switch", "nic", "pcie" or "cpu"; all of them forward.

    - C1: the kind is one of these.
  }];
  let arguments = (ins StrAttr:$name, UnitAttr:$multicast, UnitAttr:$reduce,
                       DefaultValuedAttr<StrAttr, "\"switch\"">:$kind);
  let assemblyFormat =
      "$name (`multicast` $multicast^)? (`reduce` $reduce^)? (`kind` $kind^)? attr-dict";
  let hasVerifier = 1;
}

def Ccl_ResourceOp : Ccl_Op<"resource", [HasParent<"::ccl::TopologyOp">]> {
  let summary = "what several links of a topology share";
  let description = [{
    The links whose `shares` name it carry at most `bandwidth` GB/s together. A name in
    `shares` without this op means that its links take turns.

    - C1: the bandwidth is positive.
  }];
  let arguments = (ins StrAttr:$name, F64Attr:$bandwidth);
  let assemblyFormat = "$name `bandwidth` custom<Number>($bandwidth) attr-dict";
  let hasVerifier = 1;
}

def Ccl_LinkOp : Ccl_Op<"link", [HasParent<"::ccl::TopologyOp">]> {
  let summary = "a directed link of a topology";
  let description = [{
    Ends are rank numbers or names of switches. Bandwidth in GB/s (1e9 bytes),
    latency in microseconds. `shares` names resources (a NIC, a port, a PCIe switch)
    that the link uses together with others.

    - C1: the bandwidth is positive, the latency not negative.
  }];
  let arguments = (ins AnyAttrOf<[I64Attr, StrAttr]>:$src, AnyAttrOf<[I64Attr, StrAttr]>:$dst,
                       F64Attr:$bandwidth, DefaultValuedAttr<F64Attr, "0.0">:$latency,
                       OptionalAttr<StrArrayAttr>:$shares);
  let assemblyFormat = [{
    custom<Node>($src) `to` custom<Node>($dst) `bandwidth` custom<Number>($bandwidth)
    (`latency` custom<Number>($latency)^)? (`shares` $shares^)? attr-dict
  }];
  let hasVerifier = 1;
}

class Ccl_CollectiveOp<string mnemonic, dag parameters, string format, string contract>
    : Ccl_Op<mnemonic, [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                        Ccl_CollectiveOpInterface]> {
  let arguments = !con((ins SymbolNameAttr:$sym_name), parameters,
                       (ins FlatSymbolRefAttr:$topology, OptionalAttr<StrArrayAttr>:$axes,
                            OptionalAttr<DenseI64ArrayAttr>:$groups,
                            OptionalAttr<FlatSymbolRefAttr>:$algorithm,
                            OptionalAttr<ArrayAttr>:$choices));
  let assemblyFormat = "$sym_name " # format # [{ `on` $topology (`axes` `(` custom<Axes>($axes)^ `)`)?
    (`groups` $groups^)? (`algorithm` `=` $algorithm^)? attr-dict }];
  let description = [{
    With some of the axes it happens in every group of ranks that differ in these alone: a stage
    of something larger, for `ccl.apply`. Ranks of a group, and groups, count row-major in the
    topology's axes; `groups` names some of them.

    `choices`, by size: dictionaries with `algorithm`, `up_to` (bytes, of all but the last one)
    and `micro_batches`.

    - C1: `on` names a `ccl.topology`, `axes` some of its axes, each once.
    - C2: `algorithm` names a `ccl.algorithm` with this op's contract, and so do `choices`, whose
      sizes ascend.
    - C3: `groups` are numbers of groups, ascending.
  }];
  let extraClassDeclaration = "::ccl::ContractAttr getContract() { return " # contract # "; }";
}

class Ccl_ReducingOp<string mnemonic, string kind>
    : Ccl_CollectiveOp<mnemonic, (ins Ccl_ReductionAttr:$reduction), "custom<ReductionName>($reduction)",
        "::ccl::ContractAttr::get(getContext(), ::ccl::CollectiveKind::" # kind # ", getReduction())">;
class Ccl_PlainOp<string mnemonic, string kind>
    : Ccl_CollectiveOp<mnemonic, (ins), "",
        "::ccl::ContractAttr::get(getContext(), ::ccl::CollectiveKind::" # kind # ")">;
class Ccl_RootedOp<string mnemonic, string kind>
    : Ccl_CollectiveOp<mnemonic, (ins I64Attr:$root), "`root` custom<Integer>($root)",
        "::ccl::ContractAttr::get(getContext(), ::ccl::CollectiveKind::" # kind # ", ::ccl::ReductionKind::None, getRoot())">;

def Ccl_AllReduceOp : Ccl_ReducingOp<"all_reduce", "AllReduce"> {
  let summary = "every rank gets the combination of all inputs";
}
def Ccl_AllGatherOp : Ccl_PlainOp<"all_gather", "AllGather"> {
  let summary = "every rank gets the inputs of all ranks, in rank order";
}
def Ccl_ReduceScatterOp : Ccl_ReducingOp<"reduce_scatter", "ReduceScatter"> {
  let summary = "rank r gets the combination of everybody's shard r";
}
def Ccl_BroadcastOp : Ccl_RootedOp<"broadcast", "Broadcast"> {
  let summary = "every rank gets the root's input";
}
def Ccl_ReduceToOp : Ccl_CollectiveOp<"reduce_to",
    (ins Ccl_ReductionAttr:$reduction, I64Attr:$root), "custom<ReductionName>($reduction) `root` custom<Integer>($root)",
    "::ccl::ContractAttr::get(getContext(), ::ccl::CollectiveKind::Reduce, getReduction(), getRoot())"> {
  let summary = "the root gets the combination of all inputs (MPI_Reduce; `ccl.reduce` is the move)";
}
def Ccl_GatherOp : Ccl_RootedOp<"gather", "Gather"> {
  let summary = "the root gets the inputs of all ranks";
}
def Ccl_ScatterOp : Ccl_RootedOp<"scatter", "Scatter"> {
  let summary = "rank r gets shard r of the root's input";
}
def Ccl_AllToAllOp : Ccl_PlainOp<"all_to_all", "AllToAll"> {
  let summary = "shard q of rank r goes to shard r of rank q";
}
def Ccl_AllToAllVOp : Ccl_PlainOp<"all_to_allv", "AllToAllV"> {
  let summary = "all_to_all with shard lengths given at launch";
}
def Ccl_PermuteOp : Ccl_CollectiveOp<"permute", (ins DenseI64ArrayAttr:$targets),
    "`to` $targets",
    "::ccl::ContractAttr::get(getContext(), ::ccl::CollectiveKind::Permute, ::ccl::ReductionKind::None, int64_t(0), getTargets(), llvm::ArrayRef<int64_t>(), int64_t(0), int64_t(0))"> {
  let summary = "rank r sends its input to rank targets[r]";
}
def Ccl_BarrierOp : Ccl_PlainOp<"barrier", "Barrier"> {
  let summary = "nobody leaves before everybody came";
}

#endif // CCL_COLLECTIVE_OPS_TD
