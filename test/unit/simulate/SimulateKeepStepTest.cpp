// What one rank cannot be simulated for.

#include "test/unit/simulate/Symmetric.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace ccl::model;

TEST_CASE("a measured curve of some ways only") {
  SimulateOptions options = optionsFor(8 * 120, 3);
  options.curves.push_back({WayCurve::Of::Pair, 3, 4, {{{0, INFINITY, 60, 1e-3 / 7}}}});
  std::string why;
  const Symmetric one = ring(8, 2, true);
  CHECK(!simulateSymmetric(one.rankZero, one.contract, one.symmetry, starTopology(8, 25, 0.5),
                           options, &why));
  CHECK(why.find("differ in links, bandwidth or latency") != std::string::npos);
}

TEST_CASE("links that change and uneven shards are not the same on all ranks") {
  std::string why;
  const Symmetric far = direct(4, true, 1);
  Topology t = ringTopology(4, 25, 0.5);
  t.reconfigurable = 3;
  SimulateOptions options = optionsFor(120);
  CHECK(!simulateSymmetric(far.rankZero, far.contract, far.symmetry, t, options, &why));
  CHECK(why == "the fabric changes links");
  options.lengths.assign(16, 120);
  CHECK(!simulateSymmetric(far.rankZero, far.contract, far.symmetry, fullTopology(4, 25, 1),
                           options, &why));
  CHECK(why == "shards have different lengths");
}

TEST_CASE("what does not keep step is refused") {
  std::string why;
  auto refused = [&](const Symmetric &folded, const Topology &t, const SimulateOptions &options) {
    why.clear();
    return !simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry, t, options, &why);
  };
  CHECK(!refused(ring(4, 2, true), ringTopology(4, 25, 1), optionsFor(16, 4)));
  CHECK(refused(ring(4, 2, true), ringTopology(4, 25, 1), optionsFor(17)));
  CHECK(why == "17 elements are not divisible by 4 chunks, so that lengths differ");
  Topology uneven = ringTopology(4, 25, 1);
  uneven.links[4].bandwidth = 20;
  CHECK(refused(ring(4, 2, true), uneven, optionsFor(16)));
  CHECK(why ==
        "the ways from rank 0 to rank 1 and from rank 2 to rank 3 differ in links, bandwidth "
        "or latency");
  // Two switches with two ranks each: the link between them carries messages of both.
  Topology twoLevels;
  twoLevels.axes = {{"rank", 4}}, twoLevels.switches = {{"a"}, {"b"}};
  addBoth(twoLevels, 0, 4, 25, 1), addBoth(twoLevels, 1, 4, 25, 1), addBoth(twoLevels, 2, 5, 25, 1);
  addBoth(twoLevels, 3, 5, 25, 1), addBoth(twoLevels, 4, 5, 25, 1);
  CHECK(refused(direct(4, true, 1), twoLevels, optionsFor(16)));
  CHECK(!why.empty());
  ProgramMaker across(1, {{"x", Role::InOut, 4}}, 1);
  across.add(0, transfer({local(0, 0)}, {across.to(0, 2)}));
  across.add(0, transfer({across.from(0, 2)}, {local(0, 0)}));
  CHECK(refused({across.program,
                 {{2, 2}, {{{2, {1, 0}}, {2, {0, 1}}}}, {}},
                 makeContract(Collective::AllReduce, 4, 4, Reduction::Sum)},
                twoLevels, optionsFor(16)));
  CHECK(why == "the link from a to b carries the same message of several ranks");
  // A resource that only two of the ranks share.
  Topology shared = fullTopology(4, 25, 1);
  shared.resources = {{"a", 0}, {"b", 0}, {"c", 0}};
  for (Link &link : shared.links)
    link.resources = {link.src / 2 ? link.src - 1 : 0};
  CHECK(refused(direct(4, true, 1), shared, optionsFor(16)));
  CHECK(!why.empty());
  // What two links of rank 0 share, those of others have one each of.
  Topology lopsided = fullTopology(4, 25, 1);
  for (Link &link : lopsided.links) {
    link.resources = {int32_t(lopsided.resources.size())};
    lopsided.resources.push_back({"r" + std::to_string(lopsided.resources.size()), 0});
  }
  CHECK(!refused(direct(4, false, 1), lopsided, optionsFor(16)));
  for (Link &link : lopsided.links)
    if (link.src == 0 && link.dst < 3)
      link.resources = {0};
  CHECK(refused(direct(4, false, 1), lopsided, optionsFor(16)));
  CHECK(why.find("carry different messages") != std::string::npos);
  Symmetric stuck = ring(4, 1, true);
  auto report = simulateSymmetric(stuck.rankZero, stuck.contract, stuck.symmetry,
                                  ringTopology(4, 25, 1), optionsFor(16), &why);
  REQUIRE(report);
  REQUIRE(report->faults.size() == 1);
  CHECK(report->faults[0].kind == FaultKind::Deadlock);
}

TEST_CASE("of many instructions chunks are as long as the longest") {
  const Symmetric folded = ring(8, 2, true);
  const Topology t = ringTopology(8, 25, 1);
  const int64_t instructions = 8 * int64_t(folded.rankZero.ranks[0].agents[0].code.size());
  for (int64_t count : {8 * 120 + 1, 8 * 120 + 7, 3}) {
    CAPTURE(count);
    SimulateOptions options = optionsFor(count, 3);
    options.mostUneven = instructions;
    CHECK(!simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry, t, options));
    options.mostUneven = instructions - 1;
    auto report = simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry, t, options);
    REQUIRE(report);
    CHECK(report->lengthened);
    CHECK(report->bytes == count * 4);
    const Program all = unfold(folded.rankZero, folded.symmetry);
    CHECK(report->us >= simulate(all, folded.contract, t, options).us);
    options.count = (count + 7) / 8 * 8;
    CHECK(report->us == simulate(all, folded.contract, t, options).us);
    report = simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry, t, options);
    REQUIRE(report);
    CHECK(!report->lengthened);
  }
}

TEST_CASE("iterations that ranks execute in different orders") {
  // Every chunk in turn to the next rank: whatever the order, all take the same time.
  for (bool same : {true, false}) {
    ProgramMaker maker(1, {{"in", Role::In, 4}, {"out", Role::Out, 4}}, 2);
    for (int32_t c = 0; c < 4; ++c) {
      const int32_t tag = !same && c == 3 ? 5 : 0;
      maker.add(0, transfer({local(0, c)}, {maker.to(0, 1, tag)}));
      maker.add(0, transfer({maker.from(0, 3, tag)}, {local(1, c)}));
    }
    Symmetric folded{maker.program,
                     {{4}, {{{4, {1}}}, {{4, {1}}}}, {{0, 0, 2, 4, {{4, {1}}}}}},
                     makeContract(Collective::AllReduce, 4, 4, Reduction::Sum)};
    std::string why;
    auto report = simulateSymmetric(folded.rankZero, folded.contract, folded.symmetry,
                                    ringTopology(4, 25, 1), optionsFor(16), &why);
    CHECK(report.has_value() == same);
    if (!same)
      CHECK(why == "agent 0, instruction 6: iterations that ranks execute in different orders take "
                   "different times");
  }
}
