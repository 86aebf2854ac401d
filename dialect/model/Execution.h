//===- Execution.h - What both checks share: places and faults ------------===//
//
// The places of all ranks, what each holds and who wrote it last. L1 moves and L2
// instructions are both *events*, numbered from 0; a fault's notes follow events
// back. Faults beyond the limit are dropped, so the first ones remain.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Check.h"
#include "dialect/model/Multiset.h"

#include <array>
#include <functional>

namespace ccl::model {

/// Who does something: a move (agent -1) or an instruction.
struct Site {
  int32_t event = -1;
  int32_t agent = -1;
  int32_t instruction = -1;
  int32_t loc = -1;
};

/// An event as a fault's note tells it.
struct Event {
  Site site;
  int64_t rank = -1; ///< that executes it; -1: L1, nobody in particular
  std::string text;
};

class Execution {
public:
  using Describe = std::function<Event(int32_t event)>;

  /// `kept`: only the places of ranks [0, kept) exist, and only what the contract
  /// promises to these is compared; 0: all.
  Execution(const std::vector<Buffer> &buffers, int64_t ranks, const Contract &contract,
            bool inPlace, size_t maxFaults, Describe describe, int64_t kept = 0);

  /// Why the buffers cannot belong to the contract, or "".
  std::string check() const;
  /// Defines the inputs. Only after `check`; for `events` events.
  void enter(size_t events);
  /// Compares the outputs with the contract.
  void leave();

  /// Whether `count` chunks, at least one, from `place` on exist.
  bool isPlace(const Place &place, int64_t count) const;
  /// The same; if not, it is a fault.
  bool exists(const Place &place, int64_t count, const Site &site);
  /// The number of an existing place. Places that share memory have one number.
  size_t at(const Place &place) const;
  /// What an event reads. A place that was never written is a fault, then poison.
  Contents read(const Place &place, const Site &site);
  /// The combination of two values for `target` (buffer -1: a channel).
  Contents combine(Contents a, Contents b, const Place &target, const Site &site);
  void write(const Place &place, Contents contents, const Site &site);
  /// Marks a place whose contents are not worth a further report.
  void spoil(const Place &place) { contents[at(place)] = Multisets::poison; }
  /// The event that wrote a place last, or -1.
  int32_t writer(const Place &place) const { return writers[at(place)]; }
  /// Event `event` used what `first` and `second` (or -1) had written.
  void setCauses(int32_t event, int32_t first, int32_t second) {
    causes[size_t(event)] = {first, second};
  }

  Fault makeFault(FaultKind kind, const Place &place, const Site &site) const;
  /// Drops it if there are enough, unless it is about something that was before.
  void report(Fault fault) { report(std::move(fault), now); }
  void report(Fault fault, uint64_t when);
  /// What happened first, first.
  void sortFaults();
  /// That `reader` found nothing in the place is no fault of its own after all.
  void retractUninitialized(const Place &place, const Site &reader);
  bool isFull() const { return faults.size() >= maxFaults; }
  std::string placeName(const Place &place) const;
  size_t numPlaces() const;
  Multisets &multisets() { return sets; }

  std::vector<Fault> faults;
  /// Counts what is executed; a fault that is reported now is as old.
  uint64_t now = 0;
  /// A chunk was at rest in an in, out or inout place of another length class.
  bool divisible = false;
  /// Launches with shards of any lengths run as they are: see AlgorithmReport.
  bool isUnevenSafe() const {
    return hasUnevenForm(contract.collective) && !divisible && !leftShard;
  }

private:
  /// A buffer's places are base + rank * stride + chunk, or the in-place position.
  struct Layout {
    size_t base = 0;
    int64_t stride = 0;
    Role position = Role::Scratch; ///< In, Out: shared memory; else the chunk itself
  };
  struct WrongPlace {
    int32_t writer;
    Place place;
    Contents want;
  };

  std::string checkBuffer(const Buffer &buffer) const;
  std::string checkRows() const;
  int32_t bufferWith(Role role) const;
  /// Calls f(rank, chunk, contents) for every promise of the contract.
  void forEachPromise(const std::function<void(int64_t, int64_t, Contents)> &f);
  void forEachCustomPromise(const std::function<void(int64_t, int64_t, Contents)> &f);
  /// Those that are worth a report, as many as there is room for.
  void keepFirst(std::vector<WrongPlace> &wrong) const;
  void reportWrong(const WrongPlace &wrong);
  /// What the length of a value belongs to: see Contract::shardOf.
  std::optional<int64_t> shardOf(Contents value) const;
  std::string difference(Contents have, Contents want);
  /// Who wrote what is in `place`, and what that came from.
  void addHistory(Fault &fault, const Place &place) const;

  const std::vector<Buffer> &buffers;
  const int64_t ranks, kept;
  const Contract &contract;
  const bool inPlace;
  const size_t maxFaults;
  const Describe describe;
  const bool shared;            ///< `in` and `out` are one memory
  int64_t mostTimesAllowed = 1; ///< of one contribution in one place
  bool leftShard = false;       ///< a chunk was in, or combined with one of, another shard's length
  Multisets sets;
  std::vector<Layout> layouts;
  std::vector<Contents> contents;
  std::vector<int32_t> writers;
  std::vector<std::array<int32_t, 2>> causes;
  std::vector<uint64_t> ages; ///< of the faults: `now` at their time
};

} // namespace ccl::model
