#include "dialect/simulate/NcclModel.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace ccl::model;

namespace {

using A = NcclAlgorithm;
using P = NcclProtocol;

/// Boxes of GPUs behind an NVSwitch; GPU g of every box has a NIC on rail g. GB/s.
Topology boxes(int32_t nodes, int32_t gpus, double nvlink, double nic, bool reduces) {
  Topology t;
  t.axes = {{"node", nodes}, {"gpu", gpus}};
  const int32_t ranks = nodes * gpus;
  auto both = [&](int32_t a, int32_t b, double bandwidth) {
    t.links.push_back({a, b, bandwidth, 0.5, {}});
    t.links.push_back({b, a, bandwidth, 0.5, {}});
  };
  for (int32_t n = 0; n < nodes; ++n)
    t.switches.push_back({"nvs" + std::to_string(n), reduces, reduces});
  for (int32_t g = 0; g < gpus && nodes > 1; ++g)
    t.switches.push_back({"rail" + std::to_string(g)});
  for (int32_t n = 0; n < nodes; ++n)
    for (int32_t g = 0; g < gpus; ++g) {
      both(n * gpus + g, ranks + n, nvlink);
      if (nodes > 1)
        both(n * gpus + g, ranks + nodes + g, nic);
    }
  return t;
}

NcclMachine machineOf(const Topology &topology, NcclMachineOptions options) {
  std::string why;
  std::optional<NcclMachine> machine = ncclMachineOf(topology, options, &why);
  REQUIRE_MESSAGE(machine, why);
  CHECK(machine->check() == "");
  return *machine;
}
NcclMachine h100(int32_t nodes) {
  return machineOf(boxes(nodes, 8, 370.8, 50, true), {.arch = 90});
}
NcclMachine a100(int32_t nodes) { return machineOf(boxes(nodes, 8, 240, 25, false), {.arch = 80}); }

std::optional<NcclEstimate> find(const NcclMachine &machine, Collective collective, int64_t bytes,
                                 A algorithm, P protocol) {
  for (const NcclEstimate &e : estimates(machine, collective, bytes))
    if (e.algorithm == algorithm && e.protocol == protocol)
      return e;
  return {};
}
double us(const NcclMachine &machine, Collective collective, int64_t bytes, A algorithm,
          P protocol) {
  std::optional<NcclEstimate> e = find(machine, collective, bytes, algorithm, protocol);
  REQUIRE(e);
  return e->us;
}

void checkGraph(const NcclGraph &graph, int32_t channels, double bwIntra, double bwInter) {
  CHECK(graph.channels == channels);
  CHECK(graph.bwIntra == doctest::Approx(bwIntra));
  CHECK(graph.bwInter == doctest::Approx(bwInter));
}

} // namespace

// "24 coll channels, 16 nvls channels" is what NCCL logs on p5.48xlarge (8 H100), "24 coll
// channels" on HGX A100 (nccl-tests issue 100), "16 coll channels" on 8 H800 (nccl issue 892) and
// on boxes of 8 H100 with NICs (nccl issue 1453).
TEST_CASE("channels are those that NCCL logs") {
  NcclMachine m = h100(1);
  checkGraph(m.ring, 12, 30, 30);
  checkGraph(m.tree, 12, 30, 30);
  checkGraph(m.nvls, 8, 40, 60);
  CHECK(m.kernelChannels() == 24);
  m = h100(3);
  checkGraph(m.ring, 8, 48, 48);
  checkGraph(m.nvls, 8, 40, 48);
  CHECK(m.kernelChannels() == 16);
  m = a100(1);
  checkGraph(m.ring, 12, 20, 20);
  CHECK(m.nvls.channels == 0);
  CHECK(m.kernelChannels() == 24);
  m = machineOf(boxes(1, 8, 164.8, 0, true), {.arch = 90});
  checkGraph(m.ring, 8, 20, 20);
  CHECK(m.kernelChannels() == 16);
  // Trees are faster inside of a node than between nodes, as far as links allow.
  m = a100(2);
  checkGraph(m.ring, 8, 24, 24);
  checkGraph(m.tree, 8, 30, 24);
}

TEST_CASE("8 H100: by hand") {
  NcclMachine m = h100(1);
  // 14 steps. 6.6 + 14 * 0.6; LL has half of 360 GB/s and at most 141, of which a ring makes 8/14.
  CHECK(us(m, Collective::AllReduce, 1024, A::Ring, P::LL) ==
        doctest::Approx(15.0 + 1024 / (141 * 8 / 14.0 * 1e3)));
  // 14 + 14 * 1.9; 0.92 of 360.
  CHECK(us(m, Collective::AllReduce, 1 << 20, A::Ring, P::LL128) ==
        doctest::Approx(40.6 + 1048576 / (331.2 * 8 / 14 * 1e3)));
  // 8.4 + 14 * 3.4.
  CHECK(us(m, Collective::AllReduce, 1 << 30, A::Ring, P::Simple) ==
        doctest::Approx(56.0 + 1073741824.0 / (360 * 8 / 14.0 * 1e3)));
  // 6.8 + 2 * 7 * 0.6; 0.92 of 360, then 1/3.8, half of it, and 0.9 of that at 1 KiB (2^4 * 64 B).
  CHECK(us(m, Collective::AllReduce, 1024, A::Tree, P::LL) ==
        doctest::Approx(15.2 + 1024 / (331.2 / 3.8 / 2 * 0.9 * 1e3)));
  // 8.4 + 2 * 7 * 4; at 1 MiB (2^14 * 64 B) trees reach half.
  CHECK(us(m, Collective::AllReduce, 1 << 20, A::Tree, P::Simple) ==
        doctest::Approx(64.4 + 1048576 / (331.2 / 2 * 0.5 * 1e3)));
  // 8 heads with 40 GB/s, 0.85 of 7/8 of that twice: 272 GB/s, nccl-tests' 476 GB/s.
  std::optional<NcclEstimate> nvls =
      find(m, Collective::AllReduce, int64_t(8) << 30, A::Nvls, P::Simple);
  REQUIRE(nvls);
  CHECK(nvls->latency == doctest::Approx(25));
  CHECK(nvls->bandwidth == doctest::Approx(272));
  CHECK(nvls->algbw * 2 * 7 / 8 == doctest::Approx(476).epsilon(0.002));
  CHECK(nvls->channels == 16);
  // 7 steps; 8/7 of the bus. Gathering in the switch: one direction, 7/8 of the sum is others'.
  CHECK(us(m, Collective::AllGather, 1 << 28, A::Ring, P::Simple) ==
        doctest::Approx(8.4 + 7 * 3.4 + double(1 << 28) / (360 * 8 / 7.0 * 1e3)));
  CHECK(us(m, Collective::ReduceScatter, 1 << 28, A::Nvls, P::Simple) ==
        doctest::Approx(25 + double(1 << 28) / (8 * 40 * 0.85 * 7 / 8 * 7 / 8 * 1e3)));
  // Every channel in the same order: one hop, all of the bus.
  CHECK(us(m, Collective::Broadcast, 1 << 20, A::Ring, P::Simple) ==
        doctest::Approx(8.4 + 3.4 + 1048576 / 360e3));
  m.sameChannels = false;
  CHECK(us(m, Collective::Broadcast, 1 << 20, A::Ring, P::Simple) ==
        doctest::Approx(8.4 + 8 * 4 + 1048576 / 360e3));
}

// Latencies in the table that NCCL logged on 2 nodes of 8 H100 (nccl issue 1519; NCCL_DEBUG_SUBSYS=
// TUNING), to the tenth: the rows of AllGather and of trees, which later versions left as they
// were.
TEST_CASE("16 H100: latencies are those that NCCL logs") {
  NcclMachine m = h100(2);
  auto latency = [&](Collective c, A a, P p) {
    std::optional<NcclEstimate> e = find(m, c, 64, a, p);
    REQUIRE(e);
    return e->latency;
  };
  CHECK(latency(Collective::AllGather, A::Ring, P::LL) == doctest::Approx(23.3));
  CHECK(latency(Collective::AllGather, A::Ring, P::LL128) == doctest::Approx(44.6));
  CHECK(latency(Collective::AllGather, A::Ring, P::Simple) == doctest::Approx(70.0));
  CHECK(latency(Collective::Broadcast, A::Ring, P::LL) == doctest::Approx(9.3));
  CHECK(latency(Collective::Broadcast, A::Ring, P::LL128) == doctest::Approx(18.0));
  CHECK(latency(Collective::Broadcast, A::Ring, P::Simple) == doctest::Approx(22.4));
  CHECK(latency(Collective::AllReduce, A::Tree, P::LL) == doctest::Approx(25.2));
  CHECK(latency(Collective::AllReduce, A::Tree, P::LL128) == doctest::Approx(48.5));
}

TEST_CASE("16 H100: by hand") {
  NcclMachine m = h100(2);
  // 30 steps, 2 of them between nodes; 1.4 times that from 64 bytes a channel and rank on.
  double latency = 8.4 + 28 * 3.4 + 2 * 14;
  CHECK(us(m, Collective::AllReduce, 16 * 16 * 64 - 1, A::Ring, P::Simple) ==
        doctest::Approx(latency + (16 * 16 * 64 - 1) / (384 * 16 / 30.0 * 1e3)));
  CHECK(us(m, Collective::AllReduce, 16 * 16 * 64, A::Ring, P::Simple) ==
        doctest::Approx(1.4 * latency + 16 * 16 * 64 / (384 * 16 / 30.0 * 1e3)));
  // LL on several nodes: by the CPU. A proxy's post takes longer than a hop.
  CHECK(us(m, Collective::AllReduce, 1024, A::Ring, P::LL) ==
        doctest::Approx(6.6 + 28 * 1.0 + 2 * 2.7 + 1024 / (39 * 16 / 30.0 * 1e3)));
  NcclMachine amd = m;
  amd.cpu = NcclMachine::Cpu::Amd;
  CHECK(us(amd, Collective::AllReduce, 1024, A::Ring, P::LL) ==
        doctest::Approx(6.6 + 28 * 2.0 + 2 * 2.7 + 1024 / (22.5 * 16 / 30.0 * 1e3)));
  // 25 + 2 * 20.9; channels of 57.7 GB/s (40 * 0.85 * 7/8 * 2 = 59.5 would be there).
  CHECK(us(m, Collective::AllReduce, 1 << 30, A::NvlsTree, P::Simple) ==
        doctest::Approx(66.8 + 1073741824.0 / (8 * 57.7 * 16 / 30 * 1e3)));
  CHECK_FALSE(find(m, Collective::AllReduce, 1024, A::Nvls, P::Simple));
  // With SHARP: 30 + 2 * 7 * 2.8 along a chain, half of the bus.
  NcclMachine sharp = machineOf(boxes(2, 8, 370.8, 50, true), {.arch = 90, .sharp = true});
  checkGraph(sharp.collnet, 8, 48, 48);
  CHECK(us(sharp, Collective::AllReduce, 1 << 20, A::CollNetChain, P::Simple) ==
        doctest::Approx(69.2 + 1048576 / (384 / 2.0 * 1e3)));
  CHECK(us(sharp, Collective::AllReduce, 1 << 20, A::CollNetDirect, P::Simple) ==
        doctest::Approx(31 + 2 * (3.7 + 7 * 0.4) + 1048576 / (384 * 0.85 / 2 * 1e3)));
  CHECK(us(sharp, Collective::AllGather, 1 << 20, A::CollNetDirect, P::Simple) ==
        doctest::Approx(31 + 2 * (3.7 + 7 * 0.4) + 1048576 / (8 * 48 * 0.9 * 1e3)));
  CHECK(find(sharp, Collective::AllReduce, 1024, A::Nvls, P::Simple));
}

TEST_CASE("8 A100: by hand") {
  NcclMachine m = a100(1);
  CHECK(us(m, Collective::AllReduce, 65536, A::Ring, P::LL) ==
        doctest::Approx(15.0 + 65536 / (87.7 * 8 / 14 * 1e3)));
  CHECK(us(m, Collective::AllReduce, 1 << 20, A::Ring, P::LL128) ==
        doctest::Approx(40.6 + 1048576 / (220.8 * 8 / 14 * 1e3)));
  CHECK(us(m, Collective::AllReduce, 1 << 30, A::Ring, P::Simple) ==
        doctest::Approx(56 + 1073741824.0 / (240 * 8 / 14.0 * 1e3)));
  CHECK(us(m, Collective::AllReduce, 1 << 30, A::Tree, P::Simple) ==
        doctest::Approx(64.4 + 1073741824.0 / (110.4 * 1e3)));
  // Volta: LL has no more than 39 GB/s.
  NcclMachine v100 = m;
  v100.arch = 70;
  CHECK(us(v100, Collective::AllReduce, 65536, A::Ring, P::LL) ==
        doctest::Approx(15.0 + 65536 / (39 * 8 / 14.0 * 1e3)));
}

TEST_CASE("one GPU a node: PAT, and the network's latency is not hidden") {
  NcclMachine m = machineOf(boxes(16, 1, 240, 25, false), {.arch = 80});
  checkGraph(m.ring, 1, 24, 24);
  // 8 + 4 * 14 / 3.5 + 16 * 2.8; 0.75 of 24 GB/s.
  CHECK(us(m, Collective::AllGather, 1 << 20, A::Pat, P::Simple) ==
        doctest::Approx(68.8 + 1048576 / (18 * 1e3)));
  CHECK_FALSE(find(m, Collective::AllReduce, 1 << 20, A::Pat, P::Simple));
  CHECK_FALSE(find(a100(2), Collective::AllGather, 1 << 20, A::Pat, P::Simple));
  // LL: 30 steps between nodes at the tree's 5 us.
  CHECK(us(m, Collective::AllReduce, 64, A::Ring, P::LL) ==
        doctest::Approx(6.6 + 30 * 5 + 64 / (12 * 16 / 30.0 * 1e3)));
}

// LL has a flag for every 4 bytes, so the least latency and half the bandwidth; LL128 has 120 bytes
// of 128 and needs NVLink; Simple has all of it and waits for fences (nccl issue 281).
TEST_CASE("the pick goes from LL over LL128 to Simple") {
  for (NcclMachine m : {a100(1), a100(2), h100(2), h100(8)})
    for (Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                         Collective::Broadcast}) {
      CAPTURE(m.ranks);
      CAPTURE(name(c));
      std::map<P, int> seen;
      P last = P::LL;
      for (int64_t bytes = 64; bytes <= int64_t(1) << 34; bytes *= 2) {
        std::optional<NcclEstimate> e = pick(m, c, bytes);
        REQUIRE(e);
        CHECK(e->protocol >= last);
        last = e->protocol;
        ++seen[last];
      }
      CHECK(last == P::Simple);
      CHECK(seen[P::LL] > 0);
      // A broadcast inside of a node is one hop of NVLink, for which LL128 gains nothing.
      CHECK((seen[P::LL128] > 0) == (m.nodes > 1 || c != Collective::Broadcast));
    }
}

TEST_CASE("who is picked") {
  CHECK(pick(h100(1), Collective::AllReduce, 1024)->algorithm == A::Ring);
  CHECK(pick(h100(1), Collective::AllReduce, 64 << 20)->algorithm == A::Nvls);
  CHECK(pick(h100(2), Collective::AllReduce, 1024)->algorithm == A::Tree);
  CHECK(pick(h100(2), Collective::AllReduce, 64 << 20)->algorithm == A::NvlsTree);
  CHECK(pick(a100(8), Collective::AllReduce, 65536)->algorithm == A::Tree);
  CHECK(pick(a100(2), Collective::AllReduce, 1 << 30)->algorithm == A::Ring);
  // Nobody is faster than who is picked.
  for (int64_t bytes : {1 << 10, 1 << 20, 1 << 28})
    for (const NcclEstimate &e : estimates(h100(8), Collective::AllReduce, bytes))
      CHECK(e.us >= pick(h100(8), Collective::AllReduce, bytes)->us);
}

TEST_CASE("times grow with bytes") {
  for (NcclMachine m : {h100(1), h100(2), a100(1), a100(4),
                        machineOf(boxes(4, 8, 721.8, 50, true), {.arch = 100, .sharp = true})})
    for (Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                         Collective::Broadcast, Collective::Reduce}) {
      std::map<std::pair<A, P>, NcclEstimate> before;
      for (int64_t bytes = 1; bytes <= int64_t(1) << 36; bytes = bytes * 3 / 2 + 1)
        for (const NcclEstimate &e : estimates(m, c, bytes)) {
          CAPTURE(name(e.algorithm));
          CAPTURE(name(e.protocol));
          CAPTURE(bytes);
          CHECK(e.us > 0);
          CHECK(e.algbw == doctest::Approx(double(bytes) / e.us / 1e3));
          CHECK(e.channels >= 1);
          CHECK(e.threads >= 96);
          auto [entry, isNew] = before.try_emplace({e.algorithm, e.protocol}, e);
          // But for the sizes at which NCCL corrects a tree's bandwidth upwards.
          if (!isNew && e.algorithm != A::Tree && e.algorithm != A::NvlsTree)
            CHECK(e.us > entry->second.us);
          CHECK(e.channels >= entry->second.channels);
          entry->second = e;
        }
    }
}

// threadThresholds 8/8/64 | 64/8/64 in NCCL's logs of 8 ranks: bytes a thread, trees, then rings.
TEST_CASE("small calls get few channels and threads") {
  NcclMachine m = h100(1);
  auto launch = [&](int64_t bytes, A a, P p) {
    std::optional<NcclEstimate> e = find(m, Collective::AllReduce, bytes, a, p);
    REQUIRE(e);
    return std::pair(e->channels, e->threads);
  };
  CHECK(launch(1024, A::Ring, P::LL) == std::pair(1, 96));
  CHECK(launch(512 * 64, A::Ring, P::LL) == std::pair(1, 512));
  CHECK(launch(5 * 512 * 64, A::Ring, P::LL) == std::pair(5, 512));
  CHECK(launch(24 * 512 * 64 - 1, A::Ring, P::LL) == std::pair(23, 512));
  CHECK(launch(1 << 30, A::Ring, P::LL) == std::pair(24, 512));
  CHECK(launch(24 * 640 * 8, A::Ring, P::LL128) == std::pair(24, 640));
  CHECK(launch(1 << 30, A::Ring, P::Simple) == std::pair(24, 544));
  CHECK(launch(1024, A::Tree, P::Simple) == std::pair(1, 640));
}

TEST_CASE("where there is no model") {
  NcclMachine m = h100(1);
  CHECK(estimates(m, Collective::AllToAll, 1024).empty());
  CHECK(estimates(m, Collective::Barrier, 1024).empty());
  CHECK(estimates(m, Collective::AllReduce, 0).empty());
  CHECK_FALSE(pick(m, Collective::Gather, 1024));
  m.ring.bwIntra = 0;
  CHECK(m.check() == "ring: 12 channels of 0 GB/s inside and 30 GB/s between nodes; needs positive "
                     "bandwidths");
  CHECK(estimates(m, Collective::AllReduce, 1024).empty());
  m = h100(1), m.arch = 50;
  CHECK(m.check() == "NCCL has no model for compute capability 50; needs 60 or more");
  m = h100(1), m.ranks = 7, m.nodes = 2;
  CHECK(m.check() == "7 ranks on 2 nodes: needs as many on each, and one at least");
  // No LL128 over PCIe.
  m = a100(1), m.nvlink = false;
  CHECK_FALSE(find(m, Collective::AllReduce, 1024, A::Ring, P::LL128));
}

TEST_CASE("machines of topologies") {
  std::string why;
  SUBCASE("without an axis, NICs part nodes; PCIe limits a NIC") {
    Topology t;
    t.axes = {{"rank", 4}};
    t.switches = {{"pcie0", false, false, SwitchKind::Pcie},
                  {"pcie1", false, false, SwitchKind::Pcie},
                  {"nic0", false, false, SwitchKind::Nic},
                  {"nic1", false, false, SwitchKind::Nic},
                  {"ib"}};
    auto both = [&](int32_t a, int32_t b, double bandwidth) {
      t.links.push_back({a, b, bandwidth, 1, {}});
      t.links.push_back({b, a, bandwidth, 1, {}});
    };
    for (int32_t r = 0; r < 4; ++r)
      both(r, 4 + r / 2, 12);
    both(4, 6, 12), both(5, 7, 12), both(6, 8, 25), both(7, 8, 25);
    NcclMachine m = machineOf(t, {.arch = 80});
    CHECK(m.nodes == 2);
    CHECK(m.ranks == 4);
    CHECK_FALSE(m.nvlink);
    CHECK_FALSE(m.nvswitch);
    CHECK_FALSE(m.ll128);
    checkGraph(m.ring, 1, 12, 12);
  }
  SUBCASE("links from GPU to GPU") {
    // Four GPUs, each with 25 GB/s to every other.
    Topology t;
    t.axes = {{"gpu", 4}};
    for (int32_t a = 0; a < 4; ++a)
      for (int32_t b = 0; b < 4; ++b)
        if (a != b)
          t.links.push_back({a, b, 25, 1, {}});
    NcclMachine m = machineOf(t, {.arch = 80});
    CHECK(m.nvlink);
    CHECK_FALSE(m.nvswitch);
    CHECK(m.nvls.channels == 0);
    // Two channels of 12 GB/s a link carry more than one of 20.
    checkGraph(m.ring, 6, 12, 12);
  }
  SUBCASE("a node's worst cut limits its rings") {
    // Two pairs of GPUs with 100 GB/s inside, 10 GB/s between them.
    Topology t;
    t.axes = {{"gpu", 4}};
    for (auto [a, b, bandwidth] :
         {std::tuple(0, 1, 100.), {2, 3, 100.}, {1, 2, 10.}, {3, 0, 10.}}) {
      t.links.push_back({a, b, bandwidth, 1, {}});
      t.links.push_back({b, a, bandwidth, 1, {}});
    }
    CHECK(machineOf(t, {.arch = 80}).ring.channels * machineOf(t, {.arch = 80}).ring.bwIntra <= 20);
  }
  SUBCASE("unequal nodes") {
    Topology t;
    t.axes = {{"rank", 3}};
    t.switches = {{"nic0", false, false, SwitchKind::Nic}};
    for (auto [a, b] : {std::pair(0, 1), {1, 0}, {0, 3}, {3, 0}, {2, 3}, {3, 2}})
      t.links.push_back({a, b, 25, 1, {}});
    CHECK_FALSE(ncclMachineOf(t, {}, &why));
    CHECK(why == "node 0 has 2 ranks, node 1 has 1; NCCL's model is of equal nodes");
  }
  SUBCASE("too large a node") {
    CHECK_FALSE(ncclMachineOf(boxes(1, 600, 400, 0, false), {}, &why));
    CHECK(why == "a node has 600 ranks; NCCL knows at most 576");
  }
  SUBCASE("an architecture before the model") {
    CHECK_FALSE(ncclMachineOf(boxes(1, 8, 400, 0, false), {.arch = 35}, &why));
    CHECK(why == "NCCL has no model for compute capability 35; needs 60 or more");
  }
  SUBCASE("nodes without ways inside") {
    Topology t = boxes(2, 2, 100, 25, false);
    std::erase_if(t.links, [](const Link &l) { return l.bandwidth == 100; });
    for (auto [a, b] : {std::pair(4, 6), {6, 4}, {5, 6}, {6, 5}, {6, 7}, {7, 6}})
      t.links.push_back({a, b, 25, 1, {}});
    REQUIRE(t.check() == "");
    CHECK_FALSE(ncclMachineOf(t, {}, &why));
    CHECK(why == "ranks of a node do not reach each other inside of it");
  }
}
