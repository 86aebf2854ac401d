//===- topology.h - Machines, their limits, and programs simulated on them ----------===//
//
//   ccl::Result<ccl::Topology> machine = ccl::Topology::open("dgx-h100:2");
//   ccl::Result<ccl::Bound> limit = machine->bound(ccl::Collective::allGather);
//   limit->algbw();            // GB/s that no schedule beats; limit->certificate() says why
//   ccl::Result<ccl::Simulator> ring = machine->simulator(ccl::Collective::allReduce,
//                                                         {.algorithm = "ring"});
//   ccl::Result<ccl::Simulation> launch = ring->run(64 << 20);
//   launch->us();
//
// The same numbers as of `ccl topo` and `ccl sim`; docs/topologies.md and docs/limits.md say what
// they mean.
//
// Units: GB/s of 1e9 bytes a second and of one direction, microseconds, bytes. `bytes` of a
// collective is nccl-tests' size: the buffer of all_reduce, broadcast and reduce; the larger,
// gathered side of all_gather, reduce_scatter, gather and scatter; a rank's whole buffer of
// all_to_all.
//
// All classes are immutable and cheap to copy (there are no moves: what was moved from could not
// be used); any number of threads may use one at the same time. Nothing here needs a communicator.
//===----------------------------------------------------------------------===//
#pragma once

#include <ccl/builder.h>

namespace ccl {
inline namespace jit {

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

struct BoundOptions {
  int root = 0; ///< of broadcast, reduce, gather and scatter
  /// all_reduce, all_to_all: the search ends when what can be reached is this near, as a part of
  /// the limit (0 to 1), ...
  double gap = 0.02;
  /// ... or after that long, with what it has.
  std::chrono::milliseconds timeLimit = std::chrono::seconds(60);
};

/// What no schedule of a collective can beat on a topology.
class CCLJIT_API Bound {
public:
  Collective collective() const;
  int root() const;
  /// No schedule has a higher one.
  double algbw() const;
  /// A schedule in fluid form has this one for certain; 0: none is known.
  double attained() const;
  /// Both are the same.
  bool isExact() const;
  /// Why, in a sentence.
  const std::string &certificate() const;
  /// The time of a byte of a shard, in lowest terms: num() / den() over the capacity that stands
  /// for 1. Of all_reduce and all_to_all, whose limits are no cuts, num() is 0.
  int64_t num() const;
  int64_t den() const;
  /// Of a cut, the nodes on its side that the certificate counts; else none.
  const std::vector<int> &cut() const;
  /// No launch of so many bytes takes less.
  double us(int64_t bytes) const;

  Bound(const Bound &) = default;
  Bound &operator=(const Bound &) = default;
  ~Bound() = default;

  struct Impl;

private:
  friend class Topology;
  friend class Simulator;
  friend class Simulation;
  explicit Bound(std::shared_ptr<const Impl> insides) : impl(std::move(insides)) {}
  std::shared_ptr<const Impl> impl;
};

//===----------------------------------------------------------------------===//
// Simulations
//===----------------------------------------------------------------------===//

struct SimulationOptions {
  enum class Sharing : uint8_t {
    fifo, ///< links serve first come, first served
    fair  ///< all messages at once, with max-min fair rates
  };
  /// An agent begins its next micro-batch when all of its rank have ended this one, at once, or
  /// when all of all ranks have.
  enum class BatchOrder : uint8_t { rank, agent, barrier };

  /// A cost model: "ccl", "taccl", "tacos", "teccl", "nccl:simple", ...; docs/limits.md.
  std::string model = "ccl";
  Sharing sharing = Sharing::fifo;
  /// Slices of every chunk; 0: as a launch here would cut.
  int64_t microBatches = 0;
  BatchOrder batchOrder = BatchOrder::rank;
  // Instead of the model's numbers.
  std::optional<double> launchUs{};   ///< until the first instruction
  std::optional<double> syncUs{};     ///< of a signal
  std::optional<double> overheadUs{}; ///< of a message on each link
  std::optional<double> laneGBps{};   ///< at which an agent reads what it moves; 0: at any
  std::optional<double> epochUs{};    ///< of an epoch (teccl)
  /// Measured times by kind of way, "KIND=FILE" as of `ccl sim --curve`; of several that fit the
  /// last counts.
  std::vector<std::string> curves{};
  /// The limit beside it; its root is the program's. Nothing: none is computed.
  std::optional<BoundOptions> bound = BoundOptions();
};

/// A launch of a program on a topology.
class CCLJIT_API Simulation {
public:
  struct LinkUse {
    int link; ///< index into Topology::links
    double bytes, busyUs;
  };
  /// What an agent of a rank did until it ended; all of it adds up to `endUs`.
  struct AgentUse {
    int rank, agent;
    double launchUs, busyUs;
    double linkUs;   ///< its links were busy with other messages, or not there
    double changeUs; ///< of this, the fabric was changing links
    double slotUs;   ///< no slot was free
    double dataUs;   ///< nothing was in the slot
    double signalUs; ///< there was no signal
    double batchUs;  ///< others had not ended the micro-batch
    double endUs;
  };
  /// A part of what the end had to wait for. Each ends where the next begins.
  struct PathPart {
    enum class Kind : uint8_t {
      launch, ///< until the first instruction
      run,    ///< an instruction of `rank`
      flight, ///< a message or signal from `rank` to `peer`, of which `queuedUs` for busy links
      wait    ///< for another agent of the rank, or for the micro-batch
    };
    Kind kind;
    double beginUs, endUs;
    double queuedUs = 0;
    double changeUs = 0; ///< flight: of these, until the fabric had changed its links
    int rank = -1, peer = -1;
    std::string what; ///< "reduce, send to rank 2"
  };

  int64_t bytes() const; ///< nccl-tests' size; at most what was asked for
  int64_t count() const; ///< elements of a shard; of the longest
  int64_t microBatches() const;
  const std::string &model() const;
  double us() const;
  double algbw() const; ///< bytes() / us()
  double busbw() const; ///< as nccl-tests has it
  std::optional<Bound> bound() const;
  double boundUs() const; ///< of bytes(); 0: no bound is known
  double ratio() const;   ///< boundUs() / us(), at most 1; 0: no bound is known
  int64_t messages() const;
  int64_t events() const;
  /// Those that carried something.
  const std::vector<LinkUse> &links() const;
  /// Of all ranks.
  const std::vector<AgentUse> &agents() const;

  // What happened when is not kept: the first of these simulates again, to the same last bit.
  Result<std::vector<PathPart>> criticalPath() const;
  /// For chrome://tracing or Perfetto: JSON.
  Result<std::string> trace() const;
  Status writeTrace(const std::string &path) const;
  /// One page without references to others: topology, timeline, tables.
  Result<std::string> html() const;
  Status writeHtml(const std::string &path) const;

  Simulation(const Simulation &) = default;
  Simulation &operator=(const Simulation &) = default;
  ~Simulation() = default;

  struct Impl;

private:
  friend class Simulator;
  explicit Simulation(std::shared_ptr<const Impl> insides) : impl(std::move(insides)) {}
  std::shared_ptr<const Impl> impl;
};
/// "launch", "run", "flight", "wait".
CCLJIT_API std::string_view name(Simulation::PathPart::Kind kind);

/// A program that was proved and lowered for all ranks of a topology; no code is made of it.
class CCLJIT_API Simulator {
public:
  const std::string &name() const; ///< of the algorithm
  Collective collective() const;
  DataType type() const;
  /// A launch of so many bytes, cut to whole elements of equal shards. An error of kind program:
  /// it gets stuck, or sends where the topology has no way but through other ranks.
  Result<Simulation> run(int64_t bytes, const SimulationOptions &options = {}) const;
  /// With uneven shards: counts[r] are the elements of rank r's shard, or, of all_to_all, number
  /// sender * ranks + receiver. Fewer go around. No bound is known.
  Result<Simulation> runV(std::span<const int64_t> counts,
                          const SimulationOptions &options = {}) const;

  Simulator(const Simulator &) = default;
  Simulator &operator=(const Simulator &) = default;
  ~Simulator() = default;

  struct Impl;

private:
  friend class Topology;
  explicit Simulator(std::shared_ptr<const Impl> insides) : impl(std::move(insides)) {}
  std::shared_ptr<const Impl> impl;
};

//===----------------------------------------------------------------------===//
// Topologies
//===----------------------------------------------------------------------===//

/// What NCCL's own model says of an algorithm with a protocol, "Ring" and "LL128" for example. Its
/// opinion, not a measurement; docs/calibration.md.
struct NcclEstimate {
  std::string algorithm, protocol;
  double us, algbw;
  int channels, threads; ///< of its kernel
  bool isTaken;          ///< this is what NCCL takes
};

struct TopologyOptions {
  /// What makers say of links, or what NCCL counts with.
  enum class Rates : uint8_t { nominal, effective };

  int64_t nodes = 1;  ///< so many copies, joined by their NICs
  std::string join{}; ///< how: "rail" (""), "switch", "planes:P", "fat-tree:R[/B]", "graph:FILE"
  Rates rates = Rates::nominal;
  std::string symbol{}; ///< which one of a text with several `ccl.topology`
  // Where a file does not say:
  std::string gpu{}; ///< which GPU it is: "H100", "sm_90"
  int pcie = 0;      ///< generation of PCI Express, 1 to 6
  double nic = 0;    ///< GB/s of a NIC
  /// Not to use: links "0-3" (both directions), a switch "nic2", or a rank "5", which then neither
  /// takes part nor forwards; ranks that are left are numbered anew, in order.
  std::vector<std::string> forbidden{};
};

/// Ranks, switches and directed links.
class CCLJIT_API Topology {
public:
  struct Link {
    int source, destination; ///< nodes: ranks, then switches
    double GBps, us;         ///< bandwidth, latency
  };
  struct Switch {
    std::string name;
    std::string kind;       ///< "switch", "nic", "pcie", "cpu"
    bool multicast, reduce; ///< it copies, it adds up
  };
  struct Axis {
    std::string name;
    int64_t size;
  };
  /// A row of the list that `ccl topo` shows.
  struct Name {
    std::string name, size, what;
  };

  /// A name ("dgx-h100:64", "torus:8x8x8"), or a file in any format that `ccl topo` reads.
  /// Errors of kind program: what a file says is wrong, file:line:col first; of kind argument:
  /// it cannot be opened, names too little for a topology, or the options do not fit.
  static Result<Topology> open(const std::string &nameOrPath, const TopologyOptions &options = {});
  /// What such a file holds.
  static Result<Topology> parse(std::string_view text, const TopologyOptions &options = {},
                                std::string_view label = "<text>");
  /// This machine: docs/topologies.md. CUDA's driver is initialized if there is one, so processes
  /// that are forked later cannot use it.
  static Result<Topology> detect(const TopologyOptions &options = {});
  /// All names that `open` knows.
  static std::vector<Name> names();

  const std::string &name() const;
  const std::string &label() const; ///< what it was made of: the name, the file
  const std::string &what() const;  ///< "NCCL topology XML: 8 GPUs, ..."; "" of names
  int ranks() const;
  const std::vector<Axis> &axes() const; ///< slowest first
  const std::vector<Switch> &switches() const;
  const std::vector<Link> &links() const;
  /// "rank 3", or the name of a switch; "" of a node that does not exist.
  std::string nodeName(int node) const;
  /// What the links' speeds are; nothing if they have one each, whatever was asked for.
  std::optional<TopologyOptions::Rates> rates() const;
  const std::vector<std::string> &notes() const;
  const std::vector<std::string> &missing() const; ///< what the source cannot tell
  const std::string &remarks() const; ///< warnings about the text; "" if there are none
  Result<std::string> text() const;   ///< as MLIR, which `parse` reads

  /// An error of kind argument for collectives without bounds, and for a single rank. What was
  /// computed is remembered.
  Result<Bound> bound(Collective collective, const BoundOptions &options = {}) const;
  /// Of all collectives that have one; none for a single rank.
  Result<std::vector<Bound>> bounds(const BoundOptions &options = {}) const;

  /// Of all that NCCL has for a call of so many bytes, in its order; nothing for collectives that
  /// it makes of sends and receives. Take effective rates. Capability 0: of the GPU that the
  /// options or the topology's name tell, else 90. An error of kind argument: NCCL is not for that
  /// GPU, or has no rings for such a topology.
  Result<std::vector<NcclEstimate>> ncclEstimates(Collective collective, int64_t bytes,
                                                  int computeCapability = 0) const;

  /// The program must be for as many ranks. Proves it once more, since a compiled one knows
  /// little of other ranks.
  Result<Simulator> simulator(const Program &program) const;
  // Without compiling it. `options.ranks` 0 is that of the topology.
  Result<Simulator> simulator(const Algorithm &algorithm, const ProgramOptions &options = {}) const;
  Result<Simulator> simulator(std::string_view text, const ProgramOptions &options = {},
                              std::string_view label = "<text>") const;
  Result<Simulator> simulatorOfFile(const std::string &path,
                                    const ProgramOptions &options = {}) const;
  Result<Simulator> simulator(Collective collective, const ProgramOptions &options = {}) const;

  Topology(const Topology &) = default;
  Topology &operator=(const Topology &) = default;
  ~Topology() = default;

  struct Impl;

private:
  explicit Topology(std::shared_ptr<const Impl> insides) : impl(std::move(insides)) {}
  std::shared_ptr<const Impl> impl;
};

} // namespace jit
} // namespace ccl
