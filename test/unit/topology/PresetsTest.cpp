#include "frontend/topology/Presets.h"
#include "frontend/topology/EdgeList.h"
#include "test/unit/topology/Files.h"

#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

using namespace ccl;
using namespace ccl::topology;

namespace {

Named make(std::string_view name, Rates rates = Rates::Nominal) {
  std::string error;
  std::optional<Named> named = namedTopology(name, rates, error);
  REQUIRE_MESSAGE(named, (std::string(name) + ": " + error));
  CHECK(named->topology.check() == "");
  return *named;
}

/// GB/s that leave a node.
double out(const model::Topology &topology, int32_t node) {
  double sum = 0;
  for (const model::Link &link : topology.links)
    sum += link.src == node ? link.bandwidth : 0;
  return sum;
}

double between(const model::Topology &topology, int32_t a, int32_t b) {
  double sum = 0;
  for (const model::Link &link : topology.links)
    sum += link.src == a && link.dst == b ? link.bandwidth : 0;
  return sum;
}

/// To a switch whose name begins so.
double to(const model::Topology &topology, int32_t node, std::string_view name) {
  double sum = 0;
  for (const model::Link &link : topology.links)
    sum += link.src == node && topology.nodeName(link.dst).starts_with(name) ? link.bandwidth : 0;
  return sum;
}

} // namespace

TEST_CASE("specs are the published edge lists, link for link") {
  int compared = 0;
  for (const std::filesystem::path &path : test::corpusFiles("peers/topologies", ".txt")) {
    std::string name = path.stem().string();
    double scale = 1;
    if (size_t at = name.find("_capx10"); at != name.npos) {
      name.resize(at);
      scale = 10;
    }
    CAPTURE(name);
    std::vector<interchange::Diagnostic> diagnostics;
    std::optional<model::Topology> published =
        readEdgeList(ccl::test::readWhole(path), diagnostics);
    REQUIRE(published);
    std::string error;
    REQUIRE(isTopologyName(name));
    std::optional<Named> ours = namedTopology(name, Rates::Nominal, error);
    REQUIRE_MESSAGE(ours, error);
    // 63 / 15 * 10 is 42, but not in binary.
    for (model::Link &link : ours->topology.links)
      link.bandwidth = scale == 1 ? link.bandwidth : std::round(link.bandwidth * scale);
    CHECK(printEdgeList(ours->topology) == printEdgeList(*published));
    ++compared;
  }
  MESSAGE(compared << " edge lists compared");
}

TEST_CASE("specs by their closed forms") {
  for (auto [name, ranks, links] : {std::tuple{"ring:1", 1, 0},
                                    {"ring:2", 2, 2},
                                    {"ring:7", 7, 14},
                                    {"uniring:5", 5, 5},
                                    {"full:6", 6, 30},
                                    {"star:9", 9, 18},
                                    {"cube:4", 16, 64},
                                    {"mesh:3x5", 15, 44},
                                    {"torus:2x3x4", 24, 24 + 48 + 48},
                                    {"torus:1x5", 5, 10},
                                    {"unwb:64", 512, 35840},
                                    {"dgxh100rail:64", 512, 2048},
                                    {"nvl72:8", 576, 2304},
                                    {"mesh:2x2x2x2", 16, 64}}) {
    CAPTURE(name);
    model::Topology topology = make(name).topology;
    CHECK(topology.ranks() == ranks);
    CHECK(topology.links.size() == size_t(links));
    CHECK(topology.name == std::string_view(name).substr(0, std::string_view(name).find(':')));
  }
  // x is the fastest: rank 1 is the neighbour of 0 in x, rank 2 that in y of a 2 x 3 mesh.
  model::Topology mesh = make("mesh:2x3").topology;
  CHECK(between(mesh, 0, 1) == 1);
  CHECK(between(mesh, 0, 2) == 1);
  CHECK(between(mesh, 1, 2) == 0);
  CHECK(mesh.axes[0].name == "y");
  CHECK(mesh.coordinates(5) == std::vector<int64_t>{2, 1});
}

TEST_CASE("presets have the published speeds") {
  struct Row {
    const char *name;
    int64_t ranks;
    double links; ///< of a GPU to its peers, one direction
    double nic;   ///< of all NICs of a box, one direction
  };
  for (const Row &row : std::initializer_list<Row>{{"dgx-1-v100:2", 16, 150, 50},
                                                   {"azure-ndv2:2", 16, 150, 12.5},
                                                   {"dgx-2:2", 32, 150, 100},
                                                   {"dgx-a100:2", 16, 300, 200},
                                                   {"dgx-h100:2", 16, 450, 400},
                                                   {"dgx-h200:2", 16, 450, 400},
                                                   {"h800:2", 16, 180, 8 * 45.5},
                                                   {"gb200-nvl72:2", 144, 900, 3600},
                                                   {"amd-mi250:2", 32, 350, 200},
                                                   {"amd-mi300x:2", 16, 448, 400}}) {
    CAPTURE(row.name);
    model::Topology topology = make(row.name).topology;
    CHECK(topology.ranks() == row.ranks);
    CHECK(topology.axes.size() == 2);
    double toPeers = to(topology, 0, "rank") + to(topology, 0, "node0.nvswitch");
    CHECK(toPeers == row.links);
    double network = 0;
    for (int64_t node = topology.ranks(); node < topology.nodes(); ++node)
      if (topology.nodeName(int32_t(node)).starts_with("node0."))
        network += to(topology, int32_t(node), "rail") + to(topology, int32_t(node), "network");
    CHECK(network == row.nic);
  }
  CHECK(out(make("tpu-v4:4x4x4").topology, 0) == 300);
  CHECK(2 * out(make("tpu-v5p:4x4x4").topology, 0) == 1200);
  CHECK(between(make("mtia-300:4").topology, 0, 4) == 200);
}

TEST_CASE("presets in NCCL's rates") {
  model::Topology h100 = make("dgx-h100", Rates::Effective).topology;
  CHECK(to(h100, 0, "nvswitch") == doctest::Approx(370.8));
  CHECK(to(h100, 0, "nic") == 48);
  CHECK(to(make("dgx-a100", Rates::Effective).topology, 0, "nvswitch") == 240);
  CHECK(to(make("amd-mi300x", Rates::Effective).topology, 0, "rank") == 7 * 48);
  model::Topology pcie = make("pcie-gen4:8", Rates::Effective).topology;
  CHECK(to(pcie, 0, "cpu0") == 24);
  CHECK(to(pcie, 7, "cpu1") == 24);
  CHECK(to(pcie, 8, "cpu1") == 16);
}

TEST_CASE("NVSwitches copy and add from H100 on, and none of the others") {
  CHECK(make("dgx-h100").topology.switches[0].multicast);
  CHECK(make("dgx-h100").topology.switches[0].reduce);
  CHECK_FALSE(make("dgx-a100").topology.switches[0].multicast);
}

TEST_CASE("optical rings can be changed") {
  model::Topology rings = make("optical-rings:4x8").topology;
  REQUIRE(rings.reconfigurable);
  CHECK(*rings.reconfigurable == 11.5);
  CHECK(rings.ranks() == 32);
  CHECK(out(rings, 0) == 200);
  CHECK_FALSE(make("tpu-v4:4x4x4").topology.reconfigurable);
}

TEST_CASE("every name of the lists can be made") {
  std::set<std::string> names;
  for (const auto &list : {presetNames(), specNames()})
    for (const TopologyName &known : list) {
      std::string name(known.name);
      CAPTURE(name);
      CHECK(names.insert(name).second);
      CHECK(isTopologyName(name));
      std::string size = known.size == "AxBxC"          ? ":3x2x4"
                         : known.size.starts_with("Ax") ? ":3x4"
                         : known.size.empty()           ? ""
                                                        : ":4";
      make(name + size, Rates::Effective);
      if (known.size.starts_with('['))
        make(name);
    }
  CHECK(names.size() == presetNames().size() + specNames().size());
}

TEST_CASE("a bad size says what is possible") {
  for (auto [name, message] : std::initializer_list<std::pair<const char *, const char *>>{
           {"ring", "`ring`: the size is missing; it is written ring:GPUs"},
           {"ring:", "`ring:` has a colon, but no size behind it"},
           {"ring:0", "`ring:0`: `0` is no positive number; it is written ring:GPUs"},
           {"ring:-4", "`ring:-4`: `-4` is no positive number; it is written ring:GPUs"},
           {"ring:4x4", "`ring:4x4`: the size is one number; it is written ring:GPUs"},
           {"torus:4x", "`torus:4x`: a number is missing; it is written torus:AxBx..."},
           {"torus:4xx4", "`torus:4xx4`: a number is missing; it is written torus:AxBx..."},
           {"dgx1:2", "`dgx1:2`: it has no size; it is written dgx1"},
           {"full:100000", "`full:100000`: the size is more than 4096; it is written full:GPUs"},
           {"torus:99999999999999999999",
            "`torus:99999999999999999999`: `99999999999999999999` is no "
            "positive number; it is written torus:AxBx..."},
           {"torus:99999x99999",
            "`torus:99999x99999`: the size is more than 1048576; it is written "
            "torus:AxBx..."},
           {"dgx-h100:two", "`dgx-h100:two`: `two` is no positive number; it is written "
                            "dgx-h100[:boxes]"},
           {"tpu-v4:8", "`tpu-v4:8`: the size has three dimensions; it is written tpu-v4:AxBxC"},
           {"pcie-gen4:1",
            "`pcie-gen4:1`: the size is at least 2; it is written pcie-gen4:GPUs"}}) {
    CAPTURE(name);
    std::string error;
    CHECK_FALSE(namedTopology(name, Rates::Nominal, error));
    CHECK(error == message);
  }
  std::string error;
  CHECK_FALSE(namedTopology("dgx-h300:2", Rates::Nominal, error));
  CHECK(error.empty());
  CHECK_FALSE(isTopologyName("dgx-h300:2"));
}
