//===- Plan.h - What the compiler hands to the runtime --------------------===//
//
// A Plan is one program for one (element type, reduction, machine): object code
// for every class of ranks, and the facts that a launch needs. No LLVM here.
//
// The second half is the ABI between generated code and runtime. Generated code
// knows these structs by their field offsets: codegen/host emits GEPs from
// `offsetof`, so both change together.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Contract.h"
#include "runtime/plan/Agents.h"
#include "runtime/plan/Cuda.h"
#include "runtime/plan/Wire.h"

#include <cstddef>
#include <string>
#include <vector>

namespace ccl {

enum class ElementType : uint32_t {
  I8,
  U8,
  I32,
  U32,
  I64,
  U64,
  F16,
  BF16,
  F32,
  F64,
  F8E4M3,
  F8E5M2
};
int64_t sizeOf(ElementType t);
/// nccl-tests' names: "float", "double", "int32", ...
std::string_view name(ElementType t);
/// Takes nccl-tests' names and MLIR's ("f32", "i32").
std::optional<ElementType> parseElementType(std::string_view text);

struct BufferPlan {
  std::string name;
  /// In, Out or Scratch. An `inout` of a lowered algorithm is an `out` that is as wide as the
  /// larger of both.
  model::Role role;
  int64_t chunks = 1;      ///< linear chunks on every rank
  bool peersRead = false;  ///< some `ccl.peer` of it is a source
  bool peersWrite = false; ///< ... a destination
};

/// All channels of one (direction, tag, slots): the peer is the second index.
struct ChannelFamily {
  bool to = true;
  int32_t tag = 0;
  int32_t slots = 0; ///< 0: signals only
  /// 0 simple, 1 ll, 2 ll128, 3 lamport: how data and its arrival are told on GPUs. The host has
  /// one way.
  int32_t protocol = 0;
};

struct KernelPlan {
  std::vector<std::pair<int64_t, int64_t>> ranks; ///< half-open intervals
  std::string symbol;                             ///< of its code, or "": then there are `agents`
  int64_t agent = 0;                              ///< of the code: KernelArgs::agent
  std::vector<RankAgents> agents;                 ///< by index of the rank in the rank set
  std::vector<ChannelFamily> channels;
  /// Peers reached through channels[i], for rank r in `ranks`:
  /// peers[i][index of r in the rank set].
  std::vector<std::vector<std::vector<int32_t>>> peers;
  /// What each rank sends through channels with slots, by index of the rank in the rank set, if
  /// Plan::hasWires.
  std::vector<RankWire> wires;
};

struct Plan {
  std::string program; ///< name of the algorithm, for logs
  std::string hash;    ///< hex; of the programs, and all that their code depends on
  model::Contract contract;
  ElementType type = ElementType::F32;
  std::vector<BufferPlan> buffers;
  std::vector<KernelPlan> kernels;
  std::string object;                     ///< one ELF object that defines every symbol
  CudaCode cuda;                          ///< instead of it, for GPUs
  std::vector<TransferPattern> transfers; ///< what `agents` of kernels need
  std::string slice;                      ///< symbol of a SliceFunction, if there are agents
  int64_t maxCount = 1;                   ///< most chunks that one transfer moves through a slot
  bool divisible = false;                 ///< see model::AlgorithmReport::divisible
  bool disjointProved = true;             ///< which forms were proved
  bool inPlaceProved = false;
  bool direct = false; ///< some operand is a peer's buffer
  /// Kernels say what they send (`wires`): needed where channels lead to other hosts.
  bool hasWires = false;
  /// The host of each rank that the program was lowered for: only ranks of one host access each
  /// other's buffers directly. Empty: all are taken to be on one.
  std::vector<int32_t> hosts;
  /// Most sources of a transfer that needs KernelArgs::bounce if a peer's memory is remote.
  int32_t bounceSources = 0;
  /// No chunk ever rests in a place of `in` or `out` that belongs to another shard: then
  /// uneven launches run as they are, else through padded memory.
  bool unevenSafe = false;
  /// Symbol of a FinishFunction in `object` that every rank's `out` goes through at the end
  /// (avg), or "".
  std::string finish;
  int32_t minSlots = 0;
  /// See model::ProgramReport: a launch begins with a barrier (on the host it always does), ends
  /// with one; there is one between micro-batches.
  bool entryBarrier = true, exitBarrier = false, batchBarrier = false;
  int32_t pipelineStages = 1; ///< over 1: launch with several micro-batches
  int64_t microBatches = 0;   ///< as many, where slices are not too short; 0: by the stages

  int64_t ranks() const { return contract.ranks; }
};

//===----------------------------------------------------------------------===//
// ABI of generated code
//===----------------------------------------------------------------------===//

/// One end of a channel. `next` is private to the owner, so a signal needs no
/// atomic read-modify-write: a sequence number is stored, never incremented.
struct ChannelEnd {
  uint64_t next = 0;          ///< operations done on this end, over all launches
  uint64_t *arrive = nullptr; ///< written by the peer: slots filled (from), freed (to)
  uint64_t *depart = nullptr; ///< written by this end
  char *slots = nullptr;      ///< data channels: numSlots * slotBytes
  int64_t slotBytes = 0;
  int64_t numSlots = 0;
  int32_t peer = -1;
  int32_t tag = 0;
  int32_t to = 0;
};

/// Where a shard of a row lies: elements from the row's start, and how many.
struct ShardRange {
  int64_t start = 0, length = 0;
};

struct KernelArgs;
/// Copies `bytes` at `address` of the process of `rank` to `to`. Returns 0, or a non-zero
/// code with which the kernel returns at once.
using ReadFunction = int32_t (*)(KernelArgs *args, int64_t rank, const void *address, void *to,
                                 int64_t bytes);
/// Slow path of a wait: returns 0 when *counter >= value, otherwise a
/// non-zero code with which the kernel returns at once (abort, time-out).
using WaitFunction = int32_t (*)(KernelArgs *args, ChannelEnd *end, uint64_t value);

struct KernelArgs {
  int64_t me = 0;
  int64_t ranks = 1;
  int64_t count = 0;        ///< elements of one shard
  int64_t microBatches = 1; ///< every chunk is cut into so many slices
  int64_t stride = 0;       ///< elements between chunks in scratch and in a slot
  /// buffers[b]: this rank's memory for Plan::buffers[b].
  void *const *buffers = nullptr;
  /// peers[rank][b]: another rank's memory, valid after a wait on that rank. An address with
  /// `remoteBit` is one of the other process (without that bit): only `read` gets at it. Only
  /// buffers that are read by peers and written by none can be so.
  void *const *const *peers = nullptr;
  static constexpr uint64_t remoteBit = uint64_t(1) << 63;
  ReadFunction read = nullptr;
  /// Memory of this launch for what `read` fetches and is not just copied, on a cache line
  /// boundary. Every source of a transfer gets an equal part, of which at most `bouncePiece`
  /// bytes are used at a time. At least 64 * Plan::bounceSources bytes if some address is
  /// remote.
  char *bounce = nullptr;
  int64_t bounceBytes = 0;
  static constexpr int64_t bouncePiece = 64 << 10;
  /// Of an uneven launch: shards[2 * rank] are the shards of that rank's `in` row, as wide as
  /// the plan's buffer, shards[2 * rank + 1] those of its `out` row. Null: every shard s is
  /// [s * count, (s + 1) * count).
  const ShardRange *const *shards = nullptr;
  /// Which of the micro-batches this call moves: [firstBatch, endBatch).
  int64_t firstBatch = 0, endBatch = 1;
  /// channels[family * ranks + peer], null where unused.
  ChannelEnd *const *channels = nullptr;
  WaitFunction wait = nullptr;
  void *context = nullptr; ///< the runtime's own
  int64_t instruction = 0; ///< whoever executes the program stores the last one begun
  int64_t microBatch = 0;  ///< and the micro-batch
  int64_t agent = 0;       ///< whose instruction it is: agentNumber()
};

/// A compiled rank program. Per micro-batch it does the program once (as do agents):
///   - counters: a `from` end waits for *arrive >= next + 1, uses slot
///     next % numSlots, stores *depart = ++next (release). A `to` end waits for
///     *arrive + numSlots >= next + 1, fills slot next % numSlots, stores
///     *depart = ++next (release). Signal: *depart = ++next. Wait: *arrive >= ++next.
///   - places: in/out chunk k covers [linearStart(k), linearStart(k) + len) of the
///     shard row, slice i of m the part [i len / m, (i + 1) len / m) of it; scratch
///     chunk k starts at k * stride; chunk j of a slot at j * stride.
///   - uneven: shard s of a row starts and is as long as `shards` says, its chunks cut it
///     as above. The length of a transfer is that of an operand in a row of its own rank if
///     there is one, else of a row of a peer.
///   - length: that of the in/out operand's slice if there is one, else `stride`.
using Kernel = int32_t (*)(KernelArgs *args);

/// places[] are the first bytes of the sources, then of the destinations; every destination
/// becomes the combination of all sources, for n elements; one that is the only source is not
/// written. owners[] are the ranks of the
/// sources, for those with KernelArgs::remoteBit. Returns 0 or what KernelArgs::read did.
using TransferFunction = int32_t (*)(KernelArgs *args, char *const *places, const int64_t *owners,
                                     int64_t n);
/// Slice i of m of chunk k of a shard row. `shards` is KernelArgs::shards, `row` the row's
/// index in it.
using SliceFunction = ShardRange (*)(int64_t k, int64_t count, int64_t i, int64_t m,
                                     const ShardRange *const *shards, int64_t row);

/// to[i] = final value of from[i], for n elements; `ranks` is the divisor of avg. `to` and
/// `from` are equal or do not overlap.
using FinishFunction = void (*)(void *to, const void *from, int64_t n, int64_t ranks);

} // namespace ccl
