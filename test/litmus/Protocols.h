//===- Protocols.h - The runtime's protocols as models ------------------------===//
//
// The counters, the entry of operations, failing and leaving, as docs/protocol.md states
// them and runtime/ and codegen/host/ implement them. Every rule of the protocol can be
// broken on its own: a model with a broken rule must show a fault, or the rule is no rule.
//===----------------------------------------------------------------------===//
#pragma once

#include "test/litmus/Machine.h"

namespace ccl::litmus {

/// The rules that can be broken; as built, the protocol that the runtime has.
struct Rules {
  // Counters of channels.
  Order signal = Order::Release; ///< of the store that moves a counter
  Order wait = Order::Acquire;   ///< of the load that looks at one
  bool senderWaits = true;       ///< before it fills a slot again
  bool signalsAfterFilling = true;
  bool readerTellsWhenDone = true; ///< and the owner waits for it before it goes on
  bool ownerTellsWhenReady = true;
  // Entry.
  Order arrive = Order::AcqRel;
  Order enter = Order::Acquire;
  bool waitsForAll = true;
  int announcements = 2;         ///< sets, used in turn
  bool lengthIsAnnounced = true; ///< of the directory; else readers look at its end
  // Failing.
  Order publish = Order::AcqRel; ///< of the exchange that names the record
  Order notice = Order::Acquire; ///< of the load that finds it
  bool recordFirst = true;       ///< written before it is named
  bool oneNamesIt = true;        ///< exchange; else a plain store
  bool recordIsLocked = true;    ///< against the other threads of the rank
  bool waitsLookForFailure = true;
  bool returnsBeforeReuse = false;
  // Leaving.
  Order leave = Order::AcqRel;
  Order allLeft = Order::Acquire;
  Order left = Order::Release; ///< of the flag of one rank
  Order seeLeft = Order::Acquire;
  bool tablesLiveUntilAllLeft = true;
  // New communicators.
  Order decide = Order::AcqRel; ///< of the exchange that says whose block survivors use
  bool oneDecides = true;       ///< exchange; else a plain store
  bool publishes = true;        ///< the second entry of a split
};

enum class Data : uint8_t {
  None,   ///< barrier
  Ring,   ///< through slots, to the next rank and from the one before
  Chain,  ///< the same, but the last rank sends nothing and the first receives nothing
  Direct, ///< every rank reads a sum that its neighbour made, then its neighbour's input
};

struct Shape {
  int ranks = 2;
  int launches = 3;
  int slots = 2;
  int microBatches = 3;
  bool entry = true; ///< without: only the counters order anything
  /// Of launch l: data[l % data.size()].
  std::vector<Data> data = {Data::Ring};
};

/// `launches` launches of programs; every datum is checked where it arrives.
Model launches(const Shape &shape, const Rules &rules);

/// Two operations on which the ranks disagree in the second; all must find it there.
Model disagreement(int ranks, const Rules &rules);

/// The last rank may die at any moment of `shape`. Monitors notice it; `aborts`: another
/// thread of rank 0 aborts as well. All survivors end, and those with an error have the same.
Model failure(const Shape &shape, bool aborts, const Rules &rules);

/// An aborted launch of a program that reads directly, after which rank 0 uses its buffer.
Model reuseAfterFailure(const Rules &rules);

/// Ranks finish an operation, leave and end; rank 0 frees the control block when all have
/// left. Nobody takes one that left in order for one that is missing.
Model leaving(int ranks, const Rules &rules);

/// Two splits in a row: the first rank makes a control block, all others find it.
Model splitting(int ranks, const Rules &rules);

/// Survivors, each of which may think that it has to decide who goes on: all go on with the
/// block of one of them.
Model rebuilding(int ranks, const Rules &rules);

} // namespace ccl::litmus
