//===- ProtocolTest.cpp - The protocols hold, and every rule is needed --------===//
#include "test/litmus/Protocols.h"

#include <doctest/doctest.h>

using namespace ccl::litmus;

namespace {

/// Explores everything and finds no fault.
void holds(const Model &model, const ExploreOptions &options = {}) {
  const Result result = explore(model, options);
  if (result.fault)
    FAIL_CHECK(result.fault->text, "\n", result.fault->trace);
  CHECK(result.ends > 0);
  MESSAGE(result.states, " states, ", result.ends, " ends");
}

/// Finds a fault of this kind.
void breaks(const Model &model, Fault::Kind kind) {
  const Result result = explore(model);
  REQUIRE(result.fault);
  CHECK_MESSAGE(result.fault->kind == kind, result.fault->text, "\n", result.fault->trace);
  CHECK(!result.fault->trace.empty());
}

template <typename T>
Rules without(T Rules::*rule, T value) {
  Rules rules;
  rules.*rule = value;
  return rules;
}

const Shape direct{.data = {Data::Direct}};
const Shape onlyEntry{.ranks = 3, .data = {Data::None}};

/// More micro-batches than slots, else the entry of the next launch would guard the slots.
Shape staged(int slots, Data data = Data::Ring, bool entry = true) {
  return {.slots = slots, .microBatches = slots + 1, .entry = entry, .data = {data}};
}

} // namespace

//===----------------------------------------------------------------------===//
// Counters and slots
//===----------------------------------------------------------------------===//

TEST_CASE("protocol: slots, with 1, 2 and 3 of them, over three launches") {
  for (int slots : {1, 2, 3})
    for (Data data : {Data::Ring, Data::Chain}) {
      CAPTURE(slots);
      holds(launches(staged(slots, data), {}));
      holds(launches(staged(slots, data, false), {})); // the counters need no entry barrier
    }
}

TEST_CASE("protocol: slots between three and four ranks") {
  for (Data data : {Data::Ring, Data::Chain})
    holds(launches({.ranks = 3, .launches = 2, .slots = 1, .microBatches = 2, .data = {data}}, {}));
  holds(launches({.ranks = 3, .entry = false}, {}));
  holds(launches({.ranks = 4, .launches = 2, .slots = 1, .microBatches = 2}, {}));
}

TEST_CASE("protocol: direct reads, over three launches") { holds(launches(direct, {})); }

TEST_CASE("protocol: direct reads on a ring of three and four ranks") {
  for (int ranks : {3, 4})
    holds(launches({.ranks = ranks, .launches = 2, .data = {Data::Direct}}, {}));
}

TEST_CASE("protocol: programs alternate on a communicator") {
  holds(launches({.slots = 1, .microBatches = 2, .data = {Data::Ring, Data::Direct}}, {}));
}

TEST_CASE("protocol: a counter that is not moved with release is a race") {
  for (int slots : {1, 2, 3})
    breaks(launches(staged(slots), without(&Rules::signal, Order::Relaxed)), Fault::Race);
  breaks(launches(direct, without(&Rules::signal, Order::Relaxed)), Fault::Race);
}

TEST_CASE("protocol: a counter that is not read with acquire is a race") {
  for (int slots : {1, 2, 3})
    breaks(launches(staged(slots), without(&Rules::wait, Order::Relaxed)), Fault::Race);
  breaks(launches(direct, without(&Rules::wait, Order::Relaxed)), Fault::Race);
}

TEST_CASE("protocol: a slot filled again without waiting is a race") {
  for (int slots : {1, 2, 3})
    breaks(launches(staged(slots, Data::Chain), without(&Rules::senderWaits, false)), Fault::Race);
}

TEST_CASE("protocol: a counter moved before its slot is filled is a race") {
  breaks(launches(staged(2), without(&Rules::signalsAfterFilling, false)), Fault::Race);
}

TEST_CASE("protocol: a launch that ends while a peer still reads is a race") {
  breaks(launches(direct, without(&Rules::readerTellsWhenDone, false)), Fault::Race);
}

TEST_CASE("protocol: a peer that reads before it may finds something else") {
  breaks(launches(direct, without(&Rules::ownerTellsWhenReady, false)), Fault::WrongValue);
}

//===----------------------------------------------------------------------===//
// Entry and agreement
//===----------------------------------------------------------------------===//

TEST_CASE("protocol: entry with announcements and directories, two to four ranks") {
  for (int ranks : {2, 3, 4})
    holds(launches({.ranks = ranks, .data = {Data::None}}, {}));
}

TEST_CASE("protocol: an arrival that is not released, or not acquired, is a race") {
  for (Order order : {Order::Relaxed, Order::Acquire})
    breaks(launches(onlyEntry, without(&Rules::arrive, order)), Fault::Race);
  breaks(launches(onlyEntry, without(&Rules::enter, Order::Relaxed)), Fault::Race);
}

TEST_CASE("protocol: one set of announcements is a race") {
  breaks(launches(onlyEntry, without(&Rules::announcements, 1)), Fault::Race);
}

TEST_CASE("protocol: three sets of announcements would do, too") {
  holds(launches(onlyEntry, without(&Rules::announcements, 3)));
}

TEST_CASE("protocol: an entry that does not wait for all is a race") {
  breaks(launches(onlyEntry, without(&Rules::waitsForAll, false)), Fault::Race);
}

TEST_CASE("protocol: a directory whose length is not announced is a race") {
  breaks(launches(onlyEntry, without(&Rules::lengthIsAnnounced, false)), Fault::Race);
}

TEST_CASE("protocol: ranks that disagree all get the same error, at once") {
  for (int ranks : {2, 3})
    holds(disagreement(ranks, {}));
}

//===----------------------------------------------------------------------===//
// Failure
//===----------------------------------------------------------------------===//

TEST_CASE("protocol: a rank dies anywhere, and nobody hangs") {
  holds(failure({.launches = 2, .slots = 1, .microBatches = 2}, false, {}));
  holds(failure({.launches = 2, .data = {Data::Direct}}, false, {}));
  holds(failure({.ranks = 3, .launches = 1, .data = {Data::None}}, false, {}));
  holds(failure({.ranks = 3, .launches = 1, .slots = 1, .microBatches = 1}, false, {}));
}

TEST_CASE("protocol: a rank dies while another thread aborts") {
  holds(failure({.launches = 1, .slots = 1, .microBatches = 2}, true, {}));
  holds(failure({.ranks = 3, .launches = 1, .data = {Data::None}}, true, {}));
}

TEST_CASE("protocol: a record named before it is written is a race") {
  breaks(failure({.launches = 1, .data = {Data::None}}, false, without(&Rules::recordFirst, false)),
         Fault::Race);
}

TEST_CASE("protocol: a record not published with release, not found with acquire, is a race") {
  const Shape shape{.ranks = 3, .launches = 1, .data = {Data::None}};
  breaks(failure(shape, false, without(&Rules::publish, Order::Relaxed)), Fault::Race);
  breaks(failure(shape, false, without(&Rules::publish, Order::Acquire)), Fault::Race);
  breaks(failure(shape, false, without(&Rules::notice, Order::Relaxed)), Fault::Race);
}

TEST_CASE("protocol: a record written by two threads of a rank is a race") {
  breaks(
      failure({.launches = 1, .data = {Data::None}}, true, without(&Rules::recordIsLocked, false)),
      Fault::Race);
}

TEST_CASE("protocol: two ranks that may both name a record report different errors") {
  breaks(failure({.ranks = 3, .launches = 1, .data = {Data::None}}, true,
                 without(&Rules::oneNamesIt, false)),
         Fault::WrongValue);
}

TEST_CASE("protocol: waits that do not look for a failure hang") {
  breaks(failure({.launches = 1, .data = {Data::None}}, false,
                 without(&Rules::waitsLookForFailure, false)),
         Fault::Hang);
}

TEST_CASE("protocol: after a failure buffers are in use until every rank has returned") {
  breaks(reuseAfterFailure({}), Fault::Race);
  holds(reuseAfterFailure(without(&Rules::returnsBeforeReuse, true)));
}

//===----------------------------------------------------------------------===//
// Leaving
//===----------------------------------------------------------------------===//

TEST_CASE("protocol: the control block is freed when all have left, and nobody is missed") {
  for (int ranks : {2, 3})
    holds(leaving(ranks, {}));
}

TEST_CASE("protocol: leaving without release, or freeing without acquire, is a race") {
  for (Order order : {Order::Relaxed, Order::Acquire})
    breaks(leaving(2, without(&Rules::leave, order)), Fault::Race);
  breaks(leaving(2, without(&Rules::allLeft, Order::Relaxed)), Fault::Race);
}

TEST_CASE("protocol: who has left is taken for missing if the flag orders nothing") {
  breaks(leaving(2, without(&Rules::left, Order::Relaxed)), Fault::WrongValue);
  breaks(leaving(2, without(&Rules::seeLeft, Order::Relaxed)), Fault::WrongValue);
}

TEST_CASE("protocol: tables of buffers freed before all have left are a race") {
  breaks(leaving(2, without(&Rules::tablesLiveUntilAllLeft, false)), Fault::Race);
}

//===----------------------------------------------------------------------===//
// New communicators
//===----------------------------------------------------------------------===//

TEST_CASE("protocol: two splits in a row, each with its own block") {
  for (int ranks : {2, 3})
    holds(splitting(ranks, {}));
}

TEST_CASE("protocol: a split that does not enter twice finds no block, or an old one") {
  breaks(splitting(2, without(&Rules::publishes, false)), Fault::WrongValue);
}

TEST_CASE("protocol: survivors go on with one block, whoever decides") {
  for (int ranks : {2, 3})
    holds(rebuilding(ranks, {}));
}

TEST_CASE("protocol: survivors part if everybody's decision counts") {
  breaks(rebuilding(2, without(&Rules::oneDecides, false)), Fault::WrongValue);
}

TEST_CASE("protocol: a decision that orders nothing may come before its block") {
  breaks(rebuilding(2, without(&Rules::decide, Order::Relaxed)), Fault::WrongValue);
}

//===----------------------------------------------------------------------===//
// The reduction
//===----------------------------------------------------------------------===//

TEST_CASE("protocol: the reduction of the search changes no verdict") {
  const ExploreOptions all{.reduce = false};
  holds(launches({.launches = 2, .slots = 1, .microBatches = 2}, {}), all);
  holds(launches({.launches = 2, .data = {Data::Direct}}, {}), all);
  holds(launches({.ranks = 2, .data = {Data::None}}, {}), all);
  holds(failure({.launches = 1, .slots = 1, .microBatches = 1}, false, {}), all);
  holds(failure({.launches = 1, .data = {Data::None}}, true, {}), all);
  holds(leaving(2, {}), all);
  const Result racy = explore(launches(staged(1), without(&Rules::signal, Order::Relaxed)), all);
  REQUIRE(racy.fault);
  CHECK(racy.fault->kind == Fault::Race);
}
