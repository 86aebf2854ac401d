#include <ccl/topology.h>

#include "test/unit/Examples.h"
#include "test/unit/frontend/Ranks.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

using namespace ccl;
using ccl::test::contains;
using ccl::test::messageOf;
using ccl::test::refusal;
using ccl::test::valueOf;

static Topology named(const std::string &name) { return valueOf(Topology::open(name)); }

TEST_CASE("topology: a name") {
  Topology machine = named("dgx-h100:2");
  CHECK(machine.name() == "dgx-h100");
  CHECK(machine.label() == "dgx-h100:2");
  CHECK(machine.ranks() == 16);
  CHECK(machine.axes().size() == 2);
  CHECK(machine.axes()[1].size == 8);
  CHECK(machine.nodeName(3) == "rank 3");
  CHECK(machine.nodeName(-1) == "");
  CHECK(machine.nodeName(16 + int(machine.switches().size())) == "");
  const Topology::Link &first = machine.links().front();
  CHECK(first.GBps == 450);
  CHECK(machine.switches()[size_t(first.destination - machine.ranks())].multicast);
  std::vector<Topology::Name> names = Topology::names();
  CHECK(std::any_of(names.begin(), names.end(),
                    [](const Topology::Name &row) { return row.name == "dgx-h100"; }));
}

TEST_CASE("topology: texts") {
  Topology ring = valueOf(Topology::parse("3 3 6\n0 1 2\n1 0 2\n1 2 2\n2 1 2\n2 0 2\n0 2 2\n"));
  CHECK(ring.ranks() == 3);
  CHECK(ring.links().size() == 6);
  Topology again = valueOf(Topology::parse(valueOf(ring.text())));
  CHECK(again.links().size() == 6);
  CHECK(again.links()[5].GBps == 2);
  CHECK(contains(refusal(Topology::parse("2 2 1\n0 5 2\n", {}, "net.txt"), Error::Kind::program),
                 "net.txt:2:"));
  CHECK(contains(refusal(Topology::open("/absent/file"), Error::Kind::argument),
                 "cannot read '/absent/file'"));
  CHECK(contains(refusal(Topology::open("ring:0"), Error::Kind::argument), "ring:0"));
  CHECK(contains(refusal(Topology::open("ring:4", {.pcie = 9}), Error::Kind::argument), "pcie"));
  CHECK(contains(refusal(Topology::open("ring:4", {.nodes = -1}), Error::Kind::argument), "nodes"));
}

TEST_CASE("topology: bounds") {
  Topology star = named("star:4");
  Bound limit = valueOf(star.bound(Collective::allGather));
  CHECK(limit.algbw() == doctest::Approx(4.0 / 3));
  CHECK(limit.isExact());
  CHECK(limit.attained() == limit.algbw());
  CHECK(limit.num() > 0);
  CHECK(limit.cut().size() > 0);
  CHECK(contains(limit.certificate(), "shards"));
  // 1e9 bytes: 4/3 GB/s, and no latency.
  CHECK(limit.us(1'000'000'000) == doctest::Approx(750'000));
  CHECK(valueOf(star.bound(Collective::allToAll)).num() == 0);
  CHECK(valueOf(star.bounds()).size() == 8);
  CHECK(valueOf(star.bound(Collective::broadcast, {.root = 3})).root() == 3);
  CHECK(valueOf(named("tpu-v4:1x1x1").bounds()).empty());
  for (const BoundOptions &wrong : {BoundOptions{.root = 4}, BoundOptions{.root = -1},
                                    BoundOptions{.gap = -0.1}, BoundOptions{.gap = 1.5}})
    CHECK(refusal(star.bound(Collective::reduce, wrong), Error::Kind::argument) != "");
  CHECK(contains(refusal(star.bound(Collective::barrier), Error::Kind::argument), "barrier"));
}

TEST_CASE("topology: what NCCL says of it") {
  Topology machine =
      valueOf(Topology::open("dgx-h100", {.rates = TopologyOptions::Rates::effective}));
  const std::vector<NcclEstimate> all =
      valueOf(machine.ncclEstimates(Collective::allReduce, 64 << 20));
  REQUIRE(all.size() > 3);
  const auto isTaken = [](const NcclEstimate &each) { return each.isTaken; };
  CHECK(std::count_if(all.begin(), all.end(), isTaken) == 1);
  const NcclEstimate &taken = *std::find_if(all.begin(), all.end(), isTaken);
  CHECK(taken.algorithm == "NVLS");
  CHECK(taken.channels == 16);
  for (const NcclEstimate &each : all)
    CHECK(each.algbw == doctest::Approx((64 << 20) / each.us / 1000));
  CHECK(valueOf(machine.ncclEstimates(Collective::allReduce, 64 << 20, 80)).size() < all.size());
  CHECK(valueOf(machine.ncclEstimates(Collective::allToAll, 64 << 20)).empty());
  CHECK(valueOf(machine.ncclEstimates(Collective::allReduce, 0)).empty());
  auto why = [](const Topology &topology, int64_t bytes, int capability) {
    return refusal(topology.ncclEstimates(Collective::allReduce, bytes, capability),
                   Error::Kind::argument);
  };
  CHECK(contains(why(machine, -1, 0), "bytes: -1 is below 0"));
  CHECK(contains(why(machine, 1, 59), "compute capability: 59"));
  CHECK(contains(why(named("amd-mi300x"), 1, 0), "NCCL is not for MI300X"));
  CHECK(valueOf(named("amd-mi300x").ncclEstimates(Collective::allReduce, 1, 90)).size() > 0);
}

TEST_CASE("simulation: a closed form") {
  // Ring all-reduce of n ranks: 2 (n - 1) steps of a chunk each, over links of 1 GB/s.
  Topology ring = named("ring:4");
  Simulator simulator = valueOf(ring.simulator(Collective::allReduce, {.algorithm = "ring"}));
  CHECK(simulator.name() == "ring");
  CHECK(simulator.collective() == Collective::allReduce);
  Simulation launch = valueOf(simulator.run(4000, {.microBatches = 1}));
  CHECK(launch.us() == doctest::Approx(6));
  CHECK(launch.bytes() == 4000);
  CHECK(launch.count() == 1000);
  CHECK(launch.algbw() == doctest::Approx(4000 / 6.0 / 1000));
  CHECK(launch.busbw() == doctest::Approx(launch.algbw() * 1.5));
  CHECK(launch.ratio() == doctest::Approx(launch.boundUs() / 6));
  CHECK(launch.links().size() == 4);
  CHECK(launch.links()[0].bytes == doctest::Approx(6000));
  CHECK(launch.agents().size() == 4);
  std::vector<Simulation::PathPart> path = valueOf(launch.criticalPath());
  REQUIRE(!path.empty());
  CHECK(path.front().beginUs == 0);
  CHECK(path.back().endUs == launch.us());
  CHECK(valueOf(simulator.run(4000, {.microBatches = 1, .launchUs = 2.5})).us() ==
        doctest::Approx(8.5));
  CHECK(!valueOf(simulator.run(4000, {.bound = std::nullopt})).bound());
  CHECK(valueOf(simulator.run(3)).bytes() == 0); // no whole element
}

TEST_CASE("simulation: a fabric that changes its links is bounded by the best that it can make") {
  Topology optical = named("optical-rings:8");
  for (const char *algorithm : {"recursive_doubling", "ring", "two_shot"}) {
    CAPTURE(algorithm);
    Simulator simulator =
        valueOf(optical.simulator(Collective::allReduce, {.algorithm = algorithm}));
    for (int64_t bytes : {int64_t(1) << 10, int64_t(1) << 30})
      CHECK(valueOf(simulator.run(bytes)).ratio() <= 1);
  }
  // What stands for the circuits in that bound is no node of the topology.
  Simulator simulator =
      valueOf(optical.simulator(Collective::allGather, {.algorithm = "recursive_doubling"}));
  const std::optional<Bound> limit = valueOf(simulator.run(1 << 20)).bound();
  REQUIRE(limit);
  CHECK(limit->cut().size() > 0);
  for (int node : limit->cut())
    CHECK(optical.nodeName(node) != "");
}

TEST_CASE("simulation: uneven shards") {
  Simulator simulator =
      valueOf(named("ring:4").simulator(Collective::allGather, {.algorithm = "ring"}));
  // Equal ones are what they are with a size.
  const std::vector<int64_t> equal(4, 1000), one = {1000}, uneven = {4000, 0, 10, 0};
  const double even = valueOf(simulator.run(16000, {.bound = std::nullopt})).us();
  CHECK(valueOf(simulator.runV(equal)).us() == doctest::Approx(even));
  CHECK(valueOf(simulator.runV(one)).us() == doctest::Approx(even));
  Simulation launch = valueOf(simulator.runV(uneven));
  CHECK(launch.bytes() == 4 * 4010);
  CHECK(launch.count() == 4000);
  CHECK(!launch.bound());
  CHECK(launch.boundUs() == 0);
  CHECK(valueOf(launch.html()) != "");
  const std::vector<int64_t> wrong[] = {{}, {-1}, {INT64_MAX / 4}, {1 << 30, INT64_MAX / 8}};
  for (const std::vector<int64_t> &counts : wrong)
    CHECK(contains(refusal(simulator.runV(counts), Error::Kind::argument), "counts"));
  const std::vector<int64_t> more = {1, 2, 3, 4, 5};
  CHECK(contains(refusal(simulator.runV(more), Error::Kind::argument),
                 "counts: there are 5 counts, but all_gather has 4 shards"));
  Simulator sum = valueOf(named("ring:4").simulator(Collective::allReduce));
  CHECK(contains(refusal(sum.runV(equal), Error::Kind::argument), "no uneven form"));
}

TEST_CASE("simulation: every way in is the same") {
  Topology full = named("full:4");
  const std::string text = test::example("two_shot_all_reduce.mlir");
  Program program = valueOf(Program::compile(text, {.ranks = 4}));
  const double us = valueOf(valueOf(full.simulator(program)).run(1 << 20)).us();
  CHECK(us > 0);
  CHECK(valueOf(valueOf(full.simulator(text)).run(1 << 20)).us() == us);

  Algorithm a("star", Contract::broadcast(), 4);
  Buffer x = a.inout(1);
  for (int r = 1; r < 4; ++r)
    a.copy(x(0, 0), x(r, 0));
  const double built = valueOf(valueOf(full.simulator(a)).run(1000)).us();
  CHECK(valueOf(valueOf(full.simulator(valueOf(a.text()))).run(1000)).us() == built);
}

TEST_CASE("simulation: what is refused") {
  Topology ring = named("ring:4");
  CHECK(contains(refusal(ring.simulator("nonsense", {}, "my.mlir"), Error::Kind::program),
                 "my.mlir:1:1"));
  CHECK(contains(refusal(ring.simulatorOfFile("/absent.mlir"), Error::Kind::argument),
                 "cannot read"));
  Program three = valueOf(Program::generate(Collective::allReduce, {.ranks = 3}));
  CHECK(contains(refusal(ring.simulator(three), Error::Kind::argument), "3 ranks"));

  Algorithm a("star", Contract::broadcast(), 4);
  Buffer x = a.inout(1);
  for (int r = 1; r < 4; ++r)
    a.copy(x(0, 0), x(r, 0));
  Simulator simulator = valueOf(ring.simulator(a));
  for (int i = 0; i < 2; ++i) { // nothing of the first is left
    const std::string why = refusal(simulator.run(1000), Error::Kind::program);
    CHECK(contains(why, "TopologyTest.cpp:"));
    CHECK(why.find("from rank 0 to rank 2") == why.rfind("from rank 0 to rank 2"));
  }
  Simulator good = valueOf(ring.simulator(Collective::allReduce, {.algorithm = "ring"}));
  CHECK(refusal(good.run(-1), Error::Kind::argument) != "");
  CHECK(refusal(good.run(1, {.model = "fast"}), Error::Kind::argument) != "");
  CHECK(refusal(good.run(1, {.microBatches = -1}), Error::Kind::argument) != "");
  CHECK(refusal(good.run(1, {.syncUs = -1}), Error::Kind::argument) != "");
}

TEST_CASE("simulation: pictures") {
  Simulator simulator = valueOf(named("ring:4").simulator(Collective::allGather));
  Simulation launch = valueOf(simulator.run(1 << 20));
  const std::string trace = valueOf(launch.trace());
  CHECK(contains(trace, "traceEvents"));
  CHECK(contains(valueOf(launch.html()), "<svg"));
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / "ccl-topology-test.json";
  CHECK_OK(launch.writeTrace(path.string()));
  std::ifstream file(path);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == trace);
  std::filesystem::remove(path);
  CHECK(refusal(launch.writeTrace("/absent/folder/file"), Error::Kind::machine) != "");
  CHECK(refusal(launch.writeHtml(""), Error::Kind::argument) != "");

  // Any thread may ask for what is computed when it is asked for.
  std::vector<std::thread> threads;
  std::vector<std::string> seen(4);
  Simulation other = valueOf(simulator.run(1 << 20));
  for (std::string &each : seen)
    threads.emplace_back([&] {
      Result<std::string> text = other.trace();
      each = text ? *text : "";
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(std::count(seen.begin(), seen.end(), trace) == 4);
}
