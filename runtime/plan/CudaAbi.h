//===- CudaAbi.h - What CUDA kernels and the runtime know of each other --------===//
//
// Read by both: host code includes it, and generated kernels have it in front of them, so it
// includes nothing. All structs lie in memory of a GPU, or are a kernel's parameter.
//
// A kernel of R ranks x I instances x A agents has a block for each, but for agents of copy
// engines, which have a stream and kernels of their own (Step). An *instance* executes
// micro-batches i, i + I, ... of the launch with channels and scratch of its own; slices of
// different micro-batches never touch, so instances need not wait for each other. Which
// counters are written by whom is that of docs/protocol.md; docs/cuda.md says what is added.
//===----------------------------------------------------------------------===//
#pragma once

namespace ccl::cuda {

/// One end of a channel of one instance. `next` belongs to the block that uses it and stays in
/// memory of its GPU, so that a launch that is replayed from a graph goes on where the last one
/// stopped. It begins as zeros, `peer` excepted; kernels have it in shared memory, so nothing here
/// initializes it.
struct ChannelEnd {
  unsigned long long next;    ///< operations done on this end, over all launches
  unsigned long long *arrive; ///< here; the peer writes: slots filled (from), freed (to)
  unsigned long long *depart; ///< at the peer; this end writes
  char *slots;                ///< at the receiver: numSlots * slotPitch bytes
  long long slotPitch;        ///< bytes, a multiple of 128
  int numSlots;               ///< 0: signals only
  int slot;                   ///< next mod numSlots
  int peer;
  int reserved;
};

/// One of the plan's buffers, in this launch.
struct BufferView {
  char *own = nullptr;
  /// peers[r] + offset is the buffer of rank r. Null if no peer's is touched.
  char *const *peers = nullptr;
  /// All ranks' buffers at once, for programs compiled to use the switch; null: there is none.
  char *multicast = nullptr;
  long long offset = 0;
  long long instancePitch = 0; ///< scratch: bytes from one instance's part to the next one's
};

/// Elements from a row's start, and how many: of one shard (see Plan.h).
struct Shard {
  long long start = 0, length = 0;
};

/// What a transfer takes from or brings to. See runtime/plan/Agents.h. Kernels have it in shared
/// memory, so nothing here initializes it.
struct Operand {
  int peer;   ///< -1: own, -2: a channel, -3: all ranks at once, else the rank
  int buffer; ///< of a channel: 1 << its protocol
  int chunk;  ///< of a channel in a table: family * ranks + peer
};

struct TableInstruction {
  int pattern = -1; ///< -1: signal, -2: wait, else index into the program's patterns
  int count = 1;
  long long operands = 0; ///< first one: sources, then destinations
};

/// The instructions of one agent.
struct TableAgent {
  long long begin = 0, end = 0;
};

struct Tables {
  const TableAgent *agents = nullptr;
  const TableInstruction *instructions = nullptr;
  const Operand *operands = nullptr;
};

/// Which block of a launch, and at what it is. Kernels have it in shared memory, so nothing here
/// initializes it.
struct Where {
  int rank, agent, instance;
  int plan;             ///< LaunchHead::plan
  long long launch;     ///< launches of that rank before this one
  long long microBatch; ///< of the launch
};

/// What a block did when it gave up: it waited, or was between micro-batches (`peer` is -1).
struct WaitReport : Where {
  /// Of the program, or a barrier of the launch: -1 entry, -2 between micro-batches, -3 exit.
  int instruction = 0;
  /// numSlots -1: what is awaited is data with flags in it, `expected` their flag.
  int peer = -1, channelTo = 0, numSlots = 0;
  long long expected = 0, found = 0;         ///< values of the counter
  long long waitedNs = 0;                    ///< so long, as far as it looked at the clock
  long long timeoutNs = 0, microBatches = 0; ///< of the launch
};

/// Why a kernel gave up; in memory of the host. The first block to write `claimed` fills it; others
/// may still try.
struct FailureReport : WaitReport {
  unsigned claimed = 0;
  unsigned written = 0; ///< all of WaitReport is there
};

/// One per communicator and process, in memory of the host that the GPU maps. `abort` is looked
/// at by every wait that takes long: not 0, and kernels end as soon as they can. Behind it are as
/// many FailureReports as there are ranks: what some wait of each waited for then.
struct Control {
  unsigned abort = 0;
  unsigned reserved[31] = {};
  FailureReport failure;
};

/// Counters of one rank that its blocks and those of its peers meet at. One writer each, but for
/// `blocksDone` and `joined`. Words that peers write are 128 bytes apart: word i lies at
/// 16 * i.
struct RankSync {
  unsigned long long launches = 0; ///< how many have ended, written by the last block
  unsigned blocksDone = 0;
  unsigned failed = 0;                   ///< a step of a copy engine has, so later ones do nothing
  unsigned long long *entered = nullptr; ///< [16 * peer], written by the peer
  unsigned long long *exited = nullptr;  ///< [16 * peer]
  unsigned long long *turns = nullptr;   ///< [16 * (instance * ranks + peer)]
  unsigned long long *const *peersEntered = nullptr; ///< [peer]: where this rank's word is there
  unsigned long long *const *peersExited = nullptr;
  unsigned long long *const *peersTurns = nullptr; ///< [instance * ranks + peer]
  unsigned *joined = nullptr;                      ///< [32 * instance]: agents at the barrier
  unsigned long long *generation = nullptr;        ///< [16 * instance]: barriers gone through
  unsigned long long *turn = nullptr;              ///< [16 * instance]: own turns, in all
};

/// What a rank's blocks are started with. `buffers` follow it: as many as the program has.
struct LaunchHead {
  long long me = 0;
  long long count = 0;        ///< elements of one shard
  long long microBatches = 1; ///< every chunk is cut into so many slices: 1 << batchShift
  long long stride = 0;       ///< elements between chunks in scratch and in a slot
  long long timeoutNs = 0;    ///< of the launch, from when it begins to run; 0: none
  /// [instance * numEnds + e]: the ends that the program uses. They are shared with other
  /// programs of the communicator and stay where they are.
  ChannelEnd *const *ends = nullptr;
  const int *endOf = nullptr;           ///< [family * ranks + peer]: e, or -1
  const Shard *const *shards = nullptr; ///< see KernelArgs::shards; null: all are `count` long
  RankSync *sync = nullptr;
  Control *control = nullptr;
  Tables tables; ///< of programs that are executed from them
  int ranks = 1;
  int numEnds = 0;
  int instances = 1;
  int agents = 1; ///< of this rank, in an instance: blocks, then those of copy engines
  /// Which of the kernel's programs this rank executes. -1: none; its blocks (of one agent) only
  /// take part in barriers and count the launch.
  int program = 0;
  int batchShift = 0;
  int plan = -1;  ///< the communicator's number of the plan, for reports
  int blocks = 1; ///< of the agents: so many are blocks of the grid
};

/// What an agent of a copy engine does besides copies. Between two of these it executes a *step*,
/// a kernel of one block: waits and signals of its table, and what agents do together where a
/// launch begins, between micro-batches, and where it ends.
struct Step {
  /// Of all that copy engines do for this rank. `count` of a wait or signal: as many of its kind
  /// follow each other, itself included, and name different channels.
  Tables tables;
  long long begin = 0, end = 0; ///< instructions: waits and signals only
  long long first = 0;          ///< instruction of the agent: reports count from there
  long long microBatch = 0;
  int agent = 0;
  int instance = 0;
  int what = 0; ///< StepParts
  int reserved = 0;
};
/// Bits of Step::what.
enum StepParts : int {
  entersLaunch = 1, ///< in front of the instructions: the entry barrier, if there is one
  endsBatch = 2,    ///< behind them: the agents of the instance meet
  endsLaunch = 4,   ///< behind them: the agent is done
};

/// Bits of a kernel's `barriers`: what the proof of a program asks for.
enum Barriers : int { entryBarrier = 1, batchBarrier = 2, exitBarrier = 4 };

} // namespace ccl::cuda
