#include "passes/synthesis/solver/Decompositions.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ccl;
using namespace ccl::solver;
using model::Collective;

namespace {

/// Boxes of ranks with a switch each; the ranks of a box share so many NICs.
model::Topology boxes(int32_t nodes, int32_t gpus, int32_t nics) {
  model::Topology t;
  t.name = "t";
  t.axes = {{"node", nodes}, {"gpu", gpus}};
  const int32_t ranks = nodes * gpus;
  for (int32_t n = 0; n <= nodes; ++n)
    t.switches.push_back({"s" + std::to_string(n)});
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const int32_t box = ranks + 1 + rank / gpus, nic = rank / gpus * nics + rank % gpus % nics;
    t.links.push_back({rank, box, 100, 0.5, {}});
    t.links.push_back({box, rank, 100, 0.5, {}});
    t.links.push_back({rank, ranks, 20, 2, {2 * nic}});
    t.links.push_back({ranks, rank, 20, 2, {2 * nic + 1}});
  }
  for (int32_t nic = 0; nic < 2 * nodes * nics; ++nic)
    t.resources.push_back({"r" + std::to_string(nic), 20});
  return t;
}

std::vector<std::string> texts(const model::Topology &topology, Collective collective,
                               int64_t root = 0) {
  std::string why;
  std::vector<std::string> list;
  for (const Decomposition &one :
       Decomposer(topology, collective, root, int64_t(64) << 20).run(why))
    list.push_back(one.text(topology));
  return list;
}

} // namespace

TEST_CASE("groups that share NICs have a part of them") {
  const model::Topology topology = boxes(2, 4, 2);
  const RankGroups across = findGroups(topology, {true, false});
  REQUIRE(across.groups.size() == 4);
  CHECK(across.representatives.size() == 1);
  for (const RankGroup &group : across.groups) {
    CHECK(group.topology.check() == "");
    REQUIRE(group.topology.resources.size() == 4);
    for (const model::Resource &resource : group.topology.resources)
      CHECK(resource.bandwidth == 10);
  }
  CHECK(across.groups[3].ranks == std::vector<int32_t>{3, 7});
  const RankGroups alone = findGroups(topology, {true, false}, {-1, 2});
  REQUIRE(alone.groups.size() == 1);
  CHECK(alone.groups[0].number == 2);
  CHECK(alone.groups[0].topology.resources[0].bandwidth == 20);
}

TEST_CASE("links that take turns are shared, too") {
  model::Topology topology = boxes(2, 2, 1);
  for (model::Resource &resource : topology.resources)
    resource.bandwidth = 0;
  const RankGroups across = findGroups(topology, {true, false});
  for (const model::Link &link : across.groups[0].topology.links)
    CHECK(link.bandwidth == 10);
}

TEST_CASE("groups are alike up to the names of their switches") {
  model::Topology topology = boxes(3, 2, 1);
  CHECK(findGroups(topology, {false, true}).representatives.size() == 1);
  topology.links[0].bandwidth = 50; // of rank 0
  const RankGroups inside = findGroups(topology, {false, true});
  REQUIRE(inside.representatives.size() == 2);
  CHECK(inside.groups[0].classNumber == 0);
  CHECK(inside.groups[1].classNumber == 1);
  CHECK(inside.groups[2].classNumber == 1);
}

TEST_CASE("what is slow carries little") {
  const model::Topology topology = boxes(2, 4, 4);
  CHECK(texts(topology, Collective::AllReduce).front() ==
        "reduce_scatter[gpu]; all_reduce[node]; all_gather[gpu]");
  CHECK(texts(topology, Collective::AllGather).front() == "all_gather[node]; all_gather[gpu]");
  CHECK(texts(topology, Collective::ReduceScatter).front() ==
        "reduce_scatter[gpu]; reduce_scatter[node]");
}

TEST_CASE("all orders are there, once") {
  model::Topology topology = boxes(2, 4, 4);
  for (Collective collective : {Collective::AllGather, Collective::ReduceScatter,
                                Collective::Broadcast, Collective::Reduce})
    CHECK(texts(topology, collective, 5 * model::hasRoot(collective)).size() == 2);
  CHECK(texts(topology, Collective::AllReduce).size() == 6);
  topology.axes = {{"pod", 2}, {"node", 2}, {"gpu", 2}};
  for (Collective collective : {Collective::AllGather, Collective::AllReduce}) {
    std::vector<std::string> list = texts(topology, collective);
    CHECK(list.size() == (collective == Collective::AllGather ? 12 : 72));
    std::sort(list.begin(), list.end());
    CHECK(std::adjacent_find(list.begin(), list.end()) == list.end());
  }
}

TEST_CASE("a single rank along an axis takes no part") {
  model::Topology topology = boxes(2, 4, 4);
  topology.axes = {{"node", 2}, {"rack", 1}, {"gpu", 4}};
  CHECK(texts(topology, Collective::AllGather).front() == "all_gather[node]; all_gather[gpu]");
}
