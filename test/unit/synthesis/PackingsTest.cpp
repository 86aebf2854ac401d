#include "passes/synthesis/PlanPackings.h"

#include "frontend/topology/Read.h"

#include <doctest/doctest.h>

using namespace ccl;
using model::Collective;

namespace {

/// What packings there are of a topology, and what they were made for.
struct Found {
  Found(const char *name, Collective collective, int64_t root = 0)
      : topology(*topology::readTopology(name, {}).topology),
        network(topology, options(collective)) {
    request.generator.collective = collective;
    request.generator.ranks = topology.ranks();
    request.generator.root = root;
    model::BoundOptions bounds;
    bounds.root = root;
    bound = model::bandwidthBound(topology, collective, bounds)->algbw;
    packings.emplace(topology, network, request, bound);
    REQUIRE(packings->find() == "");
  }
  static solver::Network::Options options(Collective collective) {
    return {.symmetric = !model::hasRoot(collective), .forbidden = {}};
  }
  double best() { return packings->best().back().fluidGBps / bound; }

  model::Topology topology;
  solver::Network network;
  PlanRequest request;
  double bound = 0;
  std::optional<Packings> packings;
};

} // namespace

TEST_CASE("the best packings of machines with switches reach the bound") {
  struct Row {
    const char *name;
    Collective collective;
    double share;
  };
  for (const Row &row : std::initializer_list<Row>{{"dgx-h100:4", Collective::Broadcast, 1},
                                                   {"dgx2:2", Collective::Reduce, 1},
                                                   {"star:8", Collective::Broadcast, 1},
                                                   {"ndv2:2", Collective::Scatter, 1},
                                                   {"dgxa100:2", Collective::Gather, 0.999},
                                                   {"mi250:2", Collective::AllGather, 0.988}}) {
    CAPTURE(row.name);
    Found found(row.name, row.collective, model::hasRoot(row.collective) ? 1 : 0);
    CHECK(found.best() >= row.share * (1 - 1e-9));
    for (const Packing &packing : found.packings->best())
      CHECK(packing.fluidGBps <= packing.kind.mostGBps * (1 + 1e-9));
  }
}

TEST_CASE("pairs: all trees up first, each with one down of its root") {
  Found found("mesh:3x4", Collective::AllReduce);
  const Packing &packing = found.packings->best().back();
  REQUIRE(packing.kind.pairs);
  CHECK(found.best() == doctest::Approx(1));
  const std::vector<solver::Tree> &trees = packing.forest.trees;
  REQUIRE(trees.size() == 2 * size_t(packing.kind.chunks));
  REQUIRE(packing.upTrees() == size_t(packing.kind.chunks));
  for (size_t i = 0; i < packing.upTrees(); ++i) {
    CHECK(trees[i].up);
    CHECK(!trees[i + packing.upTrees()].up);
    CHECK(trees[i].root == trees[i + packing.upTrees()].root);
  }
}

TEST_CASE("more packings like one") {
  Found found("ndv2:2", Collective::AllGather);
  const size_t before = found.packings->best().size();
  const Packing like = found.packings->best().back();
  const size_t after = found.packings->findMore(before - 1);
  CHECK(after > before);
  for (size_t p = before; p < after; ++p) {
    const Packing &more = found.packings->best()[p];
    CHECK(more.kind.chunks % like.kind.chunks == 0);
    CHECK(more.kind.chunks > like.kind.chunks);
    CHECK(more.height <= like.height);
    CHECK(more.fluidGBps >= 0.98 * like.fluidGBps);
  }
  CHECK(found.packings->findMore(before - 1) == after); // once
}
