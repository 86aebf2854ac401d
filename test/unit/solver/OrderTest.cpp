#include "passes/synthesis/solver/Order.h"
#include "passes/synthesis/solver/Pairs.h"
#include "test/unit/solver/Cases.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

using namespace cases;
using solver::Forest;
using solver::Hop;
using solver::Network;
using solver::OrderProblem;

namespace {

/// The most that a channel holds, from when it is sent to when what it came up for goes on. Up
/// trees, one lane.
size_t mostHeld(const Network &network, const Forest &forest, const std::vector<Hop> &hops) {
  std::map<std::pair<int32_t, int32_t>, double> start;
  for (const Hop &hop : hops)
    start[{hop.tree, hop.rank}] = hop.start;
  struct Stay {
    double from, to;
  };
  std::map<std::pair<int32_t, int32_t>, std::vector<Stay>> channels;
  for (const Hop &hop : hops) {
    const solver::Tree &tree = forest.trees[size_t(hop.tree)];
    const int32_t parent = Forest::parent(network, tree, hop.rank);
    auto exit = [&](int32_t rank) {
      return network.out(rank)[size_t(tree.ways[size_t(rank)])].exit;
    };
    if (parent != tree.root)
      channels[{exit(hop.rank), exit(parent)}].push_back({hop.start, start[{hop.tree, parent}]});
  }
  size_t most = 0;
  for (auto &[channel, stays] : channels) {
    std::sort(stays.begin(), stays.end(),
              [](const Stay &a, const Stay &b) { return a.from < b.from; });
    // Whoever takes something takes all that came before it.
    for (size_t i = stays.size() - 1; i-- > 0;)
      stays[i].to = std::min(stays[i].to, stays[i + 1].to);
    for (size_t first = 0, i = 0; i < stays.size(); ++i) {
      while (stays[first].to <= stays[i].from)
        ++first;
      most = std::max(most, i + 1 - first);
    }
  }
  return most;
}

/// Share of the bound that the list schedule reaches.
double share(const std::string &name, int32_t k, int32_t slack, int32_t pieces, int32_t lanes,
             bool up) {
  const Topology t = named(name);
  const Network network(t);
  solver::PackProblem problem = rootedEverywhere(network, k, up, slack);
  problem.goal = boundUs(t, up ? Collective::ReduceScatter : Collective::AllGather,
                         double(network.ranks()) * k);
  Pieces p = inPieces(pack(network, problem), pieces);
  p.problem.lanes = lanes;
  REQUIRE(p.problem.check(p.forest) == "");
  const std::vector<Hop> hops = order(network, p.forest, p.problem);
  REQUIRE(verify(network, p.forest, p.problem, hops) == "");
  return problem.goal * pieces / finish(hops);
}

} // namespace

TEST_CASE("orders are near the bound") {
  for (bool up : {false, true}) {
    CAPTURE(up);
    CHECK(share("ring:8", 2, 1, 16, 1, up) > 0.999);
    CHECK(share("torus:4x4", 4, 0, 4, 1, up) > 0.98);
    CHECK(share("dgx1", 6, 1, 16, 1, up) > 0.98);
    CHECK(share("dgxa100:4", 2, 3, 16, 1, up) > 0.98);
    CHECK(share("ndv2:2", 2, 3, 16, 1, up) > 0.97);
    CHECK(share("ndv2:4", 2, 1, 16, 1, up) > 0.97);
    CHECK(share("mi250:2", 7, 8, 16, 4, up) > 0.95);
  }
}

TEST_CASE("what goes up fills no more slots than there are") {
  const Network network(named("torus:4x4x4"));
  REQUIRE(network.isSymmetric());
  Pieces p = inPieces(pack(network, rootedEverywhere(network, 6, true, 1)), 2);
  const std::vector<Hop> any = order(network, p.forest, p.problem);
  p.problem.slots = 8;
  const std::vector<Hop> few = order(network, p.forest, p.problem);
  CHECK(verify(network, p.forest, p.problem, few) == "");
  CHECK(mostHeld(network, p.forest, any) > 8);
  CHECK(mostHeld(network, p.forest, few) <= 8);
  CHECK(finish(few) < finish(any) * 1.01);
}

TEST_CASE("a channel that is too narrow still lets everything through") {
  const Network network(named("mesh:4x4"), {.symmetric = false, .forbidden = {}});
  Pieces p = inPieces(pack(network, rootedEverywhere(network, 2, true, 1)), 4);
  p.problem.slots = 1;
  CHECK(verify(network, p.forest, p.problem, order(network, p.forest, p.problem)) == "");
}

TEST_CASE("a message is there when those before it of its agent are") {
  // Rank 0 sends to 1, behind a slow link, and then to 2, through its one link to the switch; 2 has
  // to hand on what it gets to 3.
  Topology t;
  t.axes = {{"x", 4}};
  t.switches.emplace_back();
  const int32_t hub = 4;
  t.links = {{0, hub, 10, 0, {}}, {hub, 1, 1, 0, {}}, {hub, 2, 10, 0, {}}, {2, 3, 10, 0, {}}};
  const Network network(t, {.symmetric = false, .forbidden = {}});
  Forest forest;
  forest.trees.push_back({0, false, {-1, 0, 0, 0}});
  OrderProblem problem;
  problem.passes = 1;
  std::vector<Hop> byRank(4);
  for (const Hop &hop : order(network, forest, problem))
    byRank[size_t(hop.rank)] = hop;
  REQUIRE(byRank[1].start < byRank[2].start);
  CHECK(byRank[1].end == doctest::Approx(1000));
  CHECK(byRank[3].start == doctest::Approx(1000));
}

TEST_CASE("runs back and forth do no harm, and are the same again") {
  const Topology t = named("mi250:2");
  const Network network(t, {.symmetric = false, .forbidden = {}});
  Pieces p = inPieces(pack(network, rootedEverywhere(network, 7, false, 8)), 4);
  p.problem.lanes = 2;
  const std::vector<Hop> many = order(network, p.forest, p.problem);
  p.problem.passes = 1;
  const std::vector<Hop> once = order(network, p.forest, p.problem);
  p.problem.passes = OrderProblem().passes;
  p.problem.deadline = std::chrono::steady_clock::now();
  CHECK(finish(order(network, p.forest, p.problem)) == finish(once));
  p.problem.deadline = OrderProblem().deadline;
  const std::vector<Hop> again = order(network, p.forest, p.problem);
  CHECK(finish(many) < finish(once));
  REQUIRE(many.size() == again.size());
  for (size_t i = 0; i < many.size(); ++i) {
    CHECK(many[i].tree == again[i].tree);
    CHECK(many[i].rank == again[i].rank);
    CHECK(many[i].start == again[i].start);
  }
}

TEST_CASE("pairs: what comes down waits for what goes up") {
  const Network network(named("mesh:4x4"), {.symmetric = false, .forbidden = {}});
  const Forest forest = packPairs(network, {8, 4, 5000});
  OrderProblem problem;
  for (int32_t t = 0; t < int32_t(forest.trees.size()); ++t)
    problem.after.push_back(t % 2 == 1 ? t - 1 : -1);
  REQUIRE(problem.check(forest) == "");
  std::vector<Hop> hops = order(network, forest, problem);
  CHECK(verify(network, forest, problem, hops) == "");
  double up = 0, down = 1e30;
  for (const Hop &hop : hops) {
    if (hop.tree == 0)
      up = std::max(up, hop.end);
    if (hop.tree == 1)
      down = std::min(down, hop.start);
  }
  CHECK(up <= down);
}

TEST_CASE("verify finds what is wrong") {
  const Network network(named("ring:4"), {.symmetric = false, .forbidden = {}});
  const Forest forest = pack(network, rootedEverywhere(network, 1, false, 1));
  const OrderProblem problem;
  const std::vector<Hop> good = order(network, forest, problem);
  REQUIRE(verify(network, forest, problem, good) == "");
  std::vector<Hop> hops = good;
  hops.pop_back();
  CHECK(verify(network, forest, problem, hops) == "11 hops of 12");
  hops = good;
  hops.back() = hops.front();
  CHECK(verify(network, forest, problem, hops).ends_with("unknown, or there twice"));
  hops = good;
  hops.front().end = hops.front().start;
  CHECK(verify(network, forest, problem, hops).find("takes 0 us") != std::string::npos);
  hops = good;
  hops.back().start = 0;
  CHECK(verify(network, forest, problem, hops) != "");
}

TEST_CASE("requests that make no sense") {
  const Network network(named("ring:4"), {.symmetric = false, .forbidden = {}});
  const Forest forest = pack(network, rootedEverywhere(network, 1, false, 1));
  OrderProblem problem;
  CHECK(problem.check({}) == "no trees");
  problem.megabytes = 0;
  CHECK(problem.check(forest) == "chunks of 0 megabytes");
  problem = {}, problem.lanes = 0;
  CHECK(problem.check(forest) == "0 agents a link, 25 passes: there has to be one");
  problem = {}, problem.slots = -1;
  CHECK(problem.check(forest) == "-1 slots");
  problem = {}, problem.piece = {0};
  CHECK(problem.check(forest) == "pieces of 1 trees, but there are 4");
  problem = {}, problem.after = {-1, 0, -1, -1};
  CHECK(problem.check(forest).starts_with("tree 1 cannot come after 0"));
}

TEST_CASE("what a message costs besides its bytes") {
  // 0 to 1 over a switch, two links of 1 GB/s and 3 us: two messages of 10 KB, 10 us each.
  Topology t;
  t.axes = {{"x", 2}};
  t.switches.emplace_back();
  t.links = {{0, 2, 1, 3, {}}, {2, 1, 1, 3, {}}};
  const Network network(t, {.symmetric = false, .forbidden = {}});
  const Pieces p = inPieces({{{0, false, {-1, 0}}}}, 2);
  auto finishOf = [&](auto change) {
    OrderProblem problem = p.problem;
    problem.megabytes = 0.01;
    change(problem.cost);
    REQUIRE(problem.check(p.forest) == "");
    return finish(order(network, p.forest, problem));
  };
  CHECK(finishOf([](auto &) {}) == doctest::Approx(26));
  CHECK(finishOf([](auto &cost) { cost.overheadUs = 1; }) == doctest::Approx(28));
  CHECK(finishOf([](auto &cost) { cost.syncUs = 1; }) == doctest::Approx(27));
  CHECK(finishOf([](auto &cost) { cost.efficiency = 0.5; }) == doctest::Approx(46));
  CHECK(finishOf([](auto &cost) { cost.alphaOccupies = true; }) == doctest::Approx(26));
  CHECK(finishOf([](auto &cost) { cost.alphaOccupies = cost.storesAndForwards = true; }) ==
        doctest::Approx(39));
  CHECK(finishOf([](auto &cost) { cost.epochUs = 4; }) == doctest::Approx(24 + 8));
  OrderProblem problem;
  problem.cost.efficiency = 0;
  CHECK(problem.check(p.forest) == "messages that cost less than nothing");
}
