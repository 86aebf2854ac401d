//===- CudaGroup.h - A communicator whose ranks are on GPUs of this process --------===//
//
// Or of others, too: CudaMember.h is that side of it, and says what differs.
//
// Rank r lives on devices[r % devices]. One call launches a program on all ranks, in streams; it
// returns when that is queued. Ranks of one GPU run in one grid, all of whose blocks run at
// once: two communicators that share a GPU need room for both, or one waits in its stream until
// the other is done, and with several GPUs that may be never (then waits time out). Use several
// communicators in the same order on all GPUs.
//
// Launches of one communicator follow each other, whatever their streams. A launch into a stream
// that is being captured becomes part of the graph and may be replayed any number of times while
// the communicator lives, in the order with other launches that the user sees to; nothing about
// it is decided by the host at a replay. The graph goes on using buffers that were given.
//
// A communicator is used by one thread at a time, abort() and failure() excepted. Wrong
// arguments (BadArgument, Mismatch, Unproved) are refused and change nothing. After any
// other error the communicator is dead: every call answers with the first one.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/CopyEngines.h"
#include "runtime/cuda/CudaPeers.h"
#include "runtime/cuda/GpuChannels.h"
#include "runtime/cuda/GpuCut.h"
#include "runtime/cuda/GpuMemory.h"
#include "runtime/cuda/LoadedCudaProgram.h"
#include "runtime/cuda/Uploads.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <set>

namespace ccl::cuda {

struct CudaGroupOptions {
  int64_t slotBytes = model::usualSlotBytes; ///< data in one slot of a channel
  int64_t instances = 0;                     ///< of every launch that names none; 0: by its size
  /// With ranks in other processes: compare every launch, not only the first of its kind.
  bool checked = false;
  /// With ranks in other processes: how they share memory; empty: as the GPU likes it.
  std::optional<Sharing> sharing{};
};

/// Buffers of one rank, on its GPU or memory that it reaches. See LaunchArgs.
struct CudaLaunchArgs {
  const void *in = nullptr;
  void *out = nullptr;
};

struct CudaLaunchOptions {
  int64_t count = 0; ///< elements of one shard; ignored if `uneven`
  /// Empty: all shards are `count` long. all_to_all: of every rank; others: one for all, or of
  /// every rank, all the same.
  llvm::ArrayRef<UnevenCounts> uneven{};
  /// By GPU of the communicator; empty: streams of our own. Null is the default stream.
  llvm::ArrayRef<CUstream> streams{};
  Milliseconds timeout = defaultTimeout; ///< from when its kernels begin to run
  int64_t microBatches = 0;              ///< at least so many; 0: the runtime chooses
  int64_t instances = 0;                 ///< 0: those of the communicator
  std::string_view reason{};             ///< why this program runs, for CCL_COLL_TRACE
};

class CudaGroup {
public:
  /// `devices`: ordinals, each once. Those that no rank lives on are not opened.
  static llvm::Expected<std::unique_ptr<CudaGroup>> create(const Driver &driver, int64_t ranks,
                                                           llvm::ArrayRef<int> devices,
                                                           CudaGroupOptions options = {});
  /// This process is one rank, on GPU `ordinal`; `host` is how it meets the others. Collective.
  static llvm::Expected<std::unique_ptr<CudaGroup>> join(const Driver &driver,
                                                         std::unique_ptr<Member> host, int ordinal,
                                                         CudaGroupOptions options,
                                                         Milliseconds timeout);
  /// Waits for what was launched. Graphs that were captured must not be replayed any more.
  ~CudaGroup();
  CudaGroup(const CudaGroup &) = delete;

  int64_t ranks() const { return theRanks; }
  /// Of this process, in order: all, or one.
  std::vector<int64_t> localRanks() const;
  /// Index into the GPUs of the communicator.
  size_t deviceOf(int64_t rank) const { return size_t(rank) % parts.size(); }
  size_t devices() const { return parts.size(); }
  /// To be current where something is done with one of its GPUs.
  CUcontext context(size_t device) const { return parts[device].device->context().get(); }
  /// Of our own, that launches without streams use.
  CUstream stream(size_t device) const { return parts[device].own.get(); }

  /// Null if all ranks are of this process.
  CudaPeers *processes() const { return peers.get(); }

  /// `args`: one for each rank of this process.
  llvm::Error launch(const std::shared_ptr<LoadedCudaProgram> &program,
                     llvm::ArrayRef<CudaLaunchArgs> args, const CudaLaunchOptions &options);
  // With ranks in other processes only; see CudaMember.
  llvm::Expected<SymmetricBuffer> allocate(int64_t bytes, Milliseconds timeout);
  llvm::Expected<SymmetricBuffer> registerBuffer(void *address, int64_t bytes,
                                                 Milliseconds timeout);
  /// Waits for all launches, replays of graphs excepted, and says how they ended; of replays that
  /// the user has waited for, too.
  llvm::Error synchronize();
  /// Ends what runs as soon as it can, and all present and future calls with `reason`.
  void abort(std::string reason);
  /// The error that every call answers with, without waiting for anything.
  std::optional<RuntimeError> failure();

private:
  using Code = LoadedCudaProgram::Code;
  using Kernel = LoadedCudaProgram::Kernel;

  /// A GPU and what is launched there.
  struct Part {
    std::unique_ptr<Device> device;
    std::unique_ptr<Uploads> uploads{}; ///< of launches that are not captured
    Stream own;
    Event last;            ///< the last launch
    bool launched = false; ///< there is one
    CUstream lastStream = nullptr;
    std::vector<int64_t> ranks;
    EngineStreams engines;
  };
  struct RankPart {
    std::unique_ptr<GpuMemory> source;
    std::unique_ptr<RankMemory> memory;
    /// With ranks in other processes: of programs whose ranks use each other's buffers.
    std::unique_ptr<GpuMemory> sharedSource;
    std::unique_ptr<RankMemory> sharedMemory;
    CUdeviceptr sync = 0; ///< a RankSync
  };
  /// What a program is for one rank.
  struct RankProgram {
    RankFacts facts;
    RankChannels channels;
    CUdeviceptr endOf = 0;
    Tables tables;
    std::vector<int64_t> agents{0}; ///< agentNumber() of each of an instance: blocks, then others
    int64_t blocks = 1;             ///< of the agents
    const RankAgents *engines = nullptr; ///< agents behind the blocks: of the plan, or null
    Tables engineTables;
    /// LaunchHead::ends, by the number of instances.
    std::map<int64_t, CUdeviceptr> ends;
  };
  /// What processes compare of a launch; alike ones need not be compared again.
  using LaunchKey = std::array<uint64_t, 5>;
  /// What was found then: buffers of all ranks, if the program uses peers'.
  using AllPointers = std::vector<std::vector<void *>>;
  struct Prepared;
  /// What the ranks of one GPU are started with, as kernels have it: a head and buffers of each.
  struct Heads {
    std::vector<char> bytes{};
    std::vector<std::vector<CUdeviceptr>> peers{}; ///< by buffer: what the table of addresses says
    CUdeviceptr table = 0; ///< where `bytes` lie on the GPU, of several ranks
    uint64_t turn = 0;     ///< of the uploads that they point to
    /// Those of one of so many ranks.
    llvm::StringRef of(size_t index, size_t ranks) const {
      const size_t each = bytes.size() / ranks;
      return {bytes.data() + index * each, each};
    }
  };
  /// A launch that is being prepared. Those that are captured excepted, it is kept: launches of
  /// the same kind begin with what was found for it (CudaKinds.cpp).
  struct Launching {
    CudaLaunchOptions options;
    llvm::ArrayRef<CudaLaunchArgs> args;
    Prepared &prepared;
    std::vector<CUstream> streams{}; ///< by device
    bool capturing = false;
    std::vector<UnevenCounts> uneven{}; ///< CudaLaunchOptions::uneven, once it is kept
    std::optional<UnevenShards> shards{};
    uint64_t countsPrint = 0;          ///< tells counts of uneven launches apart; 0: they are even
    std::vector<LaunchShape> shapes{}; ///< by rank; of other processes': as here
    int batchShift = 0;
    AllPointers pointers{};                             ///< by rank and buffer
    std::vector<Heads> heads{};                         ///< by device
    std::vector<std::vector<CUstream>> engineStreams{}; ///< by device: of this time
    CudaPeers::Facts told{};                            ///< to other processes
    LaunchKey key{};
    bool isNew = false; ///< processes have to compare it

    LaunchArgs argsOf(int64_t rank) const {
      LaunchArgs result;
      // A process has one rank, or all.
      const CudaLaunchArgs &own = args.size() == 1 ? args.front() : args[size_t(rank)];
      result.in = own.in;
      result.out = own.out;
      result.count = options.count;
      result.microBatches = options.microBatches;
      return result;
    }
  };
  /// What is launched on one GPU.
  struct Grid {
    const Code *code = nullptr;
    int64_t blocks = 0;     ///< of an instance of each rank: the most
    int64_t engines = 0;    ///< agents of copy engines, of an instance of all ranks
    int64_t mostBlocks = 0; ///< that run at once
    std::string describe;   ///< where that comes from
  };
  struct Prepared {
    std::shared_ptr<LoadedCudaProgram> program;
    int number = 0;
    std::vector<RankProgram> ranks;
    std::vector<Grid> grids;          ///< by device
    bool captured = false;            ///< a graph uses it
    std::set<int64_t> opened{};       ///< numbers of instances that have channels
    int64_t resident = mostInstances; ///< instances that run at once everywhere
    uint64_t fingerprint = 0;         ///< of processes: of what all have to launch
    bool seenByAll = false;           ///< every rank has an input and an output
    std::map<LaunchKey, AllPointers> agreed{};
    std::vector<std::unique_ptr<Launching>> kinds{}; ///< that were launched
    size_t nextKind = 0;                             ///< where the next one goes
  };
  /// What reports say of a plan.
  struct Named {
    std::string name;
    std::vector<std::vector<int64_t>> agents; ///< by rank
  };
  CudaGroup(const Driver &driver, int64_t ranks, CudaGroupOptions options)
      : driver(driver), theRanks(ranks), options(options) {}
  llvm::Error open(llvm::ArrayRef<int> ordinals);
  llvm::Error openPart(int ordinal);
  llvm::Error joinPeers(std::unique_ptr<Member> host, Milliseconds timeout);
  llvm::Error openRanks();
  llvm::Error openSync();
  bool isLocal(int64_t rank) const { return homes->isLocal(rank); }
  /// In launch(), which makes the context of the first GPU current.
  llvm::Expected<ContextScope> enter(const Part &part) const {
    if (&part == &parts.front())
      return ContextScope::none();
    return part.device->enter();
  }
  Device &device(int64_t rank) { return *parts[deviceOf(rank)].device; }
  Control *control() const { return static_cast<Control *>(pinned.get()); }

  llvm::Error fail(llvm::Error error);
  llvm::Error firstFailure();
  /// Takes over what a kernel reported.
  void collect();
  std::string describeReport(const WaitReport &found) const;
  /// Who is at the end of the chain of ranks that wait for each other, and why that is so.
  struct Blame {
    int64_t rank;
    std::string why;
    bool isSure = false; ///< whether or not ranks still go on
  };
  /// And what is known of those on the way.
  Blame findCulprit(const WaitReport &first, std::vector<const WaitReport *> &waits) const;
  /// The same; nobody, if some of them went on a moment ago.
  Blame blame(const WaitReport &first) const;
  const WaitReport *reportOf(int64_t rank) const;
  llvm::Error wait();
  /// Frees what no launch uses any more, if all are over or `now` waits for them.
  llvm::Error reclaim(bool now);

  llvm::Expected<Prepared *> prepare(const std::shared_ptr<LoadedCudaProgram> &program);
  llvm::Error prepareRank(Prepared &prepared, int64_t rank);
  llvm::Error prepareTables(const RankAgents &table, int64_t rank, RankProgram &part);
  llvm::Error prepareEngines(const Plan &plan, int64_t rank, RankProgram &part);
  llvm::Error checkSides(const Prepared &prepared) const;
  llvm::Error prepareGrid(Prepared &prepared, size_t device);
  llvm::Error openChannels(Prepared &prepared, int64_t instances);
  void forgetPrograms();

  // With ranks in other processes.
  llvm::Expected<SymmetricBuffer>
  makeShared(Milliseconds timeout, llvm::function_ref<llvm::Expected<SymmetricBuffer>()> body);
  llvm::Error agreeOnProgram(Prepared &prepared);
  llvm::Error gatherCounts(const Launching &launching, std::vector<UnevenCounts> &counts);
  CudaPeers::Facts factsOf(const Launching &launching) const;
  llvm::Error agree(Launching &launching);
  llvm::Error compareLaunches(const Launching &launching,
                              llvm::ArrayRef<CudaPeers::Facts> all) const;
  llvm::Error exchangePlaces(Launching &launching, bool moved);

  llvm::Error run(Launching &launching);
  llvm::Error findStreams(Launching &launching);
  llvm::Error findShapes(Launching &launching);
  llvm::Expected<LaunchShape> shapeOf(const Launching &launching, int64_t rank) const;
  llvm::Error checkBuffers(const Launching &launching, int64_t rank) const;
  llvm::Error cut(Launching &launching);
  llvm::Error follow(Launching &launching);
  llvm::Error place(Launching &launching);
  llvm::Error placeRank(Launching &launching, int64_t rank);
  RankMemory &memoryOf(const Plan &plan, int64_t rank) {
    RankPart &part = rankParts[size_t(rank)];
    return plan.direct && part.sharedMemory ? *part.sharedMemory : *part.memory;
  }
  llvm::Expected<CUdeviceptr> upload(const Launching &launching, size_t device,
                                     llvm::StringRef content);
  llvm::Expected<CUdeviceptr> uploadShards(const Launching &launching, size_t device);
  LaunchHead makeHead(const Launching &launching, int64_t rank, CUdeviceptr shards);
  llvm::Error makeHeads(Launching &launching, size_t device);
  llvm::Error fillBuffers(Launching &launching, size_t device);
  llvm::Error start(Launching &launching, size_t device);
  // What copy engines execute; see CudaEngines.cpp.
  llvm::Error checkEngines(const Prepared &prepared, size_t device, int64_t instances) const;
  llvm::Error forkEngines(Launching &launching, size_t device);
  llvm::Error startEngines(Launching &launching);
  llvm::Error joinEngines(Launching &launching);
  llvm::Error finish(Launching &launching, int64_t rank);
  llvm::Error startAll(Launching &launching);
  void trace(const Launching &launching) const;

  bool wantsReclaim() const;
  void keep(std::unique_ptr<Launching> launching);
  Launching *findAlike(const LoadedCudaProgram *program, llvm::ArrayRef<CudaLaunchArgs> args,
                       const CudaLaunchOptions &options);
  bool isAlike(Launching &kind, llvm::ArrayRef<CudaLaunchArgs> args,
               const CudaLaunchOptions &options) const;
  llvm::Expected<bool> repeat(Launching &kind, const CudaLaunchOptions &options);
  llvm::Error launchNew(const std::shared_ptr<LoadedCudaProgram> &program,
                        llvm::ArrayRef<CudaLaunchArgs> args, const CudaLaunchOptions &options);

  const Driver &driver;
  const int64_t theRanks;
  CudaGroupOptions options;
  std::vector<Part> parts;
  PinnedMemory pinned;              ///< a Control and reports of all ranks
  std::unique_ptr<CudaPeers> peers; ///< null: all ranks are here
  std::unique_ptr<LocalHomes> localHomes;
  RankHomes *homes = nullptr;
  std::vector<RankPart> rankParts;  ///< memory only of those that are here
  std::unique_ptr<CudaWatch> watch; ///< if there are other processes
  std::unique_ptr<GpuChannels> channels;
  std::map<const LoadedCudaProgram *, Prepared> programs;
  std::vector<Named> plans;  ///< by LaunchHead::plan
  int64_t instanceLimit = 1; ///< there are counters for so many
  uint64_t launches = 0;
  bool everCaptured = false;

  std::mutex failureMutex;
  std::optional<RuntimeError> failed;
};

} // namespace ccl::cuda
