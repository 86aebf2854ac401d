//===- Simulate.h - How long a program takes on a topology ----------------===//
//
// One deterministic discrete-event engine on L2 programs. What it takes for granted:
//
// - *Messages.* Reading a peer's place moves data from there, writing a peer's place or a slot
//   moves data there, over the way of Routes.h. Local operands cost what CostModel::laneGBps says.
//   Lengths are those of docs/semantics.md: of the in/out operand, the rank's own before a peer's,
//   else of the longest chunk; micro-batch i of m is the i-th part of every chunk.
// - *Switches* forward. What one transfer writes into one place (a buffer's chunk) of several peers
//   goes as one copy up to a switch that multicasts, where their ways part. What one transfer
//   combines from one place of several peers goes as one sum from a switch that reduces, where
//   their ways meet; it leaves when the last of them is there. Other messages go each for itself:
//   to slots, of several transfers, through other switches.
// - *Agents* execute their instructions one after the other. A transfer begins when all of its
//   slots are there (full ones to take, free ones to fill). It occupies its agent until what it
//   reads from peers has arrived, and then until what it sends has left, that is, until the first
//   link of its way is done with it. A slot is free when the transfer that takes it ends.
// - *Signals* arrive CostModel::syncUs and the latency of the way later, occupy nothing, and never
//   overtake what their agent wrote into places of peers before. Waits cost nothing but waiting.
// - *Circuits.* Where a topology is `reconfigurable`, a link from rank to rank that shares nothing
//   is a circuit from a port of one to a port of the other. Messages between two ranks that have
//   neither a link nor a way through switches make the fabric join two other ports: at each end one
//   that leads nowhere, else the one that is quiet first. It begins when all that is on the way
//   between either port and where it led has arrived, takes the topology's time, and leaves their
//   other ends without a circuit; the new circuit has the lower bandwidth and the higher latency of
//   both ports. Ports serve as links do. Signals need no circuit. A program that has no
//   such message changes nothing.
// - *Links* serve one message after the other, in the order in which they could begin (FIFO); so
//   do shared resources with what of a message goes through them. `Sharing::Fair` instead gives all
//   messages at once max-min fair rates (progressive filling; Bertsekas and Gallager, 6.5.2), and
//   resources whose links take turns share time.
// - *Order of what happens at one time*: by the length of the chain of causes within that time,
//   number of the agent in its rank, number of the event of its agent, rank. That makes symmetric
//   programs run symmetrically: what ranks do comes in the same order on each, whatever the rank.
//
// Two runs of the same input are equal to the last bit.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Check.h"
#include "dialect/model/Symmetry.h"
#include "dialect/model/Topology.h"
#include "dialect/simulate/Calibrate.h"
#include "dialect/simulate/Cost.h"

#include <optional>
#include <string>
#include <vector>

namespace ccl::model {

enum class Sharing : uint8_t { Fifo, Fair };

/// When an agent begins its next micro-batch.
enum class BatchOrder : uint8_t {
  Rank,    ///< all agents of its rank have ended this one, as on the host
  Agent,   ///< at once: agents loop by themselves
  Barrier, ///< all agents of all ranks have ended this one, and CostModel::syncUs
};

/// What was measured between ranks, for messages from one to another whose way is of this kind.
struct WayCurve {
  /// `Pair`: from rank `src` to rank `dst`.
  enum class Of : uint8_t { Any, Nvlink, Pci, Net, Pair };
  Of of = Of::Any;
  int32_t src = 0, dst = 0;
  /// Of a message alone: `alpha` is its latency, and `beta` that of the narrowest of its links. It
  /// never has less latency, or more bandwidth, than the topology says, so that bounds stay bounds.
  CostCurve curve;
};

/// Instructions, in all micro-batches of all ranks that are simulated, that are taken: some ten
/// minutes, and with a timeline some two gigabytes.
inline constexpr int64_t mostSteps = 1'000'000'000, mostTimelineSteps = 10'000'000;

struct SimulateOptions {
  CostModel model;
  std::vector<WayCurve> curves; ///< the last that fits counts; signals take the first alpha
  Sharing sharing = Sharing::Fifo;
  int64_t count = 0; ///< elements of a shard, as launches count them
  /// Of an uneven launch the elements of every shard, by the numbers of Contract::shardOf; `count`
  /// is that of the longest then. The program is taken to be uneven-safe.
  std::vector<int64_t> lengths;
  int64_t elementBytes = 4; ///< bytes of an element
  int64_t batches = 1;      ///< micro-batches
  BatchOrder batchOrder = BatchOrder::Rank;
  int32_t slots = 0;    ///< of every data channel; 0: as written
  size_t maxFaults = 8; ///< stop after so many
  /// `simulateSymmetric`: where ranks move chunks of different lengths at one time, by an element,
  /// they do not keep step. Of more instructions than so many, of all ranks together, the chunks
  /// are taken to be as long as the longest then: to simulate all would take long.
  int64_t mostUneven = int64_t(1) << 21;
  bool timeline = false; ///< keep all that happened: some 200 bytes a transfer
};

/// The count of `bytes` of nccl-tests' size (Bound.h says of which buffer), rounded down, but at
/// least 1.
int64_t countFor(const Contract &contract, int64_t bytes, int64_t elementBytes);
/// And the size of a count.
int64_t sizeOf(const Contract &contract, int64_t count, int64_t elementBytes);
/// And of an uneven launch: of the longest row that a rank has.
int64_t sizeOf(const Contract &contract, const std::vector<int64_t> &lengths, int64_t elementBytes);

struct LinkUse {
  double bytes = 0;
  double busyUs = 0;
};

/// What an agent did until it ended, in microseconds; all of it adds up to `endUs`.
struct AgentUse {
  int32_t rank = 0, agent = 0; ///< agent: index among those of the rank
  double launchUs = 0;
  double busyUs = 0;   ///< transfers, without the following
  double linkUs = 0;   ///< the link was busy with other messages, or not there
  double changeUs = 0; ///< of this, the fabric was changing links
  double slotUs = 0;   ///< no free slot
  double dataUs = 0;   ///< nothing in the slot
  double signalUs = 0; ///< no signal
  double batchUs = 0;  ///< others had not ended the micro-batch
  double endUs = 0;
};

/// Everything that happened. Ranks are those of the simulation: folded, all do the same.
struct Timeline {
  enum class Cause : uint8_t {
    Launch, ///< nothing before it
    Span,   ///< `cause` ended: the instruction before, or one that freed a slot, or the batch
    Flight, ///< `cause` arrived
  };
  /// An instruction of a micro-batch, from where all it needs is there.
  struct Span {
    int32_t agent = 0; ///< index into SimulateReport::agents
    int32_t instruction = 0, batch = 0;
    Cause why = Cause::Launch;
    int64_t cause = -1;
    double begin = 0, end = 0;
  };
  /// An agent that could not go on. One instruction may wait for several things, one after the
  /// other; waiting for links belongs to the flights.
  struct Wait {
    enum class For : uint8_t { Slot, Data, Signal, Batch };
    int32_t agent = 0;
    For what = For::Slot;
    double begin = 0, end = 0;
  };
  /// A message or a signal on its way.
  struct Flight {
    int64_t span = -1;        ///< whose it is
    int32_t src = 0, dst = 0; ///< ranks
    bool signal = false;
    double bytes = 0;
    double issue = 0, arrive = 0;
    double queuedUs = 0;   ///< waited for links on the way, of this
    int32_t queuedAt = -1; ///< longest for this link
    double changeUs = 0;   ///< of `queuedUs`, until its circuit was there
  };
  /// A link at work.
  struct Service {
    int32_t link = 0; ///< index into Topology::links; the first of several that work as one
    int64_t flight = -1;
    double begin = 0, end = 0;
  };
  /// A circuit in the making: from `begin` on nothing goes through the ports that it joins.
  struct Change {
    int32_t link = 0;         ///< whose port sends
    int32_t src = 0, dst = 0; ///< ranks
    double begin = 0, end = 0;
  };
  std::vector<Span> spans;
  std::vector<Wait> waits;
  std::vector<Flight> flights;
  std::vector<Service> services;
  std::vector<Change> changes;
};

/// A part of the critical path. Parts are adjacent: each ends where the next begins.
struct PathPart {
  enum class Kind : uint8_t { Launch, Run, Flight, Barrier };
  Kind kind = Kind::Run;
  double begin = 0, end = 0;
  int64_t index = -1;  ///< of the span or flight
  double queuedUs = 0; ///< Flight: of which waiting for links
  double changeUs = 0; ///< Flight: of these, for links that the fabric changed
};

struct SimulateReport {
  std::vector<Fault> faults; ///< why there is no result: malformed, stuck, or no way for a message
  double us = 0;             ///< until the last agent has ended and the last message arrived
  double algbw = 0;          ///< GB/s: nccl-tests' size over `us`
  int64_t bytes = 0;         ///< nccl-tests' size
  double moved = 0;          ///< bytes of all messages between ranks
  uint64_t messages = 0, events = 0;
  uint64_t changes = 0;       ///< circuits that were made
  bool usesCircuits = false;  ///< links can change, and messages need it: see `withAnyCircuits`
  std::vector<LinkUse> links; ///< as Topology::links; circuits count at the link whose port sends
  std::vector<LinkUse> resources; ///< as Topology::resources
  std::vector<AgentUse> agents;   ///< of all ranks; folded: of rank 0, as of every rank
  bool folded = false;            ///< one rank was simulated for all
  bool lengthened = false;        ///< with chunks as long as the longest: see `mostUneven`
  std::optional<Timeline> timeline;
  bool ok() const { return faults.empty(); }
};

/// `contract` says into how many chunks a shard is cut, and what its size is; that the program
/// keeps it is not looked at.
SimulateReport simulate(const Program &program, const Contract &contract, const Topology &topology,
                        const SimulateOptions &options);

/// The same of the program that `rankZero`, whose only rank is 0, and `symmetry` describe, with
/// the work of one rank. That the program is symmetric is the caller's word. That all ranks keep
/// step on this topology is checked here: their messages take links of equal bandwidth and latency
/// that are shared by images of the same messages, one of each. If not: nothing, and `why` says
/// why; unfold the program then.
std::optional<SimulateReport> simulateSymmetric(const Program &rankZero, const Contract &contract,
                                                const Symmetry &symmetry, const Topology &topology,
                                                const SimulateOptions &options,
                                                std::string *why = nullptr);

/// What is wrong with the cost model, and with what options ask of it, whatever the program; or "".
std::string checkOptions(const SimulateOptions &options);

/// Writes a size into a report, and its algbw.
void setSize(int64_t bytes, SimulateReport &report);

/// The fabric of a reconfigurable topology at its best: all ports of ranks on one more switch. What
/// no schedule can beat there, none can that changes links.
Topology withAnyCircuits(const Topology &topology);

/// From time 0 to `us`: what the end had to wait for. Needs a timeline.
std::vector<PathPart> criticalPath(const SimulateReport &report);

} // namespace ccl::model
