//===- CclProgramOps.td - L2: one program per rank -------------------------===//
#ifndef CCL_PROGRAM_OPS_TD
#define CCL_PROGRAM_OPS_TD

include "dialect/CclDialect.td"

def Ccl_ProgramOp : Ccl_Op<"program", [
    FunctionOpInterface, IsolatedFromAbove, NoTerminator, SingleBlock, AffineScope,
    OpAsmOpInterface, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what a set of ranks executes";
  let description = [{
    `%me` is the rank; `ranks` lists the ranks that share the program (`a to b` excludes
    b). One rank may have the program without `%me`.

    ```mlir
    ccl.program @ring.p(%me) of @ring ranks(0 to 4) {
      %x = ccl.buffer inout chunks(4)
      %next = ccl.channel to (%me + 1) mod 4 slots 2 protocol simple
      %prev = ccl.channel from (%me + 3) mod 4 slots 2 protocol simple
      ccl.block 0 {
        ccl.transfer from %x[%me] to %next
        affine.for %s = 1 to 3 {
          ccl.transfer reduce from %prev, %x[(%me - %s) mod 4] to %next
        }
        ccl.transfer reduce from %prev, %x[(%me + 1) mod 4] to %x[(%me + 1) mod 4], %next
        affine.for %s = 1 to 3 {
          ccl.transfer from %prev to %x[(%me + 1 - %s) mod 4], %next
        }
        ccl.transfer from %prev to %x[(%me + 2) mod 4]
      }
    }
    ```

    - C1: `of` names an algorithm.
    - C2: the rank set is not empty, sorted, disjoint, and each interval ascends.
    - C3: at most one argument, of type `index`; more than one rank needs it.
    - C4: the body holds buffers, channels, peers, constants and agents.
    - C5: agents of one kind have distinct numbers.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       FlatSymbolRefAttr:$algorithm, DenseI64ArrayAttr:$ranks,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
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
    /// The rank argument, or null for the program of one rank without it.
    mlir::Value getMe() { return getNumArguments() ? getArgument(0) : mlir::Value(); }
    /// All ranks, ascending.
    llvm::SmallVector<int64_t> getRankList();
  }];
}

class Ccl_AgentOp<string mnemonic> : Ccl_Op<mnemonic, [NoTerminator, SingleBlock,
    NoRegionArguments, RecursiveMemoryEffects, HasParent<"::ccl::ProgramOp">]> {
  let arguments = (ins I64Attr:$id);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<Integer>($id) attr-dict-with-keyword custom<Body>($body)";
}

def Ccl_BlockOp : Ccl_AgentOp<"block"> {
  let summary = "an agent: a CUDA thread block, or a lane of the host backend";
  let description = "Executes its body in order. Agents run concurrently.";
}
def Ccl_ProxyOp : Ccl_AgentOp<"proxy"> {
  let summary = "an agent: a NIC or a copy engine, driven by the host";
  let description = "Executes its body in order. Agents run concurrently.";
}

def Ccl_PeerOp : Ccl_Op<"peer", [Pure]> {
  let summary = "another rank's part of a buffer, mapped here";
  let description = [{
    ```mlir
    %p = ccl.peer %x at (%me + 1) mod 4
    ```

    - C1: stands in a program.
  }];
  let arguments = (ins Ccl_Buffer:$buffer, AffineMapAttr:$peer, Variadic<Index>:$peerOperands);
  let results = (outs Ccl_Buffer:$result);
  let assemblyFormat = "$buffer `at` custom<Expr>($peer, $peerOperands) attr-dict";
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def Ccl_ChannelOp : Ccl_Op<"channel", [Pure,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "one end of a FIFO to or from a peer";
  let description = [{
    A channel *is* (direction, peer, tag); the op only names it, so it may stand in
    loops. It pairs with the peer's other end of the same tag. With slots it carries
    data, one slot a transfer; without, signals. The protocol never changes meaning.

    ```mlir
    %next = ccl.channel to (%me + 1) mod 4 slots 2 protocol simple
    %ready = ccl.channel from (%me + 3) mod 4 tag 1
    ```

    - C1: slots and tag are not negative; stands in a program.
  }];
  let arguments = (ins Ccl_DirectionAttr:$direction, AffineMapAttr:$peer,
                       Variadic<Index>:$peerOperands, DefaultValuedAttr<I64Attr, "0">:$tag,
                       DefaultValuedAttr<I64Attr, "0">:$slots,
                       DefaultValuedAttr<Ccl_ProtocolAttr, "::ccl::Protocol::Simple">:$protocol);
  let results = (outs Ccl_Channel:$result);
  let assemblyFormat = [{
    custom<DirectionName>($direction) custom<Expr>($peer, $peerOperands)
    (`tag` custom<Integer>($tag)^)? (`slots` custom<Integer>($slots)^)?
    (`protocol` custom<ProtocolName>($protocol)^)? attr-dict
  }];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def Ccl_TransferOp : Ccl_Op<"transfer", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "move and combine chunks";
  let description = [{
    Every destination becomes the combination of all sources. An operand is a local
    place `%x[i]`, a peer's place `%p[i]` with `%p = ccl.peer ...`, or a channel with
    slots. To accumulate, list the destination as a source. Copy, put, get,
    receive-reduce-copy-send, n-ary reduction and multicast are operand patterns.

    ```mlir
    ccl.transfer from %x[%me] to %next
    ccl.transfer reduce from %prev, %x[%me] to %x[%me], %next
    ccl.transfer from %x[0] to %t[0] x 2
    ```

    - C1: several sources exactly if it reduces.
    - C2: one index per chunk axis for a place, none for a channel.
    - C3: source channels are `from` ends, destination channels `to` ends, with slots.
    - C4: no channel is listed twice on one side.
    - C5: stands in an agent; operands are affine dimensions or symbols.
    - C6: the count is at least 1.
    - C7: no destination is an `in` buffer.
  }];
  let arguments = (ins UnitAttr:$reduce,
    Variadic<AnyTypeOf<[Ccl_Buffer, Ccl_Channel]>>:$from, Variadic<Index>:$fromOperands,
    AffineMapArrayAttr:$fromMaps,
    Variadic<AnyTypeOf<[Ccl_Buffer, Ccl_Channel]>>:$to, Variadic<Index>:$toOperands,
    AffineMapArrayAttr:$toMaps, DefaultValuedAttr<I64Attr, "1">:$count);
  let assemblyFormat = [{
    (`reduce` $reduce^)? `from` custom<Places>($from, type($from), $fromOperands, $fromMaps)
    `to` custom<Places>($to, type($to), $toOperands, $toMaps)
    (`x` custom<Integer>($count)^)? attr-dict
  }];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

class Ccl_CounterOp<string mnemonic> : Ccl_Op<mnemonic, [AttrSizedOperandSegments]> {
  let arguments = (ins Arg<Ccl_Channel, "", [MemRead, MemWrite]>:$channel,
                       Optional<Ccl_Buffer>:$buffer, OptionalAttr<AffineMapAttr>:$map,
                       Variadic<Index>:$indices, DefaultValuedAttr<I64Attr, "1">:$count);
  let assemblyFormat = [{
    $channel (`of` $buffer^ `` custom<Place>($map, $indices) (`x` custom<Integer>($count)^)?)?
    attr-dict
  }];
  let builders = [OpBuilder<(ins "mlir::Value":$channel), [{
    build($_builder, $_state, channel, mlir::Value(), mlir::AffineMapAttr(), mlir::ValueRange());
  }]>];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}
def Ccl_SignalOp : Ccl_CounterOp<"signal"> {
  let summary = "tell the peer that everything before is done";
  let description = [{
    Release: what this agent did before is visible to the peer after the matching wait.

    `of` names the place that the peer may read from now on, for passes that move
    signals; it does nothing at run time.

    ```mlir
    ccl.signal %ready of %x[%me]
    ```

    - C1: the channel is a `to` end without slots.
    - C2: `of` names a place of a local buffer, one index per chunk axis.
  }];
}
def Ccl_WaitOp : Ccl_CounterOp<"wait"> {
  let summary = "wait for the peer's matching signal";
  let description = [{
    Acquire. The k-th wait on a channel matches the k-th signal.

    `of` names the place that the peer has finished reading, as for `ccl.signal`.

    - C1: the channel is a `from` end without slots.
    - C2: `of` names a place of a local buffer, one index per chunk axis.
  }];
}

#endif // CCL_PROGRAM_OPS_TD
