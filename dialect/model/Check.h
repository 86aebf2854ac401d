//===- Check.h - Proof that a program computes its collective -------------===//
//
// Both checks are abstract interpretation over multisets of contributions
// (hash-consed: a place holds a 32-bit id). The first wrong place is reported
// with what it holds, what it should hold, and the moves that led there.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Program.h"

namespace ccl::model {

enum class FaultKind : uint8_t {
  Wrong,         ///< exit: a place does not hold what the contract says
  DoubleCount,   ///< a contribution would be added twice
  Uninitialized, ///< a place is read before anything was written there
  Conflict,      ///< two accesses touch one place in no order: of one parallel step, two agents
  OutOfRange,    ///< rank or chunk does not exist
  Mismatch,      ///< reduced or rested chunks of different lengths
  ReadOnly,      ///< `in` is written (out of place)
  Deadlock,      ///< no agent can go on
  Unpaired,      ///< a channel end without its partner, or left unbalanced
};
/// "wrong", "double_count", ...
std::string_view name(FaultKind k);

struct Note {
  int32_t loc = -1;
  std::string message;
};

struct Fault {
  FaultKind kind = FaultKind::Wrong;
  int64_t rank = -1;
  int32_t buffer = -1;
  int64_t chunk = -1;
  int32_t agent = -1;       ///< L2: index of the agent, else -1
  int32_t instruction = -1; ///< L2: index in the agent's code; L1: index of the move
  std::string have, want;   ///< "{0.3, 1.3}": contributions as rank.chunk
  int32_t loc = -1;
  std::string message; ///< one sentence, names rank, buffer, chunk, have, want
  std::vector<Note> notes;
};

struct CheckOptions {
  size_t maxFaults = 8; ///< stop after so many
};

/// L1: moves are executed in order; the moves of one step must not conflict.
struct AlgorithmReport {
  std::vector<Fault> faults;        ///< of the disjoint form (or of `inout`)
  bool inPlace = false;             ///< the in-place form holds, too
  std::vector<Fault> inPlaceFaults; ///< why it does not
  /// A chunk rests in an in/out place of another length class: only counts
  /// divisible by `chunks` run without padding.
  bool divisible = false;
  /// In every form that holds: no chunk rests in an in/out place whose shard (all_to_all: whose
  /// pair of ranks) is not its own, none in one of another length class, and what is combined
  /// is of one shard. Then lengths fit, whatever lengths a launch gives to the shards.
  bool unevenSafe = false;
  uint64_t moves = 0;
  bool ok() const { return faults.empty(); }
};
AlgorithmReport check(const Moves &moves, const Contract &contract,
                      const CheckOptions &options = {});

/// An access to the memory of rank `owner` by another rank, at a time at which nothing says that
/// the owner executes the program.
struct Unguarded {
  int64_t owner = -1;
  int32_t loc = -1;
  std::string access; ///< "rank 1, block 0, instruction 3 (...)"
};

/// L2: all ranks are executed together, `slots` slots a channel (0: as written).
/// The ranks form a deterministic data-flow network, and races are faults: so one schedule
/// tells all (docs/semantics.md).
struct ProgramReport {
  std::vector<Fault> faults;
  /// The least slot count of every data channel with which no rank gets stuck, be it
  /// more than is there; 0 without data channels, or if no number of slots helps.
  int32_t minSlots = 0;
  uint64_t instructions = 0; ///< of all ranks
  bool divisible = false;    ///< as of the algorithm
  bool unevenSafe = false;   ///< as of the algorithm, of the form asked for
  /// A rank may end before others have done with its memory: a launch needs a barrier at its
  /// end.
  bool exitBarrier = false;
  /// Where: the first access whose end the owner does not hear of.
  std::optional<Unguarded> tooLate;
  /// The first access, not to scratch, by an agent that has heard nothing from the owner: that may
  /// not have begun. Here every launch begins with a barrier. Looked for if `findsEarly`.
  std::optional<Unguarded> tooEarly;
  /// There is such an access, be it to scratch: where launches do not begin with a barrier, this
  /// one needs it.
  bool entryBarrier = false;
  /// Two micro-batches, one after the other, may conflict in scratch: they need a barrier in
  /// between.
  bool batchBarrier = false;
  bool ok() const { return faults.empty(); }
};
struct ProgramCheckOptions {
  size_t maxFaults = 8;
  int32_t slots = 0;
  bool inPlace = false; ///< `in` and `out` share memory where the contract says so
  bool findsEarly = false;
};
ProgramReport check(const Program &program, const Contract &contract,
                    const ProgramCheckOptions &options = {});

/// The verdict word of the JSON contract (docs/semantics.md): ok, wrong,
/// uninitialized, race, deadlock, malformed, unchecked.
std::string_view verdict(const std::vector<Fault> &faults, const Contract &contract);

} // namespace ccl::model
