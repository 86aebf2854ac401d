//===- SymmetricOrder.h - Where order matters to a proof by symmetry ----------===//
//
// A proof by symmetry executes rank 0 in its own order, all ranks at the same instruction.
// Others may execute the iterations of a sweep in another order, and ranks need not keep
// step. Here is what makes that of no consequence: iterations of a sweep do not touch
// each other's places, both ends of a link number iterations alike, and accesses to a
// peer's place are ordered by what is sent from rank to rank.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/DataPaths.h"
#include "dialect/model/Execution.h"
#include "dialect/model/Network.h"
#include "dialect/model/Symmetry.h"

#include <deque>
#include <map>
#include <unordered_map>

namespace ccl::model {

/// Of the sweeps that an instruction is in.
class SweepOrder {
public:
  using PlaceOf = std::function<Place(const NetworkAgent &, const Operand &)>;

  SweepOrder(const Symmetry &symmetry, const Network &network, const Execution &execution,
             PlaceOf placeOf)
      : symmetry(symmetry), group(symmetry), network(network), execution(execution),
        placeOf(std::move(placeOf)) {}

  /// Why the order of iterations may matter, or "".
  std::string check(const Program &rankZero);
  /// Whether two events lie in different iterations of one sweep.
  bool separates(int32_t a, int32_t b) const;
  bool hasLoops() const { return !symmetry.sweeps.empty(); }
  /// Whether an event lies in no sweep: all ranks execute it at the same place of their code.
  bool isFixed(int32_t event) const { return innermost[size_t(event)] < 0; }
  /// Whether both ends of a link number iterations alike.
  bool isAligned(int32_t link) const { return aligned[size_t(link)]; }
  /// The event that does the same in the first (last) iteration of all sweeps: another
  /// rank may execute there what rank 0 executes here.
  int32_t firstLike(int32_t event) const;
  int32_t lastLike(int32_t event) const;

private:
  int32_t iteration(size_t sweep, int32_t event) const;
  bool contains(size_t sweep, int32_t event) const;
  bool isNested(const Program &rankZero);
  std::string checkPeers(const Program &rankZero) const;
  std::string checkLinks();
  std::string checkPlaces(const Program &rankZero, size_t sweep) const;

  const Symmetry &symmetry;
  const ShiftGroup group;
  const Network &network;
  const Execution &execution;
  const PlaceOf placeOf;
  std::vector<int32_t> innermost; ///< sweep of every event, or -1
  std::vector<int32_t> parents;   ///< of every sweep
  std::vector<bool> aligned;      ///< links
};

/// Accesses of all ranks to the places of rank 0. Order is known from messages that one of the two
/// ranks sent the other, or by the way of the data through third ranks.
class PeerOrder {
public:
  PeerOrder(const Symmetry &symmetry, const Network &network, const SweepOrder &sweeps,
            size_t places)
      : group(symmetry), network(network), sweeps(sweeps), paths(group, network),
        sent(network.links().size()), places(places) {}

  /// Rank 0 sent something on a link, or took it.
  void send(int32_t link, int32_t event) { sent[size_t(link)].push_back(event); }
  void receive(int32_t link, int32_t event);
  /// `rank` executes `event`, which accesses a place. Whether everything that conflicts
  /// with it is known to have happened before.
  bool read(size_t place, int64_t rank, int32_t event);
  bool write(size_t place, int64_t rank, int32_t event);

private:
  using Access = RankEvent;
  struct History {
    Access write;
    std::vector<Access> reads; ///< since then
  };
  /// Something was taken at `event`; it was sent at `cause`, or later.
  struct Message {
    int32_t cause, event;
    bool aligned;
  };
  bool isOrdered(const Access &first, bool writes, const Access &second);
  bool isHeard(const Access &first, bool writes, const Access &second) const;
  uint64_t key(int32_t receiver, int32_t sender, int64_t rank) const;

  const ShiftGroup group;
  const Network &network;
  const SweepOrder &sweeps;
  DataPaths paths;                       ///< between events in no sweep
  std::vector<std::deque<int32_t>> sent; ///< on every link, not yet taken
  /// What an agent of rank 0 has had from an agent of a peer.
  std::unordered_map<uint64_t, std::vector<Message>> heard;
  std::map<std::pair<int32_t, int32_t>, int32_t> causes; ///< of a link, an event
  std::vector<History> places;
  bool lost = false; ///< two accesses were in no order that can be seen
};

} // namespace ccl::model
