//===- Passes.td - Every pass, declared once --------------------------------===//
#ifndef CCL_PASSES_TD
#define CCL_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Algorithms
//===----------------------------------------------------------------------===//

def CclSpecialize : Pass<"ccl-specialize", "mlir::ModuleOp"> {
  let summary = "bind size parameters";
  let description = [{
    Replaces the named size parameters of algorithms by constants. An algorithm that some
    `ccl.apply` refers to is left alone: the apply binds its parameters. Run
    `canonicalize` afterwards to fold the constants into maps and loop bounds.

    ```
    ccl-opt --ccl-specialize=sizes=n=4 --canonicalize ring.mlir
    ```
  }];
  let options = [
    ListOption<"sizes", "sizes", "std::string", "name=value, comma separated">];
}

def CclExpandApply : Pass<"ccl-expand-apply", "mlir::ModuleOp"> {
  let summary = "inline ccl.apply and ccl.pipeline";
  let description = [{
    Every `ccl.apply` becomes the callee's moves, with places mapped and rank loops
    extended by the groups. `along` is turned into maps first; a collective, into its algorithm
    with a map for each buffer that says where its data is among the caller's. The callee's scratch
    becomes scratch of the caller. The stages of `ccl.pipeline` are laid end to end, and each gets
    agents of its own: the program is repeated per micro-batch, so stages of different micro-batches
    overlap. Their number is kept as `ccl.stages`, and if there is one pipeline their first agents
    as `ccl.stage_agents`. What was applied and nothing refers to any more is removed.
  }];
}

def CclRollLoops : Pass<"ccl-roll-loops", "mlir::ModuleOp"> {
  let summary = "make loops of steps that repeat";
  let description = [{
    Steps (moves, and `affine.parallel` of moves) that differ only by constants which grow
    evenly become an `affine.for`, and loops that repeat become nested ones. The moves and their
    order stay. What builders and solvers write step by step is read, printed and proved
    sooner that way.
  }];
}

def CclAssignChannels : Pass<"ccl-assign-channels", "mlir::ModuleOp"> {
  let summary = "decide how every move between ranks is lowered";
  let description = [{
    Sets `via` and `tag` on moves that have none. `staged` sends through slots; `direct`
    reads the source rank's memory. `auto` stages algorithms with an `inout` buffer, whose
    places change while others would read them, and maps the rest directly. Moves of one
    parallel step get distinct tags, so that each pair of ranks agrees on the order. `put` is
    never chosen: it is a claim of the algorithm. `staged` sends what would be put or read, too,
    to the first of the agents that would wait for it. With `hosts`, ranks of different hosts reach
    no memory of each other: what moves anything between two of them is staged, whatever `via`
    says; a step that does so for some of its ranks is staged for all.
  }];
  let options = [
    Option<"via", "via", "std::string", "\"auto\"", "auto, staged or direct">,
    Option<"hosts", "hosts", "std::string", "\"\"",
           "ranks of a host (4), or the host of each rank (0,0,1,1); none: all share one">];
}

//===----------------------------------------------------------------------===//
// Synthesis
//===----------------------------------------------------------------------===//

def CclDecompose : Pass<"ccl-decompose", "mlir::ModuleOp"> {
  let summary = "collectives over several axes as stages along some of them";
  let description = [{
    A collective without an algorithm, over a topology of two or more axes, gets one that applies
    collectives along its axes: `all_reduce[node, gpu]` may become `reduce_scatter[gpu];
    all_reduce[node]; all_gather[gpu]`. Every order and kind of stages is costed: a stage takes
    what no schedule beats on the part of the topology that a group of its ranks has, with what
    other groups use at the same time. The cheapest stays; a remark lists the best. The bounds
    depend on no cost model.

    Collectives over one axis or more than five, those that no order of axes can do, and kinds that
    have no stages stay as they are.
  }];
  let options = [
    Option<"bytes", "bytes", "::ccl::ByteSize", "67108864", "size, as of nccl-tests: 64M">];
}

def CclSynthesize : Pass<"ccl-synthesize", "mlir::ModuleOp"> {
  let summary = "give every collective without an algorithm one";
  let description = [{
    The planner's, or a generator's, whichever simulates faster. A stage along some axes is solved
    on the part of the topology that a group of its ranks has, once for all groups that are alike;
    where they are not, the stage is split into one for each kind (`groups`). Algorithms that
    apply the stage get as many pieces as that needs.

    `k`, `height` and `pieces` are limits of what the planner makes. Generators have none: a ring of
    n ranks is n - 1 messages high whatever `height` says.
  }];
  let options = [
    Option<"bytes", "bytes", "::ccl::ByteSize", "67108864", "size, as of nccl-tests: 64M">,
    Option<"model", "model", "std::string", "\"ccl\"", "cost model">,
    Option<"chunks", "k", "int64_t", "0", "chunks of a root of the planner, at most; 0: any, of stages 4">,
    Option<"height", "height", "int64_t", "0", "messages one after the other of the planner, at most; 0: any">,
    Option<"pieces", "pieces", "int64_t", "0", "pieces of a chunk of the planner, at most; 0: any, of stages 4">,
    Option<"seed", "seed", "int64_t", "1", "of the planner's random choices">,
    Option<"timeLimit", "time-limit", "double", "0", "seconds, then the best so far; 0: none">,
    Option<"direct", "direct", "bool", "false",
           "whole collectives that have an algorithm get one more, for ccl-select">];
}

def CclPipelineMicroBatches : Pass<"ccl-pipeline-micro-batches", "mlir::ModuleOp"> {
  let summary = "stages one after the other become a pipeline";
  let description = [{
    An algorithm that is a sequence of `ccl.apply` becomes a `ccl.pipeline`, if that is faster in
    simulation, with the number of micro-batches that the cost model favours as
    `ccl.micro_batches`. m micro-batches take the largest of

        t + (m - 1) * longest interval of a stage
        m * work + head + tail + latencies + (m - 2) * idle,
          of a link or resource that several stages use

    where t is the time of one micro-batch alone, the interval of a stage that from one to the next
    if it repeats, work what all stages ask of the link for a micro-batch, head and tail the time of
    stages before and after those, and idle how long the link waits a micro-batch for latencies that
    no other of its stages covers. The best by that formula are simulated.
  }];
  let options = [
    Option<"bytes", "bytes", "::ccl::ByteSize", "67108864", "size, as of nccl-tests: 64M">,
    Option<"model", "model", "std::string", "\"ccl\"", "cost model">,
    Option<"most", "max", "int64_t", "64", "micro-batches, at most">,
    Option<"remark", "remark", "bool", "false", "emit a remark for each number that is tried">];
}

def CclSelect : Pass<"ccl-select", "mlir::ModuleOp"> {
  let summary = "attach the fastest algorithm to every collective";
  let description = [{
    Of the module's algorithms that meet the contract of a collective over all axes, on as many
    ranks, the one that simulates fastest becomes its `algorithm`. Of several sizes it is that of
    the largest, and `choices` has all of them: `up_to` so many bytes this one.
  }];
  let options = [
    ListOption<"bytes", "bytes", "::ccl::ByteSize", "sizes, as of nccl-tests: 1K,64M; none: 64M">,
    Option<"model", "model", "std::string", "\"ccl\"", "cost model">,
    Option<"prune", "prune", "bool", "false", "remove algorithms that no collective names then">];
}

//===----------------------------------------------------------------------===//
// Projection
//===----------------------------------------------------------------------===//

def CclProjectToRanks : Pass<"ccl-project-to-ranks", "mlir::ModuleOp"> {
  let summary = "one ccl.program per class of ranks";
  let description = [{
    A rank keeps the halves of the moves that touch it. Rank indices are solved for the
    rank (`(r + 1) mod n = me` gives `r = (me - 1) mod n`), so loops over steps stay loops
    and nothing costs ranks times steps. Conditions on the rank split the set of ranks
    into classes; conditions on a step unroll that loop.

    Moves appear in the algorithm's order, which is free of deadlock with one slot. In one
    step what is put comes first. Sends come before receives while they fit the slots, otherwise
    both halves alternate, or keep the order of the moves where these are enumerated. A direct move is guarded by two signals: ready (source to destination) and done. Of a
    put the destination is told by a signal when it is there.

    Where moves name agents each pair of them that works together gets channels of its own,
    loops over steps are unrolled, and `ccl.agent` on every instruction says who executes it:
    `ccl-split-agents` takes the one sequence apart.
  }];
  let options = [
    Option<"rank", "rank", "int64_t", "-1", "project this rank only; -1: all">,
    Option<"slots", "slots", "int64_t", "4", "slots of data channels">,
    Option<"protocol", "protocol", "std::string", "\"simple\"",
           "of data channels: simple, ll, ll128 or lamport; only GPUs make a difference">,
    Option<"maxOps", "max-ops", "int64_t", "500000", "refuse larger programs">];
}

def CclFuseTransfers : Pass<"ccl-fuse-transfers", "mlir::ModuleOp"> {
  let summary = "merge transfers that pass a chunk on";
  let description = [{
    Receive-then-send becomes one transfer with two destinations, across loop iterations
    by rotating the loop; chains of reductions into one place become one n-ary reduction;
    writes that are overwritten unread in every dynamic instance disappear. A fused
    transfer holds a slot while it waits for another, so the least slot count can rise
    (`ccl-check-program` recomputes it); programs that would get stuck stay as they were.

    Of programs of several agents only what one agent does is merged, and receives, and waits
    for what is put, move down before that to where something needs them.
  }];
  let options = [
    Option<"maxOperands", "max-operands", "int64_t", "16", "sources of one transfer">];
  let statistics = [
    Statistic<"fused", "transfers-fused", "transfers merged into another">,
    Statistic<"deadWrites", "dead-writes", "destinations removed">];
}

def CclPeelInOut : Pass<"ccl-peel-inout", "mlir::ModuleOp"> {
  let summary = "split inout buffers into in and out";
  let description = [{
    Reads of places that the rank has not written yet are taken from `in`; all else
    happens in `out` (in scratch where `out` is smaller than `in`, as for reduce_scatter);
    places that are never written are copied. In place both are the same memory, and the
    program is the one before.
  }];
}

def CclPruneSync : Pass<"ccl-prune-sync", "mlir::ModuleOp"> {
  let summary = "move waits for readers to where they are needed";
  let description = [{
    A rank has to wait for the readers of a place before it writes the place again or
    leaves. Such waits sink, out of loops where possible, to the next write that may touch
    what was read; signals that a place is ready rise to where it was last written.
  }];
  let statistics = [Statistic<"moved", "sync-moved", "waits and signals moved">];
}

def CclSplitAgents : Pass<"ccl-split-agents", "mlir::ModuleOp"> {
  let summary = "give every agent its part of a rank's program";
  let description = [{
    Up to here a program is one sequence; `ccl.agent` on its instructions says who is to execute
    them. Each agent gets its instructions in that order, in a `ccl.block` of its number. Where
    one needs what another did before it (has written or read the same place), the other signals
    on a channel from the rank to itself, unless that is known by other signals. That is kept
    to with `in` and `out` apart, and as one memory unless that form was disproved.

    What only passes needed to know goes: the places of signals and waits (`of`).
  }];
  let statistics = [Statistic<"ordered", "agents-ordered", "signals between agents of a rank">];
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

def CclCheckAlgorithm : Pass<"ccl-check-algorithm", "mlir::ModuleOp"> {
  let summary = "prove that algorithms meet their contracts";
  let description = [{
    Expands each specialized algorithm and executes it on sets of contributions: the
    contract, uninitialized reads, double counting, conflicts inside `affine.parallel`,
    indices out of range. In place and disjoint are proved separately; the outcome of the
    first is kept as `ccl.in_place` on the algorithm.
  }];
  let options = [
    Option<"remark", "remark", "bool", "false", "emit a remark with the verdict">];
}

def CclCheckProgram : Pass<"ccl-check-program", "mlir::ModuleOp"> {
  let summary = "prove that the programs of all ranks meet the contract together";
  let description = [{
    Executes all programs of an algorithm together: contract, pairing of channel ends,
    deadlock with the given number of slots, and the least number that suffices.

    If all ranks do the same, shifted, one rank tells about all, whatever their number.
    `auto` makes use of that where the programs are large.
  }];
  let options = [
    Option<"slots", "slots", "int64_t", "0", "slots of every data channel; 0: as written">,
    Option<"symmetric", "symmetric", "std::string", "\"auto\"",
           "prove one rank for all: auto, always or never">,
    Option<"remark", "remark", "bool", "false", "emit a remark with the verdict">];
}

def CclVerifyLevel : Pass<"ccl-verify-level", "mlir::ModuleOp"> {
  let summary = "check that a phase left nothing behind";
  let description = [{
    `algorithm`: algorithms are specialized and free of `ccl.apply` and `ccl.pipeline`.
    `program`: every algorithm has a program for each of its ranks (or for the one rank
    asked for), without `inout` buffers.
  }];
  let options = [
    Option<"level", "level", "std::string", "\"algorithm\"", "algorithm or program">];
}

#endif // CCL_PASSES_TD
