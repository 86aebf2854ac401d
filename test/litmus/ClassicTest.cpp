//===- ClassicTest.cpp - The machine gives the known verdicts ---------------===//
//
// Small programs whose outcomes under C11 are known from the literature. If the machine
// were too strict it would miss bugs, if too lax it would see some that are none.
//===----------------------------------------------------------------------===//
#include "test/litmus/Machine.h"

#include <doctest/doctest.h>

using namespace ccl::litmus;

namespace {

constexpr Order relaxed = Order::Relaxed, acquire = Order::Acquire, release = Order::Release;

/// Whether some execution ends with these values in register 0 and 1 of the last threads,
/// two for each. Asks with and without reduction, which must agree.
bool canEnd(const Model &model, std::vector<int> wanted) {
  Result all = explore(model, {.reduce = false}), reduced = explore(model);
  REQUIRE(!all.fault);
  REQUIRE(!reduced.fault);
  CHECK(all.outcomes == reduced.outcomes);
  CHECK(reduced.states <= all.states);
  for (const std::vector<int> &outcome : all.outcomes) {
    bool same = true;
    const size_t observers = wanted.size() / 2, threads = outcome.size() / numRegisters;
    for (size_t i = 0; i < wanted.size(); ++i)
      same &= outcome[(threads - observers + i / 2) * numRegisters + i % 2] == wanted[i];
    if (same)
      return true;
  }
  return false;
}

std::optional<Fault> faultOf(const Model &model) {
  Result all = explore(model, {.reduce = false}), reduced = explore(model);
  REQUIRE(all.fault.has_value() == reduced.fault.has_value());
  if (all.fault)
    CHECK(all.fault->kind == reduced.fault->kind);
  return reduced.fault;
}

/// x = 1; y = 1 | a = y; b = x
bool staleMessage(Order storing, Order loading) {
  Model m;
  Location x = m.atomic("x"), y = m.atomic("y");
  ThreadCode &p = m.thread("p"), &q = m.thread("q");
  p.store(x, 1, relaxed);
  p.store(y, 1, storing);
  q.load(y, 0, loading);
  q.load(x, 1, relaxed);
  return canEnd(m, {1, 0});
}

/// plain = 1; flag = 1 | if (flag) read plain
std::optional<Fault> handOver(Order storing, Order loading) {
  Model m;
  Location data = m.plain("data"), flag = m.atomic("flag");
  ThreadCode &p = m.thread("p"), &q = m.thread("q");
  p.write(data, 1);
  p.store(flag, 1, storing);
  Label end = q.label();
  q.load(flag, 0, loading);
  q.branchIf(0, equal(0), end);
  q.read(data, 1);
  q.expect(1, equal(1), "the data is there");
  q.bind(end);
  return faultOf(m);
}

/// plain = 1; x.store(1, release); then `between` | acquire load of x that finds 2 reads plain
std::optional<Fault> releaseSequence(bool updates, bool otherThread) {
  Model m;
  Location data = m.plain("data"), x = m.atomic("x");
  ThreadCode &p = m.thread("p"), &r = m.thread("r"), &q = m.thread("q");
  ThreadCode &second = otherThread ? r : p;
  p.write(data, 1);
  p.store(x, 1, release);
  if (otherThread)
    r.await(x, equal(1), relaxed);
  if (updates)
    second.fetchAdd(x, 1, relaxed);
  else
    second.store(x, 2, relaxed);
  q.await(x, equal(2), acquire);
  q.read(data, 0);
  return faultOf(m);
}

} // namespace

TEST_CASE("litmus: message passing needs release and acquire") {
  CHECK(!staleMessage(release, acquire));
  CHECK(staleMessage(relaxed, acquire));
  CHECK(staleMessage(release, relaxed));
  CHECK(staleMessage(relaxed, relaxed));
}

TEST_CASE("litmus: plain data handed over without release and acquire is a race") {
  CHECK(!handOver(release, acquire));
  for (auto [storing, loading] :
       {std::pair(relaxed, acquire), {release, relaxed}, {relaxed, relaxed}}) {
    std::optional<Fault> fault = handOver(storing, loading);
    REQUIRE(fault);
    CHECK(fault->kind == Fault::Race);
    CHECK(fault->trace.find("p: write data") != std::string::npos);
  }
}

TEST_CASE("litmus: store buffering shows under release and acquire") {
  Model m;
  Location x = m.atomic("x"), y = m.atomic("y");
  ThreadCode &p = m.thread("p"), &q = m.thread("q");
  p.store(x, 1, release);
  p.load(y, 0, acquire);
  q.store(y, 1, release);
  q.load(x, 0, acquire);
  CHECK(canEnd(m, {0, 0, 0, 0}));
  CHECK(canEnd(m, {1, 0, 1, 0}));
}

TEST_CASE("litmus: no load buffering, as in RC11") {
  Model m;
  Location x = m.atomic("x"), y = m.atomic("y");
  ThreadCode &p = m.thread("p"), &q = m.thread("q");
  p.load(x, 0, relaxed);
  p.store(y, 1, relaxed);
  q.load(y, 0, relaxed);
  q.store(x, 1, relaxed);
  CHECK(!canEnd(m, {1, 0, 1, 0}));
}

TEST_CASE("litmus: one location is coherent, also relaxed") {
  Model m;
  Location x = m.atomic("x");
  ThreadCode &p = m.thread("p"), &q = m.thread("q");
  p.store(x, 1, relaxed);
  p.store(x, 2, relaxed);
  q.load(x, 0, relaxed);
  q.load(x, 1, relaxed);
  CHECK(canEnd(m, {1, 2}));
  CHECK(canEnd(m, {0, 2}));
  CHECK(!canEnd(m, {2, 1}));
  CHECK(!canEnd(m, {1, 0}));
}

TEST_CASE("litmus: two writers may be seen in one order only, but in either") {
  Model m;
  Location x = m.atomic("x");
  ThreadCode &p = m.thread("p"), &q = m.thread("q"), &r = m.thread("r"), &s = m.thread("s");
  p.store(x, 1, relaxed);
  q.store(x, 2, relaxed);
  r.load(x, 0, relaxed);
  r.load(x, 1, relaxed);
  s.load(x, 0, relaxed);
  s.load(x, 1, relaxed);
  CHECK(canEnd(m, {1, 2, 1, 2}));
  CHECK(canEnd(m, {2, 1, 2, 1}));
  CHECK(!canEnd(m, {1, 2, 2, 1}));
}

TEST_CASE("litmus: independent reads of independent writes may disagree") {
  Model m;
  Location x = m.atomic("x"), y = m.atomic("y");
  ThreadCode &p = m.thread("p"), &q = m.thread("q"), &r = m.thread("r"), &s = m.thread("s");
  p.store(x, 1, release);
  q.store(y, 1, release);
  r.load(x, 0, acquire);
  r.load(y, 1, acquire);
  s.load(y, 0, acquire);
  s.load(x, 1, acquire);
  CHECK(canEnd(m, {1, 0, 1, 0}));
}

TEST_CASE("litmus: 2+2W shows, since a store may come before one that is there") {
  Model m;
  Location x = m.atomic("x"), y = m.atomic("y");
  ThreadCode &p = m.thread("p"), &q = m.thread("q"), &r = m.thread("r");
  p.store(x, 1, release);
  p.store(y, 2, release);
  q.store(y, 1, release);
  q.store(x, 2, release);
  r.await(x, equal(2), relaxed);
  r.load(x, 0, relaxed);
  r.await(y, equal(2), relaxed);
  r.load(y, 1, relaxed);
  CHECK(canEnd(m, {1, 1}));
}

TEST_CASE("litmus: what is known is passed on, if it was acquired (ISA2)") {
  for (bool passes : {true, false}) {
    Model m;
    Location data = m.atomic("data"), x = m.atomic("x"), y = m.atomic("y");
    ThreadCode &p = m.thread("p"), &q = m.thread("q"), &r = m.thread("r");
    p.store(data, 1, relaxed);
    p.store(x, 1, release);
    q.await(x, equal(1), passes ? acquire : relaxed);
    q.store(y, 1, release);
    r.load(y, 0, acquire);
    r.load(data, 1, relaxed);
    CHECK(canEnd(m, {1, 0}) == !passes);
  }
}

TEST_CASE("litmus: even a relaxed read orders later reads of its own location (WRC)") {
  Model m;
  Location x = m.atomic("x"), y = m.atomic("y");
  ThreadCode &p = m.thread("p"), &q = m.thread("q"), &r = m.thread("r");
  p.store(x, 1, relaxed);
  q.await(x, equal(1), relaxed);
  q.store(y, 1, release);
  r.load(y, 0, acquire);
  r.load(x, 1, relaxed);
  CHECK(!canEnd(m, {1, 0}));
  CHECK(canEnd(m, {0, 0}));
}

TEST_CASE("litmus: a read-modify-write continues a release sequence, a store ends it") {
  CHECK(!releaseSequence(true, false));
  CHECK(!releaseSequence(true, true));
  CHECK(releaseSequence(false, false)); // C++20: also in the same thread
  CHECK(releaseSequence(false, true));
}

TEST_CASE("litmus: read-modify-writes lose nothing, compare-exchange has one winner") {
  Model m;
  Location x = m.atomic("x"), y = m.atomic("y");
  ThreadCode &p = m.thread("p"), &q = m.thread("q");
  for (ThreadCode *t : {&p, &q}) {
    t->fetchAdd(x, 1, relaxed, 0);
    t->compareExchange(y, 0, t == &p ? 1 : 2, relaxed, 1);
  }
  CHECK(canEnd(m, {0, 0, 1, 1}));
  CHECK(canEnd(m, {1, 2, 0, 0}));
  CHECK(canEnd(m, {0, 2, 1, 0}));
  CHECK(!canEnd(m, {0, 0, 0, 1}));
  CHECK(!canEnd(m, {0, 0, 1, 0}));
  CHECK(!canEnd(m, {0, 2, 1, 1}));
}

TEST_CASE("litmus: a read and a later write of plain data race unless ordered") {
  for (bool ordered : {true, false}) {
    Model m;
    Location data = m.plain("data"), done = m.atomic("done");
    ThreadCode &p = m.thread("p"), &q = m.thread("q");
    p.read(data, 0);
    p.store(done, 1, ordered ? release : relaxed);
    q.await(done, equal(1), acquire);
    q.write(data, 1);
    std::optional<Fault> fault = faultOf(m);
    REQUIRE(fault.has_value() == !ordered);
    if (fault)
      CHECK(fault->kind == Fault::Race);
  }
}

TEST_CASE("litmus: two reads of plain data are no race, two writes are") {
  for (bool write : {false, true}) {
    Model m;
    Location data = m.plain("data");
    for (const char *name : {"p", "q"})
      if (write)
        m.thread(name).write(data, 1);
      else
        m.thread(name).read(data, 0);
    CHECK(faultOf(m).has_value() == write);
  }
}

TEST_CASE("litmus: a wait that nothing ends is a hang, also if somebody could die") {
  Model m;
  Location x = m.atomic("x"), gone = m.atomic("gone");
  ThreadCode &p = m.thread("p");
  p.death = gone;
  p.await(x, equal(1), acquire);
  std::optional<Fault> fault = faultOf(m);
  REQUIRE(fault);
  CHECK(fault->kind == Fault::Hang);
  CHECK(fault->text == "nobody can go on: p waits for x;");
}

TEST_CASE("litmus: a thread that may die does so before every instruction") {
  Model m;
  Location x = m.atomic("x"), y = m.atomic("y"), gone = m.atomic("gone");
  ThreadCode &p = m.thread("p"), &q = m.thread("q");
  p.death = gone;
  p.store(x, 1, release);
  p.store(y, 1, release);
  Label dead = q.label(), end = q.label();
  q.awaitOrAbort(y, equal(1), acquire, gone, relaxed, dead);
  q.load(x, 0, relaxed);
  q.expect(0, equal(1), "x comes before y");
  q.branchIf(0, equal(1), end);
  q.bind(dead);
  q.load(x, 1, relaxed);
  q.bind(end);
  std::set<int> found; // what q finds in x once p is dead
  m.judge = [&](const Final &final) {
    if (final.died[0])
      found.insert(final.registers[1][0] ? 10 : final.registers[1][1]);
    return std::string();
  };
  CHECK(!faultOf(m));
  CHECK(found == std::set<int>{0, 1});
}

TEST_CASE("litmus: exploring too much is an answer") {
  Model m;
  Location x = m.atomic("x");
  for (const char *name : {"p", "q", "r"}) {
    ThreadCode &t = m.thread(name);
    for (int i = 0; i < 4; ++i)
      t.fetchAdd(x, 1, relaxed);
  }
  Result result = explore(m, {.maxStates = 50});
  REQUIRE(result.fault);
  CHECK(result.fault->kind == Fault::TooLarge);
}
